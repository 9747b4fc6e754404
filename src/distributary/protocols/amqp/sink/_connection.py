"""Opens AMQP connections, directly or through a WebSocket tunnel, and logs in.

Called by ``_session`` and, through this package, by the source. Hides the login of a credential,
and the two transports.
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
    """A handler with ``await`` for the open connection and for its end."""

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
        """Wait until the connection is open (returns None) or has ended (returns how)."""
        return await self._ready

    async def close(self) -> None:
        """Send ``close``, and wait for the peer's; abort the connection if cancelled."""
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
    """Open a connection for *handler*, and set its ``engine``.

    A cancelled call closes the connection.

    Returns:
        None if it is open, else how it ended, with the reason of a refused login.

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
        login=login_of(credential, certified=endpoint.client_certificate is not None),
        host=endpoint.host.rstrip("."),
        container=f"distributary-{uuid.uuid4().hex}",
    )
    handler.engine = engine
    opened = False
    try:
        if endpoint.scheme in {"ws", "wss"}:
            # Few brokers need a tunnel: import its library only then.
            from distributary.net.tunnel import open_tunnel  # noqa: PLC0415 - see above

            await open_tunnel(connector, endpoint, SUBPROTOCOL, lambda: engine)
        else:
            await connector.open(endpoint, lambda: engine)
        ended = await handler.ready()
        opened = ended is None
        return ended
    finally:
        if not opened:
            engine.abort()


def login_of(credential: Credential | None, *, certified: bool) -> amqp.AmqpLogin:
    """Returns the login for *credential*; None: by certificate if *certified*, else anonymous."""
    if credential is None:
        return amqp.AmqpLogin(certified=certified)
    if credential.type == "PLAIN":
        return amqp.AmqpLogin(credential.identifier or "", credential.secret or "")
    return amqp.AmqpLogin(credential.identifier or "", token=credential.access_token or "")
