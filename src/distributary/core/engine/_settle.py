"""What an attempt's answer means for its task: final, a retry row, or the dead letter leg.

The only place that turns verdicts into durable records. A match has one final outcome:
delivered, dead-lettered (taken by the dead letter sink, or kept in the store), or dropped with
a reason (DESIGN promise 3).
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from distributary.core.deliver import BLOCKED, Admission, Dispatcher
from distributary.core.engine._dead_letter import dead_letter_event, failure_of
from distributary.core.engine._due import Due
from distributary.core.engine._failing import Failing
from distributary.core.engine._ledger import Ledger
from distributary.core.engine._not_made import NotMade
from distributary.core.engine._parking import GONE, Parking, waits_for_resume
from distributary.core.engine._reload import STORED_LOOK_S, NoTask, Reload
from distributary.core.engine._replies import Refused, Replies
from distributary.core.engine._resources import waits_for_resource
from distributary.core.engine._slots import Slots, key_of, waits_for_slot
from distributary.core.engine._waiting import Waiting
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import DistributaryError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import Attempt, Leg, Origin, Task
from distributary.core.journal import DoneKey
from distributary.core.outcome import IN_STORE, DeadLetter, Failure, RetryRow
from distributary.core.policy import (
    DELIVERED,
    Decision,
    Reply,
    Verdict,
    classify,
    delivered,
    longest_wait_s,
)

FORGET_S = 1.0
"""How often finished rows are looked through for those that nobody can ask about any more. There
may be 100,000 of them while a match below holds the cursor, and a flush comes every 10 ms."""
UNPARK_COUNT = 64
"""Parked rows tried when a lane says that it has room."""


class Settle:
    """Settles tasks and runs the retries of a partition.

    Args:
        around: Ports of the owner.
        ledger: Takes what must be durable.
        dispatcher: Takes due retries.
        slots: Of counted subscriptions.
        take_back: Called with a parked route and its lane.
        let_go: Tells the stream of a task that it need not wait for it; False where it does not.
        waits_for: Whether the stream of a task waits for it.
        on_room: Takes the URI of a lane that may have room.
        fail: Takes why the owner cannot go on.
        unseen: Whether a route without a target may have one that was not read yet.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        ledger: Ledger,
        dispatcher: Dispatcher,
        slots: Slots,
        take_back: Callable[[str, str], None],
        let_go: Callable[[Task], bool],
        waits_for: Callable[[Task], bool],
        on_room: Callable[[str], None],
        fail: Callable[[DistributaryError], None],
        unseen: Callable[[str], bool],
    ) -> None:
        self._around = around
        self._ledger = ledger
        self._dispatcher = dispatcher
        self._slots = slots
        self._let_go = let_go
        self._waits_for = waits_for
        self._fail = fail
        self._unseen = unseen
        self._clock = around.clock
        self._targets = around.targets
        self._attempts = around.attempts
        self._meter = around.meter
        self._counters = around.meter.counters
        for name in ("events_read", "matches", "delivered", "retried"):
            around.meter.add(f"{name}_total", 0)
        for to in ("sink", "store"):
            around.meter.add(f'dead_lettered_total{{to="{to}"}}', 0)
        self._latency = around.meter.histogram("delivery_latency_seconds")
        self._duration = around.meter.histogram("attempt_duration_seconds")
        self.waiting = Waiting()
        self.replies = Replies(
            around,
            dispatcher=dispatcher,
            delivered=lambda task: self._delivered(task, self._clock.wall_ms()),
            refused=self._reply_refused,
            route_gone=self.drop,
            on_room=on_room,
        )
        self.failing = Failing(around)
        self._not_made = NotMade(around, self.failing)
        self.parking = Parking(around, ledger, wake=on_room, take_back=take_back)
        self._reloads = Reload(around, take=self._reloaded, free=self._read_on, fail=fail)
        self._due = Due(around, self.waiting, self._attempt_row, fail, room=self._reloads.room)
        self._stopped = False
        self._forgot_s = float("-inf")

    def stop(self) -> None:
        """Start no retry any more."""
        self._stopped = True
        self._due.stop()

    def close(self) -> None:
        """Let the log's files go; ``stop`` came before."""
        self._reloads.close()

    # -- answers ------------------------------------------------------------------------------

    def attempt(self, attempt: Attempt) -> None:
        """Settle what came of one attempt."""
        task = attempt.task
        answer = attempt.answer
        now_ms = self._clock.wall_ms()
        self._duration.observe(attempt.duration_s)
        if task.leg is Leg.REPLY:
            self.replies.answered(attempt)
            return
        if delivered(answer):
            self._attempts.line(attempt, DELIVERED, now_ms)
            if type(answer) is not Reply or (answer.event is None and answer.event_fault is None):
                self._delivered(task, now_ms)
            else:
                assert task.leg is Leg.EVENT  # Nobody else is asked for a reply.
                self.replies.take(task, answer, self._targets.get(task.route))
            return
        target = self._targets.get(task.route)
        if target is None:
            self.drop(task)
            return
        if self.parking.is_gone(task, answer, target):
            self._gone(attempt, target, now_ms)
            return
        dest = (task.leg is Leg.DEAD_LETTER and target.dead_letter) or target.sink
        uri, jitter = dest.uri, self._around.random.unit()
        unmade = self._not_made.verdict(attempt, uri)
        verdict = unmade or classify(answer, task.attempt, dest.policy, jitter, now_ms)
        self._attempts.line(attempt, verdict, now_ms)
        self.failing.failed(task.route, verdict, uri)
        failure = failure_of(answer, verdict.reason, uri)
        if verdict.decision is Decision.RETRY:
            if task.leg is Leg.DEAD_LETTER:
                failure = self._failure_before(task) or failure
            self._again(task, failure, verdict, made=verdict.reason != BLOCKED)
        elif verdict.decision is Decision.DROPPED:
            self.drop(task, verdict.reason)
        else:
            self._failed(task, target, failure)

    def _gone(self, attempt: Attempt, target: RouteTarget, now_ms: int) -> None:
        """The sink is gone: the route is parked, and this match waits with the others.

        Where the subscription has had another sink since, that one gets the match.
        """
        verdict = Verdict(Decision.RETRY, f"status-{GONE}")
        self._attempts.line(attempt, verdict, now_ms)
        self.failing.failed(attempt.task.route, verdict, attempt.sink)
        failure = failure_of(attempt.answer, verdict.reason, attempt.sink)
        self._wait(attempt.task, failure, 0.0, attempt=1)
        if attempt.sink == target.sink.uri:
            self.parking.park(attempt.task.route, target, failure)

    def _again(self, task: Task, failure: Failure, verdict: Verdict, *, made: bool = True) -> None:
        self._meter.add("retried_total")
        self._wait(task, failure, verdict.wait_s, attempt=task.attempt + made)

    def _failure_before(self, task: Task) -> Failure | None:
        row = self.waiting.rows.get(key_of(task))
        return row.failure if row else None

    def _reply_refused(self, refused: Refused) -> None:
        """The whole delivery has failed, since what it brought was not taken (decision 15)."""
        task, attempt, dest = refused
        target = self._targets.get(task.route)
        if target is None:
            self.drop(task)
            return
        now_ms = self._clock.wall_ms()
        verdict = classify(
            attempt.answer,
            task.attempt,
            target.sink.policy,
            self._around.random.unit(),
            now_ms,
            insist=target.reply_kept,
        )
        self._attempts.line(attempt, verdict, now_ms)
        self.failing.failed(task.route, verdict, dest)
        failure = failure_of(attempt.answer, verdict.reason, dest)
        if verdict.decision is Decision.RETRY:
            self._again(task, failure, verdict)
        else:
            self._failed(task, target, failure, None if target.reply_kept else attempt.task.event)

    def _delivered(self, task: Task, now_ms: int) -> None:
        if task.leg is Leg.EVENT:
            self._counters["delivered_total"] += 1
            if self.failing.any:
                self.failing.delivered(task.route)
            self._latency.observe((now_ms - task.logged_ms) / 1000)
            if self._slots.any:
                slot = self._slots.settle(key_of(task))
                if slot is not None:
                    self._ledger.count(slot)
        else:
            self._meter.add('dead_lettered_total{to="sink"}')
        self._final(task)

    def _final(self, task: Task) -> None:
        """The match has its outcome; the stream or the row that waits for it may go on."""
        key = key_of(task)
        if self._let_go(task):
            (self._ledger.done if task.origin is Origin.LIVE else self._ledger.caught_up)(
                key, task.checksum
            )
            return
        row = self.waiting.finish(key)
        if row is not None:
            self._ledger.put_row(row)
        elif task.origin is Origin.CATCH_UP:  # Its route is deleted, and the lag with it.
            self._ledger.caught_up(key, task.checksum)

    def is_row(self, task: Task) -> bool:
        """True where the row of *task* stands for it: no stream waits for it."""
        return task.origin is Origin.RETRY or (
            key_of(task) in self.waiting.rows and not self._waits_for(task)
        )

    def _failed(
        self, task: Task, target: RouteTarget, failure: Failure, reply: Event | None = None
    ) -> None:
        """No further attempt at this destination: the dead letter leg, or the store.

        Args:
            task: The match.
            target: Of its route.
            failure: Why.
            reply: The dead letter is this reply of the sink, not the event.
        """
        self._free(key_of(task))
        event = task.event if reply is None else reply
        if task.leg is Leg.EVENT and target.dead_letter is not None:
            letter = dead_letter_event(event, failure)
            row = self.waiting.rows.get(key_of(task))
            own = reply is not None or (row is not None and row.event is not None)
            stored = event_record.encode([letter]) if own else None
            self._wait(task, failure, 0.0, attempt=1, letter=letter, stored=stored)
            return
        # On the dead letter leg the event tells already why its own sink failed; the row tells
        # why this one did.
        first = task.leg is Leg.EVENT
        kept = dead_letter_event(event, failure) if first else event
        body, now_ms = event_record.encode([kept]), self._clock.wall_ms()
        self._ledger.keep(DeadLetter(key_of(task), task.checksum, failure, body, now_ms))
        self._meter.add('dead_lettered_total{to="store"}')
        self._final(task)

    def why_gone(self, route: str) -> str:
        """Why matches of a route that is no more are dropped."""
        return "maxevents" if route in self._slots.used_up else "route-deleted"

    def drop(self, task: Task, reason: str | None = None) -> None:
        """The match ends without delivery, and that is recorded; None: its route is deleted."""
        self._free(key_of(task))
        self._report_drop(key_of(task), reason)
        self._final(task)

    def _free(self, key: DoneKey) -> None:
        """The match is not delivered: another one may be, where they are counted."""
        in_doubt = self._slots.in_doubt(key)
        slot = self._slots.settle(key)
        if slot is not None:
            (self._ledger.count if in_doubt else self._ledger.free)(slot)

    def drop_row(self, row: RetryRow, reason: str | None = None) -> None:
        """As ``drop``, for a row: its event is not needed, so it is not read from the log."""
        self._free(row.key)
        self._report_drop(row.key, reason)
        done = self.waiting.finish(row.key)
        if done is not None:
            self._ledger.put_row(done)

    def _report_drop(self, key: DoneKey, reason: str | None = None) -> None:
        reason = reason or self.why_gone(key.route)
        self._meter.add(f'dropped_total{{reason="{reason}"}}')
        fields = {"route": key.route, "offset": key.offset, "index": key.index, "reason": reason}
        self._around.report("dropped", fields)

    # -- rows ---------------------------------------------------------------------------------

    def load(self, row: RetryRow) -> None:
        """A row that the last owner left."""
        if row.done:
            self.waiting.finished[row.key] = row
            return
        wait_s = (row.not_before_ms - self._clock.wall_ms()) / 1000
        wait_s = min(max(wait_s, 0.0), self._wait_s_max(row))
        self.waiting.put(row, self._clock.monotonic_s() + wait_s, None)
        self._due.arm()

    def _wait_s_max(self, row: RetryRow) -> float:
        """No policy asks for a longer wait, however far the wall clock has jumped since."""
        target = self._targets.get(row.key.route)
        if target is None:
            return 0.0  # It will be dropped.
        dest = target.sink if row.leg is Leg.EVENT else target.dead_letter or target.sink
        return longest_wait_s(dest.policy)

    def _wait(
        self,
        task: Task,
        failure: Failure | None,
        wait_s: float,
        *,
        attempt: int,
        letter: Event | None = None,
        stored: bytes | None = None,
    ) -> None:
        """The match goes on as a row.

        Args:
            task: The match.
            failure: What its last attempt came to.
            wait_s: Until the next one.
            attempt: Number of that.
            letter: It goes to the dead letter sink from now on, as this.
            stored: Its event, where that is not the log's and does not stand in its row yet.
        """
        key = key_of(task)
        due_ms = self._clock.wall_ms() + int(wait_s * 1000)
        leg, event = (task.leg, task.event) if letter is None else (Leg.DEAD_LETTER, letter)
        next_task = replace(task, leg=leg, event=event, attempt=attempt, origin=Origin.RETRY)
        row = RetryRow(key, task.checksum, leg, attempt, due_ms, failure, False, stored)
        before = self.waiting.rows.get(key)
        if stored is None and before is not None and before.event == IN_STORE:
            row = row._replace(event=IN_STORE)
        if leg is Leg.EVENT:
            self._slots.rest(key)
        self._let_go(task)
        self._ledger.put_row(row)
        if row.event is not None:
            row = row._replace(event=IN_STORE)  # Up to 1 MiB each.
        self.waiting.put(row, self._clock.monotonic_s() + wait_s, next_task)
        self._due.arm()

    def spill(self, task: Task) -> None:
        """The cursor must pass *task*, which goes on: from now on its row stands for it."""
        if self.is_row(task):
            return
        key, now_ms = key_of(task), self._clock.wall_ms()
        row = RetryRow(key, task.checksum, task.leg, task.attempt, now_ms, None, done=False)
        self._let_go(task)
        self._ledger.put_row(row)
        self.waiting.add(row)
        self._meter.add("spilled_total")

    def park(self, task: Task, uri: str) -> None:
        """*task* was handed back by its lane: its row waits until there is room."""
        self.spill(task)
        self._slots.park(key_of(task))
        self.waiting.hold(key_of(task), replace(task, origin=Origin.RETRY))
        self.waiting.park(key_of(task), uri)

    def forgettable(self, below: int, needed: Callable[[str, int], bool]) -> list[DoneKey]:
        """Finished rows that nothing can ask about any more: the cursor has passed them."""
        finished = self.waiting.finished
        now_s = self._clock.monotonic_s()
        if not finished or now_s - self._forgot_s < FORGET_S:
            return []
        self._forgot_s = now_s
        keys = [key for key in finished if key.offset < below and not needed(key.route, key.offset)]
        for key in keys:
            del finished[key]
        return keys

    def void(self, key: DoneKey) -> None:
        """The log has another record where the row of *key* knew one: nothing stands for it."""
        if key in self.waiting.rows or key in self.waiting.finished:
            self.waiting.drop(key)
            self._ledger.forget(key)
            self._meter.add("void_rows_total")
            self._around.report("void-row", {"offset": key.offset, "route": key.route})

    def room(self, uri: str) -> None:
        """The lane of *uri* has room: replies and parked rows go on until it takes no more."""
        try:
            if not self.replies.room(uri):
                return
            least = self._reloads.room() - self._reloads.may_ask(uri)
            for _ in range(UNPARK_COUNT):
                if self._reloads.room() <= least:
                    self._reloads.come_back(uri)
                    return
                row = None if self._stopped else self.waiting.unpark(uri)
                if row is None or self._attempt_row(row) == uri:
                    self._reloads.over(uri)
                    return
        except DistributaryError as error:
            self._fail(error)
            return
        self._around.timers.call_later(0.0, lambda: self.room(uri))

    def tick(self) -> None:
        """Look after what waits for a lane that will not tell: it refused nothing, or is gone."""
        self.replies.tick()
        self.failing.tick()
        for uri in self.waiting.parked_uris():
            if not self._dispatcher.is_open(uri):
                self.room(uri)

    def _attempt_row(self, row: RetryRow, task: Task | None = None) -> str | None:
        """Hand a row out; the URI where it was parked instead, if it was."""
        route = row.key.route
        target = self._targets.get(route)
        if target is None and self._unseen(route):
            return self._park(row, waits_for_resource(route))
        if target is None:
            self.drop_row(row)
            return None
        if row.leg is Leg.EVENT and route in self.parking.parked:
            return self._park(row, waits_for_resume(route))
        task = task or self.waiting.held(row.key)
        if task is None:
            self._reloads.ask(row)
            return None
        parked_at = self._offer_row(row, task, target)
        if parked_at is not None:
            self.waiting.hold(row.key, task)
        return parked_at

    def _reloaded(self, row: RetryRow, found: Task | NoTask) -> None:
        """A row that was not at hand has been read."""
        if self._stopped or row.key not in self.waiting.rows:
            return
        if found is NoTask.LATER:
            self.waiting.put(row, self._clock.monotonic_s() + STORED_LOOK_S, None)
            self._due.arm()
        elif found is NoTask.VOID:
            self.void(row.key)
        else:
            parked_at = self._attempt_row(row, found)
            if parked_at is not None:
                self._reloads.over(parked_at)

    def _read_on(self, uris: Iterable[str]) -> None:
        """Rows that are not at hand may be asked for again; lanes had room for some."""
        for uri in uris:
            self.room(uri)
        self._due.arm()

    def _offer_row(self, row: RetryRow, task: Task, target: RouteTarget) -> str | None:
        events_max = target.events_max if row.leg is Leg.EVENT else None
        if events_max is not None and not self._slots.holds(task):
            asked = self._slots.ask(task, events_max)
            return None if asked else self._park(row, waits_for_slot(task.route))
        dest = target.sink if row.leg is Leg.EVENT else target.dead_letter
        if dest is None:
            # The dead letter sink was taken away while its letter waited.
            self._failed(task, target, row.failure or Failure("no-dead-letter-sink", ""))
            return None
        if row.leg is Leg.EVENT:
            crowded = self.replies.crowded(target)
            if crowded is not None:
                return self._park(row, crowded)
        if self._dispatcher.offer_retry(task, dest) is Admission.ADMITTED:
            return None
        return self._park(row, dest.lane)

    def _park(self, row: RetryRow, uri: str) -> str:
        self._slots.park(row.key)
        self.waiting.park(row.key, uri)
        return uri

    def go_on(self, task: Task, *, granted: bool) -> None:
        """The row of *task* has asked for its slot, and has it or must wait."""
        key = key_of(task)
        row = self.waiting.rows.get(key)
        if row is None:
            self._slots.give_up(task)
        elif granted:
            self._attempt_row(row)
        else:
            self.waiting.park(key, waits_for_slot(key.route))
