"""The public port: accepts connections and looks after their deadlines.

Caller: ``server``, in the receiver's own process. Hides the event loop's server and the sweep.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from distributary.core.clock import Clock
from distributary.datadir.seen import Seen
from distributary.server.ingest import _limits
from distributary.server.ingest._context import AppendPort, Dial, IngestContext
from distributary.server.ingest._counters import Counters
from distributary.server.ingest._guard import Guard
from distributary.server.ingest._limits import IngestSettings
from distributary.server.ingest._protocol import IngestConnection

_BACKLOG = 1024
"""Connections that the kernel keeps while we are busy: half of what we would take."""

_DRAIN_POLL_S = 0.02
"""How often shutdown looks whether everything has ended; happens once in a process's life."""


class IngestServer:
    """A running receiver; ``serve`` makes it.

    Attributes:
        counters: What it has done so far; read it at any time.
    """

    def __init__(
        self, context: IngestContext, listener: asyncio.Server, control: "_Dialler | None"
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
        """These are the limits from now on; connections that are open keep that of a body."""
        self._context.settings = settings

    def learn(self, addresses: Mapping[str, str]) -> None:
        """These are all Brokers and Channels from now on; see ``serve``."""
        self._context.addresses.learn(addresses)

    async def close(self, drain_s: float) -> None:
        """Stops: no new connection, 503 to new requests, answers to what is in flight.

        Args:
            drain_s: How long to wait for what is in flight, seconds; then it is cut off. An
                event whose answer is cut off may be durable all the same: its sender does not
                know, and sends again.
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
) -> IngestServer:
    """Receives events on *sock* until the server is closed.

    Args:
        sock: A stream socket, bound and listening, perhaps inherited. The server closes it.
        appends: Where accepted requests go.
        settings: What the operator chose.
        control_socket: Unix socket of the control process, which answers every path that takes
            no events; None: these are answered 404. It need not exist yet: until it does
            the answer is 503.
        clock: For deadlines, dates and ack times.
        seen: Takes the types and sources of accepted events; None: nobody asks.
        addresses: Every Broker and Channel: path without its first slash -> address (its uid;
            empty: the default broker's). None: not known yet; until ``IngestServer.learn`` their
            paths are answered 503.
        guard: Whom it answers; it may be changed while the server runs. None: who asks by an
            address or by ``localhost``.

    Returns:
        A server that has begun to accept.
    """
    dial: _Dialler | None = None if control_socket is None else _Dialler(control_socket)
    port: Dial | None = dial
    context = IngestContext(appends, settings, clock, port, seen, guard=guard)
    if addresses is not None:
        context.addresses.learn(addresses)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(
        lambda: IngestConnection(context), sock=sock, backlog=_BACKLOG
    )
    return IngestServer(context, listener, dial)
