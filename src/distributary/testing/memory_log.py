"""A log in memory: one partition, as durable as the process. Passes ``check_log``.

Simulates retention, a lost tail and damaged records.

Callers: unit tests and simulations of the packages above the log.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

from distributary.core.clock import Clock
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged, RecordKind, decode_route
from distributary.core.log import Damage, encode_frame, iter_frames
from distributary.core.route import RouteTable


class MemoryLog:
    """Appender and reader of one partition in one object.

    Attributes:
        failing: Error that appends raise; None: they succeed.
    """

    def __init__(self, clock: Clock, *, first_offset: int = 0) -> None:
        """An empty log whose first record gets *first_offset*."""
        self.failing: LogUnavailableError | None = None
        self._clock = clock
        self._first = first_offset
        self._frames: list[bytes] = []
        self._records: list[Logged] = []
        self._snapshot: tuple[int, bytes] | None = None

    def append(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """Append (kind, body) records; returns the offset of the first.

        Raises:
            LogUnavailableError: ``failing`` is set; nothing was appended.
        """
        if self.failing is not None:
            raise self.failing
        first = self.durable_end()
        newest_ms = self._records[-1].time_ms if self._records else -(2**63)
        time_ms = max(self._clock.wall_ms(), newest_ms)
        for offset, (kind, body) in enumerate(entries, first):
            frame = encode_frame(kind, body, offset, time_ms, stamp=0)
            self._frames.append(frame)
            self._records += iter_frames(frame)
        return first

    def prepare(self) -> None:
        """Nothing to allocate."""

    def start(self) -> int:
        """Returns the offset of the oldest kept record."""
        return self._first

    def durable_end(self) -> int:
        """The next offset."""
        return self._first + len(self._records)

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields records with ``from_offset <= offset < to_offset``, except damaged ones."""
        low, high = self._index(from_offset), self._index(to_offset)
        yield from (record for record in self._records[low:high] if record.offset >= 0)

    def offset_within(self, bytes_max: int) -> int:
        """Returns the start of the newest frames of at most *bytes_max* bytes; one at least."""
        size = 0
        for index in reversed(range(len(self._frames))):
            size += len(self._frames[index])
            if size > bytes_max:
                return self._first + min(index + 1, len(self._frames) - 1)
        return self._first

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Returns frames of at most *bytes_max* bytes, at least one, and the next offset."""
        if from_offset >= self.durable_end():
            return b"", from_offset
        start = stop = self._index(from_offset)
        end = self._index(self.durable_end())
        size = 0
        while stop < end and (stop == start or size <= bytes_max):
            size += len(self._frames[stop])
            stop += 1
        if stop > start + 1 and size > bytes_max:
            stop -= 1
        return b"".join(self._frames[start:stop]), self._first + stop

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """As ``read``, of one kind."""
        return (record for record in self.read(from_offset, to_offset) if record.kind == kind)

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset of that time or later; the end where none is."""
        return self._first + bisect_left(self._records, time_ms, key=lambda r: r.time_ms)

    def damages(self) -> tuple[Damage, ...]:
        """Memory takes no damage."""
        return ()

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """Returns the routes in force at the last cut."""
        return self._snapshot

    def retain(self, keep_from_offset: int, snapshot_at_cut: Callable[[int], bytes]) -> None:
        """Delete all records below *keep_from_offset*; keeps the result of *snapshot_at_cut*."""
        index = self._index(keep_from_offset)
        if index:
            cut = self._first + index
            self._snapshot = cut, snapshot_at_cut(cut)
            del self._frames[:index], self._records[:index]
            self._first = cut

    def drop(self, before_offset: int) -> None:
        """As ``retain``, with a snapshot of the routes in force there."""
        self.retain(before_offset, self._routes_at)

    def _routes_at(self, offset: int) -> bytes:
        before = self._snapshot
        table = RouteTable() if before is None else RouteTable.restore(before[1])
        for logged in self.kinds(0 if before is None else before[0], offset, RecordKind.ROUTE):
            table.apply(decode_route(logged.body))
        return table.snapshot()

    def lose_tail(self, from_offset: int) -> None:
        """Lose acknowledged records from *from_offset* on; their offsets are used again."""
        index = self._index(from_offset)
        del self._frames[index:], self._records[index:]

    def damage(self, offset: int) -> None:
        """Make the record at *offset* unreadable: readers skip it."""
        index = self._index(offset)
        self._frames[index] = b""
        self._records[index] = self._records[index]._replace(offset=-1)

    def reopen(self) -> None:
        """Memory has nothing to open again."""

    def close(self) -> None:
        """Nothing is held."""

    def _index(self, offset: int) -> int:
        return min(max(offset - self._first, 0), len(self._records))


class LaggingLog(MemoryLog):
    """One whose durable end is seen late, as that of a replicated log; readers may find it away.

    Attributes:
        away_until_s: Until then ``reader``s fail, by the monotonic clock.
    """

    away_until_s = 0.0

    _seen: int | None = None

    def reader(self) -> "AwayReader":
        """Returns a reader beside the live path."""
        return AwayReader(self, self._clock)

    def lag(self) -> None:
        """Show no record that is appended from now on, until ``catch_up``."""
        if self._seen is None:
            self._seen = self.durable_end()

    def catch_up(self) -> None:
        """Show all records."""
        self._seen = None

    def append(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """See ``MemoryLog.append``."""
        seen, self._seen = self._seen, None
        first = super().append(entries)
        self._seen = seen
        return first

    def durable_end(self) -> int:
        """The offset after the last record that is shown."""
        return super().durable_end() if self._seen is None else self._seen


class AwayReader:
    """A reader of a ``LaggingLog`` that fails while the log is away; see ``ports.Records``."""

    def __init__(self, log: LaggingLog, clock: Clock) -> None:
        self._log = log
        self._clock = clock

    def _there(self) -> LaggingLog:
        if self._clock.monotonic_s() < self._log.away_until_s:
            raise LogUnavailableError("the simulated log is away")
        return self._log

    def start(self) -> int:
        """See ``MemoryLog``."""
        return self._there().start()

    def durable_end(self) -> int:
        """See ``LaggingLog``."""
        return self._there().durable_end()

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """See ``LaggingLog``."""
        return self._there().read_chunk(from_offset, bytes_max)

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """See ``MemoryLog``."""
        return self._there().read(from_offset, to_offset)

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """See ``MemoryLog``."""
        return self._there().kinds(from_offset, to_offset, kind)

    def offset_at(self, time_ms: int) -> int:
        """See ``MemoryLog``."""
        return self._there().offset_at(time_ms)

    def offset_within(self, bytes_max: int) -> int:
        """See ``MemoryLog``."""
        return self._there().offset_within(bytes_max)

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """See ``MemoryLog``."""
        return self._there().route_snapshot()

    def close(self) -> None:
        """Nothing is held."""
