"""Runs of a partition: redrives, purges, retries and replays that people ask for, in slices.

Each run has a row in the delivery store that tells how far it is, written in the same flush as
what it did; so an interrupted one goes on where it was. Runs take turns. One that must wait (for
the rate that was asked for, for the committed offset, for room among the rows) lets the others go
on.
"""

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Final

from distributary.core.demand import Demand
from distributary.core.engine.machine import Engine
from distributary.core.engine.replays import Replay, name_of
from distributary.core.engine.state import PartitionState
from distributary.core.errors import LogError, StoreError
from distributary.core.outcome import RunRow
from distributary.core.outcome.dead_letter import selected
from distributary.partitions._flusher import Flusher
from distributary.partitions._letter_runs import LetterRuns
from distributary.partitions._replays import Replays, cut_of
from distributary.partitions._retries import RETRY, Retries, alike
from distributary.partitions._run import ROWS_SHARE, SLICE, Run, RunKind
from distributary.partitions.context import PartitionContext

LOOK_COUNT: Final = 256
"""Demands looked up at once, some 0.1 ms each: each new owner looks up all that are remembered,
nearly all of them done."""
UNWRITTEN_MAX: Final = 2_048
"""Most that runs have done which is not durable: a tenth of a second of a fast sink. A fourth of it
took twice the time, since each flush costs two syncs."""
CURSOR_S: Final = 1.0
"""How long a match may hold back the cursor where a run waits for it: most attempts take less, and
one that moves to a row costs a write."""
FLUSHED_LOOK_S: Final = 0.005
"""Interval of looks whether a slice is durable."""
OFFERED: Final = 32
"""Matches of a replay that are sent in one turn of the loop: about a millisecond."""
LOOKED: Final = 1_024
"""Matches that replays read at once: some 1 MiB, and as many as a fast sink takes in 50 ms. They
share it, since what is chosen is in memory."""
LOOK_SHARE: Final = 4
"""It reads on when a fourth of them is not sent yet."""
RATED_S: Final = 0.01
"""Interval of turns of a replay with a rate: what it sends at once delays others no longer."""
AHEAD_S: Final = 0.05
"""A replay with a rate reads this far ahead: a few milliseconds of a thread, which other deliveries
wait for, and what it has chosen goes by the filters of that moment."""
LONG_S: Final = 0.1
"""A longer wait for the rate is left to the ticks."""
MOVED_S: Final = 0.2
"""Interval of writing how far replays are: it only shortens a restart."""

_BY_FILTERS: Final = frozenset(("replay", "redrive"))
"""Kinds of runs that send what the newest filters of a route choose."""


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
        replays = self._replays = Replays(context, flusher, state, engine)
        self._kinds: dict[str, RunKind] = {
            "redrive": letters,
            "purge": letters,
            "replay": replays,
            RETRY: Retries(context, state, engine),
        }
        self._seen_seq = 0
        self._new: deque[Demand] = deque()
        self._runs: deque[Run] = deque()
        self._standing: dict[Run, None] = {}  # replays that hold what they cannot send now
        self._cancelled: set[int] = set()
        self._busy = False
        self._due_s = float("inf")  # of the next turn
        self._sent = self._written = 0
        self._sent_at: deque[tuple[int, int]] = deque()  # when a flush began, which is not durable
        self._moved_s = float("-inf")
        self._awaited: tuple[float, int] | None = None  # since when the cursor is to pass a record

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
        return min((max(_floor(run), cut_of(self._state, run)) for run in replays), default=None)

    def moved(self) -> tuple[RunRow, ...]:
        """The progress of replays that has changed, for a flush that begins."""
        if self._sent != self._written:
            self._sent_at.append((self._flusher.begun_round, self._sent))
        now_s = self._context.clock.monotonic_s()
        if now_s - self._moved_s < MOVED_S:
            return ()
        self._moved_s = now_s
        rows = [(each.row, each.progress()) for each in self._state.replays.all.values()]
        return tuple(row for before, row in rows if row is not before)

    def floors(self) -> dict[str, int]:
        """From where the journal must remember the outcomes of replays, by their names there."""
        # What is done of those that are not looked up yet is not known.
        waiting = (demand.seq for demand in self._new if demand.kind == "replay")
        return self._state.replays.floors() | dict.fromkeys(map(name_of, waiting), 0)

    def drained(self) -> None:
        """Go on with replays: a queue has room."""
        if self._state.replays.all:
            self._turn_soon(0.0)

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
            if run.replay is not None:
                self._let_pass(run, run.replay)
        self._hurry_cursor()
        self._replays.tick()
        self._turn()

    def close(self) -> None:
        """Close what replays read with."""
        self._replays.close()

    def _let_pass(self, run: Run, replay: Replay) -> None:
        """Turn matches under way into rows where they alone hold up the run."""
        last = run.row.at >= run.row.through and not replay.unsent
        if last or replay.crowded:
            self._engine.demote_replay(replay, everything=last)

    def _hurry_cursor(self) -> None:
        """Let the cursor pass what has been open for ``CURSOR_S`` while a run waits for it."""
        durable, now_s = self._flusher.durable_mark.offset, self._context.clock.monotonic_s()
        halted = self._state.halted
        waiting = (run for run in self._runs if run.demand.route not in halted)
        if not any(run.waits_for_cursor(durable) for run in waiting):
            self._awaited = None
            return
        if self._awaited is not None:
            since_s, offset = self._awaited
            if now_s - since_s < CURSOR_S:
                return
            self._engine.at(now_s, self._context.clock.wall_ms())
            self._engine.let_cursor_pass(offset)
        self._awaited = now_s, self._state.live

    def _turn(self) -> None:
        """Begin a new run, or take a slice of the first that may go on."""
        if self._state.stopped:
            return
        if self._lags():
            self._turn_soon(FLUSHED_LOOK_S)
            return
        if self._state.replays.all:
            self._send()
        if self._busy:
            return
        if self._new:
            self._begin()
            return
        for _ in range(len(self._runs)):
            run = self._runs[0]
            self._runs.rotate(-1)
            if (stopped := self._stopped(run)) is not None:
                self._stop(run, stopped)
                return
            count = self._count(run)
            if count > 0 and self._make_room(run):
                self._busy = True
                self._kinds[run.demand.kind].take(run, count, partial(self._taken, run))
                return

    def _count(self, run: Run) -> int:
        """How much the run may look for now."""
        if self._state.live < run.met_by and run.demand.kind in _BY_FILTERS:
            return 0
        if run.replay is None:
            return min(run.may_take(self._context.clock.monotonic_s()), self._room(run))
        rate = run.demand.details.share
        count = max(OFFERED, LOOKED // len(self._state.replays.all))
        if rate is not None:
            count = min(count, max(1, int(rate * AHEAD_S)))
        few = len(run.replay.unsent) <= count // LOOK_SHARE and not run.replay.crowded
        if (run.replay.gave_back or self._full) and not self._may_send(run):
            return 0
        return min(count, self._room(run)) if few else 0

    @property
    def _full(self) -> bool:
        """Whether replays have chosen so much that none may hold what it cannot send."""
        return self._state.replays.held_bytes >= self._state.limits.replay_tasks_bytes_max

    def _may_send(self, run: Run) -> bool:
        """Whether a replay that has chosen nothing yet would send something now."""
        sending, route = self._engine.sending, run.demand.route
        return (
            run not in self._standing
            and not sending.is_filled(route)
            and sending.refuses(route, run.row.at, full=True) is None
            and run.may_take(self._context.clock.monotonic_s()) > 0
        )

    def _make_room(self, run: Run) -> bool:
        """Let replays that cannot send give back what they hold; False: *run* has no room yet."""
        if run.replay is None or not self._full:
            return True
        clock = self._context.clock
        self._engine.at(clock.monotonic_s(), clock.wall_ms())
        while self._full and self._standing:
            other = next(iter(self._standing))
            del self._standing[other]
            other.row = self._engine.give_back_replay(other.demand.seq, other.row)
        return not self._full

    def _send(self) -> None:
        """Send what replays have chosen, a part of it; go on soon where there is more."""
        clock = self._context.clock
        waits_s: list[float] = []
        self._standing.clear()
        for run in self._runs:
            replay = run.replay
            if replay is None or not replay.unsent or run.demand.seq in self._cancelled:
                continue
            self._standing[run] = None
            if self._engine.sending.is_filled(run.demand.route):
                waits_s.append(RATED_S)
                continue
            room = self._room(run)
            count = min(run.may_take(clock.monotonic_s()), room, OFFERED)
            sent = 0
            if count > 0:
                self._engine.at(clock.monotonic_s(), clock.wall_ms())
                sent = self._engine.replay(replay, count)
            run.took(sent)
            if sent:
                del self._standing[run]
            self._sent += sent
            self._context.meter.add("replayed_total", sent)
            if sent and sent == count:
                waits_s.append(0.0)
            elif count == 0 < room:  # Its rate allows none now. Else it waits for room.
                waits_s.append(max(run.wait_s(), RATED_S))
        if waits_s and min(waits_s) < LONG_S:
            self._turn_soon(min(waits_s))

    def _stopped(self, run: Run) -> RunRow | None:
        """How far *run* is, and why it ends here; None: it goes on."""
        if run.demand.seq in self._cancelled:
            return run.row._replace(cancelled=True)
        _, route = selected(run.demand.route)
        met = self._state.live >= run.met_by  # else the route may be too new for this owner
        if route and met and self._context.follower.table.record(route) is None:
            return run.row._replace(route_deleted=True)
        return None

    def _stop(self, run: Run, row: RunRow) -> None:
        """End *run* early; *row* is how far it is, and why it ends."""
        if run.replay is not None:
            left = self._engine.end_replay(run.demand.seq)
            row = row._replace(handled=row.handled - left, selected=row.selected - left)
        self._end(run, row._replace(done=True))
        self._flusher.put_run(run.row)

    def _room(self, run: Run) -> int:
        """How much the run may take now, its rate aside."""
        if run.rests or self._flusher.durable_mark.offset <= run.waits_at:
            return 0
        if run.demand.details.dry or run.demand.kind in {"purge", RETRY}:
            return SLICE
        # A run of all routes is nobody's whose share would tell: the limit of all holds, and that
        # of the route of its next dead letter where it had to wait for that.
        rows, route = self._state.rows, run.held_by or run.demand.route
        if route in self._state.halted:
            return SLICE if run.of_many else 0
        return rows.room(route, ROWS_SHARE)

    def _taken(self, run: Run, row: RunRow | None) -> None:
        """A slice of *run* is taken; None: its place could not be read now."""
        self._busy = False
        if row is None or row == run.row:
            run.rests = True  # The next tick tries again.
        else:
            if run.replay is None:
                self._sent += row.handled - run.row.handled
                self._flusher.put_run(row)
            elif row.done:
                self._state.replays.end(row.seq)
                self._flusher.put_run(row)
            else:
                self._flusher.ask()  # Its row follows once the matches have their outcomes.
            run.row = row
            if row.done:
                self._end(run, row)
                self._end_alike(run)
        self._turn_soon(0.0)

    def _end_alike(self, run: Run) -> None:
        """End the retry runs that ask for what *run* has just done."""
        for other in [other for other in self._runs if alike(run, other)]:
            row = run.row._replace(seq=other.row.seq)
            self._flusher.put_run(row)
            self._end(other, row)

    def _lags(self) -> bool:
        """Whether runs have done ``UNWRITTEN_MAX`` that is not durable yet, or it is too large.

        What is delivered and not written down is sent again by the next owner after a crash; a
        run would make as much of it as the disk lags behind the sinks.
        """
        flusher, sent_at = self._flusher, self._sent_at
        while sent_at and sent_at[0][0] <= flusher.durable_round:
            self._written = sent_at.popleft()[1]
        lags = self._sent - self._written >= UNWRITTEN_MAX or flusher.unwritten.crowded
        return lags and not flusher.dead

    def _turn_soon(self, wait_s: float) -> None:
        due_s = self._context.clock.monotonic_s() + wait_s
        if due_s < self._due_s:
            self._due_s = due_s
            self._context.timers.call_later(wait_s, partial(self._turn_again, due_s))

    def _turn_again(self, due_s: float) -> None:
        if due_s == self._due_s:  # Else a sooner turn has been made in its place.
            self._due_s = float("inf")
            self._turn()

    def _end(self, run: Run, row: RunRow) -> None:
        run.row = row
        self._runs.remove(run)
        self._standing.pop(run, None)
        demand = run.demand
        counts: dict[str, object] = {"count": row.handled, "passed": row.passed}
        if demand.details.dry:
            counts["dry"] = True
        end = "cancelled" if row.cancelled else "ended-early" if row.route_deleted else "done"
        event = f"{demand.kind}-{end}"
        self._context.report(event, {"run": demand.run} | counts)

    # -- beginning -----------------------------------------------------------------------------

    def _begin(self) -> None:
        """Look up new demands; begin those that are not done."""
        asked = list(islice(self._new, LOOK_COUNT))
        cancelled = {demand.seq for demand in asked if demand.seq in self._cancelled}
        found: list[RunRow] = []
        ends: list[int] = []

        def work() -> None:
            known = self._store.runs([demand.seq for demand in asked])
            for demand in asked:
                row = known.get(demand.seq)
                row = row or self._first(demand, cancelled=demand.seq in cancelled)
                if not row.done and not ends:
                    ends.append(self._log_end())
                found.append(row)

        def done(_error: StoreError | None) -> None:
            self._busy = False
            if self._state.stopped:
                return  # The next owner looks them up again.
            for row in found:  # Also where the next one could not be looked up.
                demand = self._new.popleft()
                if not row.done:
                    self._begin_run(demand, row, ends[0])
            if found:
                self._turn_soon(0.0)

        self._busy = True
        self._context.aside.run(work, done)

    def _log_end(self) -> int:
        """Where the log ends now. Blocks."""
        try:
            with contextlib.closing(self._context.make_records()) as records:
                return records.durable_end()
        except LogError as error:
            raise StoreError(str(error)) from error

    def _begin_run(self, demand: Demand, row: RunRow, end: int) -> None:
        if demand.kind == "replay" and self._context.recalls is None:
            self.keep_from(row.at)
        # A new owner begins with the filters that stood at its cursor, and meets newer ones later.
        run = Run(demand, row, met_by=end)
        if demand.kind == "replay" and not demand.details.dry:
            run.replay = self._state.replays.begin(row)
        self._runs.append(run)

    def _first(self, demand: Demand, *, cancelled: bool) -> RunRow:
        """The first progress of a run. Blocks."""
        if cancelled:
            nothing = RunRow(demand.seq, 0, 0, 0, 0, done=True, cancelled=True)
            return self._store.begin_run_as(nothing)
        return self._kinds[demand.kind].begin(demand)


def _floor(run: Run) -> int:
    """The record from which a restart would go on with the run."""
    return run.row.at if run.replay is None else run.replay.row.at
