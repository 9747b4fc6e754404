"""The protocol by which the control process has receivers append routes and events of its own.

Runs over a Unix socket for each receiver. A frame is a length (4 bytes, little endian) and
MessagePack. Requests:

- ``["routes", bodies]``: append to every partition of the receiver, in this order.
- ``["events", [[partition, kind, body], ...]]``: append each, of that kind of record, to its
  partition: timer events and lifecycle events.
- ``["addresses"]``: Brokers or Channels have changed; read them again.

The response is ``[appended, reason]``: how many bodies are durable in all their partitions, and why
not all of them (nil on success). For ``addresses`` it is ``[0, reason]``, once the new addresses
are in force. Both sides have the same version: they are started together.
"""

import asyncio
import os
import struct
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from distributary.core.errors import LogError, LogUnavailableError
from distributary.core.flow import RecordKind
from distributary.core.log import GroupCommitter
from distributary.server.processes.base.owned import receiver_of

_LENGTH = struct.Struct("<I")
FRAME_BYTES_MAX = 64 * 1024 * 1024
"""Largest frame, with a margin: ``ROUTES_BYTES_MAX`` and one more route record, or 4 MiB of timer
events and one more; lifecycle events are less."""
ROUTES_BYTES_MAX = 4 * 1024 * 1024
"""Route records of one request, bytes. A batch may hold hundreds of the largest: sent together they
would exceed a frame and the log's queue at every retry, and block all later changes."""
ANSWER_S_MAX = 30.0
"""Longest wait for a response; the log then counts as unavailable."""


async def _read(reader: asyncio.StreamReader) -> bytes:
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    if length > FRAME_BYTES_MAX:
        raise ConnectionError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


def _frame(value: object) -> bytes:
    body = msgspec.msgpack.encode(value)
    return _LENGTH.pack(len(body)) + body


class _Routes(msgspec.Struct, frozen=True, array_like=True, tag="routes"):
    bodies: list[bytes]


class _Events(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    entries: list[tuple[int, int, bytes]]


class _Addresses(msgspec.Struct, frozen=True, array_like=True, tag="addresses"):
    pass


_Request = _Routes | _Events | _Addresses


class _Answer(msgspec.Struct, frozen=True, array_like=True):
    appended_count: int
    reason: str | None


LookAgain = Callable[[], Awaitable[str | None]]
"""Reads the Brokers and Channels again; returns why it failed, or None."""


class RouteAppendServer:
    """Appends route records to all partitions of a receiver, in the order of arrival.

    Events go to one partition each.

    Args:
        committers: Group committers of the receiver's partitions, by number.
        look_again: Reads the Brokers and Channels again.
    """

    def __init__(
        self,
        committers: Mapping[int, GroupCommitter],
        look_again: LookAgain,
    ) -> None:
        self._committers = committers
        self._look_again = look_again
        self._decoder = msgspec.msgpack.Decoder(_Request)
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
                request = self._decoder.decode(await _read(reader))
                writer.write(_frame(await self._answer(request)))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            writer.close()

    async def _answer(self, request: _Request) -> _Answer:
        if isinstance(request, _Events):
            return await self._append_events(request.entries)
        if isinstance(request, _Addresses):
            return _Answer(0, await self._look_again())
        return await self._append_routes(request.bodies)

    async def _append_routes(self, bodies: list[bytes]) -> _Answer:
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[int | LogError]] = []
        refused: list[LogError] = []
        try:
            for committer in self._committers.values():
                for body in bodies:
                    done: asyncio.Future[int | LogError] = loop.create_future()
                    committer.submit(RecordKind.ROUTE, body, done.set_result)
                    waiting.append(done)
        except LogError as error:
            refused.append(error)
        refused += [one for one in await asyncio.gather(*waiting) if isinstance(one, LogError)]
        if refused:
            return _Answer(0, str(refused[0]))
        return _Answer(len(bodies), None)

    async def _append_events(self, entries: list[tuple[int, int, bytes]]) -> _Answer:
        """Append each independently: an append that its partition refuses is not retried."""
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Future[int | LogError]] = []
        for partition, kind, body in entries:
            done: asyncio.Future[int | LogError] = loop.create_future()
            waiting.append(done)
            try:
                self._committers[partition].submit(kind, body, done.set_result)
            except LogError as error:
                done.set_result(error)
        results = await asyncio.gather(*waiting)
        refused = [result for result in results if isinstance(result, LogError)]
        return _Answer(len(entries) - len(refused), str(refused[0]) if refused else None)

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()


class RouteAppendClient:
    """The client of the control process: appends routes, timer events and lifecycle events.

    For one call at a time: the leader, the timers, the lifecycle events and the reconciler have a
    client each.

    Args:
        paths: Sockets of the receivers, by number.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._wires = [_Wire(path) for path in paths]

    async def agree(self) -> None:
        """See ``RouteAppender``: store and log lie in one data directory, backed up as one."""

    async def append_routes(self, bodies: Sequence[bytes]) -> None:
        """Append *bodies*, in order, to every partition; returns when they are durable.

        Raises:
            LogUnavailableError: An append failed in some partition, or no response came; append
                all of them again later, in the same order.
        """
        some: list[bytes] = []
        size = 0
        for body in bodies:
            some.append(body)
            size += len(body)
            if size >= ROUTES_BYTES_MAX:
                await self._ask_all(_Routes(some))
                some, size = [], 0
        if some:
            await self._ask_all(_Routes(some))

    async def look_again(self) -> None:
        """Have the receivers read Brokers and Channels again; returns when they are in force.

        Raises:
            LogUnavailableError: One cannot read them, or did not respond; retry later.
        """
        await self._ask_all(_Addresses())

    async def append_timer_events(self, timer_events: Sequence[tuple[int, bytes]]) -> int:
        """Append each body to its partition; returns how many are durable there.

        Raises:
            LogUnavailableError: No response came. Some may have been appended: append none of
                them again, since their numbers would occur twice.
        """
        kind = RecordKind.TIMER_EVENT
        return await self.append_events([(number, kind, body) for number, body in timer_events])

    async def append_events(self, entries: Sequence[tuple[int, RecordKind, bytes]]) -> int:
        """Append each body, of this kind of record, to its partition.

        Returns:
            How many are durable there.

        Raises:
            LogUnavailableError: No response came. Some may have been appended.
        """
        count = len(self._wires)
        shares: dict[int, list[tuple[int, int, bytes]]] = {}
        for partition, kind, body in entries:
            share = shares.setdefault(receiver_of(partition, count), [])
            share.append((partition, int(kind), body))
        answers = await _all_of(
            self._wires[number].append_events(share) for number, share in shares.items()
        )
        return sum(answer.appended_count for answer in answers)

    async def _ask_all(self, request: "_Routes | _Addresses") -> None:
        """Send *request*, which may be repeated, to every receiver."""
        for answer in await _all_of(wire.ask(request) for wire in self._wires):
            if answer.reason is not None:
                raise LogUnavailableError(answer.reason)

    def close(self) -> None:
        """Close the connections; the next call opens others."""
        for wire in self._wires:
            wire.close()


async def _all_of(questions: Iterable[Coroutine[None, None, _Answer]]) -> list[_Answer]:
    """Ask all receivers at a time; returns their responses once none is under way.

    Raises:
        LogUnavailableError: One did not respond.
    """
    answers = await asyncio.gather(*questions, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return [answer for answer in answers if isinstance(answer, _Answer)]


class _Wire:
    """The connection to one receiver."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: _Routes | _Addresses) -> _Answer:
        """Send a request that may be repeated."""
        return await self._answered(request, twice=self._streams is not None)

    async def append_events(self, entries: list[tuple[int, int, bytes]]) -> _Answer:
        """Send events, once."""
        if self._streams is not None and self._streams[0].at_eof():
            self.close()  # the process was replaced; its successor has not seen these yet
        return await self._answered(_Events(entries))

    async def _answered(self, request: _Request, *, twice: bool = False) -> _Answer:
        try:
            async with asyncio.timeout(ANSWER_S_MAX):
                try:
                    return await self._exchange(request)
                except (OSError, EOFError):
                    if not twice:
                        raise
                    # The process was replaced since the last request: retry once with its
                    # successor. Sequence numbers make repeated bodies harmless.
                    self.close()
                    return await self._exchange(request)
        except (OSError, EOFError, TimeoutError, msgspec.MsgspecError) as raised:
            self.close()
            message = "the log's process does not answer; it restarts"
            raise LogUnavailableError(message) from raised
        except asyncio.CancelledError:
            self.close()  # a late response must not be taken for that of the next request
            raise

    async def _exchange(self, request: _Request) -> _Answer:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(str(self._path))
        reader, writer = self._streams
        writer.write(_frame(request))
        await writer.drain()
        return msgspec.msgpack.decode(await _read(reader), type=_Answer)

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
