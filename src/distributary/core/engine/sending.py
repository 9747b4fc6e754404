"""Routes each match to its destination, to a backfill of its route, or into a waiting row.

The rules: a slow sink is backfilled alone (DESIGN rule 3), the newest revision decides the
destination (rule 5), and a match of a counted subscription is sent only with a reservation.
"""

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final

from distributary.core.deliver.consent import AWAITS_CONSENT
from distributary.core.deliver.queue_state import Admission
from distributary.core.engine._life import Step
from distributary.core.engine._outcomes import BEYOND_BUDGET, Outcomes
from distributary.core.engine._parking import waits_for_resume
from distributary.core.engine._replies import Replies
from distributary.core.engine.backpressure import Backpressure
from distributary.core.engine.failing import BREAKER_OPEN
from distributary.core.engine.ports import RouteTarget, waits_for_resource
from distributary.core.engine.reservations import key_of, waits_for_reservation
from distributary.core.engine.state import PartitionState
from distributary.core.flow import Origin, Stage, Task, encode_route
from distributary.core.outcome.dead_letter import Failure
from distributary.core.outcome.reservations import Reservation
from distributary.core.outcome.rows import BackfillRow, RetryRow

# A constant: in Python 3.11 a member read from its enumeration costs as much as several calls.
_ADMITTED: Final = Admission.ADMITTED


class Sending:
    """The sender: offers tasks to destinations, and holds a few back for one that will have room.

    Args:
        state: Of the partition.
        outcomes: Drops tasks, and keeps them as rows.
        replies: Knows saturated reply destinations.
    """

    def __init__(self, state: PartitionState, outcomes: Outcomes, replies: Replies) -> None:
        self._state = state
        self._effects = state.effects
        self._targets = state.targets
        self._meter = state.meter
        self._backfills = state.backfills
        self._rows = state.rows
        self._reservations = state.reservations
        self._reads = state.reads
        self._halted = state.halted
        self._outcomes = outcomes
        self._replies = replies
        self.held: deque[Task] = deque()
        """Tasks that wait for their destinations before the next record may be taken."""
        self._held_count: Counter[str] = Counter()  # by route
        self._furthest: dict[str, tuple[int, int]] = {}
        """Last match of each counted route that became a row: offset and index."""
        self._backpressure = Backpressure(
            state.effects.queue, state.targets.all_go_to, state.limits.partitions
        )

    # -- the live reader's --------------------------------------------------------------------

    def take(self, task: Task) -> None:
        """Send a live task, or hold it back behind those already held."""
        if self.held or not self._offer(task):
            self._state.step(Step.HOLD, key_of(task), task)
            self.held.append(task)
            self._held_count[task.route] += 1

    def offer_held(self) -> bool:
        """Send held tasks; False if the first one's queue is worth a pause."""
        held = self.held
        while held:
            if not self._offer(held[0]):
                return False
            task = held.popleft()
            self._held_count[task.route] -= 1
            if not self._held_count[task.route]:
                del self._held_count[task.route]
        return True

    def _offer(self, task: Task) -> bool:
        """Send a live task; False if its queue is worth a pause."""
        route = task.route
        if route in self._backfills.by_route and self._has_backfill(task):
            self._leave_to_backfill(task)
            return True
        target = self._targets.get(route)
        if target is None:
            if self._state.unseen(route):
                self._yield(task, waits_for_resource(route))
            else:
                self._outcomes.drop(task)
            return True
        if route in self._halted:
            self._yield(task, waits_for_resume(route))
            return True
        if self._rows.saturated(route):
            self._yield(task, target.sink.queue)
        elif target.events_max is None:
            return self._send(task, target)
        elif not self._reserve(task, target.events_max):
            self._yield(task, waits_for_reservation(route))
        return True

    def forget(self, route: str) -> None:
        """Forget a deleted route."""
        self._furthest.pop(route, None)

    def _send(self, task: Task, target: RouteTarget) -> bool:
        uri = None if target.reply is None else self._replies.saturated(target)
        if uri is None:
            uri = target.sink.queue
            admission = self._effects.send(task, target.sink)
            if admission is _ADMITTED:
                if self._effects.watch is not None:
                    self._state.step(Step.QUEUE, key_of(task), task)
                return True
            if admission is Admission.OPEN:
                if not task.about_route:
                    self._note_refused(task.route, target)
                self._yield(task, uri)
                return True
        if self._backpressure.worth(uri, self._state.now_s):
            return False
        self._yield(task, uri)
        return True

    def _note_refused(self, route: str, target: RouteTarget) -> None:
        reason = AWAITS_CONSENT if target.sink.awaits else BREAKER_OPEN
        self._state.failing.refused(route, target.sink.uri, self._state.now_ms, reason)

    def _has_backfill(self, task: Task) -> bool:
        """True if a backfill covers the live task, which need not be sent here."""
        if task.route not in self._backfills.by_route or task.origin is not Origin.LIVE:
            return False
        _, offset, index = task.position
        return self._backfills.covers(task.route, offset, index) and not self._state.is_row(task)

    def _leave_to_backfill(self, task: Task) -> None:
        """Release *task*, which the backfill's row covers."""
        self._state.step(Step.LEAVE_TO_BACKFILL, key_of(task), task)
        self._state.tracker.finish(task)

    def _yield(self, task: Task, uri: str) -> None:
        """Move a refused *task* to its backfill, to a new one, or to a row."""
        if task.origin is not Origin.LIVE or self._state.is_row(task):
            self._outcomes.defer(task, uri)
        elif self._has_backfill(task):
            self._leave_to_backfill(task)
        elif self._backfills.backfilling(task.route):
            self._outcomes.defer(task, uri)  # Its position is before the backfill.
        else:
            self._begin_backfill(task, uri)

    def _begin_backfill(self, task: Task, uri: str) -> None:
        """Begin a backfill of the route of *task*, whose sink is saturated (DESIGN rule 3)."""
        record = self._state.follower.table.record(task.route)
        offset, index = task.position.offset, task.position.index
        if record is None:
            self._outcomes.drop(task)
            return
        if (
            offset < self._state.follower.changed_at(task.route)
            or self._backfills.began_after(task.route, offset, index)
            or (offset, index) < self._furthest.get(task.route, (0, 0))
        ):
            # Either other filters were in force there, and a backfill's row holds only the current
            # ones; or the matches behind were another backfill's, or are rows, and this backfill
            # would read them again.
            self._outcomes.defer(task, uri)
            return
        row = BackfillRow(task.route, offset, index, offset, None, encode_route(record))
        self._backfills.add(row)
        self._effects.put_backfill(row)
        self._state.step(Step.BEGIN_BACKFILL, key_of(task), task)
        self._state.tracker.finish(task)
        self._meter.add("lags_begun_total")
        self._effects.report("route-lags", {"route": task.route, "from": offset})

    # -- a backfill's -------------------------------------------------------------------------

    def offer_backfill(self, task: Task) -> str | None:
        """Send a backfilled task. Returns None, or what it waits for."""
        if task.position.offset < self._state.cuts.everybody:
            self._state.given_up[task.route, BEYOND_BUDGET] += 1
            self._outcomes.drop(task, BEYOND_BUDGET)
            return None
        if self.is_beyond(task.route, task.position.offset):
            self._outcomes.set_aside(task)
            return None
        if task.route in self._halted:
            return waits_for_resume(task.route)
        return self._offer_backfill(task)

    def refuses(self, route: str, offset: int, *, full: bool = False) -> str | None:
        """What a backfill of *route* waits for at *offset*, without its matches; None: offer them.

        As ``offer_backfill``, where the answer is the same for all of them and stays for long.

        Args:
            route: Of the backfill.
            offset: Of its next record.
            full: Also where the queue was full, and has not had room since.
        """
        target = self._targets.get(route)
        if target is None or offset < self._state.cuts.everybody or self.is_beyond(route, offset):
            return None
        if route in self._halted:
            return waits_for_resume(route)
        name = target.sink.queue
        if target.events_max is not None:
            return None
        refused = self._effects.is_open(name) or (full and self._backpressure.is_full(name))
        return name if refused else None

    def offer_replay(self, task: Task) -> str | None:
        """Send a match again for a replay. Returns None, or what it waits for."""
        if task.route in self._halted:
            return waits_for_resume(task.route)
        return self._offer_backfill(task)

    def is_filled(self, route: str) -> bool:
        """True if replays of *route* must wait: the rest of its queue is for other matches."""
        target = self._targets.get(route)
        return target is not None and self._backpressure.is_filled(target.sink.queue)

    def is_full(self, name: str) -> bool:
        """True if the queue *name* has refused a task: it will report when it has room."""
        return self._backpressure.is_full(name)

    def is_beyond(self, route: str, offset: int) -> bool:
        """True if the namespace of *route* may not keep the record at *offset* any longer."""
        target = self._targets.get(route)
        return target is not None and offset < self._state.cuts.of(target.namespace)

    def _offer_backfill(self, task: Task) -> str | None:
        target = self._targets.get(task.route)
        if target is None:
            return self._without_target(task)
        if target.events_max is not None:
            granted = self._reserve(task, target.events_max)
            return None if granted else waits_for_reservation(task.route)
        if self._rows.saturated(task.route):
            return target.sink.queue
        saturated = self._replies.saturated(target)
        if saturated is not None:
            return saturated
        if self._effects.send(task, target.sink) is _ADMITTED:
            if self._effects.watch is not None:
                self._state.step(Step.QUEUE, key_of(task), task)
            return None
        return target.sink.queue

    def _without_target(self, task: Task) -> str | None:
        """Name what a backfilled task waits for; None: it is dropped, as its route is deleted."""
        if self._state.unseen(task.route):
            return waits_for_resource(task.route)
        self._outcomes.drop(task)
        return None

    def may_join(self, route: str) -> bool:
        """True if *route* may join the live reader: it is in the table there, and has room."""
        if route not in self._state.follower.table:
            return False  # It is being replayed, and a restart resumed before its creation.
        if route in self._held_count or route in self._halted:
            return False  # The backfill covers its held tasks: they are released to it first.
        target = self._targets.get(route)
        counted = target is not None and target.events_max is not None
        share = self._state.limits.counted_rows_share if counted else 1.0
        exhausted = self._reservations.exhausted(route, self._state.now_s)
        if exhausted or self._rows.saturated(route, share / 2):
            return False
        if target is None:
            return not self._state.unseen(route)
        if self._replies.saturated(target) is not None:
            return False
        return self._backpressure.comfortable(target.sink.queue)

    # -- reservations -------------------------------------------------------------------------

    def _reserve(self, task: Task, events_max: int) -> bool:
        """Make *task* a row and request its reservation; False if its route takes no more."""
        key = key_of(task)
        if self._rows.saturated(key.route, self._state.limits.counted_rows_share):
            return False
        if not self._ask(Reservation(key, task.checksum), events_max, task):
            return False
        self._outcomes.make_row(task)
        if task.origin is Origin.LIVE:
            self._furthest[key.route] = key.offset, key.index
        return True

    def _ask(self, reservation: Reservation, events_max: int, task: Task | None = None) -> bool:
        if not self._reservations.ask(reservation, events_max, self._state.now_s):
            return False
        self._state.step(Step.RESERVE, reservation.key, task)
        self._effects.ask_reservations()
        return True

    def take_answer(self, reservation: Reservation, *, granted: bool) -> None:
        """Continue the row that requested *reservation*, as the store answered."""
        row = self._rows.rows.get(reservation.key)
        if row is None or row.checksum != reservation.checksum:
            self._reservations.end(reservation.key, delivered=False)
        elif self._state.stopped:
            self._reservations.make_idle(reservation.key)
        elif granted:
            self._attempt_row(row, None)
        else:
            self._outcomes.defer_row(reservation.key, waits_for_reservation(reservation.key.route))

    # -- rows ----------------------------------------------------------------------------------

    def attempt_row(self, row: RetryRow, task: Task | None = None) -> str | None:
        """Send a row. Returns None, or what it waits for."""
        if self._state.rows.needs_log(row) and self.is_beyond(row.key.route, row.key.offset):
            self._set_row_aside(row, task or self._rows.held(row.key))
            return None
        return self._attempt_row(row, task)

    def _attempt_row(self, row: RetryRow, task: Task | None) -> str | None:
        route = row.key.route
        target = self._targets.get(route)
        if target is None:
            return self._row_without_target(row)
        if route in self._halted and self._halts(route, row.stage):
            return self._outcomes.defer_row(row.key, waits_for_resume(route))
        events_max = target.events_max if row.stage is Stage.PRIMARY else None
        if events_max is not None and not self._reservations.holds(row.key):
            if self._ask(Reservation(row.key, row.checksum), events_max):
                return None
            return self._outcomes.defer_row(row.key, waits_for_reservation(route))
        task = task or self._rows.held(row.key)
        if task is None:
            self._state.step(Step.READ, row.key)
            self._reads.ask(row)
            return None
        waits_for = self._offer_row(row, task, target)
        if waits_for is not None:
            self._rows.hold(row.key, task)
        return waits_for

    def _halts(self, route: str, stage: Stage) -> bool:
        """Whether the halted *route* sends nothing of this stage: a parked one its dead letters."""
        return stage is Stage.PRIMARY or route in self._state.paused

    def _set_row_aside(self, row: RetryRow, task: Task | None) -> None:
        """Keep the event of *row* as a dead letter, once it has been read."""
        if task is not None:
            self._outcomes.set_aside(task, row.failure)
            return
        self._state.step(Step.READ, row.key)
        self._reads.ask(row)

    def _row_without_target(self, row: RetryRow) -> str | None:
        if self._state.unseen(row.key.route):
            return self._outcomes.defer_row(row.key, waits_for_resource(row.key.route))
        self._outcomes.drop_row(row)
        return None

    def _offer_row(self, row: RetryRow, task: Task, target: RouteTarget) -> str | None:
        primary = row.stage is Stage.PRIMARY
        dest = target.sink if primary else target.dead_letter
        if dest is None:
            # The dead letter sink was removed while its dead letter waited.
            failure = row.failure or Failure("no-dead-letter-sink", "")
            self._outcomes.failed(task, target, failure)
            return None
        saturated = self._replies.saturated(target) if primary else None
        if saturated is not None:
            return self._outcomes.defer_row(row.key, saturated)
        if self._effects.send_again(task, dest) is Admission.ADMITTED:
            self._state.step(Step.QUEUE, row.key, task)
            return None
        return self._outcomes.defer_row(row.key, dest.queue)

    def drained(self, name: str) -> None:
        """Send replies and deferred rows that waited for *name*, until it takes no more."""
        if not self._replies.drained(name):
            return
        reads = self._reads
        least = reads.capacity() - reads.may_ask(name)
        for _ in range(self._state.limits.unpark_count):
            if reads.capacity() <= least:
                reads.come_back(name)
                return
            row = None if self._state.stopped else self._rows.pop_deferred(name)
            if row is None or self.attempt_row(row) == name:
                reads.over(name)
                return
        self._effects.drained_soon(name)

    # -- changes ------------------------------------------------------------------------------

    def yield_closed_queues(self) -> None:
        """Move tasks behind an open breaker to backfills or rows (DESIGN rule 3, a slow sink).

        They must not hold back the cursor.
        """
        for uri in self._effects.cut_off():
            for task in self._effects.take_queued(uri):
                if task.stage is Stage.REPLY:
                    self._replies.hand_back(task)
                else:
                    self._yield(task, uri)

    def take_back(self, uri: str) -> None:
        """Defer queued tasks of halted routes; put tasks of other routes back."""
        for task in self._effects.take_queued(uri):
            target = self._targets.get(task.route)
            if task.stage is Stage.REPLY:
                self._replies.hand_back(task)
            elif target is None:
                self._outcomes.drop(task)
            elif task.route in self._halted and self._halts(task.route, task.stage):
                self._reservations.make_idle(key_of(task))
                self._yield(task, waits_for_resume(task.route))
            elif self._has_backfill(task):
                self._leave_to_backfill(task)  # One before it was refused here.
            else:
                to = target.sink if task.stage is Stage.PRIMARY else target.dead_letter
                # Without its dead letter sink, which was removed meanwhile, its row is kept.
                if to is None or self._effects.send_again(task, to) is not Admission.ADMITTED:
                    self._yield(task, uri)
                else:
                    self._state.step(Step.QUEUE, key_of(task), task)

    def take_back_all(self, routes: Iterable[str]) -> None:
        """Defer what is queued of *routes*, which have been paused; looks at each queue once."""
        for name in {name: None for route in routes for name in self._queues_of(route)}:
            self.take_back(name)

    def probe(self, route: str) -> None:
        """Let the sinks of *route* be tried now, those behind an open breaker."""
        for name in self._queues_of(route):
            self._effects.probe(name)

    def _queues_of(self, route: str) -> list[str]:
        """The queues of its sink and of its dead letter sink; none: it is gone."""
        target = self._targets.get(route)
        if target is None:
            return []
        ways = (target.sink, target.dead_letter)
        return list(dict.fromkeys(way.queue for way in ways if way is not None))

    def offer_anew(self) -> None:
        """Route waiting tasks by the newest revisions (DESIGN rule 5, revisions)."""
        changed = self._targets.changed_uris()
        for uri in changed:
            # Rows, not held tasks: later ones may already be in flight to the new sink, and a
            # backfill that begins at one of these would read them again.
            for task in self._effects.take_queued(uri):
                if task.stage is Stage.REPLY:
                    self._replies.hand_back(task)
                elif self._targets.get(task.route) is None:
                    self._outcomes.drop(task)
                else:
                    self._outcomes.defer(task, uri)
        for uri in changed:
            self.drained(uri)
