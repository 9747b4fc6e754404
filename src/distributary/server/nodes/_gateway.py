"""The port of a node for other nodes: joins their connections to sockets of this one.

Hides TLS: whoever shows no certificate of the cluster gets no further than the handshake. What
comes through is bytes, passed on as they are.
"""

import asyncio
import enum
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

from distributary.net.own_nodes import OWN_ALPN, give_up_when_silent
from distributary.net.tls import HANDSHAKES_MAX, Handshakes, Listener
from distributary.server.nodes._wire import CONTROL_ALPN

CONNECTIONS_MAX: Final = 4096
"""Most connections of other nodes and owners at one time: watches of the Kubernetes API have one
each, and an owner keeps some."""


class Purpose(enum.StrEnum):
    """What a connection is for, as ALPN names it."""

    CONTROL = CONTROL_ALPN
    OWN = OWN_ALPN


Routes = Mapping[Purpose, Callable[[], Path | None]]
"""Where connections go, by what they are for; None: nowhere at present."""


class Gateway:
    """Accepts connections of other nodes.

    Args:
        listener: A listening socket; closed with the gateway.
        context: Context of this end.
        routes: Where connections go.
    """

    def __init__(self, listener: socket.socket, context: ssl.SSLContext, routes: Routes) -> None:
        self._socket = listener
        # One address may be a machine full of owners, which come back all at once.
        self._handshakes = Handshakes(lambda: context, per_address_max=HANDSHAKES_MAX)
        self._routes = routes
        self._listener: Listener | None = None
        self._open: set[_Incoming] = set()

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._open)

    def start(self) -> None:
        """Begin to accept."""
        self._listener = Listener(self._socket, lambda: _Incoming(self), self._handshakes)

    def cut(self, purpose: Purpose) -> None:
        """End all connections of this purpose: what they went to is no more."""
        for each in tuple(self._open):
            if each.purpose is purpose:
                each.abort()

    def close(self) -> None:
        """End it, with all connections."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
        for each in tuple(self._open):
            each.abort()

    def route(self, purpose: Purpose) -> Path | None:
        """Where a new connection goes."""
        return self._routes[purpose]()

    def enter(self, connection: "_Incoming") -> bool:
        """Count *connection*; False: there are too many."""
        if len(self._open) >= CONNECTIONS_MAX:
            return False
        self._open.add(connection)
        return True

    def leave(self, connection: "_Incoming") -> None:
        """Count *connection* no more."""
        self._open.discard(connection)


class _End(asyncio.Protocol):
    """One end of a joined pair: passes what it reads to the other, at the other's pace."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._other: _End | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def join(self, other: "_End") -> None:
        """Pass bytes to *other* from now on."""
        self._other = other
        early, self._early = self._early, []
        for data in early:
            other.write(data)
        if self._transport is not None:
            self._transport.resume_reading()

    def wait(self) -> None:
        """Read no more until the other end is there."""
        if self._transport is not None:
            self._transport.pause_reading()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        if self._other is None:
            self._early.append(data)
            self.wait()
        else:
            self._other.write(data)

    def eof_received(self) -> bool:
        """The other end reads what is under way, then the connection closes."""
        if self._other is not None:
            self._other.finish()
        return False

    def finish(self) -> None:
        """Close once everything is written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        transport, self._transport = self._transport, None  # twice would fail in some Pythons
        if transport is not None:
            transport.abort()

    def pause_writing(self) -> None:
        if self._other is not None:
            self._other.wait()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:  # noqa: SLF001 - a pair
            self._other._transport.resume_reading()  # noqa: SLF001 - as above

    def connection_lost(self, _error: Exception | None) -> None:
        other, self._other = self._other, None
        self._transport = None
        if other is not None:
            other.finish()


class _Incoming(_End):
    """The end at another node."""

    def __init__(self, gateway: Gateway) -> None:
        super().__init__()
        self._gateway = gateway
        self._dialling: asyncio.Task[None] | None = None
        self.purpose: Purpose | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        give_up_when_silent(transport)
        tls = transport.get_extra_info("ssl_object")
        chosen = tls.selected_alpn_protocol() if tls is not None else None
        if chosen not in tuple(Purpose) or not self._gateway.enter(self):
            self.abort()
            return
        self.purpose = Purpose(chosen)
        self._dialling = asyncio.get_running_loop().create_task(self._dial(self.purpose))

    async def _dial(self, purpose: Purpose) -> None:
        path = self._gateway.route(purpose)
        if path is None:
            self.abort()
            return
        inner = _End()
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: inner, str(path))
        except OSError:
            self.abort()
            return
        if self._transport is None:  # it has gone meanwhile
            inner.abort()
            return
        inner.join(self)
        self.join(inner)

    def connection_lost(self, error: Exception | None) -> None:
        if self._dialling is not None:
            self._dialling.cancel()
        self._gateway.leave(self)
        super().connection_lost(error)
