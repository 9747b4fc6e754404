"""Group commit of a partition's state: one flush at a time writes all changes since the last.

Retry rows, backfills and dead letters are written to the store first, then outcomes and cursor to
the journal (DESIGN rule 1, the cursor). Requests to the reservation store, and rows of the history,
accompany the flush.
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
from distributary.partitions._history import History
from distributary.partitions._reservations import ReservationClient
from distributary.partitions._unwritten import Unwritten
from distributary.partitions.ports import Blocking

FLUSH_S = 0.01
"""Delay until outcomes are flushed (DESIGN promise 3, one final outcome)."""
FLUSH_AWAY_S = 0.04
"""Delay until outcomes are flushed to another machine, if nothing else is to be flushed: such a
flush costs more CPU than twenty deliveries, so it is to have many. Reservations wait for a flush,
and rows may: these go after ``FLUSH_S``, with the outcomes."""
FLUSH_COUNT = 1_000
"""Outcomes that start a flush at once."""
FEW_COUNT = 32
"""Outcomes of a flush that the loop itself may write: with more, deliveries are many, and the loop
has better to do than to wait for the disk."""
CURSOR_S = 0.2
"""Interval of writing a cursor that moved without outcomes: it only shortens a restart."""


@dataclass(frozen=True, slots=True)
class Point:
    """The consumer's position at a flush: a consistent snapshot, taken on the loop.

    Attributes:
        mark: The live cursor.
        backfills: Rows of backfills that moved.
        backfilling: Lowest offset that backfills still need, by route; and that replays need.
        runs: Progress of replays that moved.
    """

    mark: Mark
    backfills: tuple[BackfillRow, ...] = ()
    backfilling: dict[str, int] = field(default_factory=dict)
    runs: tuple[RunRow, ...] = ()


Forgettable: TypeAlias = tuple[list[DoneKey], list[tuple[str, int]]]
"""Keys of finished rows, and names of ended backfills."""


class Flusher:
    """Collects changes and flushes them.

    Args:
        ownership: Writes the flushes.
        reservations: Client of the reservation store.
        blocking: Runs the flush in a thread.
        journaling: Runs a flush of few outcomes and no rows, which is one write and one sync.
        timers: For the flush interval.
        clock: For the interval of cursors.
        point: Returns the consumer's position; called once a flush.
        forgettable: Returns finished rows and backfills that the cursor of a point has passed.
        failed: Called once when a flush fails: the consumer must start no more attempts.
        given_up: Called with the dead letters that budgets ended.
        history: Its rows ride in the flushes.
        unwritten: Counts the events that are not durable.
    """

    def __init__(
        self,
        ownership: Ownership,
        reservations: ReservationClient,
        *,
        blocking: Blocking,
        journaling: Blocking,
        timers: Timers,
        clock: Clock,
        point: Callable[[], Point],
        forgettable: Callable[[Point], Forgettable],
        failed: Callable[[StoreError], None],
        given_up: Callable[[list[GivenUp]], None],
        history: History,
        unwritten: Unwritten,
    ) -> None:
        self._ownership = ownership
        self._reservations = reservations
        self._blocking = blocking
        self._journaling = journaling
        self._clock = clock
        self._point = point
        self._forgettable = forgettable
        self._failed = failed
        self._given_up = given_up
        self._history = history
        self.unwritten = unwritten
        self._filed = ownership.state.filed
        self._changes = Changes()
        self._writing = Changes()  # of the flush under way
        self._done: list[tuple[DoneKey, int]] = []
        self._caught_up: list[tuple[DoneKey, int]] = []
        self._durable = Point(ownership.state.mark)
        self._flushing = False
        self._due = Soon(timers, self.flush)
        local = ownership.local
        self._outcomes_s = FLUSH_S if local else FLUSH_AWAY_S
        self._outcomes_due = self._due if local else Soon(timers, self.flush)
        self.dead = False
        """Whether a flush has failed: nothing more becomes durable."""
        self._cursor_s = clock.monotonic_s()
        self._idle: list[Callable[[], None]] = []
        self.flush_count = 0
        self.begun_round = 0
        """Flushes begun, those without anything to write included."""
        self.durable_round = 0
        """The last of them that is durable (or had nothing to write)."""

    @property
    def durable_mark(self) -> Mark:
        """The durable cursor."""
        return self._durable.mark

    def durable_floor(self, route: str) -> int | None:
        """The lowest record that backfills of *route* still needed at the last flush."""
        return self._durable.backfilling.get(route)

    def done(self, key: DoneKey, checksum: int) -> None:
        """Record the final outcome of a match of the live path."""
        done = self._done
        done.append((key, checksum))
        if len(done) >= FLUSH_COUNT:
            self.flush()
        elif not self._outcomes_due.due:
            self._arm_outcomes()

    def backfilled(self, key: DoneKey, checksum: int) -> None:
        """Record the final outcome of a match of a backfill."""
        self._caught_up.append((key, checksum))
        if len(self._caught_up) >= FLUSH_COUNT:
            self.flush()
        else:
            self._arm_outcomes()

    def put_row(self, row: RetryRow) -> None:
        """Write a retry row, which may be done."""
        if row.event == IN_STORE and row.key in self._changes.rows:
            row = row._replace(event=self._changes.rows[row.key].event)  # It is on its way there.
        self._changes.rows[row.key] = row
        if row.event:
            self.unwritten.grow(len(row.event))
        self._arm()

    def brings_event(self, key: DoneKey) -> bool:
        """Whether an event of the row of *key* is not durable yet: the store may have an older."""
        rows = (self._changes.rows.get(key), self._writing.rows.get(key))
        return any(row is not None and row.event for row in rows)

    def put_backfill(self, backfill: BackfillRow) -> None:
        """Write the row of a backfill."""
        self._changes.backfills[backfill.name] = backfill
        self._arm()

    def end_backfill(self, name: tuple[str, int]) -> None:
        """Delete the row of a backfill that has caught up."""
        self._changes.backfills[name] = None
        self._arm()

    def keep(self, dead_letter: DeadLetter) -> None:
        """Store a dead letter."""
        self._changes.dead_letters.append(dead_letter)
        self.unwritten.grow(len(dead_letter.event))
        self._arm()

    def take_dead_letter(self, key: DoneKey) -> None:
        """Delete the kept dead letter of a match, whose event a row now has."""
        self._changes.taken.append(key)

    def put_run(self, row: RunRow) -> None:
        """Write the progress of a run of kept dead letters."""
        self._changes.runs[row.seq] = row
        self._arm()

    def put_parked(self, route: str, row: ParkedRow | None) -> None:
        """Write that a route is parked; None: that it is resumed."""
        self._changes.parked[route] = row
        self._arm()

    def forget(self, key: DoneKey) -> None:
        """Delete a void row, which was never done."""
        self._changes.rows.pop(key, None)
        self._changes.forget.append(key)
        self._arm()

    def ask(self) -> None:
        """Schedule a flush: for requests of reservations, news of the history, or a replay."""
        self._arm()

    def moved(self) -> None:
        """Schedule a flush where the cursor may have moved."""
        if not self._due.due and self._clock.monotonic_s() - self._cursor_s >= CURSOR_S:
            self._arm()

    def tick(self) -> None:
        """Flush a cursor that has moved since ``CURSOR_S``; called a few times a second.

        Without the delay of other flushes: the timer would wake an idle owner once more.
        """
        now_s = self._clock.monotonic_s()
        self.unwritten.tick(now_s)
        if not self._due.due and now_s - self._cursor_s >= CURSOR_S:
            self.flush()

    def _arm(self) -> None:
        if not self._flushing and not self.dead:
            self._due.ask(FLUSH_S)

    def _arm_outcomes(self) -> None:
        if not self._flushing and not self.dead:
            self._outcomes_due.ask(self._outcomes_s)

    def flush(self) -> None:
        """Flush everything so far; during a flush, another follows it."""
        if self._flushing or self.dead:
            return
        self.begun_round += 1
        point = self._point()
        batch = self._collect(point)
        self.unwritten.write()
        few = max(len(batch.done), batch.history[0]) <= FEW_COUNT
        small = few and not batch.changes and not self._reservations.waiting
        asked = self._reservations.take()
        self._cursor_s = self._clock.monotonic_s()
        news = batch.changes or batch.done or batch.history[0] or batch.filed > self._filed
        if not news and point.mark == self._durable.mark:
            self.durable_round = self.begun_round
            self._reservations.after(asked)
            self.unwritten.written()
            self._call_idle()
            return
        self._flushing = True
        self._writing = batch.changes
        given_up: list[GivenUp] = []

        def finished(error: StoreError | None) -> None:
            self._flushing = False
            if error is not None:
                self.dead = True
                self._failed(error)
                self._call_idle()
                return
            self._writing = Changes()
            self.flush_count += 1
            self.durable_round = self.begun_round
            self._durable = point
            self._filed = batch.filed
            self._history.flushed(batch.history, batch.filed)
            self._reservations.after(asked)
            if given_up:
                self._given_up(given_up)
            self.unwritten.written()
            self._again()

        def write() -> None:
            self._reservations.before(asked)
            given_up.extend(self._ownership.flush(batch))

        (self._journaling if small else self._blocking).run(write, finished)

    def _collect(self, point: Point) -> Batch:
        """Collect all changes since the last flush."""
        changes, self._changes = self._changes, Changes()
        for backfill in point.backfills:
            changes.backfills[backfill.name] = (
                backfill  # As it stands now, also where it has just begun.
            )
        changes.runs.update((row.seq, row) for row in point.runs)
        rows, ended = self._forgettable(self._durable)
        for key in rows:
            changes.rows.pop(key, None)  # Else it would come after it is forgotten.
        changes.forget.extend(rows)
        changes.backfills.update(dict.fromkeys(ended))
        # What the cursor covers need not be said again.
        done = [(key, crc) for key, crc in self._done if key.offset >= point.mark.offset]
        done += self._caught_up
        self._done = []
        self._caught_up = []
        history = self._history
        return Batch(
            point.mark, done, changes, point.backfilling, history.take(), filed=history.filed
        )

    def _again(self) -> None:
        if len(self._done) >= FLUSH_COUNT or self._idle:
            self.flush()
        elif self._changes or self._reservations.waiting or self._history.filed > self._filed:
            self._arm()
        elif self._done or self._caught_up:
            self._arm_outcomes()

    def when_durable(self, then: Callable[[], None]) -> None:
        """Call *then* once everything so far is durable, or a flush has failed."""
        self._idle.append(then)
        if self.dead:
            self._call_idle()
        else:
            self.flush()

    def _call_idle(self) -> None:
        waiting, self._idle = self._idle, []
        for then in waiting:
            then()
