"""Sends reply events of sinks on to the route's reply destination.

A delivery that returned a reply is done only when the reply is accepted: by the Broker (Trigger)
or at ``reply`` (Subscription). Until then its task counts as in flight. The relation of replies to
tasks is in memory only: after a crash the delivery is repeated, and returns its reply again (at
least once; decisions 14 and 15, replies).
"""

from collections import deque

from distributary.core.deliver.limits import attribute_bytes
from distributary.core.deliver.queue_state import Admission
from distributary.core.deliver.transport import SATURATED
from distributary.core.engine._life import Step
from distributary.core.engine._outcomes import ROUTE_DELETED, Outcomes
from distributary.core.engine._refusals import Refusals
from distributary.core.engine.dead_letter import failure_of
from distributary.core.engine.limits import ROW_TASK_BYTES
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.reservations import key_of
from distributary.core.engine.state import PartitionState
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.event import carried as event_carried
from distributary.core.flow import PASSES_LEFT_MIN, TTL_ATTRIBUTE, Attempt, DoneKey, Stage, Task
from distributary.core.policy import DELIVERED, Decision, Reply, classify


class Replies:
    """The unfinished replies of a partition: in flight, or held until their destination has room.

    Args:
        state: Of the partition.
        outcomes: Records the outcome of deliveries with a reply.
        refusals: Judges attempts that settings refuse.
    """

    def __init__(self, state: PartitionState, outcomes: Outcomes, refusals: Refusals) -> None:
        self._state = state
        self._refusals = refusals
        self._outcomes = outcomes
        self._effects = state.effects
        self._targets = state.targets
        self._meter = state.meter
        self._origins: dict[DoneKey, Task] = {}
        """The tasks whose replies are unfinished."""
        self._held: dict[str, deque[Task]] = {}
        self._held_bytes = 0
        self._meter.add("replies_total", 0)
        for reason in ("hop-limit", "invalid-reply", "no-destination", "route-deleted"):
            self._meter.add(f'replies_dropped_total{{reason="{reason}"}}', 0)

    def unfinished(self) -> int:
        """Count held replies whose destination's breaker is not open: worth waiting for."""
        return sum(len(held) for uri, held in self._held.items() if not self._effects.is_open(uri))

    def saturated(self, target: RouteTarget) -> str | None:
        """The reply destination of *target* if it has no room; None: it has, or there is none.

        Without room no attempt that may return a reply should start.
        """
        if not self._held or target.reply is None:
            return None
        return target.reply.queue if target.reply.queue in self._held else None

    def take(self, task: Task, answer: Reply, target: RouteTarget | None) -> None:
        """Handle a 2xx answer to *task* that holds an event, or an invalid one."""
        if answer.event is None:
            self._drop(task, "invalid-reply", answer.event_fault)
        elif target is None:
            self._drop(task, ROUTE_DELETED)  # The sink has the event: it counts as delivered.
        elif target.reply is None:
            self._drop(task, "no-destination")  # "MUST be dropped": no reply was requested.
        elif target.reply.own and task.ttl < PASSES_LEFT_MIN:
            self._drop(task, "hop-limit")
        else:
            self._send(task, answer.event, target, answer.carried)

    def _drop(self, task: Task, reason: str, fault: str | None = None) -> None:
        self._meter.add(f'replies_dropped_total{{reason="{reason}"}}')
        if reason != "no-destination":
            _, offset, index = task.position
            fields: dict[str, object] = {"route": task.route, "offset": offset, "index": index}
            fields |= {"reason": reason} if fault is None else {"reason": reason, "fault": fault}
            if reason == ROUTE_DELETED:
                self._effects.report("reply-dropped", fields)
            else:
                self._effects.warn("reply-dropped", fields)
        self._outcomes.delivered(task)

    def _send(self, task: Task, event: Event, target: RouteTarget, carried: bytes) -> None:
        if TTL_ATTRIBUTE in event.attributes:
            # The hop count is ours: a sink could reset a loop with it, or end one early.
            kept = {name: v for name, v in event.attributes.items() if name != TTL_ATTRIBUTE}
            event = Event(kept, event.data)
        reply = Task(
            task.position,
            task.checksum,
            task.route,
            event,
            Stage.REPLY,
            task.attempt,
            task.logged_ms,
            task.origin,
            task.ttl,
            # Its own, as in Knative; without a trace of its own it continues the event's.
            carried
            if event_carried.trace(carried)
            else carried + event_carried.trace(task.carried),
        )
        self._origins[key_of(task)] = task
        assert target.reply is not None
        uri = target.reply.queue
        # Held replies came first.
        if uri in self._held or not self._offer(reply, target):
            self.hold(reply, uri)

    def _offer(self, reply: Task, target: RouteTarget) -> bool:
        assert target.reply is not None
        if self._effects.send_again(reply, target.reply) is not Admission.ADMITTED:
            return False
        self._state.step(Step.QUEUE, key_of(reply), reply)
        return True

    def answered(self, attempt: Attempt) -> None:
        """Complete an attempt at a reply's destination."""
        task = self._origins.pop(key_of(attempt.task))
        answer = attempt.answer
        if type(answer) is Reply and 200 <= answer.status < 300:
            self._effects.attempted(attempt, DELIVERED, self._state.now_ms)
            self._meter.add("replies_total")
            self._outcomes.delivered(task)
            return
        target = self._targets.get(task.route)
        if target is None:
            self._outcomes.drop(task)
        elif target.reply is None:
            self._drop(task, "no-destination")
        else:
            self._refused(task, attempt, target.reply.uri)

    def _refused(self, task: Task, attempt: Attempt, dest: str) -> None:
        """Fail the whole delivery, since its reply was not accepted (decision 15, replies).

        One that settings refuse is no answer of the destination, and uses up no attempt.

        Args:
            task: The task whose sink returned the reply.
            attempt: At the reply's destination; its task holds the reply.
            dest: URI of that destination.
        """
        target = self._targets.get(task.route)
        if target is None:
            self._outcomes.drop(task)
            return
        now_ms = self._state.now_ms
        unmade = self._refusals.verdict(task, attempt.answer, target, dest)
        verdict = unmade or classify(
            attempt.answer,
            task.attempt,
            target.sink.policy,
            self._effects.chance(),
            now_ms,
            insist=target.reply_kept,
        )
        self._effects.attempted(attempt, verdict, now_ms)
        if not task.about_route:
            self._state.failing.failed(task.route, verdict, dest, now_ms)
        self._state.tallies.of(task.route).failed += 1
        failure = failure_of(attempt.answer, verdict.reason, dest)
        if verdict.decision is Decision.RETRY:
            attempt_next = task.attempt + (unmade is None)
            self._outcomes.retry(task, failure, verdict, attempt=attempt_next)
        else:
            reply = None if target.reply_kept else attempt.task.event
            self._outcomes.failed(task, target, failure, reply)

    # -- waiting for room ----------------------------------------------------------------------

    def hold(self, reply: Task, uri: str) -> None:
        """Hold *reply*, refused or returned by the queue of *uri*, until there is room."""
        size = _size(reply)
        if self._held_bytes + size > self._state.limits.reply_bytes_max:
            saturated = TransportError(SATURATED, "Too many replies wait for this destination")
            task = self._origins.pop(key_of(reply))
            self._refused(task, Attempt(reply, saturated, 0.0), self._dest_of(reply))
            return
        self._state.step(Step.HOLD, key_of(reply), reply)
        self._held_bytes += size
        self._held.setdefault(uri, deque()).append(reply)

    def _dest_of(self, reply: Task) -> str:
        """URI of the destination of *reply*, for a failure; empty: its route has none now."""
        target = self._targets.get(reply.route)
        return "" if target is None or target.reply is None else target.reply.uri

    def hand_back(self, reply: Task) -> None:
        """Take an unsent *reply* back and route it by the newest revision."""
        target = self._targets.get(reply.route)
        if target is None:
            self._outcomes.drop(self._origins.pop(key_of(reply)))
        elif target.reply is None:
            self._drop(self._origins.pop(key_of(reply)), "no-destination")
        else:
            self.hold(reply, target.reply.queue)

    def drained(self, uri: str) -> bool:
        """Send held replies to the destination *uri*, which may have room.

        Returns:
            True if there may be room left; False if not, or if it is not known yet: then the input
            ``drained`` follows.
        """
        for _ in range(self._state.limits.reply_count):
            held = self._held.get(uri)
            if held is None:
                return True
            if not self._go_on(held[0], uri):
                return False
            self._held_bytes -= _size(held.popleft())
            if not held:
                del self._held[uri]
        self._effects.drained_soon(uri)
        return False

    def _go_on(self, reply: Task, uri: str) -> bool:
        """Send a held reply by the newest revision; False if it must keep waiting."""
        target = self._targets.get(reply.route)
        if target is None:
            self._outcomes.drop(self._origins.pop(key_of(reply)))
        elif target.reply is None:
            self._drop(self._origins.pop(key_of(reply)), "no-destination")
        elif self._offer(reply, target):
            pass
        elif target.reply.queue == uri:
            return False
        else:
            self.hold(reply, target.reply.queue)
        return True

    def tick(self) -> None:
        """Retry held replies whose queue will not report room: it refused none, or was dropped."""
        for uri in list(self._held):
            if not self._effects.is_open(uri):
                self.drained(uri)


def _size(reply: Task) -> int:
    size = attribute_bytes(reply.event) + len(reply.carried)
    return ROW_TASK_BYTES + size + reply.event.data_bytes()
