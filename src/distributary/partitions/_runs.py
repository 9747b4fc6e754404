"""Runs: redrives and purges of kept dead letters, requested by operators, in slices.

A run covers the dead letters kept when this owner first saw it. A redrive turns each into a row
that is due now, with its event, in the transaction that deletes the dead letter. One that fails
again becomes a dead letter with a newer number, outside this run.
"""

from collections import deque
from itertools import islice, takewhile
from typing import Final

from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.errors import EventError, StoreError
from distributary.core.event import record as event_record
from distributary.core.flow import Demand, Stage
from distributary.core.outcome import KeptDeadLetter, RetryRow, RunRow
from distributary.core.route import WalkMatcher
from distributary.partitions._flusher import Flusher
from distributary.partitions.context import PartitionContext

SLICE: Final = 64
"""Dead letters read at once: up to 1 MiB each."""
ROWS_SHARE: Final = 0.5
"""A run pauses while a route, or all together, use this share of their limit of rows."""
LOOK_COUNT: Final = 256
"""Demands looked up at once, some 0.1 ms each: each new owner looks up all that are remembered,
nearly all of them done."""


class Runs:
    """Executes the runs of a partition in turn; one that must wait goes to the end of the queue.

    Args:
        context: Ports of the consumer.
        flusher: Makes rows and the progress of runs durable.
        state: Holds the waiting rows.
        engine: Attempts rows.
    """

    def __init__(
        self, context: PartitionContext, flusher: Flusher, state: PartitionState, engine: Engine
    ) -> None:
        self._context = context
        self._store = context.ownership.store
        self._flusher = flusher
        self._waiting = state.rows
        self._rows_max = state.limits.rows_max
        self._engine = engine
        self._seen_seq = 0
        self._asked: deque[Demand] = deque()
        self._rows: dict[int, RunRow] = {}  # by number of the demand: those that have begun
        self._waits_at: dict[int, int] = {}  # the cursor must have passed this record
        self._busy = False

    def tick(self) -> None:
        """Continue with the first run."""
        for demand in self._context.targets.demands(self._seen_seq):
            self._seen_seq = demand.seq
            if demand.kind != "resume":
                self._asked.append(demand)
        if self._busy or not self._asked:
            return
        demand = self._asked[0]
        row = self._rows.get(demand.seq)
        if row is None:
            self._begin()
        elif row.done:
            self._asked.popleft()
            del self._rows[demand.seq]
            self._waits_at.pop(demand.seq, None)
        elif demand.kind == "purge":
            self._purge(demand, row)
        elif self._has_capacity(demand):
            self._redrive(demand, row)
        else:
            self._asked.rotate(-1)  # A sink may take nothing for days: the others' runs go on.

    def _begin(self) -> None:
        """Look up new demands until the first that is not done."""
        new = takewhile(lambda demand: demand.seq not in self._rows, self._asked)
        asked = list(islice(new, LOOK_COUNT))
        found: list[RunRow] = []

        def work() -> None:
            for demand in asked:
                found.append(self._store.begin_run(demand.seq))
                if not found[-1].done:
                    break

        def done(_error: StoreError | None) -> None:
            self._busy = False
            for row in found:  # Also where the next one could not be looked up.
                if row.done:
                    self._asked.popleft()
                else:
                    self._rows[row.seq] = row

        self._busy = True
        self._context.aside.run(work, done)

    def _has_capacity(self, demand: Demand) -> bool:
        """Whether more dead letters may become rows now."""
        if self._flusher.durable_mark.offset <= self._waits_at.get(demand.seq, -1):
            return False
        if self._waiting.count >= self._rows_max * ROWS_SHARE:
            return False  # A run of all routes is nobody's whose share would tell.
        return not self._waiting.saturated(demand.route, ROWS_SHARE)

    def _purge(self, demand: Demand, row: RunRow) -> None:
        found: list[RunRow] = []

        def done(error: StoreError | None) -> None:
            self._busy = False
            if error is None:
                (self._rows[demand.seq],) = found
                self._note(demand, self._rows[demand.seq])

        self._busy = True
        route = demand.route or None
        self._context.aside.run(lambda: found.append(self._store.purge(row, route)), done)

    def _redrive(self, demand: Demand, row: RunRow) -> None:
        found: list[KeptDeadLetter] = []
        route = demand.route or None

        def work() -> None:
            found.extend(self._store.kept_dead_letters(SLICE, row.at, route))

        def done(error: StoreError | None) -> None:
            self._busy = False
            if error is None:
                self._take(demand, row, [kept for kept in found if kept.id <= row.through])

        self._busy = True
        self._context.aside.run(work, done)

    def _take(self, demand: Demand, row: RunRow, dead_letters: list[KeptDeadLetter]) -> None:
        count = passed = 0
        at = row.at
        for kept in dead_letters:
            if kept.dead_letter.key.offset >= self._flusher.durable_mark.offset:
                # A restart would come there again: wait until the cursor has passed.
                self._waits_at[demand.seq] = kept.dead_letter.key.offset
                break
            at = kept.id
            if self._is_wanted(kept):
                count += 1
                self._send(kept)
            else:
                passed += 1
        now = self._rows[demand.seq] = row._replace(
            at=at, handled=row.handled + count, passed=row.passed + passed, done=not dead_letters
        )
        if now != row:
            self._flusher.put_run(now)
            self._note(demand, now)
        self._context.meter.add("redriven_total", count)

    def _is_wanted(self, kept: KeptDeadLetter) -> bool:
        """Whether the newest filters match it, and it has no row already."""
        key = kept.dead_letter.key
        record = self._context.follower.table.record(key.route)
        if record is None or key in self._waiting.rows:
            return False
        matcher = WalkMatcher()
        matcher.put(record)
        try:
            (event,) = event_record.decode(kept.event)
        except (EventError, ValueError):
            return False  # Damaged: nobody can send it, and it must not stop the partition.
        return bool(matcher.match(event))

    def _send(self, kept: KeptDeadLetter) -> None:
        dead_letter = kept.dead_letter
        now_ms = self._context.clock.wall_ms()
        row = RetryRow(
            dead_letter.key,
            dead_letter.checksum,
            Stage.PRIMARY,
            1,
            now_ms,
            dead_letter.failure,
            done=False,
            event=kept.event,
        )
        self._flusher.take_dead_letter(dead_letter.key)
        self._engine.outcomes.redrive(row)

    def _note(self, demand: Demand, row: RunRow) -> None:
        if row.done:
            counts: dict[str, object] = {"count": row.handled, "passed": row.passed}
            self._context.report(f"{demand.kind}-done", {"run": demand.run} | counts)
