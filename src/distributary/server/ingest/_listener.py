"""Accepts connections from a socket that several receivers share, each its part of them.

Caller: ``_server``, where there is more than one receiver. All wait for the same queue of the
kernel, so a connection never waits for a receiver that is dead or hangs. Left to themselves, the
first one awake would take all of a burst, and a publisher keeps its connection: so a receiver that
has more connections than another leaves new ones to it, for a moment.
"""

import asyncio
import socket
from collections.abc import Callable

from distributary.datadir import NodeCount, NodeCounts

STEP_BACK_S = 0.002
"""How long a connection is left to a receiver that has fewer. That one is awake within a tenth of
it, unless it is dead, hangs or is busy."""

LEFT_OVER_MAX = 16
"""Connections taken at once that no other receiver took meanwhile."""

NO_DESCRIPTOR_S = 0.1
"""Pause after the system refused a connection: descriptors or memory are short."""


class SharedListener:
    """Accepts from *sock* until it is closed.

    Args:
        sock: A listening socket, not blocking; the listener closes it.
        make: Makes the protocol of a connection.
        node: Connections of this receiver and of the others.
    """

    def __init__(
        self, sock: socket.socket, make: Callable[[], asyncio.Protocol], node: NodeCounts
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._make = make
        self._node = node
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._on_waiting)

    def close(self) -> None:
        """Accept no more, and close the socket."""
        if self._pause is None:
            self._loop.remove_reader(self._sock)
        else:
            self._pause.cancel()
        self._sock.close()

    def _on_waiting(self) -> None:
        mine = self._node.own(NodeCount.CONNECTIONS) + len(self._opening)
        if mine > self._node.least_elsewhere(NodeCount.CONNECTIONS):
            self._rest(STEP_BACK_S)
        else:
            self._take(1)

    def _rest(self, wait_s: float) -> None:
        self._loop.remove_reader(self._sock)
        self._pause = self._loop.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._on_waiting)
        self._take(LEFT_OVER_MAX)

    def _take(self, count_max: int) -> None:
        for _ in range(count_max):
            try:
                connection, _ = self._sock.accept()
            except (BlockingIOError, ConnectionError):  # another took it, or the client left
                return
            except OSError:
                self._rest(NO_DESCRIPTOR_S)
                return
            task = self._loop.create_task(self._open(connection))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        try:
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # the client left
            connection.close()
