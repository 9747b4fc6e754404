"""The queue of a subscription with a rate limit, in front of its sink's queue.

Called by ``_dispatcher`` and ``_queue`` only. The rate is the subscription's, so its tasks wait
here and delay no other subscription; concurrency, breaker and ``Retry-After`` belong to the sink's
queue (decision 12, Retry-After).
"""

from collections import deque
from typing import Final

from distributary.core.deliver._entry import QueuedTask
from distributary.core.deliver._pacing import Pace
from distributary.core.deliver._queue import DestinationQueue
from distributary.core.deliver._shared import TASK_BYTES_OVERHEAD, Shared
from distributary.core.deliver._timers import Soon, TimerHandle
from distributary.core.deliver.breaker import BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.flow import Task

_TIMER_S_MIN: Final = 0.001
"""Resolution of event loop timers, seconds."""


class PacedQueue:
    """A queue of one subscription that releases tasks at its rate.

    Args:
        uri: Its name, ``Destination.queue``.
        sink_queue: The queue of its sink.
        shared: Ports, callbacks and budgets of the dispatcher.
    """

    __slots__ = (
        "_listed",
        "_pace",
        "_queue",
        "_queued_bytes",
        "_rate_per_s",
        "_refused",
        "_tell",
        "_timer",
        "_used_s",
        "shared",
        "sink_queue",
        "uri",
    )

    def __init__(self, uri: str, sink_queue: DestinationQueue, shared: Shared) -> None:
        self.uri = uri
        self.sink_queue = sink_queue
        self.shared = shared
        self._queue: deque[QueuedTask] = deque()
        self._queued_bytes = 0
        self._pace = Pace()
        self._rate_per_s = 1.0
        self._listed = False
        self._refused = False
        self._tell = Soon(shared.timers, self.notify_drained)
        self._timer: TimerHandle | None = None
        self._used_s = shared.clock.monotonic_s()
        sink_queue.attach(self)

    def offer(
        self, task: Task, destination: Destination, *, reserve: int, more_bytes: int = 0
    ) -> Admission:
        """Like ``DestinationQueue.offer``; starts when the rate and the sink's queue allow."""
        shared = self.shared
        queue = self._queue
        if shared.stopped:
            return Admission.FULL
        if not self.sink_queue.takes(nothing_waits=not queue):
            self._refused = True
            return Admission.OPEN
        size = TASK_BYTES_OVERHEAD + more_bytes + len(task.carried) + task.event.data_bytes()
        if queue:
            fits = shared.fits(len(queue), self._queued_bytes, size, reserve)
        else:
            fits = shared.held_bytes + size <= shared.open_bytes or shared.fits_idle(self, size)
        if not fits:
            self._refused = True
            return Admission.FULL
        rate_per_s = destination.policy.rate_limit_per_s
        assert rate_per_s is not None
        self._rate_per_s = rate_per_s
        queue.append(QueuedTask(self.sink_queue, task, destination, size))
        shared.queued += 1
        self._queued_bytes += size
        shared.held_bytes += size
        self._used_s = shared.clock.monotonic_s()
        self.pump()
        return Admission.ADMITTED

    def pump(self) -> None:
        """Start what the rate allows now; set the timer for the rest."""
        self._list()
        if self._listed:
            self.sink_queue.pump()

    def _list(self) -> None:
        """Join the turns of the sink's queue if the rate allows it, else set the timer."""
        if self._listed or not self._queue or self.shared.stopped:
            return
        now_s = self.shared.clock.monotonic_s()
        wait_s = self._pace.wait_s(self._rate_per_s, now_s)
        if wait_s <= 0.0:
            self._listed = True
            self.sink_queue.due(self)
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.shared.timers.call_later(max(wait_s, _TIMER_S_MIN), self._woken)

    def _woken(self) -> None:
        self._timer = None
        self.pump()

    def take(self, now_s: float) -> QueuedTask:
        """Remove and return the next task, which starts now."""
        self._listed = False
        self._pace.take(self._rate_per_s, now_s)
        entry = self._queue.popleft()
        self._queued_bytes -= entry.bytes
        self._used_s = now_s
        self._list()
        self.check_drained()
        return entry

    def check_drained(self) -> None:
        """Report room to the engine, soon, if a task was refused and now would not be."""
        if self._refused and not self._tell.due and self._has_capacity():
            # Not from inside this call: the caller, taking a task, is not ready for new ones.
            self._tell.ask()

    def _has_capacity(self) -> bool:
        shared = self.shared
        return (
            self.sink_queue.takes(nothing_waits=not self._queue)
            and len(self._queue) <= shared.low_water
            and self._queued_bytes <= shared.low_water_bytes
        )

    def notify_drained(self) -> None:
        """As ``DestinationQueue.notify_drained``."""
        if self._refused and not self.shared.stopped and self._has_capacity():
            self._refused = False
            self.shared.on_drained(self.uri)

    def take_queued(self) -> list[Task]:
        """Remove and return all waiting tasks, oldest first."""
        tasks = [entry.task for entry in self._queue]
        self._queue.clear()
        self.shared.queued -= len(tasks)
        self.shared.held_bytes -= self._queued_bytes
        self._queued_bytes = 0
        self.shared.reserve.fell()
        if self._listed:
            self._listed = False
            self.sink_queue.not_due(self)
        if tasks and not self.shared.stopped:
            self._refused = (
                True  # As in ``DestinationQueue``: the caller must learn when there is room.
            )
            self.check_drained()
        return tasks

    def stop(self) -> None:
        """Cancel the timer: the dispatcher is closing or drops the queue."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self) -> None:
        """Stop, and detach from the sink's queue: unused."""
        self.stop()
        self.sink_queue.detach(self)

    @property
    def proven(self) -> bool:
        """As that of its sink's queue."""
        return self.sink_queue.proven

    @property
    def queued(self) -> int:
        """Waiting tasks."""
        return len(self._queue)

    @property
    def breaker(self) -> BreakerState:
        """The breaker's state of its sink."""
        return self.sink_queue.breaker

    def probe(self) -> None:
        """As that of its sink's queue."""
        self.sink_queue.probe()

    def unused(self, now_s: float) -> bool:
        """Whether it can be dropped: idle for long, and no past attempt counts for its rate."""
        if self._queue or self._pace.due_s > now_s or self.shared.is_starved(self):
            return False
        return now_s - self._used_s >= self.shared.limits.idle_s

    def state(self) -> QueueState:
        """A snapshot: that of the sink's queue, with the tasks and the rate of this one."""
        now_s = self.shared.clock.monotonic_s()
        sink_queue = self.sink_queue.state()
        queued = len(self._queue)
        drain_s = 0.0
        if queued:
            wait_s = self._pace.wait_s(self._rate_per_s, now_s)
            drain_s = sink_queue.held_s + wait_s + queued / self._rate_per_s
        return sink_queue._replace(
            uri=self.uri,
            queued=queued,
            queued_bytes=self._queued_bytes,
            refused=self._refused,
            starved=self.shared.is_starved(self),
            completions_per_s=self._rate_per_s,
            drain_s=drain_s,
            paced=True,
        )
