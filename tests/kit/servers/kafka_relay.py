"""A wire to a Kafka broker that reads along: holds answers back, or puts others in their place.

What a single healthy broker never says (``NOT_ENOUGH_REPLICAS``...) is said here in its name: the
error code in its answers to produce requests is written over, by the topic that they are about.
"""

import asyncio
import struct
import threading
from types import TracebackType
from typing import Final, Self

from kit.listening import stop_listening

PRODUCE: Final = 0
"""API key of produce requests (Kafka protocol, "API Keys")."""

FLEXIBLE_FROM: Final = 9
"""Version from which produce answers have compact lengths and tagged fields."""

_LENGTH: Final = struct.Struct(">i")
_REQUEST: Final = struct.Struct(">hhi")  # API key, version, correlation id


class KafkaRelay:
    """Relays connections to a broker's plain listener. A context manager.

    Args:
        target: Port of the listener on loopback.
        port: Where clients connect to: what the listener says its address is.

    Attributes:
        codes: Topic -> error code that answers about it carry instead of the broker's own.
        holding: Whether answers to produce requests are kept from the client.
        produced: Answers to produce requests so far, held ones included.
        clients: Client ids that produce requests came with.
    """

    def __init__(self, target: int, port: int) -> None:
        self.codes: dict[str, int] = {}
        self.holding = False
        self.produced = 0
        self.clients: set[str] = set()
        self._target = target
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    def reset(self) -> None:
        """Reset the connections that are open; new ones are taken."""
        asyncio.run_coroutine_threadsafe(self._reset(), self._loop).result(10.0)

    async def _serve(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self._port)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        versions: dict[int, int] = {}  # of produce requests by their correlation id
        ends = {writer}
        try:
            far_reader, back = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(back)
            self._writers |= ends
            await asyncio.gather(
                self._forth(reader, back, versions), self._back(far_reader, writer, versions)
            )
        except (OSError, asyncio.IncompleteReadError):
            pass  # one end is gone: so is the other
        finally:
            for each in ends:
                each.transport.abort()
            self._writers -= ends
            self._tasks.discard(task)

    async def _forth(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, versions: dict[int, int]
    ) -> None:
        while True:
            frame = await _frame(reader)
            key, version, correlation = _REQUEST.unpack_from(frame)
            if key == PRODUCE:
                versions[correlation] = version
                self.clients.add(_text(frame, _REQUEST.size))
            await _write(writer, frame)

    async def _back(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, versions: dict[int, int]
    ) -> None:
        while True:
            frame = await _frame(reader)
            version = versions.pop(_LENGTH.unpack_from(frame)[0], None)
            if version is not None:
                self.produced += 1
                if self.holding:
                    continue
                frame = self._rewritten(frame, version)
            await _write(writer, frame)

    def _rewritten(self, frame: bytes, version: int) -> bytes:
        """A produce answer with the codes of its topics; it holds one topic with one partition."""
        if version >= FLEXIBLE_FROM:
            assert frame[4] == 0, "tagged fields in the header"
            assert frame[5] == 2, "one topic"
            length = frame[6] - 1
            start = 7
            index = start + length + 1
            topic = frame[start : start + length].decode()
        else:
            topic = _text(frame, 8)
            index = 10 + len(topic) + 4
        code = self.codes.get(topic)
        if code is None:
            return frame
        at = index + 4
        return frame[:at] + struct.pack(">h", code) + frame[at + 2 :]

    def __enter__(self) -> Self:
        """Start relaying."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10.0)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cut everything for good."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(10.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()

    async def _end(self) -> None:
        if self._server is not None:
            await stop_listening(self._server)
        await self._reset()
        # A connection of the last moment may have a task that has not begun to relay.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _reset(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _text(frame: bytes, at: int) -> str:
    """A string with its length before it, ASCII."""
    (length,) = struct.unpack_from(">h", frame, at)
    return frame[at + 2 : at + 2 + length].decode("ascii")


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return await reader.readexactly(length)


async def _write(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(_LENGTH.pack(len(frame)) + frame)
    await writer.drain()
