"""The dispatcher: queues tasks by destination, sends each once, and reports its answer.

Called by ``partitions``. Hides the queues, their creation and removal, and the shutdown. It does
not retry: ``policy.classify`` interprets answers, and a retry is offered like a new task.

Everything here runs on the thread of the transports' event loop. Other threads pass tasks with
``loop.call_soon_threadsafe``.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.clock import Clock, Random
from distributary.core.deliver._paced import PacedQueue
from distributary.core.deliver._queue import DestinationQueue
from distributary.core.deliver._shared import Shared
from distributary.core.deliver._timers import TimerHandle, Timers
from distributary.core.deliver.breaker import BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.limits import Limits, attribute_bytes
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.deliver.transport import Transport
from distributary.core.flow import Attempt, Task

_SWEEP_SHARE: Final = 0.5
"""Interval of the search for unused queues, as a share of their lifetime."""


def _ignore_drained(_uri: str) -> None:
    """Ignore notifications; the default."""


class Dispatcher:
    """The set of destination queues of one partition, with budgets that they share.

    Args:
        transports: Delivery protocol name (``Destination.protocol``) -> its transport. The
            dispatcher owns and closes them.
        clock: Time; durations are monotonic.
        timers: Waits on the same time line.
        random: Jitter of the breakers' pauses.
        on_attempt: Called once for each attempt with its result. Must not raise.
        limits: Bounds on waiting tasks and attempts in flight.
        on_drained: Called with the name of a queue that refused a task, once it has room again, its
            breaker has closed, or it needs a task as a probe.
    """

    def __init__(
        self,
        transports: Mapping[str, Transport],
        *,
        clock: Clock,
        timers: Timers,
        random: Random,
        on_attempt: Callable[[Attempt], None],
        limits: Limits | None = None,
        on_drained: Callable[[str], None] = _ignore_drained,
    ) -> None:
        self._shared = Shared(
            transports,
            clock=clock,
            timers=timers,
            random=random,
            on_attempt=on_attempt,
            on_drained=on_drained,
            limits=limits or Limits(),
        )
        self._sinks: dict[str, DestinationQueue] = {}
        self._queues: dict[
            str, DestinationQueue | PacedQueue
        ] = {}  # those, and the queues with a rate limit
        self._sweep: TimerHandle | None = None

    def offer(self, task: Task, destination: Destination) -> Admission:
        """Offer one attempt of *task*.

        Returns:
            ``ADMITTED``: ``on_attempt`` is called once for it, never from inside this call.
            ``FULL`` or ``OPEN``: not taken. The caller decides (its route is backfilled), and
            ``on_drained`` is called when the queue has room.
        """
        # ``_queue_of`` inlined: every match comes here.
        queue = self._queues.get(destination.queue)
        if queue is None:
            queue = self._new_queue(destination)
        return queue.offer(task, destination, reserve=0)

    def offer_retry(self, task: Task, destination: Destination) -> Admission:
        """Like ``offer``, with a small reserve above the limit of the queue."""
        reserve = self._shared.limits.retry_reserve
        more_bytes = attribute_bytes(task.event)
        return self._queue_of(destination).offer(
            task, destination, reserve=reserve, more_bytes=more_bytes
        )

    def _queue_of(self, destination: Destination) -> DestinationQueue | PacedQueue:
        queue = self._queues.get(destination.queue)
        return self._new_queue(destination) if queue is None else queue

    def _new_queue(self, destination: Destination) -> DestinationQueue | PacedQueue:
        if self._sweep is None:
            self._sweep_later()
        name = destination.sink_queue
        of_sink = self._sinks.get(name)
        if of_sink is None:
            broker = destination.at_broker
            of_sink = self._sinks[name] = DestinationQueue(name, self._shared, broker=broker)
            self._queues[name] = of_sink
        if destination.queue == name:
            return of_sink
        paced = PacedQueue(destination.queue, of_sink, self._shared)
        self._queues[destination.queue] = paced
        return paced

    def queue(self, uri: str) -> QueueState | None:
        """State of a queue; None: there is none, as nothing was sent there lately."""
        queue = self._queues.get(uri)
        return None if queue is None else queue.state()

    def queues(self) -> list[QueueState]:
        """States of all queues."""
        return [queue.state() for queue in self._queues.values()]

    def is_open(self, uri: str) -> bool:
        """True if the breaker of this queue is open: it takes nothing."""
        queue = self._queues.get(uri)
        return queue is not None and queue.breaker is BreakerState.OPEN

    def cut_off(self) -> list[str]:
        """Queues with tasks behind a breaker that has opened since the last call and still is."""
        opened, self._shared.opened = self._shared.opened, {}
        return [uri for queue in opened for uri in queue.cut_off()]

    @property
    def in_flight(self) -> int:
        """Attempts in flight."""
        return self._shared.in_flight

    @property
    def queued(self) -> int:
        """Waiting tasks."""
        return self._shared.queued

    @property
    def held_bytes(self) -> int:
        """Bytes of all tasks, waiting and in flight, with a fixed overhead for each."""
        return self._shared.held_bytes

    def oldest_in_flight_s(self) -> float:
        """Age of the oldest attempt in flight, seconds; 0 if there is none."""
        for flight in self._shared.flights:
            return self._shared.clock.monotonic_s() - flight.started_s
        return 0.0

    def begin_drain(self, slow_s: float) -> None:
        """Prepare for ``close``: from now on slow queues start nothing new.

        A queue is slow while its oldest attempt in flight is older than *slow_s*. The others
        continue, so the wait for a moment to close delays no fast sink.
        """
        assert slow_s >= 0.0
        self._shared.slow_s = slow_s

    def take_queued(self, uri: str | None = None) -> list[Task]:
        """Remove and return all tasks that have not started.

        Args:
            uri: Only of this queue (its breaker is open and its routes are to be backfilled, for
                example); None: of all.

        Returns:
            The tasks, oldest first within each queue. ``on_attempt`` is not called for them;
            ``on_drained`` follows when the queue has room (or lacks a probe), as after a refusal.
        """
        if uri is not None:
            queue = self._queues.get(uri)
            return [] if queue is None else queue.take_queued()
        return [task for queue in self._queues.values() for task in queue.take_queued()]

    async def close(self, *, abort: bool) -> None:
        """Stop for good: start and accept nothing, and end the attempts in flight.

        Waiting tasks stay for ``take_queued``.

        Args:
            abort: True: abort attempts; each ends as ``TransportError("closed")``, and whether the
                sink has the event is unknown. False: wait for their answers (each attempt has its
                own deadline).
        """
        self._shared.stopped = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for queue in self._queues.values():
            queue.stop()
        if not abort and self._shared.in_flight:
            await self._last_answer()
        for transport in dict.fromkeys(self._shared.transports.values()):
            await transport.close()

    async def _last_answer(self) -> None:
        shared = self._shared
        on_attempt = shared.on_attempt
        quiet = asyncio.Event()

        def count(attempt: Attempt) -> None:
            if shared.in_flight == 0:
                quiet.set()
            on_attempt(attempt)

        shared.on_attempt = count
        await quiet.wait()

    def _sweep_later(self) -> None:
        delay_s = self._shared.limits.idle_s * _SWEEP_SHARE
        self._sweep = self._shared.timers.call_later(delay_s, self._drop_unused)

    def _drop_unused(self) -> None:
        """Drop queues of sinks that are no longer used."""
        self._sweep = None
        now_s = self._shared.clock.monotonic_s()
        for queue in [queue for queue in self._queues.values() if queue.unused(now_s)]:
            queue.drop()
            del self._queues[queue.uri]
            self._sinks.pop(queue.uri, None)
        if self._queues:
            self._sweep_later()
