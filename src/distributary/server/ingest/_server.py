"""The public port: accepts connections and enforces their deadlines.

Hides the event loop's server and the sweep.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from distributary.access import AccessSnapshot, Change
from distributary.core.clock import Clock
from distributary.datadir import NodeCounts, TenantCounts
from distributary.datadir.seen import Seen
from distributary.net.tls import Handshakes
from distributary.protocols.http.plain import PlainRequests
from distributary.server.ingest import _limits
from distributary.server.ingest._context import AppendPort, Dial, IngestContext
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._forwarded import TrustedProxies
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import IngestSettings
from distributary.server.ingest._listener import SharedListener
from distributary.server.ingest._protocol import IngestConnection
from distributary.server.ingest._responses import Responses
from distributary.server.ingest._secure import SecureConnection
from distributary.server.ingest._tenants import Tenants
from distributary.server.ingest._traced import LEFT_TO_PARSER, PublishTracing, traced_connections

_BACKLOG = 1024
"""Connections that the kernel queues while the loop is busy: half of ``connections_max``."""

_DRAIN_POLL_S = 0.02
"""Polling interval of a shutdown."""


class IngestServer:
    """A running receiver, returned by ``serve``.

    Attributes:
        counters: Counters and gauges; readable at any time.
    """

    def __init__(
        self,
        context: IngestContext,
        listeners: "Sequence[_Listener]",
        control: "Dial | None",
    ) -> None:
        self.counters: Counters = context.counters
        self._context = context
        self._listeners = listeners
        self._control = control  # keeps its tasks alive
        self._loop = asyncio.get_running_loop()
        self._sweeping = self._loop.call_later(_limits.SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = self._loop.call_later(_limits.SWEEP_S, self._sweep)
        self._context.sweep()

    def change(self, settings: IngestSettings) -> None:
        """Change the limits; open connections keep their limit of a body."""
        self._context.settings = settings
        self._context.tenants.change(settings.quotas)

    def record_refusals(self, record: Callable[[Change], None]) -> None:
        """Call *record* with changes that are refused, for the audit log."""
        self._context.refused = record

    def decide_by(self, snapshot: AccessSnapshot) -> None:
        """Decide by *snapshot* who may do what, from now on."""
        self._context.gate.replace(snapshot)

    def take_asked(self) -> frozenset[str]:
        """Returns issuers with an unknown key, once; see ``Gate.take_asked``."""
        return self._context.gate.take_asked()

    @property
    def key_uses(self) -> dict[str, int]:
        """When API keys were used last here: id -> the minute, wall clock, milliseconds."""
        return self._context.gate.uses

    def trust(self, proxies: TrustedProxies) -> None:
        """Believe *proxies* where requests come from, from now on."""
        self._context.proxies = proxies

    def forget_certificates(self) -> None:
        """Forget all clients' certificates: an authority that signed them is trusted no more."""
        for connection in tuple(self._context.connections):
            if isinstance(connection, SecureConnection):
                connection.forget_certificate()

    @property
    def tenants(self) -> Tenants:
        """What each namespace uses."""
        return self._context.tenants

    def learn(self, addresses: Mapping[str, str] | None) -> None:
        """Replace the Brokers and Channels; see ``serve``. None: they are unknown from now on."""
        if addresses is None:
            self._context.addresses.forget()
        else:
            self._context.learn(addresses)

    def doubt(self, *, stale: bool) -> None:
        """Answer 503 to who is not known from now on, since keys may have been made unheard."""
        self._context.stale = stale

    async def close(self, drain_s: float) -> None:
        """Stop: no new connection, 503 to new requests, responses to requests in flight.

        Args:
            drain_s: Longest wait for requests in flight, seconds; then they are cut off. An event
                without a response may be durable all the same; its sender sends it again.
        """
        context = self._context
        context.draining = True
        for listener in self._listeners:
            listener.close()
        deadline_s = context.now_s() + drain_s
        while True:
            for connection in tuple(context.connections):
                connection.drain()
            if context.idle and not context.connections:
                break
            if context.now_s() >= deadline_s:
                break
            await asyncio.sleep(_DRAIN_POLL_S)
        for connection in tuple(context.connections):
            connection.cut()
        self._sweeping.cancel()


class _Listener(Protocol):
    """What accepts connections."""

    def close(self) -> None:
        """Accept no more, and close the socket."""


class _Dialler:
    """Connects relays to the control process's Unix socket."""

    def __init__(self, control_socket: Path) -> None:
        self._path = str(control_socket)
        self._tasks: set[asyncio.Task[None]] = set()

    def __call__(
        self, relay: asyncio.Protocol, failed: Callable[[], None], _path: bytes, /
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._dial(relay, failed))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _dial(self, relay: asyncio.Protocol, failed: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_unix_connection(lambda: relay, self._path)
        except OSError:
            failed()  # answered 503 and counted in ``relay_failures``


async def serve(
    sock: socket.socket,
    appends: AppendPort,
    *,
    settings: IngestSettings,
    control_socket: Path | None,
    clock: Clock,
    seen: Seen | None = None,
    addresses: Mapping[str, str] | None = None,
    guard: Guard | None = None,
    node: NodeCounts | None = None,
    tenants: TenantCounts | None = None,
    access: AccessSnapshot | None = None,
    tls: Handshakes | None = None,
    own: socket.socket | None = None,
    unix: socket.socket | None = None,
    proxies: TrustedProxies | None = None,
    tracing: PublishTracing | None = None,
    dial: Dial | None = None,
) -> IngestServer:
    """Start a receiver on *sock*.

    Args:
        sock: A stream socket, bound and listening, perhaps inherited. The server closes it.
        appends: The log.
        settings: Limits.
        control_socket: Unix socket of the control process, which serves every path that accepts
            no events; None: these get 404. It need not exist yet: until it does they get 503.
        clock: For deadlines, dates and ack times.
        seen: Records types and sources of accepted events; None: they are discarded.
        addresses: Address (uid; empty: the default broker's) of every Broker and Channel, by path
            without its first slash. None: unknown yet; until ``IngestServer.learn`` their paths
            get 503.
        guard: Checks ``Host`` and ``Origin``; may change while the server runs. None: accepts
            every address and ``localhost``.
        access: Who may do what; None: every client everything. May change while the server runs.
        node: Counts of all receivers that accept from *sock*; None: it is the only one.
        tenants: What namespaces use at all of them; None: likewise.
        tls: Shakes hands on each connection from *sock*; None: plain HTTP.
        own: A listening Unix socket for this server itself, in plain HTTP, whatever *sock* speaks;
            None: there is none. The server closes it.
        unix: The same for proxies on this machine.
        proxies: Whom to believe where requests come from; None: nobody. May change while the
            server runs.
        tracing: Traces requests that publish; None: nobody does.
        dial: Reaches what serves these paths, in place of *control_socket*.

    Returns:
        A server that accepts connections.
    """
    port: Dial | None = dial
    if port is None and control_socket is not None:
        port = _Dialler(control_socket)
    context = IngestContext(
        appends, settings, clock, port, seen, guard=guard, node=node, tenants=tenants
    )
    if access is not None:
        context.gate.replace(access)
    if proxies is not None:
        context.proxies = proxies
    if addresses is not None:
        context.learn(addresses)
    if tracing is not None:
        context.plain = PlainRequests(LEFT_TO_PARSER)

    plain = [each for each in (own, unix) if each is not None]
    listeners = await _accept(context, sock, tls, plain, tracing)
    return IngestServer(context, listeners, port)


async def _accept(
    context: IngestContext,
    sock: socket.socket,
    tls: Handshakes | None,
    plain: Iterable[socket.socket],
    tracing: PublishTracing | None,
) -> list[_Listener]:
    """Accept connections from *sock*, by TLS if it has one, and from *plain* Unix sockets."""
    plain_class, secure_class = IngestConnection, SecureConnection
    if tracing is not None:
        plain_class, secure_class = traced_connections(tracing)

    def connection() -> IngestConnection:
        return plain_class(context)

    def secure() -> IngestConnection:
        return secure_class(context)

    listeners: list[_Listener] = []
    if tls is not None:
        context.answers = Responses(context.clock.wall_ms(), secure=True)
        listeners.append(SharedListener(sock, secure, context.node, tls))
    elif context.node.alone:
        loop = asyncio.get_running_loop()
        listeners.append(await loop.create_server(connection, sock=sock, backlog=_BACKLOG))
    else:
        listeners.append(SharedListener(sock, connection, context.node))
    listeners += [SharedListener(each, connection, context.node) for each in plain]
    return listeners
