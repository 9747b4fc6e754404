"""Replies: what sinks answer events with, on its way to where the route's replies go.

A delivery whose sink answered with an event is not done until that event is taken: by the Broker
(Trigger) or at ``reply`` (Subscription). Until then its task counts as under way. Which task a
reply belongs to stands in memory alone: after a crash the delivery is made again, and brings its
reply again (at least once; decisions 14 and 15).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from distributary.core.deliver import CROWDED, Admission, Dispatcher, attribute_bytes
from distributary.core.engine._slots import key_of
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.event import carried as event_carried
from distributary.core.flow import PASSES_LEFT_MIN, TTL_ATTRIBUTE, Attempt, Leg, Task
from distributary.core.journal import DoneKey
from distributary.core.policy import DELIVERED, Reply

HELD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Replies that wait for room in their lane: some 10,000 small ones, which is more than the lanes of
two busy sinks can bring after their routes have begun to wait for that lane. What finds no room
here fails its delivery, which is made again."""
TASK_BYTES: Final = 2_048
"""What a task holds beside its data (as in ``deliver``)."""
ROOM_COUNT: Final = 64
"""Held replies offered before the loop gets its turn."""


class Refused(NamedTuple):
    """A reply that was not taken.

    Attributes:
        task: The task that brought it.
        attempt: At the reply's destination; its task holds the reply.
        dest: URI of that destination.
    """

    task: Task
    attempt: Attempt
    dest: str


class Replies:
    """The replies of a partition that are under way.

    Args:
        around: Ports of the owner.
        dispatcher: Sends them, by the lane of their destination.
        delivered: Takes a task whose reply was taken, or dropped: it is delivered.
        refused: Takes a reply that was not taken: the whole delivery has failed.
        route_gone: Takes a task whose route is deleted.
        on_room: Called with the URI of a lane that may have room, once held replies have had
            their turn.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        dispatcher: Dispatcher,
        delivered: Callable[[Task], None],
        refused: Callable[[Refused], None],
        route_gone: Callable[[Task], None],
        on_room: Callable[[str], None],
    ) -> None:
        self._around = around
        self._targets = around.targets
        self._meter = around.meter
        self._dispatcher = dispatcher
        self._delivered = delivered
        self._refused = refused
        self._route_gone = route_gone
        self._on_room = on_room
        self._origins: dict[DoneKey, Task] = {}
        """The tasks whose replies are under way."""
        self._held: dict[str, deque[Task]] = {}
        self._held_bytes = 0
        around.meter.add("replies_total", 0)
        for reason in ("hop-limit", "invalid-reply", "no-destination", "route-deleted"):
            around.meter.add(f'replies_dropped_total{{reason="{reason}"}}', 0)

    def unfinished(self) -> int:
        """Replies that wait, where that is worth it: the breaker of their lane is not open.

        Asked while the owner drains, when nothing but replies waits in lanes.
        """
        held = sum(len(held) for uri, held in self._held.items() if not self._closed(uri))
        return held + self._dispatcher.queued

    def crowded(self, target: RouteTarget) -> str | None:
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
            self._around.report("reply-dropped", fields)
        self._delivered(task)

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
            Leg.REPLY,
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
        admission = self._dispatcher.offer_retry(reply, target.reply)
        return admission is Admission.ADMITTED

    def answered(self, attempt: Attempt) -> None:
        """The destination of a reply has answered, or not."""
        task = self._origins.pop(key_of(attempt.task))
        answer = attempt.answer
        if type(answer) is Reply and 200 <= answer.status < 300:
            self._around.attempts.line(attempt, DELIVERED, self._around.clock.wall_ms())
            self._meter.add("replies_total")
            self._delivered(task)
            return
        target = self._targets.get(task.route)
        if target is None:
            self._route_gone(task)
        elif target.reply is None:
            self._drop(task, "no-destination")
        else:
            self._refused(Refused(task, attempt, target.reply.uri))

    # -- waiting for room ---------------------------------------------------------------------

    def hold(self, reply: Task, uri: str) -> None:
        """The lane at *uri* did not take *reply*, or handed it back: it waits for room there."""
        size = _size(reply)
        if self._held_bytes + size > HELD_BYTES_MAX:
            crowded = TransportError(CROWDED, "Too many replies wait for this destination")
            task = self._origins.pop(key_of(reply))
            self._refused(Refused(task, Attempt(reply, crowded, 0.0), uri))
            return
        self._held_bytes += size
        self._held.setdefault(uri, deque()).append(reply)

    def hand_back(self, reply: Task) -> None:
        """A lane hands *reply* back before it was sent: it goes on by the newest revision."""
        target = self._targets.get(reply.route)
        if target is None:
            self._route_gone(self._origins.pop(key_of(reply)))
        elif target.reply is None:
            self._drop(self._origins.pop(key_of(reply)), "no-destination")
        else:
            self.hold(reply, target.reply.uri)

    def room(self, uri: str) -> bool:
        """The lane at *uri* may have room.

        Returns:
            True where there may be more of it than the held replies took; ``on_room`` is called
            where that is not known yet.
        """
        for _ in range(ROOM_COUNT):
            held = self._held.get(uri)
            if held is None:
                return True
            if not self._go_on(held[0], uri):
                return False
            self._held_bytes -= _size(held.popleft())
            if not held:
                del self._held[uri]
        self._around.timers.call_later(0.0, lambda: self._on_room(uri))
        return False

    def _go_on(self, reply: Task, uri: str) -> bool:
        """Hand a held reply out, by the newest revision; False where it must wait on."""
        target = self._targets.get(reply.route)
        if target is None:
            self._route_gone(self._origins.pop(key_of(reply)))
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
        """Look after replies whose lane will not tell: it refused nothing, or was dropped."""
        for uri in list(self._held):
            if not self._closed(uri):
                self.room(uri)

    def _closed(self, uri: str) -> bool:
        return self._dispatcher.is_open(uri)


def _size(reply: Task) -> int:
    size = attribute_bytes(reply.event) + len(reply.carried)
    return TASK_BYTES + size + len(reply.event.data or b"")
