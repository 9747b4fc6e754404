"""Runs of a partition: redrives, purges, retries and replays that people ask for, in slices.

Each run has a row in the delivery store that tells how far it is, written in the same flush as
what it did; so an interrupted one goes on where it was. Runs take turns. One that must wait (for
the rate that was asked for, for the committed offset, for room among the rows) lets the others go
on.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from distributary.core.demand import Demand
from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.errors import StoreError
from distributary.core.outcome import RunRow
from distributary.partitions._flusher import Flusher
from distributary.partitions._letter_runs import LetterRuns
from distributary.partitions._replays import Replays, cut_of
from distributary.partitions._run import SLICE, Run, RunKind
from distributary.partitions.context import PartitionContext

LOOK_COUNT: Final = 256
"""Demands looked up at once, some 0.1 ms each: each new owner looks up all that are remembered,
nearly all of them done."""
UNWRITTEN_MAX: Final = 2_048
"""Most that runs do before they wait for the disk: half a second of a fast sink. A fourth of it
took twice the time, since each flush costs two syncs."""
FLUSHED_LOOK_S: Final = 0.005
"""Interval of looks whether a slice is durable."""
ROWS_SHARE: Final = 0.5
"""A run pauses while a route, or all together, use this share of their limit of rows."""


class Runs:
    """Executes the runs of a partition in turn.

    Args:
        context: Ports of the consumer.
        flusher: Makes rows and the progress of runs durable.
        state: Holds the waiting rows.
        engine: Attempts rows.

    Attributes:
        keep_from: Makes retention keep the log from a record on, at once.
    """

    keep_from: Callable[[int], None]

    def __init__(
        self, context: PartitionContext, flusher: Flusher, state: PartitionState, engine: Engine
    ) -> None:
        self._context = context
        self._store = context.ownership.store
        self._flusher = flusher
        self._state = state
        self._engine = engine
        letters = LetterRuns(context, flusher, state, engine)
        replays = Replays(context, flusher, state, engine)
        self._kinds: dict[str, RunKind] = {
            "redrive": letters,
            "purge": letters,
            "replay": replays,
        }
        self._seen_seq = 0
        self._new: deque[Demand] = deque()
        self._runs: deque[Run] = deque()
        self._cancelled: set[int] = set()
        self._busy = False
        self._armed = False
        self._unwritten = 0
        self._after_round = 0  # the flush that must be durable before the next slice

    @property
    def under_way(self) -> bool:
        """Whether a run waits or goes on."""
        return bool(self._busy or self._new or self._runs)

    def floor(self) -> int | None:
        """The lowest record that a replay still needs; None: none needs any."""
        if self._context.recalls is not None:
            return None  # What retention deletes is in the archive.
        if any(demand.kind == "replay" for demand in self._new):
            return 0  # How far they are is not looked up yet.
        replays = (run for run in self._runs if run.demand.kind == "replay")
        return min((max(run.row.at, cut_of(self._state, run)) for run in replays), default=None)

    def tick(self) -> None:
        """Look for demands, and continue with a run that may go on."""
        for demand in self._context.targets.demands(self._seen_seq):
            self._seen_seq = demand.seq
            if demand.kind == "cancel":
                self._cancelled.add(demand.details.of)
            elif demand.kind != "resume":
                self._new.append(demand)
        for run in self._runs:
            run.rests = False
        self._turn()

    def _turn(self) -> None:
        """Begin a new run, or take a slice of the first that may go on."""
        if self._busy or self._state.stopped:
            return
        if self._lags():
            self._turn_soon(FLUSHED_LOOK_S)
            return
        if self._new:
            self._begin()
            return
        for _ in range(len(self._runs)):
            run = self._runs[0]
            self._runs.rotate(-1)
            if run.demand.seq in self._cancelled:
                self._end(run, run.row._replace(done=True, cancelled=True))
                self._flusher.put_run(run.row)
                return
            count = min(run.may_take(self._context.clock.monotonic_s()), self._room(run))
            if count > 0:
                self._busy = True
                self._kinds[run.demand.kind].take(run, count, partial(self._taken, run))
                return

    def _room(self, run: Run) -> int:
        """How much the run may take now, its rate aside."""
        if run.rests or self._flusher.durable_mark.offset <= run.waits_at:
            return 0
        if run.demand.details.dry or run.demand.kind == "purge":
            return SLICE
        rows, route = self._state.rows, run.demand.route
        # A run of all routes is nobody's whose share would tell: the limit of all holds.
        return 0 if route in self._state.halted else min(SLICE, rows.room(route, ROWS_SHARE))

    def _taken(self, run: Run, row: RunRow | None) -> None:
        """A slice of *run* is taken; None: its place could not be read now."""
        self._busy = False
        if row is None or row == run.row:
            run.rests = True  # The next tick tries again.
        else:
            self._flusher.put_run(row)
            self._unwritten += row.handled - run.row.handled
            run.row = row
            if row.done:
                self._end(run, row)
        self._turn_soon(0.0)

    def _lags(self) -> bool:
        """Whether runs have done ``UNWRITTEN_MAX`` that is not durable yet.

        What is delivered and not written down is sent again by the next owner after a crash; a
        run would make as much of it as the disk lags behind the sinks.
        """
        flusher = self._flusher
        if self._unwritten >= UNWRITTEN_MAX:
            self._unwritten = 0
            self._after_round = flusher.begun_round + 1
        return flusher.durable_round < self._after_round and not flusher.dead

    def _turn_soon(self, wait_s: float) -> None:
        if not self._armed:
            self._armed = True
            self._context.timers.call_later(wait_s, self._turn_again)

    def _turn_again(self) -> None:
        self._armed = False
        self._turn()

    def _end(self, run: Run, row: RunRow) -> None:
        run.row = row
        self._runs.remove(run)
        demand = run.demand
        counts: dict[str, object] = {"count": row.handled, "passed": row.passed}
        if demand.details.dry:
            counts["dry"] = True
        event = f"{demand.kind}-{'cancelled' if row.cancelled else 'done'}"
        self._context.report(event, {"run": demand.run} | counts)

    # -- beginning -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Look up new demands; begin those that are not done."""
        asked = list(islice(self._new, LOOK_COUNT))
        cancelled = {demand.seq for demand in asked if demand.seq in self._cancelled}
        found: list[RunRow] = []

        def work() -> None:
            known = self._store.runs([demand.seq for demand in asked])
            for demand in asked:
                row = known.get(demand.seq)
                found.append(row or self._first(demand, cancelled=demand.seq in cancelled))

        def done(_error: StoreError | None) -> None:
            self._busy = False
            for row in found:  # Also where the next one could not be looked up.
                demand = self._new.popleft()
                if row.done:
                    continue
                if demand.kind == "retry":
                    self._retry(demand, row)
                else:
                    if demand.kind == "replay" and self._context.recalls is None:
                        self.keep_from(row.at)
                    self._runs.append(Run(demand, row))
            if found:
                self._turn_soon(0.0)

        self._busy = True
        self._context.aside.run(work, done)

    def _first(self, demand: Demand, *, cancelled: bool) -> RunRow:
        """The first progress of a run. Blocks."""
        nothing = RunRow(demand.seq, 0, 0, 0, 0, done=cancelled, cancelled=cancelled)
        if cancelled or demand.kind == "retry":
            return self._store.begin_run_as(nothing)
        return self._kinds[demand.kind].begin(demand)

    def _retry(self, demand: Demand, row: RunRow) -> None:
        """Make the waiting retries of a route due: one step, durable with the run's end."""
        count = 0 if demand.details.dry else self._engine.retry_now(demand.route)
        if demand.details.dry:
            count = len(self._state.rows.waiting(demand.route))
        row = row._replace(handled=count, selected=count, looked=count, total=count, done=True)
        self._flusher.put_run(row)
        self._context.report("retry-done", {"run": demand.run, "count": count})
