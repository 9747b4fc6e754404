"""The engine of one partition: a state machine without I/O that decides on every match.

Inputs are method calls from the loop that owns the partition; ``at`` sets the time before them.
Effects go out by one port, ``Effects``. Nothing in here waits, reads a clock, or uses a loop or a
store. Inside, calls go one way::

    Engine -> Answers, CatchingUp -> Sending -> Replies -> Outcomes -> PartitionState

The table of a match's states is in ``_life``.
"""

from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from distributary.core.engine._catching_up import CatchingUp
from distributary.core.engine._completion import Completion
from distributary.core.engine._life import Step
from distributary.core.engine._matching import Matching
from distributary.core.engine._outcomes import BEYOND_BUDGET, Outcomes
from distributary.core.engine._parking import Parking, waits_for_resume
from distributary.core.engine._refusals import Refusals
from distributary.core.engine._replies import Replies
from distributary.core.engine.backfills import Name
from distributary.core.engine.cuts import Cuts
from distributary.core.engine.reads import RECALLED_LOOK_S, STORED_LOOK_S, NoTask
from distributary.core.engine.replays import Replay
from distributary.core.engine.reservations import key_of, waits_for_reservation
from distributary.core.engine.sending import Sending
from distributary.core.engine.state import PartitionState
from distributary.core.flow import (
    DoneKey,
    Logged,
    Origin,
    RecordKind,
    RouteRecord,
    Stage,
    Task,
    encode_route,
)
from distributary.core.outcome.reservations import ReservationAnswer, ReservationBatch
from distributary.core.outcome.rows import BackfillRow, RetryRow, RunRow

_ROUTE: Final = int(RecordKind.ROUTE)
_LOOKS_S: Final = {NoTask.LATER: STORED_LOOK_S, NoTask.RECALLED: RECALLED_LOOK_S}


class Engine:
    """The decision core of one partition: the facade over its parts.

    Args:
        state: Initial state.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._tracker = state.tracker
        self._backfills = state.backfills
        self.outcomes = Outcomes(state)
        self._refusals = Refusals(state)
        self._replies = Replies(state, self.outcomes, self._refusals)
        self._parking = Parking(state)
        self.sending = Sending(state, self.outcomes, self._replies)
        self._answers = Completion(
            state,
            self.outcomes,
            self._replies,
            self._refusals,
            sending=self.sending,
            parking=self._parking,
        )
        self.attempted = self._answers.take
        """Input: the result of an attempt."""
        self._matching = Matching(state, self.outcomes)
        self._catching_up = CatchingUp(state, self.sending, self._matching)
        self.log_read = self._catching_up.log_read
        """Input: the records that ``Effects.read_log`` requested."""
        self.lost_found = self._catching_up.lost_found
        """Input: the changes that ``Effects.find_lost`` requested."""
        self._rest: Iterator[Task] | None = None  # matches of the last record, not made yet
        self._slice_left = state.limits.slice_tasks

    def at(self, now_s: float, now_ms: int) -> None:
        """Set the time, before any input: *now_s* (monotonic, seconds), *now_ms* (wall clock)."""
        self._state.now_s = now_s
        self._state.now_ms = now_ms

    # -- records -------------------------------------------------------------------------------

    def load(
        self, done: dict[DoneKey, int], rows: list[RetryRow], backfills: list[BackfillRow]
    ) -> None:
        """Load what the last owner left: outcomes above the cursor, rows, and backfills."""
        self._parking.follow()
        self._state.replays.load(done)
        self._matching.load(done | {row.key: row.checksum for row in rows})
        for row in rows:
            self.outcomes.load(row)
        for backfill in backfills:
            self._backfills.add(backfill)

    def take(self, logged: Logged) -> bool:
        """Take a record of the live reader; False if the slice is used up or matches are left."""
        tasks = [] if logged.kind == _ROUTE else self._matching.tasks(logged)
        offset = logged.offset
        self._state.live = offset + 1
        if isinstance(tasks, list):
            self._tracker.take(offset, logged.checksum, tasks)
            take = self.sending.take
            for task in tasks:
                take(task)
            self._slice_left -= len(tasks)
            return self._slice_left > 0
        self._tracker.begin(offset, logged.checksum)
        self._rest = tasks
        return self._take_rest()

    def take_rest(self) -> bool:
        """Begin a slice with what is left of the last record; False if more is left after it."""
        self._slice_left = self._state.limits.slice_tasks
        return self._rest is None or self._take_rest()

    def _take_rest(self) -> bool:
        """Take matches of the last record until the slice is over or one is held back."""
        rest = self._rest
        assert rest is not None
        while self._slice_left > 0 and not self.sending.held:
            task = next(rest, None)
            if task is None:
                self._rest = None
                self._tracker.complete()
                return True
            self._tracker.add(task)
            self.sending.take(task)
            self._slice_left -= 1
        return False

    def pass_hole(self, to_offset: int) -> None:
        """Skip a gap up to *to_offset*: damaged records, or offsets skipped after a loss."""
        self._tracker.skip_to(to_offset)
        self._state.live = to_offset

    def advance(self) -> bool:
        """Advance backfills; True if one of them has more to do now."""
        # Lazy matches of a record are checked against the backfills that exist when they are made.
        return self._catching_up.advance(joining=self._rest is None)

    # -- what comes back -----------------------------------------------------------------------

    def flushed(self, durable: int) -> tuple[list[DoneKey], list[Name]]:
        """Take note that all below the cursor *durable* is on the medium.

        Returns:
            Finished rows, and ended backfills, that can be forgotten.
        """
        self._state.durable = durable
        return self.outcomes.forgettable(durable), self._backfills.forgettable(durable)

    def drained(self, name: str) -> None:
        """Resume what waits for *name*: a destination, a resumed route, a reservation."""
        self.sending.drained(name)
        self._backfills.wake_for(name)

    def due(self) -> None:
        """Attempt due rows, at the time that ``wake_at`` set."""
        state = self._state
        count = min(state.limits.due_count, state.reads.capacity())
        for row in state.rows.pop_due(state.now_s, count):
            self.sending.attempt_row(row)
        self.outcomes.arm()

    def rows_read(self, found: list[tuple[RetryRow, Task | NoTask]]) -> None:
        """Continue the rows whose events have been read."""
        state = self._state
        state.reads.done()
        for row, task in found:
            if state.stopped or row.key not in state.rows.rows:
                continue
            if not isinstance(task, NoTask):
                waits_for = self.sending.attempt_row(row, task)
                if waits_for is not None:
                    state.reads.over(waits_for)
            elif task is NoTask.VOID:
                self.outcomes.void(row.key)
            else:
                self.outcomes.await_event(row, _LOOKS_S[task])
        for name in state.reads.go_on():
            self.sending.drained(name)
        self.outcomes.arm()

    def reservations_answered(
        self, batch: ReservationBatch, answers: list[ReservationAnswer]
    ) -> None:
        """Take the answers of the reservation store."""
        state = self._state
        for request, answer in zip(batch.requests, answers, strict=True):
            state.reservations.answered(request, answer, state.now_s)
            self.sending.take_answer(request.reservation, granted=answer is ReservationAnswer.HELD)
        for route in dict.fromkeys(request.reservation.key.route for request in batch.requests):
            self._backfills.wake_for(waits_for_reservation(route))

    # -- what changes --------------------------------------------------------------------------

    def resources_changed(self) -> None:
        """Route waiting matches by the newest revisions (DESIGN rule 5, revisions)."""
        self._follow_halted()
        self.sending.offer_anew()
        mended = self._refusals.take_mended()
        if mended:
            self.outcomes.hurry(mended)
            for route in mended:
                self.sending.probe(route)

    def _follow_halted(self) -> None:
        """Take back what is queued for paused routes; continue those that are not any more."""
        begun, ended = self._parking.follow()
        self.sending.take_back_all(begun)
        for route in ended:
            self._state.failing.delivered(route)  # What failed before is no reason to halt it now.
            self.drained(waits_for_resume(route))

    def route_deleted(self, route: str) -> None:
        """Delete *route*, whose delete record the live reader has reached."""
        state = self._state
        state.reservations.forget(route)
        self.sending.forget(route)
        if self._parking.delete(route):
            self.drained(waits_for_resume(route))
        state.failing.delivered(route)  # Stop reporting it.
        state.tallies.forget(route)
        for first, end in self._backfills.drop(route, state.live):
            self._report_gap(route, first, end)

    def begin_in_past(self, change: RouteRecord, first: int, offset: int) -> None:
        """Backfill the route created at *offset* from *first* on (decision 17, replay).

        A restart may read the creating record again. It then finds that the backfill was begun: the
        row of an ended one stays until the cursor has passed the record.
        """
        state, route = self._state, change.uid
        if first >= offset:
            return
        if state.targets.get(route) is None and not state.unseen(route):
            self._report_gap(route, first, offset)
            return
        row = BackfillRow(route, first, 0, first, None, encode_route(change))
        self._backfills.add(row)
        state.effects.put_backfill(row)
        state.meter.add("replays_begun_total")
        state.effects.report("route-replays", {"route": route, "from": first, "to": offset})

    def _report_gap(self, route: str, first: int, end: int) -> None:
        """Report matches of the deleted *route* from *first* up to *end* as dropped."""
        self._state.meter.add("lags_dropped_total")
        reason = self.outcomes.why_gone(route)
        fields: dict[str, object] = {"route": route, "from": first, "to": end, "reason": reason}
        self._state.effects.report("dropped", fields)

    def set_budget(self, cuts: Cuts) -> None:
        """End matches of backfills and rows below *cuts*.

        Routes share the log: records kept for one are kept for all, so the budget of everybody
        applies to all. What a namespace's quota ends is kept as a dead letter.
        """
        state = self._state
        everybody = max(state.cuts.everybody, cuts.everybody)
        state.cuts = cuts._replace(everybody=everybody)
        beyond = []
        for row in state.rows.idle_below(state.cuts.highest):
            if row.key.offset < everybody:
                state.given_up[row.key.route, BEYOND_BUDGET] += 1
                self.outcomes.drop_row(row, BEYOND_BUDGET)
            elif self.sending.is_beyond(row.key.route, row.key.offset):
                beyond.append(row)
        state.rows.hasten(beyond, state.now_s)
        self.outcomes.arm()

    # -- runs ----------------------------------------------------------------------------------

    def send_again(self, row: RetryRow, task: Task | None) -> None:
        """Send a match again that a run has chosen, as *row*; *task*: its event, in memory."""
        self.outcomes.send_again(row, task)

    def replay(self, replay: Replay, count: int) -> int:
        """Send at most *count* of the chosen matches of *replay*, in order.

        Returns:
            How many; fewer where what they wait for takes no more now.
        """
        unsent, sent = replay.unsent, 0
        while unsent and sent < count:
            task = unsent[0]
            if not replay.offered:
                if self._state.effects.watch is not None:
                    self._state.step(Step.SEND_AGAIN, key_of(task), task)
                replay.offered = True
            if self.sending.offer_replay(task) is not None:
                break
            unsent.popleft()
            replay.offered = False
            sent += 1
        self._state.replays.release(replay)
        return sent

    def give_back_replay(self, seq: int, row: RunRow) -> RunRow:
        """Let the chosen matches of the replay *seq* go that are not sent.

        Args:
            seq: Number of its demand.
            row: How far it has read.

        Returns:
            How far it has read then.
        """
        replay = self._state.replays.all[seq]
        self._defer_offered(replay)
        return self._state.replays.give_back(replay, row)

    def demote_replay(self, replay: Replay, *, everything: bool) -> None:
        """Turn matches of *replay* that are under way into rows, so that its position can pass."""
        for task in replay.under_way(everything=everything):
            self.outcomes.demote(task)

    def end_replay(self, seq: int) -> int:
        """Forget the replay *seq*, whose matches under way become rows.

        Returns:
            How many of its matches were chosen and are not sent.
        """
        replay = self._state.replays.all[seq]
        self.demote_replay(replay, everything=True)
        self._defer_offered(replay)
        return len(self._state.replays.end(seq))

    def meet_replays(self, keys: Collection[DoneKey]) -> None:
        """Turn open matches of replays into rows, since another replay passes them.

        Those that are not sent yet are due now: to cancel their replay must not lose them for the
        other one.
        """
        state = self._state
        unsent: dict[Replay, set[DoneKey]] = {}
        for key in keys:
            replay, task = state.replays.open[key]
            if replay.has_sent(task):
                self.outcomes.demote(task)
            else:
                unsent.setdefault(replay, set()).add(key)
        for replay, some in unsent.items():
            self._defer_offered(replay)
            for task in replay.take_unsent(some):
                self.replay_as_row(replay, task)
            state.replays.release(replay)

    def replay_as_row(self, replay: Replay, task: Task) -> None:
        """Send a match of *replay* as a row that is due now."""
        state, key = self._state, key_of(task)
        row = RetryRow(key, task.checksum, Stage.PRIMARY, 1, state.now_ms, None, done=False)
        self.outcomes.send_again(row, replace(task, origin=Origin.RETRY))
        state.replays.finish(task, key)
        state.effects.backfilled(key._replace(route=replay.name), task.checksum)
        state.meter.add("replayed_total", 1)

    def _defer_offered(self, replay: Replay) -> None:
        """Turn the first match of *replay* into a row where it was offered already."""
        if replay.offered:
            replay.offered = False
            task = replay.unsent.popleft()
            self.outcomes.defer(task, waits_for_resume(task.route))

    def retry_now(self, route: str) -> int:
        """Attempt the waiting retries of *route* now; returns their count.

        Those that wait for room, for a resume or for a reservation go on waiting. A sink behind an
        open breaker is probed: what waits for it goes on once it answers.
        """
        count = self.outcomes.hurry((route,))
        self.sending.probe(route)
        self.due()
        return count

    # -- time ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Do the periodic work: halted routes, changed resources, open breakers, backfills."""
        self.outcomes.tell_given_up()
        self._follow_halted()
        self.outcomes.tell_dropped()
        for route in self._parking.look():
            self._state.failing.delivered(route)  # As above: nothing was sent while it was parked.
            self.drained(waits_for_resume(route))
        self.sending.offer_anew()
        self.sending.yield_closed_queues()
        self._backfills.wake()

    def demote(self, durable: int) -> None:
        """Turn matches that have long held back the cursor, or a backfill's mark, into rows.

        Args:
            durable: The durable cursor.
        """
        self._state.durable = durable
        limits, tracker, live = self._state.limits, self._tracker, self._state.live
        mark = tracker.mark()
        waiting: list[Task] = []
        if live - durable > limits.window_events:
            waiting = tracker.open_below(mark.offset + limits.demote_records)
        elif tracker.finished_count > limits.window_outcomes:
            waiting = tracker.open_before(limits.demote_outcomes, live)
        for task in [*waiting, *self._backfills.stuck()]:
            self.outcomes.demote(task)

    def let_cursor_pass(self, offset: int) -> None:
        """Turn matches of records below *offset* into rows, the oldest first and a part at once.

        For a run that waits for the cursor: a slow sink of others must not hold it up.
        """
        end = min(offset, self._tracker.mark().offset + self._state.limits.demote_records)
        for task in self._tracker.open_below(end):
            self.outcomes.demote(task)

    def look_after_rows(self) -> None:
        """Retry what waits for a queue that will not report room: dropped, or it refused none."""
        self._replies.tick()
        for name in self._state.rows.deferred_uris():
            if not self._state.effects.is_open(name) and not self.sending.is_full(name):
                self.drained(name)

    # -- ending --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Start nothing from now on."""
        self._state.stopped = True
        self.outcomes.tell_dropped(now=True)
        self._state.reservations.stop(self._state.rows.idle())

    def leave(self, queued: list[Task]) -> None:
        """Take back *queued*, unsent, for good: only replies are still sent."""
        for task in queued:
            if task.stage is Stage.REPLY:
                self._replies.hand_back(task)
            else:
                self._state.reservations.make_idle(key_of(task))

    def replies_left(self) -> int:
        """Send held replies that have room; count those left that are worth waiting for."""
        self._replies.tick()
        return self._replies.unfinished()
