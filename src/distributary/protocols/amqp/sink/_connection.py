"""Opens AMQP connections: dialled or tunnelled, logged in, opened.

Called by ``_session`` and, through this package, by the AMQP consumer. Hides which login a
credential is, and the two ways to the wire.
"""

import asyncio
import uuid
from typing import Final

from distributary.core.deliver import Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.net import Connector
from distributary.protocols.amqp import engine as amqp

SUBPROTOCOL: Final = "amqp"
"""OASIS AMQP WebSocket Binding 1.0, section 2.1."""


class AmqpConnection(amqp.Handler):
    """A handler that can be waited for: until the connection is open, and until it is over."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.engine: amqp.AmqpEngine | None = None
        self._ready: asyncio.Future[amqp.Ended | None] = loop.create_future()
        self._over = asyncio.Event()

    def opened(self, engine: amqp.AmqpEngine) -> None:
        del engine
        if not self._ready.done():
            self._ready.set_result(None)

    def closed(self, ended: amqp.Ended) -> None:
        if not self._ready.done():
            self._ready.set_result(ended)
        self._over.set()

    async def ready(self) -> amqp.Ended | None:
        """Wait until the connection is open (None) or over (how it ended)."""
        return await self._ready

    async def close(self) -> None:
        """Say goodbye, and wait for the peer's; cut it where that is cancelled."""
        engine = self.engine
        if engine is None:
            return
        try:
            engine.close()
            await self._over.wait()
        finally:
            engine.abort()


async def connect(
    connector: Connector,
    endpoint: Endpoint,
    credential: Credential | None,
    handler: AmqpConnection,
) -> amqp.Ended | None:
    """Open a connection for *handler*, which gets its ``engine``.

    Cancelled, it leaves no connection behind.

    Returns:
        None: it is open. Otherwise how it ended; the reason of a refused login is there.

    Raises:
        TransportError: As ``Connector.open``; ``protocol`` where proton is not installed.
    """
    if not amqp.AVAILABLE:
        text = (
            "AMQP needs the extra distributary[amqp] (python-qpid-proton), which is not installed"
        )
        raise TransportError("protocol", text)
    engine = amqp.AmqpEngine(
        handler,
        login=login_of(credential),
        host=endpoint.host.rstrip("."),
        container=f"distributary-{uuid.uuid4().hex}",
    )
    handler.engine = engine
    opened = False
    try:
        if endpoint.scheme in {"ws", "wss"}:
            # Few brokers are behind a tunnel: the others do without its library.
            from distributary.net.tunnel import open_tunnel  # noqa: PLC0415 - as said above

            await open_tunnel(connector, endpoint, SUBPROTOCOL, lambda: engine)
        else:
            await connector.open(endpoint, lambda: engine)
        ended = await handler.ready()
        opened = ended is None
        return ended
    finally:
        if not opened:
            engine.abort()


def login_of(credential: Credential | None) -> amqp.AmqpLogin:
    """The login that *credential* is; none: anonymous."""
    if credential is None:
        return amqp.AmqpLogin()
    if credential.type == "PLAIN":
        return amqp.AmqpLogin(credential.identifier or "", credential.secret or "")
    return amqp.AmqpLogin(credential.identifier or "", token=credential.access_token or "")
