"""The partition consumer: feeds inputs to the engine, and executes the effects it requests.

Runs on one event loop thread; SQL, reads, and flushes that take long use others. ``core.engine``
alone decides about a match; here are the loop's turns, timers, stores and the log. Where the code
relies on a rule of DESIGN ("Rules that keep it correct"), it names it.
"""

import contextlib
from collections.abc import Callable, Sequence

from distributary.core.engine.backpressure import PAUSE_S
from distributary.core.engine.effects import Effects
from distributary.core.engine.machine import Engine
from distributary.core.engine.state import PartitionState
from distributary.core.errors import DistributaryError
from distributary.core.flow import Attempt, Logged, RouteRecord
from distributary.core.outcome import BackfillRow, ReservationAnswer, ReservationBatch, RetryRow
from distributary.history.rows import Recorder, RouteNames
from distributary.partitions._backfill_budget import BackfillLimit
from distributary.partitions._backfilling import Backfilling
from distributary.partitions._failing import FailingFile
from distributary.partitions._flusher import Flusher, Point
from distributary.partitions._history import History, recording
from distributary.partitions._intake import Intake
from distributary.partitions._keeping import Keeping
from distributary.partitions._log_thread import LogThread
from distributary.partitions._progress import Progress
from distributary.partitions._reload import Reload
from distributary.partitions._reservations import ReservationClient
from distributary.partitions._resources import Resources
from distributary.partitions._runs import Runs
from distributary.partitions._tallying import Tallying
from distributary.partitions._unwritten import Unwritten
from distributary.partitions.context import PartitionContext

TICK_S = 0.1
"""How often the consumer checks targets, status page and backfills."""
REST_TICK_S = 0.2
"""The same for a consumer that has nothing to do: waking up costs it more than the checks."""


class PartitionConsumer:
    """Delivers one partition from ``start`` until ``drain`` has called back.

    Args:
        context: Its dependencies.
    """

    def __init__(self, context: PartitionContext) -> None:
        self._context = context
        self._clock = context.clock
        self._follower = context.follower
        self._targets = context.targets
        self._meter = context.meter
        self._on_taken = context.on_taken
        self._armed_s: float | None = None
        self._failed = False
        self._ended = False
        self._ticked_at = -1
        mark = context.ownership.state.mark
        self.dispatcher = context.make_dispatcher(self._on_attempt, self._on_drained)
        self._intake = Intake(
            self,
            context.timers,
            PAUSE_S,
            at_offset=mark.offset,
            slice_records=context.limits.slice_records,
            judged=None if context.once is None else context.once.judged,
        )
        self._keeping = Keeping(context, context.follower.table.__contains__)
        self._log_thread = LogThread(context, self.fail)
        away = self._log_thread.away
        self._resources = Resources(context, away, news=self._on_news, fail=self.fail)
        self._backfilling = Backfilling(
            context,
            resources=self._resources,
            thread=self._log_thread,
            decide=self._decide,
            keep_from=lambda offset: self._standing.keep_from(offset),  # noqa: PLW0108 - made later
        )
        self._reservations = ReservationClient(context, self._on_answers)
        self._recorder = Recorder(
            context.partition, self._names, failures_only=context.failures_only
        )
        self._unwritten = Unwritten(context, self.dispatcher)
        self._flusher = self._make_ledger(context)
        self._reload = Reload(context, self._log_thread, self._flusher.brings_event)
        self._state = PartitionState(
            partition=context.partition,
            mark=mark,
            follower=context.follower,
            targets=context.targets,
            effects=self._make_effects(context),
            meter=context.meter,
            limits=context.limits,
            stored_tally=context.tallies.get,
        )
        self._backfills = self._state.backfills
        self._failing = FailingFile(context, self._state.failing)
        # Read here: ``start`` runs on the loop, which waits for no store.
        self._targets.refresh()
        self._tallying = Tallying(context, self._state, self.dispatcher)
        self._engine = Engine(self._state)
        self._backfilling.attach(self._state, self._engine, self._flusher)
        self._attempted = self._engine.attempted
        self._holding = self._engine.sending.held
        self._limit = BackfillLimit(context, self._engine)
        self._runs = Runs(context, self._flusher, self._state, self._engine)
        self._standing = Progress(
            context,
            flusher=self._flusher,
            dispatcher=self.dispatcher,
            rows=self._state.rows,
            backfills=self._backfills,
            replays_from=self._kept_for_past,
        )
        self._runs.keep_from = self._standing.keep_from
        self._left = self._read_left()

    def _read_left(self) -> tuple[list[RetryRow], list[BackfillRow]]:
        """Read what the previous owner left; blocks."""
        store = self._context.ownership.store
        self._state.load_parked(store.parked())
        if self._context.recalls is not None:
            with contextlib.closing(self._context.kept()) as kept:
                self._state.rows.archived_to = kept.archived_to()
        return store.rows(), store.backfills()

    def _make_effects(self, context: PartitionContext) -> Effects:
        dispatcher, flusher, timers = self.dispatcher, self._flusher, context.timers
        recorder = self._recorder if context.history_files else None
        recorded = recording(recorder, context.tracing)
        return Effects(
            send=dispatcher.offer,
            send_again=dispatcher.offer_retry,
            take_queued=dispatcher.take_queued,
            queue=dispatcher.queue,
            is_open=dispatcher.is_open,
            probe=dispatcher.probe,
            cut_off=dispatcher.cut_off,
            done=flusher.done,
            backfilled=flusher.backfilled,
            put_row=flusher.put_row,
            forget_row=flusher.forget,
            put_backfill=flusher.put_backfill,
            end_backfill=flusher.end_backfill,
            read_log=self._backfilling.reads.ask,
            find_lost=self._backfilling.find_lost,
            keep=flusher.keep,
            put_parked=flusher.put_parked,
            ask_reservations=flusher.ask,
            read=self._read,
            wake_at=self._wake_at,
            drained_soon=lambda name: timers.call_later(0.0, lambda: self._on_drained(name)),
            attempted=recorded.attempted,
            succeeded=recorded.succeeded,
            ended=recorded.ended,
            report=context.report,
            warn=context.warn,
            chance=context.random.unit,
            watch=context.watch,
        )

    def _make_ledger(self, context: PartitionContext) -> Flusher:
        self._history = History(
            self._recorder,
            context.history_files,
            blocking=context.filing or context.aside,
            timers=context.timers,
            meter=context.meter,
            warn=context.warn,
        )
        return Flusher(
            context.ownership,
            self._reservations,
            blocking=context.blocking,
            journaling=context.journaling or context.blocking,
            timers=context.timers,
            clock=context.clock,
            point=self._point,
            forgettable=lambda durable: self._engine.flushed(durable.mark.offset),
            failed=self.fail,
            given_up=self._keeping.tell,
            history=self._history,
            unwritten=self._unwritten,
        )

    def _names(self, uid: str) -> RouteNames | None:
        found = self._targets.get(uid)
        return None if found is None else RouteNames(found.namespace, found.name, found.revision)

    # -- beginning ----------------------------------------------------------------------------

    @property
    def live_offset(self) -> int:
        """Offset of the next record of the live path."""
        return self._state.live

    @property
    def buffered_bytes(self) -> int:
        """Bytes of chunks fed but not yet processed."""
        return self._intake.buffered_bytes

    def start(self) -> None:
        """Load outcomes, rows, backfills and reservations of the previous owner, and begin."""
        state = self._context.ownership.state
        done = dict(state.done)
        blocks, end = list(state.blocks), state.history_end
        self._history.load(blocks, state.filed, end, self._flusher.ask)
        (rows, backfills), self._left = self._left, ([], [])
        self._now()
        self._engine.load(done, rows, backfills)
        self._reservations.load(self._state.reservations, self._state.rows.rows)
        self._tick()

    def _now(self) -> None:
        """Set the engine's time, before an input."""
        self._engine.at(self._clock.monotonic_s(), self._clock.wall_ms())

    # -- taking records -----------------------------------------------------------------------

    def feed(self, to_offset: int, chunk: bytes) -> None:
        """Enqueue the next *chunk* of whole frames; the record after it is *to_offset*."""
        self._intake.feed(to_offset, chunk)

    def all_taken(self) -> None:
        """Handle the end of the fed records, for now."""
        self._flusher.moved()
        self._on_taken()

    def pass_hole(self, to_offset: int) -> None:
        """Pass a hole up to *to_offset*: records damaged, or skipped after a loss."""
        if to_offset > self._state.live:
            self._note_hole(to_offset)
            question = self._follower.asks_gap(to_offset)
            if question is None:
                self._pass_gap(to_offset, [])
            else:
                self._resources.ask_history(question, lambda lost: self._pass_gap(to_offset, lost))

    def _pass_gap(
        self, to_offset: int, lost: list[RouteRecord], firsts: dict[str, int] | None = None
    ) -> None:
        if firsts is None and lost:
            begins = self._follower.begins(None, lost)
            if self._backfilling.begins(
                begins, to_offset, lambda found: self._pass_gap(to_offset, lost, found)
            ):
                return
        self._now()
        self._change(self._follower.pass_gap(to_offset, lost), to_offset, firsts)
        self._engine.pass_hole(to_offset)

    def _note_hole(self, end: int) -> None:
        live = self._state.live
        self._meter.add("lost_records_total", end - live)
        self._context.warn("records-lost", {"from": live, "to": end})

    def take(self, logged: Logged) -> bool:
        """Process the next record; False to yield to the event loop, or to wait."""
        live = self._state.live
        if logged.offset < live:
            return True  # Below the cursor: done before this owner began.
        if logged.offset > live:
            self._note_hole(logged.offset)
        if self._follower.pass_plain(logged):
            return self._engine.take(logged)
        question = self._follower.asks_before(logged)
        if question is None:
            return self._pass(logged, [])
        self._resources.ask_history(question, lambda lost: self._pass(logged, lost))
        return False

    def _pass(
        self, logged: Logged, lost: list[RouteRecord], firsts: dict[str, int] | None = None
    ) -> bool:
        if firsts is None:
            begins = self._follower.begins(logged, lost)
            if begins and self._backfilling.begins(
                begins, logged.offset, lambda found: self._pass(logged, lost, found)
            ):
                return False
        self._now()
        changes = self._follower.pass_record(logged, lost)
        begun = self._change(changes, logged.offset, firsts)
        return self._engine.take(logged) and not begun

    def take_rest(self) -> bool:
        """Continue the last record at the start of a slice; False where more of it is left."""
        self._now()
        return self._engine.take_rest()

    def offer_held(self) -> bool:
        """Dispatch held tasks; False to pause for a full queue, the disk, or an unread resource."""
        if self._unwritten.crowded or (self._resources.waiting and self._resources.awaited()):
            return False
        if not self._holding:
            return True
        self._now()
        return self._engine.sending.offer_held()

    def _change(
        self, changes: Sequence[RouteRecord], offset: int, firsts: dict[str, int] | None
    ) -> bool:
        """Apply route changes at *offset*; True where one of them begins in the past."""
        begun = False
        for change in changes:
            self._resources.met(change)
            if change.op == "delete":
                self._targets.end(change.uid)
                self._keeping.route_deleted(change.uid)
                self._engine.route_deleted(change.uid)
            elif change.begin_ms is not None:
                begun |= self._backfilling.begin(change, firsts or {}, offset)
        if changes:
            self._engine.resources_changed()  # What waits for a deleted route is not sent.
        return begun

    def _kept_for_past(self) -> int | None:
        """The lowest record that replays and routes about to begin in the past still need."""
        floors = (self._runs.floor(), self._backfilling.begins_from)
        return min((floor for floor in floors if floor is not None), default=None)

    # -- what comes back ----------------------------------------------------------------------

    def _on_attempt(self, attempt: Attempt) -> None:
        if self._ended:
            return  # Cut off by the end: the next owner makes it again.
        state, clock = self._state, self._clock
        try:
            # As ``_now``, without its calls: most of what an event costs here is calls.
            state.now_s, state.now_ms = clock.monotonic_s(), clock.wall_ms()
            self._attempted(attempt)
        except DistributaryError as error:
            self.fail(error)  # The match stays open: the next owner's.

    def _on_drained(self, name: str) -> None:
        self._decide(lambda: self._engine.drained(name))
        if self._holding:
            self._intake.go_on()
        self._backfilling.advance()
        self._runs.drained()

    def _on_answers(self, batch: ReservationBatch, answers: list[ReservationAnswer]) -> None:
        """Apply the answers of the reservation store."""
        self._decide(lambda: self._engine.reservations_answered(batch, answers))
        self._backfilling.advance()
        if self._reservations.waiting:
            self._flusher.ask()

    def _on_news(self) -> None:
        """Apply changed resources."""
        if self._decide(self._engine.resources_changed):
            self._intake.go_on()

    def _decide(self, take: Callable[[], None]) -> bool:
        """Give the engine an input; False where the consumer has failed."""
        try:
            self._now()
            take()
        except DistributaryError as error:
            self.fail(error)
            return False
        return True

    # -- what the engine asks for --------------------------------------------------------------

    def _read(self) -> None:
        """Read all requested rows in one batch."""
        self._reload.read(
            self._state.reads.take_batch(),
            lambda found: self._decide(lambda: self._engine.rows_read(found)),
        )

    def _wake_at(self, due_s: float) -> None:
        if self._armed_s is not None and self._armed_s <= due_s:
            return
        self._armed_s = due_s
        delay_s = max(0.0, due_s - self._clock.monotonic_s())
        self._context.timers.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._armed_s = None
        if self._unwritten.crowded and not self._state.stopped:
            self._wake_at(self._clock.monotonic_s() + TICK_S)  # Those set aside would add to it.
        elif not self._state.stopped:
            self._decide(self._engine.due)

    # -- now and then -------------------------------------------------------------------------

    def _tick(self) -> None:
        if self._ended or self._failed:
            return
        self._context.timers.call_later(REST_TICK_S if self._rests() else TICK_S, self._tick)
        self._context.on_tick()
        if self._state.stopped:
            return
        if not self._decide(self._look) or self._failed:
            return
        self._engine.demote(self._flusher.durable_mark.offset)
        self._standing.save_routes(self._state.live)
        self._engine.look_after_rows()
        self._failing.tick()
        self._tallying.tick()
        self._keeping.tick()
        self._standing.post(self._state.live)
        self._flusher.tick()

    def _rests(self) -> bool:
        """Whether nothing has come since the last tick, and nothing waits or is under way."""
        before, self._ticked_at = self._ticked_at, self._state.live
        dispatcher = self.dispatcher
        return before == self._ticked_at and not (
            dispatcher.in_flight
            or dispatcher.queued
            or self._holding
            or self._state.rows.count
            or len(self._backfills)
            or self._resources.waiting
            or self._runs.under_way
            or not self._reservations.idle
            or self._state.stopped
        )

    def _look(self) -> None:
        self._resources.look()
        self._limit.tick()
        self._runs.tick()
        self._engine.look()
        self._backfilling.advance()

    def _point(self) -> Point:
        mark, rows = self._state.tracker.mark(), self._backfills.rows()
        runs = self._runs.moved()
        return Point(mark, rows, self._backfills.floors() | self._runs.floors(), runs)

    # -- ending -------------------------------------------------------------------------------

    def fail(self, error: DistributaryError) -> None:
        """Stop for good: continuing would be unsafe."""
        if self._failed:
            return
        self._failed = True
        self._stop()
        self.dispatcher.take_queued()  # What cannot be written down must not be sent.
        self._context.on_failed(error)

    def _stop(self) -> None:
        self._intake.stop()
        self._now()
        self._engine.stop()
        self._reservations.stop()
        self._resources.stop()

    def drain(self, deadline_s: float, done: Callable[[int], None]) -> None:
        """Stop starting attempts, wait for those under way, flush, then call *done*.

        Queued tasks stay above the cursor (or as a row, or a backfill) for the next owner. Replies
        are still sent: their deliveries are under way.

        Args:
            deadline_s: Longest wait for attempts under way, seconds; unfinished ones are left
                without an outcome, as after a crash.
            done: Called with the number of unfinished attempts and replies.
        """
        self._stop()
        self._engine.leave(self.dispatcher.take_queued())
        clock, timers = self._clock, self._context.timers
        until_s = clock.monotonic_s() + deadline_s
        left = 0

        def look() -> None:
            nonlocal left
            self._now()
            if self.dispatcher.queued:  # Replies whose destination fails meanwhile.
                self._engine.sending.yield_closed_queues()
            held = self._engine.replies_left()
            left = self.dispatcher.in_flight + self.dispatcher.queued + held
            if left and clock.monotonic_s() < until_s:
                timers.call_later(0.005, look)
            else:
                self._flusher.when_durable(settle)

        def settle() -> None:
            if self._reservations.idle or self._flusher.dead:
                self._finish(left, done)
            else:  # What the reservation store answers may have to be told back.
                timers.call_later(0.005, lambda: self._flusher.when_durable(settle))

        look()

    def _finish(self, left: int, done: Callable[[int], None]) -> None:
        self._ended = True
        self._tallying.finish()
        self._standing.post(self._state.live)
        for each in (self._backfilling.reads, self._reload, self._runs):
            each.close()
        self._log_thread.stop()
        done(left)
