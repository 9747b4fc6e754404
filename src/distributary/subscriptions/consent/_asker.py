"""Asks one target over HTTP (http-webhook 1.0, section 4.1).

Called by ``ConsentKeeper``. The address comes from a user, so it is dialled by the same connector,
and under the same rules, as deliveries. The target may be slow, endless or hostile: one deadline
covers everything, only the head of the answer is read, and redirects are not followed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final, NamedTuple, cast

from distributary.core.deliver import Endpoint
from distributary.core.errors import TransportError
from distributary.net import Connector, is_private
from distributary.net.http1 import ResponseReader

ASK_S_MAX: Final = 10.0
"""Longest question, from the name look-up to the end of the answer's head, seconds. A target that
needs longer is asked again; it occupies one of few places."""


class Question(NamedTuple):
    """What a target is asked.

    Attributes:
        endpoint: Where.
        origin: Name of this system.
        rate_per_min: Requests a minute that its subscriptions want; None: they name none.
        callback: URL by which it can consent later; None: none. A secret of the target's.
    """

    endpoint: Endpoint
    origin: str
    rate_per_min: int | None
    callback: str | None

    def __repr__(self) -> str:
        return f"Question({self.endpoint.host}, origin={self.origin})"


class OptionsReply(NamedTuple):
    """Head of the target's answer.

    Attributes:
        status: HTTP status.
        fields: Header fields, names in lower case.
    """

    status: int
    fields: list[tuple[bytes, bytes]]


class HttpAsker:
    """``Asker`` over HTTP/1.1; one connection for each question.

    Args:
        connector: Dials; decides which addresses are allowed.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def is_private(self, endpoint: Endpoint) -> bool:
        """Whether all addresses of *endpoint* are private now.

        Raises:
            TransportError: ``dns``, ``timeout``, or ``blocked-address``: one is not allowed.
        """
        host, port = endpoint.dialled
        async with _deadline():
            return all(map(is_private, await self._connector.checked_addresses(host, port)))

    async def ask(self, question: Question) -> OptionsReply:
        """Ask; returns the head of the answer.

        Raises:
            TransportError: No answer within ``ASK_S_MAX``, or the address is not allowed.
        """
        connection = _HeadConnection()
        try:
            async with _deadline():
                await self._connector.open(question.endpoint, lambda: connection)
                return await connection.send(_request(question))
        finally:
            connection.close()


@contextlib.asynccontextmanager
async def _deadline() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ASK_S_MAX):
            yield
    except TimeoutError as error:
        raise TransportError("timeout", f"No answer within {ASK_S_MAX:g} s") from error


def _request(question: Question) -> bytes:
    endpoint = question.endpoint
    lines = [
        b"OPTIONS %b HTTP/1.1" % endpoint.target,
        b"host: " + endpoint.authority,
        b"user-agent: distributary",
        b"connection: close",
        b"webhook-request-origin: " + question.origin.encode(),
    ]
    if question.rate_per_min is not None:
        lines.append(b"webhook-request-rate: %d" % question.rate_per_min)
    if question.callback is not None:
        lines.append(b"webhook-request-callback: " + question.callback.encode())
    return b"\r\n".join(lines) + b"\r\n\r\n"


class _HeadConnection(asyncio.Protocol):
    """Sends one request, and reads the head of its response; what follows is cut off."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[OptionsReply] | None = None
        self._reader = ResponseReader()

    def send(self, request: bytes) -> "asyncio.Future[OptionsReply]":
        """Write *request*; returns a future of the head, or of a ``TransportError``."""
        self._answer = asyncio.get_running_loop().create_future()
        if self._transport is None or self._transport.is_closing():
            self._fail("reset", _CUT_OFF)
        else:
            self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        """Read on, until the head is complete."""
        if self._answer is None or self._answer.done():
            self.close()  # unsolicited, or the body
            return
        try:
            self._reader.feed(data)
        except TransportError as error:
            self._fail(error.reason, str(error))
            return
        if self._reader.status:
            self._answer.set_result(OptionsReply(self._reader.status, self._reader.fields))
            self.close()

    def eof_received(self) -> None:
        """Fail a question without an answer."""
        self._fail("protocol", _CUT_OFF)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a question without an answer."""
        del exc  # adds nothing
        self._fail("reset", _CUT_OFF)

    def _fail(self, reason: str, text: str) -> None:
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TransportError(reason, text))


_CUT_OFF: Final = "The connection was closed before the answer's head was whole"
