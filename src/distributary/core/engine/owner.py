"""The owner of one partition: takes records, matches, hands tasks out, settles what comes back.

One event loop thread runs all of it; only flushes (fsync, SQL) happen beside it. The rules
that keep it correct are DESIGN's "Rules that keep it correct"; where one is at work, the code
names it.
"""

from collections.abc import Callable, Iterator, Sequence

from distributary.core.engine._catch_up import CatchUp
from distributary.core.engine._hand_out import HandOut
from distributary.core.engine._intake import Intake
from distributary.core.engine._keeping import Keeping
from distributary.core.engine._ledger import Forgettable, Ledger, Point
from distributary.core.engine._matching import SLICE_TASKS, Matching
from distributary.core.engine._patience import PAUSE_S
from distributary.core.engine._replay import Replay
from distributary.core.engine._resources import HISTORY, Resources
from distributary.core.engine._runs import Runs
from distributary.core.engine._settle import Settle
from distributary.core.engine._slots import Slots, claims, waits_for_slot
from distributary.core.engine._standing import Standing
from distributary.core.engine._tracker import Tracker
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import DistributaryError
from distributary.core.flow import Attempt, Kind, Leg, Logged, Origin, RouteRecord, Task
from distributary.core.outcome import LagRow

TICK_S = 0.1
"""How often the owner looks at its targets, its board and its lags."""
WINDOW_EVENTS = 100_000
"""Most records between cursor and read position (DESIGN rule 1); beyond it the oldest unfinished
matches move to the retry store."""
SPILL_RECORDS = WINDOW_EVENTS // 10
"""Records from the cursor on whose matches are moved at once."""
WINDOW_OUTCOMES = 100_000
"""Most finished matches above the cursor (DESIGN rule 1): each is remembered until the cursor has
passed it, some 180 bytes of memory and 60 of the journal. A record holds up to 1,000 events, so
bounding the records does not bound these."""
SPILL_OUTCOMES = WINDOW_OUTCOMES // 10
"""Finished matches that the cursor is made to pass at once: as many a second as ten looks make."""


class Owner:
    """Owns one partition from ``start`` until ``drain`` has called back.

    Args:
        around: Its surroundings.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._follower = around.follower
        self._table = around.follower.table
        self._targets = around.targets
        self._meter = around.meter
        mark = around.journal.state.mark
        self._live = mark.offset
        self._tracker = Tracker(mark)
        self._rest: Iterator[Task] | None = None  # of the last record: matches not made yet
        self._slice_left = SLICE_TASKS
        self._advancing = False
        self._stopped = False
        self._failed = False
        self._ended = False
        self.dispatcher = around.make_dispatcher(self._on_attempt, self._on_room)
        self._intake = Intake(self, around.timers, PAUSE_S, mark.offset)
        self._keeping = Keeping(around, self._table.__contains__)
        self._resources = Resources(around, news=self._on_news, fail=self.fail)
        self._slots = Slots(
            around,
            answered=self._on_answer,
            answered_all=self._on_answers,
            is_row=lambda task: self._settle.is_row(task),  # noqa: PLW0108 - made later
        )
        self._ledger = self._make_ledger(around)
        self._catch_up = CatchUp(
            partition=around.partition,
            make_records=around.make_records,
            offers=self,
            live=lambda: self._live,
            may_join=self._may_join,
            ended=self._on_lag_ended,
            dropped=self._ledger.end_lag,
        )
        self._settle = self._make_settle(around)
        self._hand_out = HandOut(
            around,
            dispatcher=self.dispatcher,
            catch_up=self._catch_up,
            slots=self._slots,
            settle=self._settle,
            ledger=self._ledger,
            unseen=self._resources.unseen,
            passed=self._tracker.finish,
        )
        self._matching = Matching(around, self._catch_up, self._settle.void)
        self._runs = Runs(around, self._ledger, self._settle)
        self._standing = Standing(
            around,
            ledger=self._ledger,
            dispatcher=self.dispatcher,
            catch_up=self._catch_up,
            settle=self._settle,
        )
        self._replay = Replay(
            around,
            catch_up=self._catch_up,
            resources=self._resources,
            standing=self._standing,
            ledger=self._ledger,
            dropped=self._report_lag_dropped,
        )
        # Read here: ``start`` runs on the loop, which waits for no store.
        self._targets.refresh()
        self._settle.parking.load()
        self._left = around.store.rows(), around.store.lags()

    def _make_settle(self, around: Surroundings) -> Settle:
        return Settle(
            around,
            ledger=self._ledger,
            dispatcher=self.dispatcher,
            slots=self._slots,
            take_back=lambda *task: self._hand_out.take_back(*task),  # noqa: PLW0108 - made later
            let_go=self._let_go,
            waits_for=self._waits_for,
            on_room=self._on_room,
            fail=self.fail,
            unseen=self._resources.unseen,
        )

    def _make_ledger(self, around: Surroundings) -> Ledger:
        return Ledger(
            around.journal,
            around.store,
            around.quota,
            partition=around.partition,
            blocking=around.blocking,
            timers=around.timers,
            clock=around.clock,
            point=self._point,
            forgettable=self._forgettable,
            failed=self.fail,
            untold=self._slots.tell_later,
            given_up=self._keeping.tell,
        )

    # -- beginning ----------------------------------------------------------------------------

    @property
    def live_offset(self) -> int:
        """The record that the live path will look at next."""
        return self._live

    @property
    def buffered_bytes(self) -> int:
        """Bytes of chunks that were fed and not yet taken."""
        return self._intake.buffered_bytes

    def start(self) -> None:
        """Take over what the last owner left (outcomes, rows, lags, slots) and begin."""
        done = dict(self._around.journal.state.done)
        (rows, lags), self._left = self._left, ([], [])
        self._matching.load(done | {row.key: row.checksum for row in rows})
        for row in rows:
            self._settle.load(row)
        for lag in lags:
            self._catch_up.add(lag)
        self._slots.load(claims(self._live, done, rows, lags))
        self._tick()

    # -- taking records -----------------------------------------------------------------------

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Take the next *chunk* of whole frames; the record after it is *to_offset*."""
        self._intake.feed(to_offset, chunk)

    def all_taken(self) -> None:
        """There is nothing more for now."""
        self._ledger.moved()

    def pass_hole(self, to_offset: int) -> None:
        """There are no records up to *to_offset*: damaged, or leapt over after a loss."""
        if to_offset > self._live:
            self._note_hole(to_offset)
            question = self._follower.asks_gap(to_offset)
            if question is None:
                self._pass_gap(to_offset, [])
            else:
                self._resources.ask_history(question, lambda lost: self._pass_gap(to_offset, lost))

    def _pass_gap(self, to_offset: int, lost: list[RouteRecord]) -> None:
        self._change(self._follower.pass_gap(to_offset, lost), to_offset)
        self._tracker.skip_to(to_offset)
        self._live = to_offset

    def _note_hole(self, end: int) -> None:
        self._meter.add("lost_records_total", end - self._live)
        self._around.report("records-lost", {"from": self._live, "to": end})

    def take(self, logged: Logged) -> bool:
        """Take the next record; False where that cost as much as a slice of others, or waits."""
        if logged.offset < self._live:
            return True  # Below the cursor: done before this owner began.
        if logged.offset > self._live:
            self._note_hole(logged.offset)
        question = self._follower.asks_before(logged)
        if question is None:
            return self._pass(logged, [])
        self._resources.ask_history(question, lambda lost: self._pass(logged, lost))
        return False

    def _pass(self, logged: Logged, lost: list[RouteRecord]) -> bool:
        offset = logged.offset
        begun = self._change(self._follower.pass_record(logged, lost), offset)
        tasks = [] if logged.kind == Kind.ROUTE else self._matching.tasks(logged)
        self._live = offset + 1
        if isinstance(tasks, list):
            self._tracker.take(offset, logged.checksum, tasks)
            for task in tasks:
                self._hand_out.take(task)
            self._slice_left -= len(tasks)
            return self._slice_left > 0 and not begun
        self._tracker.begin(offset, logged.checksum)
        self._rest = tasks
        return self._take_rest()

    def take_rest(self) -> bool:
        """A slice begins: go on with the record that was taken last; False where there is more."""
        self._slice_left = SLICE_TASKS
        return self._rest is None or self._take_rest()

    def _take_rest(self) -> bool:
        """Take matches of the last record until the slice is over or a lane needs patience."""
        rest = self._rest
        assert rest is not None
        while self._slice_left > 0 and not self._hand_out.holds_back:
            task = next(rest, None)
            if task is None:
                self._rest = None
                self._tracker.complete()
                return True
            self._tracker.add(task)
            self._hand_out.take(task)
            self._slice_left -= 1
        return False

    def _change(self, changes: Sequence[RouteRecord], offset: int) -> bool:
        """Routes changed at *offset*; True where one of them begins in the past."""
        begun = False
        for change in changes:
            self._resources.met(change)
            if change.op == "delete":
                self._end_route(change.uid)
            elif change.begin_ms is not None:
                begun |= self._replay.begin(change, change.begin_ms, offset)
        if changes:
            self._hand_out.offer_anew()  # What waits for a deleted route is not sent any more.
        return begun

    def _end_route(self, route: str) -> None:
        self._slots.forget(route)
        self._targets.end(route)
        self._hand_out.forget(route)
        self._keeping.route_deleted(route)
        self._settle.parking.route_deleted(route)
        self._resources.forget(route)
        self._settle.failing.delivered(route)  # There is nothing to tell of it any more.
        for first, end in self._catch_up.drop(route):
            self._report_lag_dropped(route, first, end)

    def _report_lag_dropped(self, route: str, first: int, end: int) -> None:
        self._meter.add("lags_dropped_total")
        reason = self._settle.why_gone(route)
        self._around.report("dropped", {"route": route, "from": first, "to": end, "reason": reason})

    # -- what lags ask and tell ---------------------------------------------------------------

    def offer_catch_up(self, task: Task) -> str | None:
        """Hand out a task that a lag brought; what it waits for where it is not taken now."""
        return self._hand_out.offer_catch_up(task)

    def lost_changes(self, route: str, after_seq: int, gap_end: int) -> list[RouteRecord] | None:
        """Changes of *route* whose records the medium lost in a hole that ends at *gap_end*."""

        def told() -> None:
            self._catch_up.wake_for(HISTORY)
            self._advance_lags()

        question = self._follower.asks_lost(route, after_seq, gap_end)
        return self._resources.lost_changes((route, after_seq, gap_end), question, told)

    def note_hole(self, route: str, first: int, end: int) -> None:
        """A lag of *route* has met no records from *first* up to *end*: matches may be lost."""
        self._meter.add("lag_lost_records_total", end - first)
        self._around.report("records-lost", {"route": route, "from": first, "to": end})

    def _on_lag_ended(self, row: LagRow) -> bool:
        assert row.to_offset is not None
        if self._ledger.durable_mark.offset >= row.to_offset:
            self._ledger.end_lag(row.name)
            return False
        self._ledger.put_lag(row)
        return True

    def _may_join(self, route: str) -> bool:
        # What is left of a record is judged by the lags that stand when it is made.
        return self._rest is None and self._hand_out.may_join(route)

    def offer_held(self) -> bool:
        """Hand out what is held back; False where its lane is worth a moment's patience.

        So is a resource that was not read yet, of a route that has just changed.
        """
        if self._resources.waiting and self._resources.awaited():
            return False
        return self._hand_out.offer_held()

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, before this owner began."""
        return self._matching.is_done(task)

    # -- what comes back ----------------------------------------------------------------------

    def _on_attempt(self, attempt: Attempt) -> None:
        if self._ended:
            return  # Cut off by the end: the next owner makes it again.
        try:
            self._settle.attempt(attempt)
        except DistributaryError as error:
            self.fail(error)  # The match stays open: the next owner's.

    def _on_answer(self, task: Task, granted: bool) -> None:
        """The store has said whether *task* holds a slot now."""
        try:
            self._hand_out.take_answer(task, granted=granted)
        except DistributaryError as error:
            self.fail(error)  # The next owner's, with its slot.

    def _on_answers(self, routes: list[str]) -> None:
        """Lags of these routes may have waited for slots."""
        for route in routes:
            self._catch_up.wake_for(waits_for_slot(route))
        self._advance_lags()

    def _on_news(self) -> None:
        """Resources changed: what waits goes where the newest revision says (DESIGN rule 5)."""
        try:
            self._hand_out.offer_anew()
        except DistributaryError as error:
            self.fail(error)
            return
        self._intake.go_on()

    def _on_room(self, uri: str) -> None:
        self._settle.room(uri)
        if self._hand_out.holds_back:
            self._intake.go_on()
        self._catch_up.wake_for(uri)
        self._advance_lags()

    def _let_go(self, task: Task) -> bool:
        """The stream that brought *task* need not wait for it any more; False: it does not."""
        if task.origin is Origin.LIVE:
            return self._tracker.finish(task)
        return task.origin is Origin.CATCH_UP and self._catch_up.finish(task)

    def _waits_for(self, task: Task) -> bool:
        """Whether the stream that brought *task* waits for it."""
        return (self._tracker if task.origin is Origin.LIVE else self._catch_up).holds(task)

    # -- now and then -------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopped:
            return
        self._around.timers.call_later(TICK_S, self._tick)
        try:
            self._resources.look()
            self._settle.parking.look()
            self._hand_out.limit.tick()
            self._runs.tick()
            self._hand_out.offer_anew()
            self._hand_out.yield_closed_lanes()
            self._catch_up.wake()
            self._advance_lags()
        except DistributaryError as error:
            self.fail(error)
            return
        if self._failed:
            return
        self._spill()
        self._standing.save_routes(self._live)
        self._settle.tick()
        self._keeping.tick()
        self._around.attempts.flush()
        self._standing.post(self._live)
        self._ledger.moved()

    def _spill(self) -> None:
        """Matches that have held the cursor, or a lag's mark, for long become rows."""
        mark = self._tracker.mark()
        waiting: list[Task] = []
        if self._live - self._ledger.durable_mark.offset > WINDOW_EVENTS:
            waiting = self._tracker.open_below(mark.offset + SPILL_RECORDS)
        elif self._tracker.finished_count > WINDOW_OUTCOMES:
            waiting = self._tracker.open_before(SPILL_OUTCOMES, self._live)
        for task in [*waiting, *self._catch_up.stuck()]:
            self._settle.spill(task)

    def _advance_lags(self) -> None:
        if self._stopped or not len(self._catch_up):
            return
        try:
            more = self._catch_up.advance()
        except DistributaryError as error:
            self.fail(error)
            return
        # One chain of turns, however many asked: each of them would take the loop's time.
        if more and not self._advancing:
            self._advancing = True
            self._around.timers.call_later(0.0, self._advance_again)

    def _advance_again(self) -> None:
        self._advancing = False
        self._advance_lags()

    def _point(self) -> Point:
        mark = self._tracker.mark()
        rows = self._catch_up.rows()
        lag_floor = self._catch_up.floor()
        floor = mark.offset if lag_floor is None else min(mark.offset, lag_floor)
        return Point(mark, floor, rows, self._catch_up.floors())

    def _forgettable(self, durable: Point) -> Forgettable:
        cursor = durable.mark.offset
        rows = self._settle.forgettable(cursor, self._catch_up.needs)
        return rows, self._catch_up.forgettable(cursor)

    # -- ending -------------------------------------------------------------------------------

    def fail(self, error: DistributaryError) -> None:
        """Stop for good: what makes going on unsafe was met."""
        if self._failed:
            return
        self._failed = True
        self._stop()
        self.dispatcher.take_queued()  # What cannot be written down must not be sent.
        self._around.on_failed(error)

    def _stop(self) -> None:
        self._stopped = True
        self._intake.stop()
        self._settle.stop()
        self._slots.stop()
        self._resources.stop()

    def drain(self, deadline_s: float, done: Callable[[int], None]) -> None:
        """Start nothing more; wait for what is under way; make it durable; then call *done*.

        What was queued and not started stays above the cursor (or as its row, or its lag) and is
        the next owner's. Replies are sent: their deliveries are under way.

        Args:
            deadline_s: Seconds to wait for attempts under way; those that have no answer by then
                are left without an outcome, as after a crash.
            done: Called with the number of attempts, and of replies, that were left.
        """
        self._stop()
        replies = self._settle.replies
        for task in self.dispatcher.take_queued():
            if task.leg is Leg.REPLY:
                replies.hand_back(task)
            else:
                self._slots.leave(task)
        clock, timers = self._around.clock, self._around.timers
        until_s = clock.monotonic_s() + deadline_s

        def look() -> None:
            if self.dispatcher.queued:
                self._hand_out.yield_closed_lanes()  # Replies whose destination fails meanwhile.
            replies.tick()
            left = self.dispatcher.in_flight + replies.unfinished()
            if left and clock.monotonic_s() < until_s:
                timers.call_later(0.005, look)
            else:
                self._ledger.when_durable(
                    lambda: self._slots.when_idle(lambda: self._finish(left, done))
                )

        look()

    def _finish(self, left: int, done: Callable[[int], None]) -> None:
        self._ended = True
        self._around.attempts.flush()
        self._standing.post(self._live)
        self._catch_up.close()
        self._settle.close()
        done(left)
