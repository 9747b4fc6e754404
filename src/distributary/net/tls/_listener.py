"""Accepts connections from a socket, and shakes hands on each where it has TLS."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from distributary.net.tls._handshakes import Handshakes

ACCEPTS_AT_ONCE: Final = 16
"""Connections accepted in one turn of the loop: the others get their turn in between."""

NO_DESCRIPTOR_S: Final = 0.1
"""Pause after the system refused a connection: descriptors or memory are short."""


class Listener:
    """Accepts from *sock* until it is closed.

    Args:
        sock: A listening socket; the listener closes it.
        make: Makes the protocol of a connection.
        handshakes: Shake hands on each connection before *make* is called; None: no TLS.
    """

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        handshakes: Handshakes | None = None,
    ) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._make = make
        self._handshakes = handshakes
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._loop.add_reader(sock, self._on_waiting)

    def close(self) -> None:
        """Accept no more, end handshakes under way, and close the socket."""
        if self._pause is None:
            self._loop.remove_reader(self._sock)
        else:
            self._pause.cancel()
        self._sock.close()
        if self._handshakes is not None:
            self._handshakes.close()

    def _on_waiting(self) -> None:
        self._take(ACCEPTS_AT_ONCE)

    def _rest(self, wait_s: float) -> None:
        self._loop.remove_reader(self._sock)
        self._pause = self._loop.call_later(wait_s, self._go_on)

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._sock, self._on_waiting)
        self._take(ACCEPTS_AT_ONCE)

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
            if self._handshakes is not None:
                await self._handshakes.open(connection, self._make)
            else:
                await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # the client left
            connection.close()
