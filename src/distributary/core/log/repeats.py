"""Which records of a partition are repeats, where many processes append to it: its readers decide.

A record is a *repeat* if an earlier one of its partition has the same event (``id_of``), and of the
newest such one it is true that

- fewer than ``count_max`` records are between the two, and
- no record from the earlier one up to this one is more than ``age_max_s`` younger than the earlier.

That is a pure function of the log, whatever the clocks of its brokers do: every reader finds the
same, wherever it begins, once it has looked back over one window. What has left the window of one
record has left it for all behind. A repeat counts as an earlier record itself, so no reader needs
more than one window. A record of several events, which a receiver
without a window has appended, is never a repeat; its events count for later ones.

Caller: ``partitions``. Pure, but for ``look_back``, which reads.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from distributary.core.errors import EventError, LogUnavailableError
from distributary.core.flow import Logged
from distributary.core.log.recalled import ABSENT
from distributary.core.log.taken import OnceLimits, ids_of

PARTS: Final = 8
"""A window is forgotten by this part, so at most this part more of it is in memory: to forget each
id by itself would take a list of all of them, which the collector of garbage walks through."""

ANCHOR_RECORDS: Final = 64
"""Records below a place among which the newest tells where the window begins; more may be damaged,
and then the whole count is read."""

TOLD_RECORDS: Final = 250_000
"""Records of a look back after which it tells how far it is: some seconds."""

_TIME_BITS: Final = 48
_TIME_MASK: Final = (1 << _TIME_BITS) - 1


class Looked(Protocol):
    """A reader of one partition, as ``look_back`` uses it."""

    def start(self) -> int:
        """Returns the offset of the oldest record kept."""

    def durable_end(self) -> int:
        """Returns the offset after the last durable record."""

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields records of ``from_offset <= offset < to_offset``; skips gaps."""

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset appended at *time_ms* or later; the end where none was."""


class _Part:
    """Consecutive records of a window.

    Attributes:
        last: By id: offset and time of its newest record in the part, as one number.
        first: Offset of its first record.
        end: After its last one.
        begin_ms: Time of its first record.
        newest_ms: Time of its youngest record.
    """

    __slots__ = ("begin_ms", "end", "first", "last", "newest_ms")

    def __init__(self, offset: int, time_ms: int) -> None:
        self.last: dict[bytes, int] = {}
        self.first, self.end = offset, offset + 1
        self.begin_ms = self.newest_ms = time_ms


class RepeatWindow:
    """The ids of the records below a place, as far as records from there on can repeat them.

    Args:
        limits: Bounds of the window. Each id takes some 180 bytes of memory.
        at: Where it begins: as if there were no record below.

    Attributes:
        at: Offset after the last record that was taken.
    """

    def __init__(self, limits: OnceLimits, at: int) -> None:
        assert limits.count_max >= 1
        self.at = at
        self._age_max_ms = int(limits.age_max_s * 1000)
        self._count_max = limits.count_max
        self._part_ms = self._age_max_ms // PARTS + 1
        self._part_records = limits.count_max // PARTS + 1
        self._parts: list[_Part] = []  # the newest is the first
        # Records that are younger than all behind them, oldest first: one, while times grow.
        self._peak_offsets: list[int] = []
        self._peak_ms: list[int] = []

    def __len__(self) -> int:
        """How many ids are in memory; one that was repeated may count several times."""
        return sum(len(part.last) for part in self._parts)

    def take(self, logged: Logged) -> bool:
        """Take the next record; returns whether it is a repeat."""
        offset, time_ms = logged.offset, max(logged.time_ms, 0)
        assert offset >= self.at
        self.at = offset + 1
        self._pass(offset, time_ms)
        try:
            ids = ids_of(logged)
        except EventError:
            return False  # of a newer version: its delivery reports it
        repeats = len(ids) == 1 and self._has(ids[0], offset)
        if ids:
            stamp = offset << _TIME_BITS | time_ms
            last = self._parts[0].last
            for each in ids:
                last[each] = stamp
        return repeats

    def parts(self) -> list[object]:
        """What the window has in memory; it is not used any more."""
        parts, self._parts = self._parts, []
        return list(parts)

    def _has(self, taken: bytes, offset: int) -> bool:
        for part in self._parts:
            stamp = part.last.get(taken)
            if stamp is not None:  # of the newest record with it
                earlier, time_ms = stamp >> _TIME_BITS, stamp & _TIME_MASK
                if offset - earlier > self._count_max:
                    return False
                return self._newest_ms(earlier) - time_ms <= self._age_max_ms
        return False

    def _newest_ms(self, offset: int) -> int:
        """Time of the youngest record from *offset* on."""
        if len(self._peak_ms) == 1:
            return self._peak_ms[0]
        return self._peak_ms[bisect_left(self._peak_offsets, offset)]

    def _pass(self, offset: int, time_ms: int) -> None:
        """Take note of the time of a record, and forget what none from here on can repeat."""
        offsets, times = self._peak_offsets, self._peak_ms
        while times and times[-1] <= time_ms:
            times.pop()
            offsets.pop()
        times.append(time_ms)
        offsets.append(offset)
        parts = self._parts
        newest = parts[0] if parts else None
        if (
            newest is not None
            and offset - newest.first < self._part_records
            and abs(time_ms - newest.begin_ms) < self._part_ms
        ):
            newest.end = offset + 1
            newest.newest_ms = max(newest.newest_ms, time_ms)
            return
        parts.insert(0, _Part(offset, time_ms))
        floor = offset - self._count_max
        cut = bisect_left(offsets, floor)
        del times[:cut], offsets[:cut]
        while len(parts) > 1 and self._is_over(parts[-1], floor):
            parts.pop()

    def _is_over(self, part: _Part, floor: int) -> bool:
        """Whether no record from here on can repeat one of *part*, which is not the newest."""
        too_old = self._newest_ms(part.end) - part.newest_ms > self._age_max_ms
        return part.end <= floor or too_old


class Stretch:
    """Consecutive records that were taken, and which of them are repeats.

    For one thread at a time, but ``repeats`` may be asked from another one.

    Args:
        window: At its beginning.

    Attributes:
        first: Offset of its first record.
        window: At its end; None: that was given up, and it grows no more.
    """

    REPEATS_MAX: Final = 500_000
    """Offsets of repeats in memory, 36 bytes each; of more, the lower half is forgotten."""

    def __init__(self, window: RepeatWindow) -> None:
        self.first = self._end = window.at
        self.window: RepeatWindow | None = window
        self._repeats: list[int] = []

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self._end

    def repeats(self, offset: int) -> bool | None:
        """Whether the record at *offset* is a repeat; None: it is not in the stretch."""
        if not self.first <= offset < self._end:
            return None
        found = self._repeats
        index = bisect_left(found, offset)
        repeats = index < len(found) and found[index] == offset
        # Read again: what is below may have been forgotten meanwhile.
        return repeats if self.first <= offset else None

    def take(self, logged: Logged) -> bool:
        """Take the next record; returns whether it is a repeat."""
        assert self.window is not None
        repeats = self.window.take(logged)
        if repeats:
            self._repeats.append(logged.offset)
            if len(self._repeats) > self.REPEATS_MAX:
                half = len(self._repeats) // 2
                self.first = self._repeats[half]
                self._repeats = self._repeats[half:]
        self._end = logged.offset + 1
        return repeats

    def give_up(self) -> list[object]:
        """Grow no more; returns the parts of the window, each of which takes 4 ms to free."""
        window, self.window = self.window, None
        return [] if window is None else window.parts()

    def pass_to(self, offset: int) -> None:
        """Take note that there is no record from ``end`` up to *offset*."""
        assert self.window is not None
        self._end = self.window.at = max(self._end, offset)


def passed_over(logged: Logged) -> Logged:
    """A repeat as readers see it: a record at its place that they pass over."""
    return logged._replace(kind=ABSENT, body=b"")


def look_back(
    records: Looked,
    at: int,
    limits: OnceLimits,
    tell: Callable[[int, int], None] = lambda _read, _left: None,
) -> RepeatWindow:
    """Returns the window at *at*, from the records below; blocks, 8 s of CPU a million of them.

    Args:
        records: Reads the partition.
        at: Offset of the first record that is to be taken.
        limits: Bounds of the window.
        tell: Called every ``TOLD_RECORDS`` with how many were read, and how many are left at most.

    Raises:
        LogUnavailableError: The log cannot be read now, or is seen to end below *at*.
    """
    if (end := records.durable_end()) < at:
        raise LogUnavailableError(f"the log is seen to end at {end}, below {at}")
    floor = max(records.start(), at - limits.count_max)
    if floor >= at:
        return RepeatWindow(limits, at)
    newest = None
    for newest in records.read(max(floor, at - ANCHOR_RECORDS), at):  # noqa: B007 - the last one
        pass
    first = floor
    if newest is not None:
        # Whatever is older is too old for all from here on, as that one stands between. A
        # millisecond more: an index of Kafka may begin at the last of several of one time.
        since_ms = newest.time_ms - int(limits.age_max_s * 1000) - 1
        first = max(floor, min(records.offset_at(since_ms), at))
    window = RepeatWindow(limits, first)
    for count, logged in enumerate(records.read(first, at), 1):
        window.take(logged)
        if count % TOLD_RECORDS == 0:
            tell(count, at - logged.offset)
    window.at = at
    return window
