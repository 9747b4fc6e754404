"""The owner of one partition: takes records, matches, hands tasks out, settles what comes back.

One event loop thread runs all of it; only flushes (fsync, SQL) happen beside it. The rules
that keep it correct are DESIGN's "Rules that keep it correct"; where one is at work, the code
names it.
"""

from collections import deque
from collections.abc import Callable, Iterator

from distributary.deliver import Admission, BreakerState
from distributary.errors import DistributaryError, EventError, StoreError
from distributary.event import record as event_record
from distributary.flow import (
    Attempt,
    Kind,
    Leg,
    Logged,
    Origin,
    Position,
    RouteRecord,
    Task,
    encode_route,
)
from distributary.log import iter_frames
from distributary.outcome import DoneKey, LagRow
from distributary.pipeline._catch_up import CatchUp, Lag
from distributary.pipeline._ledger import Ledger, Point
from distributary.pipeline._patience import Patience
from distributary.pipeline._settle import Settle
from distributary.pipeline._standing import Standing
from distributary.pipeline._surroundings import Surroundings
from distributary.pipeline._tracker import Tracker

SLICE_RECORDS = 128
"""Records taken before the loop gets its turn: under a millisecond, so that answers of sinks
and timers are never far behind."""
TICK_S = 0.1
"""How often the owner looks at its targets, its board and its lags."""
WINDOW_EVENTS = 100_000
"""Most records between cursor and read position (DESIGN rule 1); beyond it the oldest unfinished
matches move to the retry store."""
SPILL_RECORDS = WINDOW_EVENTS // 10
"""Records from the cursor on whose matches are moved at once."""


class Owner:
    """Owns one partition from ``start`` until ``drain`` has called back.

    Args:
        around: Its surroundings.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self.partition = around.partition
        self._follower = around.follower
        self._table = around.follower.table
        self._targets = around.targets
        self._meter = around.meter
        mark = around.journal.state.mark
        self._start = mark.offset
        self._live = mark.offset
        self._tracker = Tracker(mark)
        self._chunks: deque[tuple[int, bytes]] = deque()
        self.buffered_bytes = 0
        """Bytes of chunks that were fed and not yet taken."""
        self._frames: Iterator[Logged] = iter(())
        self._chunk_end = mark.offset
        self._held: deque[Task] = deque()
        self._pumping = False
        self._pausing = False
        self._advancing = False
        self._stopped = False
        self._failed = False
        self._ended = False
        self._seen_before: dict[DoneKey, int] = {}
        self._seen_until = 0
        self.dispatcher = around.make_dispatcher(self._on_attempt, self._on_room)
        self._patience = Patience(around.clock, self.dispatcher, around.targets.all_go_to)
        self._catch_up = CatchUp(
            live=lambda: self._live,
            comfortable=self._comfortable,
            ended=self._on_lag_ended,
        )
        self._ledger = Ledger(
            around.journal,
            around.store,
            blocking=around.blocking,
            timers=around.timers,
            clock=around.clock,
            point=self._point,
            forgettable=self._forgettable,
            failed=self._fail,
        )
        self._settle = Settle(
            around,
            ledger=self._ledger,
            dispatcher=self.dispatcher,
            let_go=self._let_go,
            fail=self._fail,
        )
        self._standing = Standing(
            around,
            ledger=self._ledger,
            dispatcher=self.dispatcher,
            catch_up=self._catch_up,
            settle=self._settle,
        )

    # -- beginning ----------------------------------------------------------------------------

    @property
    def live_offset(self) -> int:
        """The record that the live path will look at next."""
        return self._live

    def start(self) -> None:
        """Load what the last owner left (outcomes, rows, lags) and begin."""
        around = self._around
        self._targets.refresh()
        self._seen_before = dict(around.journal.state.done)
        for row in around.store.rows():
            self._seen_before[row.key] = row.checksum
            self._settle.load(row)
        self._seen_until = max((key.offset + 1 for key in self._seen_before), default=0)
        for lag_row in around.store.lags():
            self._catch_up.add(Lag(self.partition, lag_row, around.make_records(), self))
        self._tick()

    # -- taking records -----------------------------------------------------------------------

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Take the next *chunk* of whole frames; the record after it is *to_offset*."""
        self._chunks.append((to_offset, chunk))
        self.buffered_bytes += len(chunk)
        if not self._pumping and not self._pausing and not self._stopped:
            self._pump()

    def _schedule_pump(self) -> None:
        if not self._pumping and not self._stopped:
            self._pumping = True
            self._around.timers.call_later(0.0, self._pump_again)

    def _pause(self) -> None:
        if not self._pausing:
            self._pausing = True
            self._around.timers.call_later(self._patience.pause_s, self._pause_over)

    def _pause_over(self) -> None:
        self._pausing = False
        self._schedule_pump()

    def _pump_again(self) -> None:
        self._pumping = False
        if not self._stopped:
            self._pump()

    def _pump(self) -> None:
        """Take records until there are none, a lane asks for patience, or the slice is over."""
        try:
            for _ in range(SLICE_RECORDS):
                if self._held and not self._offer_held():
                    self._pause()
                    return
                logged = next(self._frames, None)
                if logged is not None:
                    self._take(logged)
                elif not self._next_chunk():
                    self._ledger.moved()
                    return
        except DistributaryError as error:
            self._fail(error)
            return
        self._schedule_pump()

    def _next_chunk(self) -> bool:
        if self._chunk_end > self._live:
            self._note_hole(self._chunk_end)
            self._follower.pass_gap(self._chunk_end)
            self._tracker.skip_to(self._chunk_end)
            self._live = self._chunk_end
        if not self._chunks:
            return False
        self._chunk_end, chunk = self._chunks.popleft()
        self.buffered_bytes -= len(chunk)
        self._frames = iter_frames(chunk, verify=False)  # verified when it was read
        return True

    def _note_hole(self, end: int) -> None:
        """There are no records up to *end*: damaged on the medium, or leapt over after a loss."""
        self._meter.add("lost_records_total", end - self._live)
        self._around.report("records-lost", {"from": self._live, "to": end})

    def _take(self, logged: Logged) -> None:
        offset = logged.offset
        if offset < self._live:
            return  # Below the cursor: done before this owner began.
        if offset > self._live:
            self._note_hole(offset)
        change = self._follower.pass_record(logged)
        tasks: list[Task] = []
        if logged.kind == Kind.EVENTS:
            tasks = self._match(logged)
        elif change is not None:
            self._on_change(change.uid, deleted=change.op == "delete")
        self._tracker.take(offset, logged.checksum, tasks)
        self._live = offset + 1
        for task in tasks:
            if self._held or not self._offer(task):
                self._held.append(task)

    def _match(self, logged: Logged) -> list[Task]:
        offset, logged_ms, checksum, _, body = logged
        try:
            events = event_record.decode(body)
        except EventError as error:
            # Written whole (the checksums hold) but by nobody we know: said, counted, passed.
            self._meter.add("undecodable_records_total")
            self._around.report("undecodable-record", {"offset": offset, "error": str(error)})
            return []
        self._meter.counters["events_read_total"] += len(events)
        tasks: list[Task] = []
        lags = self._catch_up.by_route
        covers = self._catch_up.covers
        match = self._table.match
        for index, event in enumerate(events):
            for route in match(event):
                if route in lags and covers(route, offset, index):
                    continue
                task = Task(
                    Position(self.partition, offset, index),
                    checksum,
                    route,
                    event,
                    Leg.EVENT,
                    1,
                    logged_ms,
                    Origin.LIVE,
                )
                if offset >= self._seen_until or not self.is_done(task):
                    tasks.append(task)
        self._meter.counters["matches_total"] += len(tasks)
        return tasks

    def is_done(self, task: Task) -> bool:
        """True for a match that had its outcome, or a row, before this owner began.

        Void where the checksum differs: the log lost that record and used its position again.
        """
        position = task.position
        key = DoneKey(position.offset, position.index, task.route)
        checksum = self._seen_before.get(key)
        if checksum is not None and checksum != task.checksum:
            self._settle.void(key)
        return checksum == task.checksum

    def _on_change(self, route: str, *, deleted: bool) -> None:
        self._targets.refresh()
        if deleted:
            for first, end in self._catch_up.drop(route):
                self._meter.add("lags_dropped_total")
                self._around.report(
                    "dropped",
                    {"route": route, "from": first, "to": end, "reason": "route-deleted"},
                )

    # -- handing out --------------------------------------------------------------------------

    def _offer_held(self) -> bool:
        held = self._held
        while held:
            if not self._offer(held[0]):
                return False
            held.popleft()
        return True

    def _offer(self, task: Task) -> bool:
        """Hand a live task out; False where its lane is worth a moment's patience."""
        position = task.position
        if task.origin is Origin.LIVE and self._catch_up.covers(
            task.route, position.offset, position.index
        ):
            self._tracker.finish(task)  # The lag row has it now.
            return True
        target = self._targets.get(task.route)
        if target is None:
            self._settle.drop(task, "route-deleted")
            return True
        if self._settle.crowded(task.route):
            self._yield(task, target.sink.uri)
            return True
        admission = self.dispatcher.offer(task, target.sink)
        if admission is Admission.ADMITTED:
            return True
        if admission is Admission.FULL and self._patience.worth(target.sink.uri):
            return False
        self._yield(task, target.sink.uri)
        return True

    def _begin_lag(self, task: Task, uri: str) -> None:
        """The sink of *task* takes no more: its route lags from here on (DESIGN rule 3)."""
        record = self._table.record(task.route)
        offset, index = task.position.offset, task.position.index
        if record is None:
            self._settle.drop(task, "route-deleted")
            return
        if offset < self._follower.changed_at(task.route) or self._catch_up.began_after(
            task.route, offset, index
        ):
            # The filters of today did not stand there, and a lag's row holds no others; or what
            # lies behind was another lag's, and this one would read it again.
            self._settle.park(task, uri)
            return
        row = LagRow(task.route, offset, index, offset, None, encode_route(record))
        self._catch_up.add(Lag(self.partition, row, self._around.make_records(), self))
        self._ledger.put_lag(row)
        self._tracker.finish(task)
        self._meter.add("lags_begun_total")
        self._around.report("route-lags", {"route": task.route, "from": offset})

    def offer_catch_up(self, task: Task) -> bool:
        """Hand out a task that a lag brought; False where its sink takes none now."""
        target = self._targets.get(task.route)
        if target is None:
            self._settle.drop(task, "route-deleted")
            return True
        if self._settle.crowded(task.route):
            return False
        return self.dispatcher.offer(task, target.sink) is Admission.ADMITTED

    def lost_changes(self, route: str, after_seq: int, gap_end: int) -> list[RouteRecord]:
        """Changes of *route* whose records the medium lost in a hole that ends at *gap_end*."""
        return self._follower.lost_changes(route, after_seq, gap_end)

    def _on_lag_ended(self, name: tuple[str, int]) -> None:
        self._ledger.end_lag(name)

    def _comfortable(self, route: str) -> bool:
        if any(task.route == route for task in self._held):
            return False  # The lag has those: they must meet it before it is gone.
        if self._settle.crowded(route, 0.5):
            return False
        target = self._targets.get(route)
        return target is None or self._patience.comfortable(target.sink.uri)

    # -- what comes back ----------------------------------------------------------------------

    def _on_attempt(self, attempt: Attempt) -> None:
        if self._ended:
            return  # Cut off by the end: the next owner makes it again.
        try:
            self._settle.attempt(attempt)
        except DistributaryError as error:
            self._fail(error)  # The match stays open: the next owner's.

    def _on_room(self, uri: str) -> None:
        self._settle.room(uri)
        if self._held:
            self._schedule_pump()
        self._advance_lags()

    def fail(self, error: DistributaryError) -> None:
        """Stop for good: whoever runs the owner has met what makes going on unsafe."""
        self._fail(error)

    def _let_go(self, task: Task) -> None:
        """The stream that brought *task* need not wait for it any more."""
        if task.origin is Origin.LIVE:
            self._tracker.finish(task)
        elif task.origin is Origin.CATCH_UP:
            self._catch_up.finish(task)

    # -- now and then -------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._stopped:
            return
        self._around.timers.call_later(TICK_S, self._tick)
        try:
            self._targets.refresh()
            self._offer_anew()
            self._yield_closed_lanes()
            self._advance_lags()
        except DistributaryError as error:
            self._fail(error)
            return
        if self._failed:
            return
        if self._live - self._ledger.durable_mark.offset > WINDOW_EVENTS:
            for waiting in self._tracker.open_below(self._tracker.mark().offset + SPILL_RECORDS):
                self._settle.spill(waiting)
        self._standing.save_routes(self._live)
        self._settle.tick()
        self._around.attempts.flush()
        self._standing.post(self._live)
        self._ledger.moved()

    def _yield_closed_lanes(self) -> None:
        """What waits behind an open breaker must not hold the cursor (DESIGN rule 3)."""
        for lane in self.dispatcher.lanes():
            if lane.queued and lane.breaker is BreakerState.OPEN:
                for task in self.dispatcher.take_queued(lane.uri):
                    self._yield(task, lane.uri)

    def _yield(self, task: Task, uri: str) -> None:
        """The lane of *task* does not take it: its lag has it, or a new lag, or a row."""
        position = task.position
        if task.origin is not Origin.LIVE:
            self._settle.park(task, uri)
        elif self._catch_up.covers(task.route, position.offset, position.index):
            self._tracker.finish(task)  # The lag row has it now.
        elif self._catch_up.lagging(task.route):
            self._settle.park(task, uri)  # It lies before the lag.
        else:
            self._begin_lag(task, uri)

    def _offer_anew(self) -> None:
        """Resources changed: what waits goes where the newest revision says (DESIGN rule 5)."""
        changed = self._targets.changed_uris()
        for uri in changed:
            # Rows, not held tasks: what came later may be on its way to the new sink, and a lag
            # that began at one of these would read it again.
            for task in self.dispatcher.take_queued(uri):
                if self._targets.get(task.route) is None:
                    self._settle.drop(task, "route-deleted")
                else:
                    self._settle.park(task, uri)
        for uri in changed:
            self._settle.room(uri)

    def _advance_lags(self) -> None:
        if self._stopped or not len(self._catch_up):
            return
        try:
            more = self._catch_up.advance()
        except DistributaryError as error:
            self._fail(error)
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
        lag_floor = self._catch_up.floor()
        floor = mark.offset if lag_floor is None else min(mark.offset, lag_floor)
        return Point(mark, floor, self._catch_up.rows(), self._catch_up.floors())

    def _forgettable(self, durable: Point) -> list[DoneKey]:
        return self._settle.forgettable(durable.mark.offset, self._catch_up.needs)

    # -- ending -------------------------------------------------------------------------------

    def _fail(self, error: DistributaryError | StoreError) -> None:
        if self._failed:
            return
        self._failed = self._stopped = True
        self._settle.stop()
        self.dispatcher.take_queued()  # What cannot be written down must not be sent.
        self._around.on_failed(error)

    def drain(self, deadline_s: float, done: Callable[[int], None]) -> None:
        """Start nothing more; wait for what is under way; make it durable; then call *done*.

        What was queued and not started stays above the cursor (or as its row, or its lag) and is
        the next owner's.

        Args:
            deadline_s: Seconds to wait for attempts under way; those that have no answer by then
                are left without an outcome, as after a crash.
            done: Called with the number of attempts that were left.
        """
        self._stopped = True
        self._settle.stop()
        self.dispatcher.take_queued()
        clock, timers = self._around.clock, self._around.timers
        until_s = clock.monotonic_s() + deadline_s

        def look() -> None:
            left = self.dispatcher.in_flight
            if left and clock.monotonic_s() < until_s:
                timers.call_later(0.005, look)
            else:
                self._ledger.when_durable(lambda: self._finish(left, done))

        look()

    def _finish(self, left: int, done: Callable[[int], None]) -> None:
        self._ended = True
        self._around.attempts.flush()
        self._standing.post(self._live)
        self._catch_up.close()
        self._settle.close()
        done(left)
