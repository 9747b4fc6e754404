"""Events that one receiver took and another one appends: those with a key of its partitions.

Runs over a Unix socket, one for each receiver; a link is one connection to it. A batch is all that
arrived in one turn of the sender's loop: a header (bytes of the entries, number of the sender, time
of sending, count of entries), then for each entry a header (number, partition, kind, bytes of the
record and of the publisher's name), the record, and the name. The response to an entry is its
number and a ``_Result``, sent once it is durable or refused. Both sides have the same version: they
are started together.

Nothing is answered 2xx before it is durable where it belongs. A link is one ordered stream, so
events of a key keep their order. When it breaks, what it had under way is answered 503: a record
may be durable all the same, and its sender sends it again. What the old link still held is not
appended after that.
"""

import asyncio
import contextlib
import enum
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from distributary.core.clock import Clock
from distributary.core.errors import LogError, LogUnavailableError, RecordTooLargeError
from distributary.core.log.frame import BODY_BYTES_MAX
from distributary.datadir.publishers import NAME_BYTES_MAX

PENDING_BYTES_MAX = 256 * 1024 * 1024
"""Records under way on one link, bytes: as many as a partition takes there, so that a link is not
full of the events of one tenant either. A receiver admits less."""
PENDING_COUNT_MAX = 262_144
"""The same for their number."""
TAKE_S_MAX = 5.0
"""A batch that is read later than this after it was sent is refused: it lay with a receiver that
stood still, and its sender may have sent the events again on another way."""
RESPONSE_S_MAX = 30.0
"""Longest wait for a response; then the link is closed. A receiver that hangs is replaced sooner,
and one that waits for the disk is waited for."""
LOOK_S = 1.0
"""Precision of ``RESPONSE_S_MAX``."""
CONNECT_AGAIN_S = 0.05
"""Between two attempts to reach a receiver: one that was killed is back within half a second."""

_BATCH = struct.Struct("<QHdI")
_ENTRY = struct.Struct("<QHBIH")
_RESPONSE = struct.Struct("<QB")
_BATCH_BYTES_MAX = (
    PENDING_BYTES_MAX + BODY_BYTES_MAX + PENDING_COUNT_MAX * (_ENTRY.size + NAME_BYTES_MAX)
)

Done = Callable[[LogError | None], None]
"""Called once: with None when the record is durable, with the error when nothing was promised."""


class _Result(enum.IntEnum):
    DURABLE = 0
    UNAVAILABLE = 1
    TOO_LARGE = 2


class _Pending(NamedTuple):
    done: Done
    size: int
    since_s: float


class Link(asyncio.Protocol):
    """The sender's end: passes records to the receiver that appends them.

    Args:
        sender: Number of this receiver.
        clock: The monotonic clock, one for all processes of the machine.
        told: Called with True when the other receiver is reached, with False when it is lost.

    Attributes:
        forwarded_count: Records passed on and durable there.
    """

    def __init__(
        self, sender: int, clock: Clock, told: Callable[[bool], None] = lambda _reached: None
    ) -> None:
        self._sender = sender
        self._clock = clock
        self._told = told
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: dict[int, _Pending] = {}
        self._pending_bytes = 0
        self._number = 0
        self._out: list[bytes] = []
        self._held = b""
        self._looking: asyncio.TimerHandle | None = None
        self.forwarded_count = 0
        self.reached = asyncio.Event()
        self.lost = asyncio.Event()

    def submit(self, partition: int, kind: int, body: bytes, done: Done, by: str = "") -> None:
        """Have *body*, published by *by*, appended to *partition*; calls *done* later, in the loop.

        Raises:
            LogUnavailableError: The other receiver is not reached, or too much is under way.
            RecordTooLargeError: No record holds *body*.
        """
        if self._transport is None:
            raise LogUnavailableError(f"the receiver of partition {partition} does not answer")
        if len(body) > BODY_BYTES_MAX:
            raise RecordTooLargeError(f"a record of {len(body)} bytes")
        if self._pending_bytes >= PENDING_BYTES_MAX or len(self._pending) >= PENDING_COUNT_MAX:
            raise LogUnavailableError("too many events wait for another receiver")
        if not self._out:
            self._loop.call_soon(self._send)
        self._number += 1
        who = by.encode("utf-8", "replace")[:NAME_BYTES_MAX]
        self._out += (_ENTRY.pack(self._number, partition, kind, len(body), len(who)), body + who)
        self._pending[self._number] = _Pending(done, len(body), self._clock.monotonic_s())
        self._pending_bytes += len(body)
        if self._looking is None:
            self._looking = self._loop.call_later(LOOK_S, self._look)

    def _send(self) -> None:
        out, self._out = self._out, []
        if self._transport is None or not out:
            return
        size = sum([len(piece) for piece in out])
        head = _BATCH.pack(size, self._sender, self._clock.monotonic_s(), len(out) // 2)
        self._transport.write(b"".join((head, *out)))

    def _look(self) -> None:
        """Close a link whose oldest response is overdue."""
        self._looking = None
        if not self._pending:
            return
        oldest = next(iter(self._pending.values()))
        if self._clock.monotonic_s() - oldest.since_s >= RESPONSE_S_MAX:
            self.close()
        else:
            self._looking = self._loop.call_later(LOOK_S, self._look)

    def close(self) -> None:
        """Close the connection; what is under way fails."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        transport.abort()
        self.reached.clear()
        self.lost.set()
        self._told(False)
        self._out = []
        self._pending_bytes = 0
        pending, self._pending = self._pending, {}
        error = LogUnavailableError("the receiver of the partition was lost")
        for each in pending.values():
            self._call(each.done, error)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin with an empty batch: from now on the other end takes no older link of ours."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(_BATCH.pack(0, self._sender, self._clock.monotonic_s(), 0))
        self._held = b""
        self.lost.clear()
        self.reached.set()
        self._told(True)

    def connection_lost(self, _error: Exception | None) -> None:
        """Fail what is under way."""
        self.close()

    def data_received(self, data: bytes) -> None:
        """Handle responses."""
        data = self._held + data
        whole = len(data) - len(data) % _RESPONSE.size
        self._held = data[whole:]
        for number, result in _RESPONSE.iter_unpack(data[:whole]):
            pending = self._pending.pop(number, None)
            if pending is None:
                continue  # a callback has closed the link
            self._pending_bytes -= pending.size
            if result == _Result.DURABLE:
                self.forwarded_count += 1
                self._call(pending.done, None)
            elif result == _Result.TOO_LARGE:
                self._call(pending.done, RecordTooLargeError("no record holds the events"))
            else:
                self._call(pending.done, LogUnavailableError("the log took no record"))

    def _call(self, done: Done, error: LogError | None) -> None:
        try:
            done(error)
        except Exception as failure:  # noqa: BLE001 - one caller's bug must not cost the others
            self._loop.call_exception_handler(
                {"message": "a callback of a link failed", "exception": failure}
            )


async def keep_linked(link: Link, path: Path) -> None:
    """Connect *link* to the socket at *path*, again whenever it is lost; never returns."""
    loop = asyncio.get_running_loop()
    while True:
        with contextlib.suppress(OSError):  # it starts, or starts again
            await loop.create_unix_connection(lambda: link, str(path))
            await link.lost.wait()
        await asyncio.sleep(CONNECT_AGAIN_S)


class Committer(Protocol):
    """``core.log.GroupCommitter``."""

    def submit(
        self, kind: int, body: bytes, done: Callable[[int | LogError], None], by: str = ""
    ) -> None:
        """Append a record that *by* published."""


class ForwardServer:
    """The appending receiver's end: appends what the others pass on.

    Args:
        committers: Group committers of its partitions, by number.
        takes: Whether the log accepts events now.
        clock: As that of the links.
    """

    def __init__(
        self,
        committers: Mapping[int, Committer],
        takes: Callable[[], bool],
        clock: Clock,
    ) -> None:
        self.committers = committers
        self.takes = takes
        self.clock = clock
        self.senders: dict[int, _Incoming] = {}
        self._connections: set[_Incoming] = set()
        self._unused = asyncio.Event()
        self._unused.set()
        self._made = 0
        self._server: asyncio.Server | None = None

    async def start(self, path: Path) -> None:
        """Listen on the socket at *path*, for this user alone."""
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, before anything is served
        before = os.umask(0o177)
        try:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_unix_server(self.connection, str(path))
        finally:
            os.umask(before)

    def connection(self) -> "_Incoming":
        """Returns the protocol of a new link."""
        self._made += 1
        return _Incoming(self, self._made)

    def opened(self, connection: "_Incoming") -> None:
        """Note a new link."""
        self._connections.add(connection)
        self._unused.clear()

    def ended(self, connection: "_Incoming") -> None:
        """Note that a link was closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._unused.set()

    async def drain(self, wait_s: float) -> None:
        """Wait until all senders have closed their links, at most *wait_s* seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._unused.wait()

    def close(self) -> None:
        """Stop listening, and close all links."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()


class _Incoming(asyncio.Protocol):
    """The appending receiver's end of one link; a later one has a higher serial number."""

    def __init__(self, server: ForwardServer, serial: int) -> None:
        self.serial = serial
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._responses: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)
        self._server.opened(self)

    def connection_lost(self, _error: Exception | None) -> None:
        """Append nothing more; what was submitted goes on."""
        self._transport = None
        self._buffer.clear()
        self._server.ended(self)

    def abort(self) -> None:
        """Close at once, and append nothing that has not been read yet."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def data_received(self, data: bytes) -> None:
        """Submit the records of all batches that are whole."""
        buffer = self._buffer
        buffer += data
        while self._transport is not None and len(buffer) >= _BATCH.size:
            size, sender, sent_s, count = _BATCH.unpack_from(buffer)
            if size > _BATCH_BYTES_MAX:
                self.abort()
                return
            if len(buffer) < _BATCH.size + size:
                return
            entries = bytes(memoryview(buffer)[_BATCH.size : _BATCH.size + size])
            del buffer[: _BATCH.size + size]
            if self._is_newest(sender):
                self._submit_all(entries, count, sent_s)

    def _is_newest(self, sender: int) -> bool:
        """Whether this is the newest link of *sender*: what older ones still hold was given up."""
        newest = self._server.senders.setdefault(sender, self)
        if newest is self:
            return True
        if newest.serial < self.serial:
            self._server.senders[sender] = self
            newest.abort()
            return True
        self.abort()
        return False

    def _submit_all(self, entries: bytes, count: int, sent_s: float) -> None:
        server = self._server
        takes = server.takes() and server.clock.monotonic_s() - sent_s <= TAKE_S_MAX
        start = 0
        for _ in range(count):
            number, partition, kind, size, who = _ENTRY.unpack_from(entries, start)
            start += _ENTRY.size
            by = entries[start + size : start + size + who].decode("utf-8", "replace")
            committer = server.committers.get(partition) if takes else None
            if committer is None:
                self._respond(number, _Result.UNAVAILABLE)
            else:
                self._submit(committer, number, kind, entries[start : start + size], by)
            start += size + who

    def _submit(self, committer: Committer, number: int, kind: int, body: bytes, by: str) -> None:
        def done(result: int | LogError) -> None:
            self._respond(number, _result(result))

        try:
            committer.submit(kind, body, done, by)
        except LogError as error:
            done(error)

    def _respond(self, number: int, result: _Result) -> None:
        if not self._responses:
            self._loop.call_soon(self._send)
        self._responses.append(_RESPONSE.pack(number, result))

    def _send(self) -> None:
        responses, self._responses = self._responses, []
        if self._transport is not None:
            with contextlib.suppress(OSError):
                self._transport.write(b"".join(responses))


def _result(result: int | LogError) -> _Result:
    if isinstance(result, RecordTooLargeError):
        return _Result.TOO_LARGE
    return _Result.UNAVAILABLE if isinstance(result, LogError) else _Result.DURABLE
