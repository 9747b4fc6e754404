"""The public port: accepts connections and enforces their deadlines.

Hides the event loop's server and the sweep.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from distributary.core.clock import Clock
from distributary.datadir import NodeCounts
from distributary.datadir.seen import Seen
from distributary.server.ingest import _limits
from distributary.server.ingest._context import AppendPort, Dial, IngestContext
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import IngestSettings
from distributary.server.ingest._listener import SharedListener
from distributary.server.ingest._protocol import IngestConnection

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
        self, context: IngestContext, listener: "_Listener", control: "_Dialler | None"
    ) -> None:
        self.counters: Counters = context.counters
        self._context = context
        self._listener = listener
        self._control = control  # keeps its tasks alive
        self._loop = asyncio.get_running_loop()
        self._sweeping = self._loop.call_later(_limits.SWEEP_S, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = self._loop.call_later(_limits.SWEEP_S, self._sweep)
        self._context.sweep()

    def change(self, settings: IngestSettings) -> None:
        """Change the limits; open connections keep their limit of a body."""
        self._context.settings = settings

    def learn(self, addresses: Mapping[str, str]) -> None:
        """Replace the Brokers and Channels; see ``serve``."""
        self._context.addresses.learn(addresses)

    async def close(self, drain_s: float) -> None:
        """Stop: no new connection, 503 to new requests, responses to requests in flight.

        Args:
            drain_s: Longest wait for requests in flight, seconds; then they are cut off. An event
                without a response may be durable all the same; its sender sends it again.
        """
        context = self._context
        context.draining = True
        self._listener.close()
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

    def __call__(self, relay: asyncio.Protocol, failed: Callable[[], None]) -> None:
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
        node: Counts of all receivers that accept from *sock*; None: it is the only one.

    Returns:
        A server that accepts connections.
    """
    dial: _Dialler | None = None if control_socket is None else _Dialler(control_socket)
    port: Dial | None = dial
    context = IngestContext(appends, settings, clock, port, seen, guard=guard, node=node)
    if addresses is not None:
        context.addresses.learn(addresses)

    def connection() -> IngestConnection:
        return IngestConnection(context)

    listener: _Listener
    if context.node.alone:
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(connection, sock=sock, backlog=_BACKLOG)
    else:
        listener = SharedListener(sock, connection, context.node)
    return IngestServer(context, listener, dial)
