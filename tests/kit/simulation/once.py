"""A simulation of a partition of a shared log whose readers find repeats.

As ``shared``, with a window in which an event is taken once: publishers repeat what was
answered or was not, and appends that are answered late are stored twice. Nobody expects a repeat:
the checkers of every promise fail where one is delivered, or where a first one is not.

Called by ``runs`` and tests.
"""

import dataclasses
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from distributary.core.clock import Clock
from distributary.core.flow import TTL_DEFAULT, Logged, RecordKind
from distributary.core.log.repeats import Stretch
from distributary.core.log.taken import OnceLimits
from distributary.partitions._once import Once
from distributary.partitions.context import PartitionContext
from distributary.partitions.ports import Records
from distributary.testing.memory_log import LaggingLog, MemoryLog
from kit.simulation.life import Life
from kit.simulation.ports import LifeTimers
from kit.simulation.shared import SharedPartition

__all__ = ["LIMITS", "OncePartition", "RepeatedLog"]

_PUBLISHED: Final = frozenset({RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED})

LIMITS = OnceLimits(20.0, 60)
"""Of the window: runs leave it by age and by count."""


class _Appended(NamedTuple):
    """A record of one published event, and when it was appended last."""

    kind: int
    body: bytes
    offset: int
    time_ms: int


class RepeatedLog(LaggingLog):
    """A log whose publishers repeat events within ``LIMITS``, and whose appends are stored twice.

    Args:
        clock: Stamps the records.
        chance: Draws what is repeated.

    Attributes:
        stored_twice: So many of the next records are in the log twice: they were answered late.
        repeats: Offsets of the repeats.
    """

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        super().__init__(clock)
        self._chance = chance
        self.stored_twice = 0
        self.repeats: set[int] = set()
        self._appended: list[_Appended] = []

    def append(self, entries: Sequence[tuple[int, bytes]]) -> int:
        """See ``MemoryLog.append``."""
        offset = super().append(entries)
        ((kind, body),) = entries
        if kind in _PUBLISHED:
            self._appended.append(_Appended(kind, body, offset, self.time_ms(offset)))
            if self.stored_twice:
                self.stored_twice -= 1
                self._repeat(len(self._appended) - 1)
        return offset

    def publish_again(self) -> None:
        """Append an event again that was published within the window, if there is one."""
        if self._appended:
            count = len(self._appended)
            # Of late most often, as publishers do; some at the edge of the window.
            back = min(self._chance.choice([1, 2, 5, 20, LIMITS.count_max]), count)
            self._repeat(count - 1 - self._chance.randrange(back))

    def _repeat(self, index: int) -> None:
        kind, body, before, since_ms = self._appended[index]
        end = MemoryLog.durable_end(self)
        newest_ms = max(self._clock.wall_ms(), self.time_ms(end - 1))
        if end - before > LIMITS.count_max or newest_ms - since_ms > LIMITS.age_max_s * 1000:
            return  # It would be another event.
        offset = super().append([(kind, body)])
        self._appended[index] = _Appended(kind, body, offset, self.time_ms(offset))
        self.repeats.add(offset)

    def time_ms(self, offset: int) -> int:
        """When the record at *offset* was appended, shown or not."""
        return next(MemoryLog.read(self, offset, offset + 1)).time_ms

    def drop(self, before_offset: int) -> None:
        """See ``MemoryLog.drop``: as where retention is no shorter than the window."""
        since_ms = self.time_ms(before_offset - 1) - int(LIMITS.age_max_s * 1000)
        young = min(self.offset_at(since_ms), before_offset)
        super().drop(max(before_offset - LIMITS.count_max, young, self.start()))


class OncePartition(SharedPartition):
    """A partition whose events are taken once within ``LIMITS``; each is a record of its own.

    Args:
        folder: For status pages and counts.
        seed: Of every chance in it.

    Attributes:
        judged_past: Repeats that backfills and replays have met.
        kept_windows: How often an owner began with the ids of the one before in its process.
    """

    log: RepeatedLog

    def __init__(self, folder: Path, seed: int = 0) -> None:
        super().__init__(folder, seed)
        self.log = RepeatedLog(self.clock, self._chance)
        self.judged_past = self.kept_windows = 0
        self._onces: dict[LifeTimers, _Watched] = {}
        self._kept: Stretch | None = None

    def publish(self, *types: str, address: str = "", ttl: int = TTL_DEFAULT) -> list[str]:
        """See ``Partition.publish``: a record for each event."""
        ids: list[str] = []
        for name in types:
            ids += super().publish(name, address=address, ttl=ttl)
        return ids

    # -- owners --------------------------------------------------------------------------------

    def _adapted(self, context: PartitionContext, timers: LifeTimers) -> PartitionContext:
        context = super()._adapted(context, timers)
        begins = True

        def records() -> Records:
            # Where the log is away at its begin, an owner ends, and another one is started.
            return self.log if begins else self.log.reader()

        once = _Watched(
            LIMITS, records, clock=self.clock, meter=context.meter, report=context.report
        )
        kept, self._kept = self._kept, None
        if self._chance.random() < 0.5:
            kept = None  # on another machine
        self.kept_windows += kept is not None
        once.begin(context.ownership.state.mark.offset, kept)
        begins = False
        self._onces[timers] = once
        return dataclasses.replace(context, once=once)

    def _end(self, life: Life) -> None:
        super()._end(life)
        once = self._onces.pop(life.timers)
        self.judged_past += once.past_count
        self._kept = once.end()

    def _retire(self, life: Life, last_attempt_s: float) -> None:
        super()._retire(life, last_attempt_s)
        self._kept = None  # the former owner goes on with its window


class _Watched(Once):
    """Counts what readers of the past meet."""

    past_count = 0

    def _repeats(self, logged: Logged, at: int) -> bool:
        found = super()._repeats(logged, at)
        self.past_count += found
        return found
