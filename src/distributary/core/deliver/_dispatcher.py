"""The dispatcher: queues tasks by destination, sends each once, and reports its answer.

Called by ``partitions``. Hides the queues, their creation and removal, and the shutdown. It does
not retry: ``policy.classify`` interprets answers, and a retry is offered like a new task.

Everything here runs on the thread of the transports' event loop. Other threads pass tasks with
``loop.call_soon_threadsafe``.
"""

import asyncio
import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.clock import Clock, Random
from distributary.core.deliver._closed import ClosedQueue
from distributary.core.deliver._paced import PacedQueue
from distributary.core.deliver._queue import DestinationQueue
from distributary.core.deliver._reserve import Reserve
from distributary.core.deliver._shared import Shared
from distributary.core.deliver._timers import TimerHandle, Timers
from distributary.core.deliver.breaker import BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.limits import Limits, attribute_bytes
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.deliver.tracing import AttemptTracing, TracedQueue
from distributary.core.deliver.transport import Transport
from distributary.core.flow import Attempt, Task

_SWEEP_SHARE: Final = 0.5
"""Interval of the search for unused queues, as a share of their lifetime."""

_HELD: Final = -1.0
"""As ``Shared.slow_s``: every queue is slow, those without an attempt in flight too."""

_Queue = DestinationQueue | PacedQueue | ClosedQueue


def _ignore_drained(_uri: str) -> None:
    """Ignore notifications; the default."""


class Dispatcher:
    """The set of destination queues of one partition.

    The queues of one tenant share its budgets. With n tenants, each has the n-th part of the whole,
    so that none can use up what another needs; alone, it has all.

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
        tracing: Traces attempts; None: nobody does.
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
        tracing: AttemptTracing | None = None,
    ) -> None:
        self._transports = transports
        self._clock = clock
        self._timers = timers
        self._random = random
        self._on_attempt = on_attempt
        self._on_drained = on_drained
        self._limits = limits or Limits()
        self._slow_s: float | None = None
        self._holds: set[str] = set()
        self._drain_s: float | None = None
        self._stopped = False
        self._make_queue: Callable[..., DestinationQueue] = (
            DestinationQueue if tracing is None else functools.partial(TracedQueue, tracing)
        )
        self._tenants: dict[str, Shared] = {}
        whole = self._limits.held_bytes_total_max
        self._reserve = Reserve(whole, timers, self._tenants.values())
        self._sinks: dict[str, DestinationQueue] = {}
        # Those, the queues with a rate limit, and those of targets without consent.
        self._queues: dict[str, _Queue] = {}
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
        reserve = self._limits.retry_reserve
        more_bytes = attribute_bytes(task.event)
        return self._queue_of(destination).offer(
            task, destination, reserve=reserve, more_bytes=more_bytes
        )

    def _queue_of(self, destination: Destination) -> _Queue:
        queue = self._queues.get(destination.queue)
        return self._new_queue(destination) if queue is None else queue

    def _new_queue(self, destination: Destination) -> _Queue:
        if self._sweep is None:
            self._sweep_later()
        if destination.awaits:
            closed = ClosedQueue(destination.queue, self._clock, self._limits.idle_s)
            self._queues[destination.queue] = closed
            return closed
        name = destination.sink_queue
        of_sink = self._sinks.get(name)
        if of_sink is None:
            shared, broker = self._shared(destination.tenant), destination.at_broker
            of_sink = self._sinks[name] = self._make_queue(name, shared, broker=broker)
            self._queues[name] = of_sink
        if destination.queue == name:
            return of_sink
        paced = PacedQueue(destination.queue, of_sink, self._shared(destination.tenant))
        self._queues[destination.queue] = paced
        return paced

    def _shared(self, tenant: str) -> Shared:
        """What the queues of *tenant* share."""
        found = self._tenants.get(tenant)
        if found is None:
            found = self._tenants[tenant] = Shared(
                self._transports,
                clock=self._clock,
                timers=self._timers,
                random=self._random,
                on_attempt=self._on_attempt,
                on_drained=self._on_drained,
                limits=self._limits,
                reserve=self._reserve,
            )
            found.slow_s, found.stopped = self._slow_s, self._stopped
            self._divide()
        return found

    def _divide(self) -> None:
        """Give each tenant its part of the budgets."""
        part = self._limits.divided(len(self._tenants))
        for shared in self._tenants.values():
            shared.keep_within(part)
        self._reserve.fell()

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

    def probe(self, uri: str) -> None:
        """End the pause of this queue's breaker, if it is open: one task may try its sink."""
        queue = self._queues.get(uri)
        if queue is not None:
            queue.probe()

    def cut_off(self) -> list[str]:
        """Queues with tasks behind a breaker that has opened since the last call and still is."""
        found: list[str] = []
        for shared in self._tenants.values():
            opened, shared.opened = shared.opened, {}
            found += [uri for queue in opened for uri in queue.cut_off()]
        return found

    @property
    def in_flight(self) -> int:
        """Attempts in flight."""
        return sum(shared.in_flight for shared in self._tenants.values())

    @property
    def queued(self) -> int:
        """Waiting tasks."""
        return sum(shared.queued for shared in self._tenants.values())

    @property
    def held_bytes(self) -> int:
        """Bytes of all tasks, waiting and in flight, with a fixed overhead for each."""
        return sum(shared.held_bytes for shared in self._tenants.values())

    def flying(self) -> Counter[str]:
        """Attempts in flight by route: as many steps as there are attempts."""
        return Counter(
            flight.task.route for shared in self._tenants.values() for flight in shared.flights
        )

    def oldest_in_flight_s(self) -> float:
        """Age of the oldest attempt in flight, seconds; 0 if there is none."""
        began = [
            next(iter(shared.flights)).started_s
            for shared in self._tenants.values()
            if shared.flights
        ]
        return self._clock.monotonic_s() - min(began) if began else 0.0

    def begin_drain(self, slow_s: float) -> None:
        """Prepare for ``close``: from now on slow queues start nothing new.

        A queue is slow while its oldest attempt in flight is older than *slow_s*. The others
        continue, so the wait for a moment to close delays no fast sink.
        """
        assert slow_s >= 0.0
        self._drain_s = slow_s
        if not self._holds:  # ``go_on`` ends a hold, nothing else
            self._slow_after(slow_s)

    def hold(self, why: str) -> None:
        """Start no attempt until ``go_on`` for *why*; accept tasks as before, and await answers."""
        self._holds.add(why)
        self._slow_after(_HELD)

    def go_on(self, why: str) -> None:
        """Start attempts again, those first that waited in ``hold``, unless for another reason."""
        self._holds.discard(why)
        if self._holds:
            return
        self._slow_after(self._drain_s)
        for queue in list(self._sinks.values()):
            queue.pump()

    def _slow_after(self, slow_s: float | None) -> None:
        self._slow_s = slow_s
        for shared in self._tenants.values():
            shared.slow_s = slow_s

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
        self._stopped = True
        for shared in self._tenants.values():
            shared.stopped = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for queue in self._queues.values():
            queue.stop()
        if not abort and self.in_flight:
            await self._last_answer()
        for transport in dict.fromkeys(self._transports.values()):
            await transport.close()

    async def _last_answer(self) -> None:
        quiet = asyncio.Event()

        def count(attempt: Attempt) -> None:
            if self.in_flight == 0:
                quiet.set()
            self._on_attempt(attempt)

        for shared in self._tenants.values():
            shared.on_attempt = count
        await quiet.wait()

    def _sweep_later(self) -> None:
        delay_s = self._limits.idle_s * _SWEEP_SHARE
        self._sweep = self._timers.call_later(delay_s, self._drop_unused)

    def _drop_unused(self) -> None:
        """Drop queues of sinks that are no longer used."""
        self._sweep = None
        now_s = self._clock.monotonic_s()
        for queue in [queue for queue in self._queues.values() if queue.unused(now_s)]:
            queue.drop()
            del self._queues[queue.uri]
            self._sinks.pop(queue.uri, None)
        used = {
            id(queue.shared)
            for queue in self._queues.values()
            if not isinstance(queue, ClosedQueue)
        }
        left = [name for name, one in self._tenants.items() if id(one) not in used]
        for name in left:
            del self._tenants[name]
        if left:
            self._divide()
        if self._queues:
            self._sweep_later()
