"""A wire that can be cut: a TCP relay before a server, on a thread of its own."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

from kit.listening import stop_listening
from kit.ports import free_port

CHUNK_BYTES = 64 * 1024

ACCEPT_S = 0.05
"""At the end: until a connection that was being taken is a task, which is ended like the others."""


class Cut:
    """Relays connections to a server until it is told to misbehave. A context manager.

    Args:
        target: Port of the server on loopback.

    Attributes:
        port: Where clients connect to.
    """

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._back_open = asyncio.Event()
        self._back_open.set()
        self.connections = 0
        """Connections that were made so far."""

    def close_door(self) -> None:
        """Refuse new connections and reset those that are open."""
        self._do(self._close_door())

    def open_door(self) -> None:
        """Take connections (again)."""
        self._do(self._open_door())

    def reset(self) -> None:
        """Reset the connections that are open; new ones are taken."""
        self._do(self._reset())

    def silence(self, *, answers_only: bool = False) -> None:
        """Let nothing through any more, with connections open: a half-open wire.

        Args:
            answers_only: What clients send still arrives; what the server says does not.
        """
        if not answers_only:
            self._loop.call_soon_threadsafe(self._open.clear)
        self._loop.call_soon_threadsafe(self._back_open.clear)

    def restore(self) -> None:
        """Undo ``silence``; what was held back is let through."""
        self._loop.call_soon_threadsafe(self._open.set)
        self._loop.call_soon_threadsafe(self._back_open.set)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10.0)

    async def _open_door(self) -> None:
        if self._server is None:
            # The backlog is for checks that open hundreds of connections at once.
            self._server = await asyncio.start_server(
                self._relay, "127.0.0.1", self.port, backlog=1024
            )

    async def _close_door(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await stop_listening(server)
        await self._reset()

    async def _reset(self) -> None:
        for writer in list(self._writers):
            opened = writer.get_extra_info("socket")
            if opened.fileno() < 0:
                continue  # it has ended by itself
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        back = None
        try:
            far_reader, back = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(back)
            await asyncio.gather(
                _pump(reader, back, lambda: self._open), _pump(far_reader, writer, self._way_back)
            )
        except OSError:
            pass  # one end is gone: so is the other
        finally:
            for each in (writer, back):
                if each is not None:
                    self._writers.discard(each)
                    each.transport.abort()

    def _way_back(self) -> asyncio.Event:
        return self._back_open

    def __enter__(self) -> Self:
        """Start relaying."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.open_door()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut everything for good."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    async def _end(self) -> None:
        await self._close_door()
        await asyncio.sleep(ACCEPT_S)
        tasks = list(asyncio.all_tasks() - {asyncio.current_task(self._loop)})
        for task in tasks:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    way: Callable[[], asyncio.Event],
) -> None:
    while True:
        block = await reader.read(CHUNK_BYTES)
        await way().wait()
        if not block:
            raise ConnectionResetError
        writer.write(block)
        await writer.drain()


class CutRig:
    """What a rig of ``check_transport`` does with the wire between its transport and its server.

    Attributes:
        cut: The wire.
    """

    cut: Cut

    async def interrupt(self) -> None:
        """Cut every connection; new ones are taken."""
        await asyncio.to_thread(self.cut.reset)

    async def leave(self) -> None:
        """Cut every connection; new ones are refused."""
        await asyncio.to_thread(self.cut.close_door)

    async def come_back(self) -> None:
        """Take connections again."""
        await asyncio.to_thread(self.cut.open_door)
