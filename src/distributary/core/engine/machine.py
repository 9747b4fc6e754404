"""The engine of one partition: decides what becomes of every match, and does nothing itself.

Inputs are calls from above, by the loop that owns the partition; the time comes in before them,
by ``at``. What others must do goes out by one port, ``Effects``. Nothing in here waits, reads a
clock, knows a loop or a store. Inside, calls go one way::

    Engine -> Answers, CatchingUp -> Sending -> Replies -> Outcomes -> PartitionState

The life of a match is a table: ``_life``.
"""

from collections.abc import Iterator

from distributary.core.engine._catching_up import CatchingUp
from distributary.core.engine._completion import Completion
from distributary.core.engine._matching import Matching
from distributary.core.engine._outcomes import BEYOND_BUDGET, Outcomes
from distributary.core.engine._parking import Parking, waits_for_resume
from distributary.core.engine._replies import Replies
from distributary.core.engine.backfills import Name
from distributary.core.engine.reads import NoTask
from distributary.core.engine.reservations import key_of, waits_for_reservation
from distributary.core.engine.sending import Sending
from distributary.core.engine.state import PartitionState
from distributary.core.flow import (
    DoneKey,
    Logged,
    RecordKind,
    RouteRecord,
    Stage,
    Task,
    encode_route,
)
from distributary.core.outcome.counts import Grant, QuotaBatch
from distributary.core.outcome.rows import BackfillRow, RetryRow


class Engine:
    """Decides for one partition.

    Args:
        state: What it begins with.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._tracker = state.tracker
        self._backfills = state.backfills
        self.outcomes = Outcomes(state)
        self._replies = Replies(state, self.outcomes)
        self._parking = Parking(state)
        self.sending = Sending(state, self.outcomes, self._replies)
        self._answers = Completion(state, self.outcomes, self._replies, self.sending, self._parking)
        self.attempted = self._answers.take
        """An attempt has come to this."""
        self._matching = Matching(state, self.outcomes)
        self._catching_up = CatchingUp(state, self.sending, self._matching)
        self.log_read = self._catching_up.log_read
        """Records that ``Effects.read_log`` asked for."""
        self.lost_found = self._catching_up.lost_found
        """Changes that ``Effects.find_lost`` asked for."""
        self._rest: Iterator[Task] | None = None  # of the last record: matches not made yet
        self._slice_left = state.limits.slice_tasks

    def at(self, now_s: float, now_ms: int) -> None:
        """It is now *now_s* (monotonic, seconds) and *now_ms* (wall clock): before any input."""
        self._state.now_s = now_s
        self._state.now_ms = now_ms

    # -- records -------------------------------------------------------------------------------

    def load(
        self, done: dict[DoneKey, int], rows: list[RetryRow], backfills: list[BackfillRow]
    ) -> None:
        """What the last owner left: outcomes above the cursor, rows, and backfills."""
        self._matching.load(done | {row.key: row.checksum for row in rows})
        for row in rows:
            self.outcomes.load(row)
        for backfill in backfills:
            self._backfills.add(backfill)

    def take(self, logged: Logged) -> bool:
        """The live reader brings a record; False where its slice is used up, or it is not over."""
        tasks = [] if logged.kind == RecordKind.ROUTE else self._matching.tasks(logged)
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
        """A slice begins: go on with the record that was taken last; False where there is more."""
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
        """There are no records up to *to_offset*: damaged, or leapt over after a loss."""
        self._tracker.skip_to(to_offset)
        self._state.live = to_offset

    def advance(self) -> bool:
        """Backfills have their turn; True where one of them has more to do at once."""
        # What is left of a record is judged by the backfills that stand when it is made.
        return self._catching_up.advance(joining=self._rest is None)

    # -- what comes back -----------------------------------------------------------------------

    def flushed(self, durable: int) -> tuple[list[DoneKey], list[Name]]:
        """All below the cursor *durable* is on the medium.

        Returns:
            Finished rows, and ended backfills, that nothing can ask about any more.
        """
        self._state.durable = durable
        return self.outcomes.forgettable(durable), self._backfills.forgettable(durable)

    def drained(self, name: str) -> None:
        """*name* may have room: a destination, a route that was resumed, a reservation."""
        self.sending.drained(name)
        self._backfills.wake_for(name)

    def due(self) -> None:
        """The time has come for which ``wake_at`` asked."""
        state = self._state
        count = min(state.limits.due_count, state.reads.capacity())
        for row in state.rows.pop_due(state.now_s, count):
            self.sending.attempt_row(row)
        self.outcomes.arm()

    def rows_read(self, found: list[tuple[RetryRow, Task | NoTask]]) -> None:
        """Rows that were not at hand have been read."""
        state = self._state
        state.reads.done()
        for row, task in found:
            if state.stopped or row.key not in state.rows.rows:
                continue
            if task is NoTask.LATER:
                self.outcomes.await_store(row)
            elif isinstance(task, NoTask):
                self.outcomes.void(row.key)
            else:
                waits_for = self.sending.attempt_row(row, task)
                if waits_for is not None:
                    state.reads.over(waits_for)
        for name in state.reads.go_on():
            self.sending.drained(name)
        self.outcomes.arm()

    def quota_answered(self, batch: QuotaBatch, grants: list[Grant]) -> None:
        """The store of counts has said who holds a reservation."""
        state = self._state
        for request, grant in zip(batch.requests, grants, strict=True):
            state.reservations.answered(request, grant, state.now_s)
            self.sending.take_answer(request.reservation, granted=grant is Grant.HELD)
        for route in dict.fromkeys(request.reservation.key.route for request in batch.requests):
            self._backfills.wake_for(waits_for_reservation(route))

    # -- what changes --------------------------------------------------------------------------

    def resources_changed(self) -> None:
        """What waits goes where the newest revision says (DESIGN rule 5)."""
        self.sending.offer_anew()

    def route_deleted(self, route: str) -> None:
        """The record was met that deletes *route*."""
        state = self._state
        state.reservations.forget(route)
        self.sending.forget(route)
        if self._parking.end(route):
            self.drained(waits_for_resume(route))
        state.failing.delivered(route)  # There is nothing to tell of it any more.
        for first, end in self._backfills.drop(route, state.live):
            self._report_gap(route, first, end)

    def begin_in_past(self, change: RouteRecord, first: int, offset: int) -> None:
        """The route that stands from *offset* on is backfilled from *first* on (decision 17).

        A restart may meet the record again. Whether the backfill was begun does not depend on what
        is left of it: the row of one that has ended stays until the cursor has passed this.
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
        """Matches of *route*, which is deleted, from *first* up to *end* go to nobody."""
        self._state.meter.add("lags_dropped_total")
        reason = self.outcomes.why_gone(route)
        fields: dict[str, object] = {"route": route, "from": first, "to": end, "reason": reason}
        self._state.effects.report("dropped", fields)

    def set_budget(self, cut: int) -> None:
        """Matches of backfills and rows below the record *cut* are given up.

        The log is one, so what one route keeps is kept for all, and a budget of one route is that
        of all of them.
        """
        state = self._state
        state.cut = max(state.cut, cut)
        for row in state.rows.idle_below(state.cut):
            state.given_up[row.key.route] += 1
            self.outcomes.drop_row(row, BEYOND_BUDGET)

    # -- time ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Time has passed: who was resumed, or has a closed destination, goes on."""
        self.outcomes.tell_given_up()
        for route in self._parking.look():
            self.drained(waits_for_resume(route))
        self.sending.offer_anew()
        self.sending.yield_closed_queues()
        self._backfills.wake()

    def demote(self, durable: int) -> None:
        """Matches that have held the cursor, or a backfill's mark, for long become rows.

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

    def look_after_rows(self) -> None:
        """What waits for a queue that will not tell: it refused nothing, or is gone."""
        self._replies.tick()
        for name in self._state.rows.deferred_uris():
            if not self._state.effects.is_open(name):
                self.drained(name)

    # -- ending --------------------------------------------------------------------------------

    def stop(self) -> None:
        """Begin nothing any more."""
        self._state.stopped = True
        self._state.reservations.stop(self._state.rows.idle())

    def leave(self, queued: list[Task]) -> None:
        """*queued* comes back unsent, for good: replies alone are sent yet."""
        for task in queued:
            if task.stage is Stage.REPLY:
                self._replies.hand_back(task)
            else:
                self._state.reservations.make_idle(key_of(task))

    def replies_left(self) -> int:
        """Held replies that are worth waiting for; those that have room go on."""
        self._replies.tick()
        return self._replies.unfinished()
