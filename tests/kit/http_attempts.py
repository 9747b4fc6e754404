"""Awaits single attempts of the HTTP transport, for tests against ``fake_sink`` and the like."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from distributary.core.clock import Clock, SystemClock
from distributary.core.deliver import Answer, Destination
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.net import AddressRule, CachingResolver, Connector
from distributary.protocols.http.sink import HttpTransport
from distributary.resource import ErrorData

EVENT: Final = Event(
    {"specversion": "1.0", "id": "1", "source": "/testing", "type": "com.example.testing"},
    b"body",
)
"""What is sent where a test does not care."""


class TableResolver:
    """A resolver with a table of names; implements ``net.Resolver``.

    Args:
        table: Host name -> addresses; None: no response from the name server.

    Attributes:
        asked: Names looked up, in order.
    """

    def __init__(self, table: Mapping[str, Sequence[str] | None]) -> None:
        self._table = table
        self.asked: list[str] = []

    async def resolve(self, host: str) -> list[str]:
        """The addresses of *host* in the table; see ``net.Resolver``."""
        self.asked.append(host)
        if host not in self._table:
            raise TransportError("dns", f"no such name: {host}")
        found = self._table[host]
        if found is None:
            await asyncio.Event().wait()
        return list(found or ())


@contextlib.asynccontextmanager
async def opened(
    rule: AddressRule | None = None,
    resolver: TableResolver | None = None,
    tls: ssl.SSLContext | None = None,
    error_data: ErrorData = "all",
    clock: Clock | None = None,
) -> AsyncIterator[HttpTransport]:
    """A transport of the running loop, closed at the end.

    Args:
        rule: Default: loopback is allowed.
        resolver: Default: knows no name.
        tls: Default: the product's own.
        error_data: Of which sinks' errors the body is kept.
        clock: Default: the machine's.
    """
    clock = clock or SystemClock()
    connector = Connector(
        rule or AddressRule(loopback_allowed=True),
        CachingResolver(resolver or TableResolver({}), clock),
        tls,
    )
    transport = HttpTransport(connector, clock, asyncio.get_running_loop(), error_data=error_data)
    try:
        yield transport
    finally:
        await transport.close()


def send(
    transport: HttpTransport,
    uri: str,
    timeout_s: float = 30.0,
    event: Event = EVENT,
    **settings: Any,
) -> asyncio.Future[Answer]:
    """Start one attempt.

    Args:
        transport: Who sends.
        uri: The sink.
        timeout_s: Of the attempt.
        event: What is sent.
        settings: Further fields of the ``Destination``.

    Returns:
        Its answer; fails with ``InvalidStateError`` in the loop's handler at a second one.
    """
    future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    transport.send(event, Destination(uri, **settings), timeout_s, future.set_result)
    return future
