"""Replies: what sinks answer events with, on its way to where the route's replies go.

A delivery whose sink answered with an event is not done until that event is taken: by the Broker
(Trigger) or at ``reply`` (Subscription). Until then its task counts as under way. Which task a
reply belongs to stands in memory alone: after a crash the delivery is made again, and brings its
reply again (at least once; decisions 14 and 15).
"""

from collections import deque

from distributary.core.deliver.limits import attribute_bytes
from distributary.core.deliver.queue_state import Admission
from distributary.core.deliver.transport import SATURATED
from distributary.core.engine._life import Step
from distributary.core.engine._outcomes import Outcomes
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
    """The replies of a partition that are under way.

    Args:
        state: Of the partition.
        outcomes: Of deliveries whose reply was taken, or not.
    """

    def __init__(self, state: PartitionState, outcomes: Outcomes) -> None:
        self._state = state
        self._outcomes = outcomes
        self._effects = state.effects
        self._targets = state.targets
        self._meter = state.meter
        self._origins: dict[DoneKey, Task] = {}
        """The tasks whose replies are under way."""
        self._held: dict[str, deque[Task]] = {}
        self._held_bytes = 0
        self._meter.add("replies_total", 0)
        for reason in ("hop-limit", "invalid-reply", "no-destination", "route-deleted"):
            self._meter.add(f'replies_dropped_total{{reason="{reason}"}}', 0)

    def unfinished(self) -> int:
        """Held replies that are worth waiting for: the breaker of their destination is closed."""
        return sum(len(held) for uri, held in self._held.items() if not self._effects.is_open(uri))

    def saturated(self, target: RouteTarget) -> str | None:
        """Where replies of *target* go and find no room: nothing that may bring one should start.

        None: they find room, or there are none.
        """
        if not self._held or target.reply is None:
            return None
        return target.reply.uri if target.reply.uri in self._held else None

    def take(self, task: Task, answer: Reply, target: RouteTarget | None) -> None:
        """The sink of *task* took its event and answered with what is, or should be, another."""
        if answer.event is None:
            self._drop(task, "invalid-reply", answer.event_fault)
        elif target is None:
            self._drop(task, "route-deleted")  # Its sink has the event, as without a reply.
        elif target.reply is None:
            self._drop(task, "no-destination")  # "MUST be dropped": the subscriber wants none.
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
            self._effects.report("reply-dropped", fields)
        self._outcomes.delivered(task)

    def _send(self, task: Task, event: Event, target: RouteTarget, carried: bytes) -> None:
        if TTL_ATTRIBUTE in event.attributes:
            # The count is ours: a sink that sets it could start a loop anew, or end one early.
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
            # Its own, as Knative has it; it belongs to the trace of what it answers all the same.
            carried
            if event_carried.trace(carried)
            else carried + event_carried.trace(task.carried),
        )
        self._origins[key_of(task)] = task
        assert target.reply is not None
        uri = target.reply.uri
        # Behind those that are held: they came first.
        if uri in self._held or not self._offer(reply, target):
            self.hold(reply, uri)

    def _offer(self, reply: Task, target: RouteTarget) -> bool:
        assert target.reply is not None
        if self._effects.send_again(reply, target.reply) is not Admission.ADMITTED:
            return False
        self._state.step(Step.QUEUE, key_of(reply), reply)
        return True

    def answered(self, attempt: Attempt) -> None:
        """The destination of a reply has answered, or not."""
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
        """The whole delivery has failed, since what it brought was not taken (decision 15).

        Args:
            task: The task that brought the reply.
            attempt: At the reply's destination; its task holds the reply.
            dest: URI of that destination.
        """
        target = self._targets.get(task.route)
        if target is None:
            self._outcomes.drop(task)
            return
        now_ms = self._state.now_ms
        verdict = classify(
            attempt.answer,
            task.attempt,
            target.sink.policy,
            self._effects.chance(),
            now_ms,
            insist=target.reply_kept,
        )
        self._effects.attempted(attempt, verdict, now_ms)
        self._state.failing.failed(task.route, verdict, dest, self._state.now_s, now_ms)
        failure = failure_of(attempt.answer, verdict.reason, dest)
        if verdict.decision is Decision.RETRY:
            self._outcomes.retry(task, failure, verdict)
        else:
            reply = None if target.reply_kept else attempt.task.event
            self._outcomes.failed(task, target, failure, reply)

    # -- waiting for room ----------------------------------------------------------------------

    def hold(self, reply: Task, uri: str) -> None:
        """The destination *uri* did not take *reply*, or handed it back: it waits for room."""
        size = _size(reply)
        if self._held_bytes + size > self._state.limits.reply_bytes_max:
            saturated = TransportError(SATURATED, "Too many replies wait for this destination")
            task = self._origins.pop(key_of(reply))
            self._refused(task, Attempt(reply, saturated, 0.0), uri)
            return
        self._state.step(Step.HOLD, key_of(reply), reply)
        self._held_bytes += size
        self._held.setdefault(uri, deque()).append(reply)

    def hand_back(self, reply: Task) -> None:
        """*reply* comes back before it was sent: it goes on by the newest revision."""
        target = self._targets.get(reply.route)
        if target is None:
            self._outcomes.drop(self._origins.pop(key_of(reply)))
        elif target.reply is None:
            self._drop(self._origins.pop(key_of(reply)), "no-destination")
        else:
            self.hold(reply, target.reply.uri)

    def drained(self, uri: str) -> bool:
        """The destination *uri* may have room.

        Returns:
            True where there may be more of it than the held replies took; where that is not known
            yet, the input ``drained`` follows.
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
        """Hand a held reply out, by the newest revision; False where it must wait on."""
        target = self._targets.get(reply.route)
        if target is None:
            self._outcomes.drop(self._origins.pop(key_of(reply)))
        elif target.reply is None:
            self._drop(self._origins.pop(key_of(reply)), "no-destination")
        elif self._offer(reply, target):
            pass
        elif target.reply.uri == uri:
            return False
        else:
            self.hold(reply, target.reply.uri)
        return True

    def tick(self) -> None:
        """Look after replies whose queue will not tell: it refused nothing, or was dropped."""
        for uri in list(self._held):
            if not self._effects.is_open(uri):
                self.drained(uri)


def _size(reply: Task) -> int:
    size = attribute_bytes(reply.event) + len(reply.carried)
    return ROW_TASK_BYTES + size + len(reply.event.data or b"")
