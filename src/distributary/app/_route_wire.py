"""Route records from the control process to the log's one appending process, over a Unix socket.

A frame is a length (4 bytes, little endian) and MessagePack. Request: a list of bodies, in
order. Answer: nil when all of them are durable in every partition, else the reason.
"""

import asyncio
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from distributary.errors import LogError, LogUnavailableError
from distributary.flow import Kind
from distributary.log import GroupCommitter

_LENGTH = struct.Struct("<I")
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""One batch of the control process: at most 1,000 route records of some KiB."""
ANSWER_S_MAX = 30.0
"""A log that does not answer within this does not take anything now."""


async def _read(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise ConnectionError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


def _frame(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(body)) + body


class RouteAppendServer:
    """Takes route records and appends each to every partition, in the order of arrival.

    Args:
        committers: One a partition.
    """

    def __init__(self, committers: Sequence[GroupCommitter]) -> None:
        self._committers = committers
        self._decoder = msgspec.msgpack.Decoder(list[bytes])
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen on the socket at *path*, for this user alone."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, before anything is served
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, str(path))
        finally:
            os.umask(before)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                bodies = self._decoder.decode(await _read(reader))
                error = await self._append(bodies)
                writer.write(_frame(error))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            writer.close()

    async def _append(self, bodies: list[bytes]) -> str | None:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[int | LogError]] = []
        try:
            for committer in self._committers:
                for body in bodies:
                    done: asyncio.Future[int | LogError] = loop.create_future()
                    committer.submit(Kind.ROUTE, body, done.set_result)
                    waiting.append(done)
        except LogError as error:
            await asyncio.gather(*waiting)
            return str(error)
        results = await asyncio.gather(*waiting)
        failed = [result for result in results if isinstance(result, LogError)]
        return str(failed[0]) if failed else None

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()


class RouteAppendClient:
    """The control process's side: a ``control.RouteAppender``.

    Args:
        path: The socket of the appending process.
    """

    def __init__(self, path: Path, report: Callable[[str], None] = lambda _reason: None) -> None:
        self._path = path
        self._report = report
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def append_routes(self, bodies: Sequence[bytes]) -> None:
        """Append *bodies*, in order, to every partition; returns when they are durable.

        Raises:
            LogUnavailableError: Some partition did not take some of them, or nobody answered;
                append all of them again later, in the same order.
        """
        known = self._streams is not None
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                try:
                    error = await self._exchange(list(bodies))
                except (OSError, EOFError):
                    if not known:
                        raise
                    # The process was replaced since the last change: its successor is asked once.
                    # Bodies that the old one took are repeated, which their numbers allow.
                    self._drop()
                    error = await self._exchange(list(bodies))
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as raised:
            self._drop()
            self._report(repr(raised))
            raise LogUnavailableError("the log's process does not answer; it restarts") from raised
        if error is not None:
            raise LogUnavailableError(error)

    async def _exchange(self, bodies: list[bytes]) -> str | None:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(str(self._path))
        reader, writer = self._streams
        writer.write(_frame(bodies))
        await writer.drain()
        return msgspec.msgpack.decode(await _read(reader), type=str | None)

    def _drop(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None

    def close(self) -> None:
        """Close the connection."""
        self._drop()
