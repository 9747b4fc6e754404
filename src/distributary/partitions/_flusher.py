"""What a partition's owner has to make durable, and the flush that does it.

Everything that happened since the last flush goes in together: retry rows, backfills and dead
letters into the store first, then the cursor and the outcomes into the journal (DESIGN
rule 1). What the store of counts is asked and told goes along. One flush at a time; the next takes
all that came meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from distributary.core.clock import Clock
from distributary.core.deliver import Soon, Timers
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.outcome import (
    IN_STORE,
    BackfillRow,
    Batch,
    Changes,
    DeadLetter,
    GivenUp,
    Ownership,
    ParkedRow,
    RetryRow,
    RunRow,
)
from distributary.partitions._quota import QuotaClient
from distributary.partitions.ports import Blocking

FLUSH_S = 0.01
"""Outcomes are durable this soon (DESIGN promise 3)."""
FLUSH_COUNT = 1_000
"""...or when this many wait, whichever is first."""
CURSOR_S = 0.2
"""A cursor that moved without outcomes is written this often: it only shortens a restart."""


@dataclass(frozen=True, slots=True)
class Point:
    """Where the owner stands at a flush: taken on the loop, in one instant.

    Attributes:
        mark: The live cursor.
        backfills: Rows of backfills whose position moved.
        backfilling: For each backfilled route the lowest offset that its backfills still need.
    """

    mark: Mark
    backfills: tuple[BackfillRow, ...] = ()
    backfilling: dict[str, int] = field(default_factory=dict)


Forgettable: TypeAlias = tuple[list[DoneKey], list[tuple[str, int]]]
"""Matches of finished rows, and names of backfills that have ended."""


class Flusher:
    """Collects changes and flushes them.

    Args:
        ownership: Takes the flushes.
        quota: Tells and asks the store of counts.
        blocking: Runs the flush beside the loop.
        timers: For the flush interval.
        clock: Likewise.
        point: Gives the owner's position; called once a flush.
        forgettable: Gives finished rows, and backfills, that the cursor *at that mark* has passed.
        failed: Called once when a flush fails: the owner must start nothing any more.
        given_up: Takes what budgets ended.
    """

    def __init__(
        self,
        ownership: Ownership,
        quota: QuotaClient,
        *,
        blocking: Blocking,
        timers: Timers,
        clock: Clock,
        point: Callable[[], Point],
        forgettable: Callable[[Point], Forgettable],
        failed: Callable[[StoreError], None],
        given_up: Callable[[list[GivenUp]], None],
    ) -> None:
        self._ownership = ownership
        self._quota = quota
        self._blocking = blocking
        self._clock = clock
        self._point = point
        self._forgettable = forgettable
        self._failed = failed
        self._given_up = given_up
        self._changes = Changes()
        self._done: list[tuple[DoneKey, int]] = []
        self._caught_up: list[tuple[DoneKey, int]] = []
        self._durable = Point(ownership.state.mark)
        self._flushing = False
        self._due = Soon(timers, self.flush)
        self.dead = False
        """A flush has failed: nothing more will be durable."""
        self._cursor_s = clock.monotonic_s()
        self._idle: list[Callable[[], None]] = []
        self.flush_count = 0
        self.begun_round = 0
        """Flushes that were begun, those that found nothing to write included."""
        self.durable_round = 0
        """The last of them that is on the medium (or had nothing to bring there)."""

    @property
    def durable_mark(self) -> Mark:
        """The cursor that is on the medium."""
        return self._durable.mark

    def done(self, key: DoneKey, checksum: int) -> None:
        """A match that the live reader brought has its final outcome."""
        self._done.append((key, checksum))
        self._arm(at_once=len(self._done) >= FLUSH_COUNT)

    def backfilled(self, key: DoneKey, checksum: int) -> None:
        """A match that the backfill brought has its final outcome."""
        self._caught_up.append((key, checksum))
        self._arm(at_once=len(self._caught_up) >= FLUSH_COUNT)

    def put_row(self, row: RetryRow) -> None:
        """A match waits as this row (or the row is done)."""
        if row.event == IN_STORE and row.key in self._changes.rows:
            row = row._replace(event=self._changes.rows[row.key].event)  # It is on its way there.
        self._changes.rows[row.key] = row
        self._arm()

    def put_backfill(self, backfill: BackfillRow) -> None:
        """A route is backfilled as this row says."""
        self._changes.backfills[backfill.name] = backfill
        self._arm()

    def end_backfill(self, name: tuple[str, int]) -> None:
        """A backfill has been caught up."""
        self._changes.backfills[name] = None
        self._arm()

    def keep(self, dead_letter: DeadLetter) -> None:
        """An event could not be delivered and is kept."""
        self._changes.dead_letters.append(dead_letter)
        self._arm()

    def take_dead_letter(self, key: DoneKey) -> None:
        """The kept dead letter of this match is not kept any more: a row has its event."""
        self._changes.taken.append(key)

    def put_run(self, row: RunRow) -> None:
        """A run of kept dead letters is as far as this."""
        self._changes.runs[row.seq] = row
        self._arm()

    def put_parked(self, route: str, row: ParkedRow | None) -> None:
        """A route is parked; None: it is not any more."""
        self._changes.parked[route] = row
        self._arm()

    def forget(self, key: DoneKey) -> None:
        """A row is void: it goes without having been done."""
        self._changes.rows.pop(key, None)
        self._changes.forget.append(key)
        self._arm()

    def ask_quota(self) -> None:
        """There is something that the store of counts is to be asked, or told."""
        self._arm()

    def moved(self) -> None:
        """The cursor may have moved: flush in a while."""
        if not self._due.due and self._clock.monotonic_s() - self._cursor_s >= CURSOR_S:
            self._arm()

    def _arm(self, *, at_once: bool = False) -> None:
        if at_once:
            self.flush()
        elif not self._flushing and not self.dead:
            self._due.ask(FLUSH_S)

    def flush(self) -> None:
        """Start a flush of everything so far, unless one is under way (then one follows it)."""
        if self._flushing or self.dead:
            return
        self.begun_round += 1
        point = self._point()
        batch = self._collect(point)
        asked = self._quota.take()
        self._cursor_s = self._clock.monotonic_s()
        if not (batch.changes or batch.done) and point.mark == self._durable.mark:
            self.durable_round = self.begun_round
            self._quota.after(asked)
            self._call_idle()
            return
        self._flushing = True
        given_up: list[GivenUp] = []

        def finished(error: StoreError | None) -> None:
            self._flushing = False
            if error is not None:
                self.dead = True
                self._failed(error)
                self._call_idle()
                return
            self.flush_count += 1
            self.durable_round = self.begun_round
            self._durable = point
            self._quota.after(asked)
            if given_up:
                self._given_up(given_up)
            self._again()

        def write() -> None:
            self._quota.before(asked)
            given_up.extend(self._ownership.flush(batch))

        self._blocking.run(write, finished)

    def _collect(self, point: Point) -> Batch:
        """All that came since the last flush."""
        changes, self._changes = self._changes, Changes()
        for backfill in point.backfills:
            changes.backfills[backfill.name] = (
                backfill  # As it stands now, also where it has just begun.
            )
        rows, ended = self._forgettable(self._durable)
        changes.forget.extend(rows)
        changes.backfills.update(dict.fromkeys(ended))
        # What the cursor covers need not be said again.
        done = [(key, crc) for key, crc in self._done if key.offset >= point.mark.offset]
        done += self._caught_up
        self._done = []
        self._caught_up = []
        return Batch(point.mark, done, changes, point.backfilling)

    def _again(self) -> None:
        if len(self._done) >= FLUSH_COUNT or self._idle:
            self.flush()
        elif self._done or self._caught_up or self._changes or self._quota.waiting:
            self._arm()

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call *then* when everything up to now is durable (or the flusher is dead)."""
        self._idle.append(then)
        if self.dead:
            self._call_idle()
        else:
            self.flush()

    def _call_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for then in waiting:
            then()
