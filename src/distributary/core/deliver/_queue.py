"""The destination queue of one sink: waiting tasks, attempts in flight, and when more may start.

Called by ``_dispatcher`` and ``_paced`` only; the engine sees ``QueueState``. Hides queue,
concurrency, ``Retry-After`` and circuit breaker of a sink URI (decision 12, Retry-After). Has no
event loop, thread or clock: it runs in its caller.
"""

import math
from collections import deque
from typing import Final

from distributary.core.deliver._entry import Paced, QueuedTask
from distributary.core.deliver._health import SLOW_DOWN, healthy, silent
from distributary.core.deliver._outgoing import identity_of, with_passes_left
from distributary.core.deliver._pacing import (
    BROKER_CONCURRENCY_MAX,
    CONCURRENCY_MAX,
    Concurrency,
    Pace,
)
from distributary.core.deliver._shared import TASK_BYTES_OVERHEAD, Shared
from distributary.core.deliver._timers import TimerHandle
from distributary.core.deliver.breaker import BROKER_OPEN_S_MAX, OPEN_S_MAX, Breaker, BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.deliver.transport import NOT_THE_SINKS, SATURATED, Done, obstacle
from distributary.core.errors import TransportError
from distributary.core.flow import Attempt, Task
from distributary.core.policy import Answer, Reply, retry_after_s

# Constants: in Python 3.11 a member read from its enumeration costs as much as several calls.
_CLOSED: Final = BreakerState.CLOSED
_OPEN: Final = BreakerState.OPEN
_HALF_OPEN: Final = BreakerState.HALF_OPEN
_ADMITTED: Final = Admission.ADMITTED

CUT_HOLD_S: Final = 0.05
"""Pause of a queue after a response that had to be cut off. Each costs a millisecond of the loop
that all queues share (a connection, and the bytes up to the limit); twenty a second cost 2 %."""

_RATE_WINDOW_S: Final = 1.0
"""Window of the completion rate, seconds with attempts in flight: long enough for a mean, short
enough to be recent. Time without any says nothing: a burst after a pause is no slow sink."""

_TIMER_S_MIN: Final = 0.001
"""Resolution of event loop timers, seconds; a timer that fired early is set again for this long."""

_UNUSED_LIVES: Final = 10
"""Factor on the idle lifetime of a queue whose breaker is not closed: its knowledge (the sink is
dead) is worth more."""


class DestinationQueue:
    """The queue of one sink, with its concurrency limit and circuit breaker.

    A rate limit belongs to a subscription, this queue to a sink. A subscription with a limit has
    its own queue (``PacedQueue``) and joins this one when its rate allows, so it delays no other.
    Its tasks and the others take turns.

    Args:
        uri: The sink: ``Destination.sink_queue``.
        shared: Ports, callbacks and budgets of the dispatcher.
        broker: Whether the sink is a place at a broker: acknowledgements come in batches, and
            probes are more frequent.
    """

    __slots__ = (
        "_breaker",
        "_concurrency",
        "_due",
        "_due_first",
        "_flights",
        "_held_bytes",
        "_hold_until_s",
        "_pace",
        "_paced",
        "_probe_at_s",
        "_queue",
        "_queued_bytes",
        "_rate_per_s",
        "_refused",
        "_timer",
        "_timer_at_s",
        "_used_s",
        "_window_count",
        "_window_s",
        "shared",
        "uri",
    )

    def __init__(self, uri: str, shared: Shared, *, broker: bool = False) -> None:
        now_s = shared.clock.monotonic_s()
        self.uri = uri
        self.shared = shared
        self._queue: deque[QueuedTask] = deque()
        self._flights: dict[QueuedTask, None] = {}  # in the order of their start
        self._queued_bytes = 0
        self._held_bytes = 0
        self._breaker = Breaker(BROKER_OPEN_S_MAX if broker else OPEN_S_MAX)
        self._concurrency = Concurrency(BROKER_CONCURRENCY_MAX if broker else CONCURRENCY_MAX)
        self._paced: dict[Paced, None] = {}
        self._due: deque[Paced] = deque()  # those whose rate allows a start now
        self._due_first = True
        self._hold_until_s = now_s
        self._pace = Pace(burst_s=0.0)  # of a target that allows so many requests
        self._probe_at_s = now_s
        self._timer: TimerHandle | None = None
        self._timer_at_s = 0.0
        self._refused = False
        self._used_s = now_s
        self._window_s = now_s
        self._window_count = 0
        self._rate_per_s = 0.0

    def offer(
        self, task: Task, destination: Destination, *, reserve: int, more_bytes: int = 0
    ) -> Admission:
        """Accept a task for one attempt, or refuse it with a reason.

        Args:
            task: The task.
            destination: Its ``sink_queue`` is this queue.
            reserve: Tasks above the limit of the queue that this caller may use.
            more_bytes: Bytes of the task besides its data and the fixed overhead.
        """
        shared = self.shared
        if shared.stopped:
            return Admission.FULL
        if self._breaker.state is not _CLOSED and not self._lacks_probe():
            self._refused = True
            return Admission.OPEN
        size = TASK_BYTES_OVERHEAD + more_bytes + len(task.carried) + task.event.data_bytes()
        queue = self._queue
        flights = self._flights
        if queue or flights:
            fits = shared.fits(len(queue), self._held_bytes, size, reserve)
        else:
            fits = shared.held_bytes + size <= shared.open_bytes or shared.fits_idle(self, size)
        if not fits:
            self._refused = True
            return Admission.FULL
        queue.append(QueuedTask(self, task, destination, size))
        shared.queued += 1
        self._queued_bytes += size
        self._held_bytes += size
        shared.held_bytes += size
        if len(flights) < self._concurrency.limit:
            self.pump(shared.monotonic_s())
        return _ADMITTED

    def _lacks_probe(self) -> bool:
        """Whether the breaker would allow a probe and no task is there for one."""
        return (
            self._breaker.state is _HALF_OPEN
            and not self._queue
            and not self._due
            and not self._breaker.probing
        )

    def pump(self, now_s: float | None = None) -> None:
        """Start the tasks that may start now; set the timer for the others.

        Args:
            now_s: Monotonic time, seconds; None: not read yet.
        """
        shared = self.shared
        queue = self._queue
        due = self._due
        flights = self._flights
        limit = self._concurrency.limit
        if now_s is None:
            now_s = shared.monotonic_s()
        while (queue or due) and len(flights) < limit and not shared.stopped:
            closed = self._breaker.state is _CLOSED
            # The first conditions are those of ``_may_start`` where nothing is in the way.
            usual = closed and self._hold_until_s <= now_s and shared.slow_s is None
            if not usual and not self._may_start(now_s):
                return
            if shared.in_flight >= shared.in_flight_max and not shared.place_free(
                first=not flights
            ):
                shared.waiting[self] = None
                return
            if not closed and not self._breaker.claim_probe():
                return
            if due and (self._due_first or not queue):
                self._due_first = False
                entry = due.popleft().take(now_s)
                self._held_bytes += entry.bytes
            else:
                self._due_first = True
                entry = queue.popleft()
                self._queued_bytes -= entry.bytes
            entry.probe = not closed
            entry.started_s = now_s
            if not flights:  # since the last answer it had nothing to answer
                self._window_s += now_s - self._used_s
            flights[entry] = shared.flights[entry] = None
            shared.in_flight += 1
            shared.queued -= 1
            self._start(entry, now_s)

    def _may_start(self, now_s: float) -> bool:
        if self._breaker.state is _OPEN:
            return False  # the timer ends the pause
        if self._hold_until_s > now_s:
            self._wake_at(self._hold_until_s, now_s)
            return False
        slow_s = self.shared.slow_s
        return slow_s is None or self.oldest_in_flight_s(now_s) <= slow_s

    def _start(self, entry: QueuedTask, now_s: float) -> None:
        """Send the task of *entry*, which counts as in flight."""
        destination = entry.destination
        transport = self.shared.transports.get(destination.protocol)
        task = entry.task
        if destination.plain and transport is not None:
            transport.send(task.event, destination, destination.policy.timeout_s, entry.answered)
            return
        # Only sinks of Knative's kinds get a publisher's header fields.
        carried = b"" if destination.namespace is None else task.carried
        self._send(entry, now_s, entry.answered, carried)

    def _send(self, entry: QueuedTask, now_s: float, done: Done, carried: bytes) -> None:
        """Send the task of *entry* with *carried* header lines, if nothing prevents it."""
        shared, destination, task = self.shared, entry.destination, entry.task
        transport = shared.transports.get(destination.protocol)
        if destination.consent is not None and destination.consent.rate_per_s is not None:
            due_s = self._pace.count(destination.consent.rate_per_s, now_s)
            self._hold_until_s = max(self._hold_until_s, due_s)
        event = task.event
        ttl = task.ttl
        if destination.passes:
            ttl -= destination.passes - 1
        error = obstacle(destination, ttl)
        if transport is None or error is not None:
            # No transport: a newer version wrote that protocol. Its tasks must end, not stop the
            # queue.
            failure = error or TransportError(
                "protocol", f"No transport for {destination.protocol}", retryable=False
            )
            shared.timers.call_later(0.0, lambda: done(failure))
            return
        if destination.own:
            event = with_passes_left(event, ttl)
        # For brokers and signatures only: it costs a tenth of a delivery.
        at_broker = destination.at_broker
        identified = at_broker or destination.signing is not None
        identity = identity_of(task, at_broker=at_broker) if identified else ""
        timeout_s = destination.policy.timeout_s
        transport.send(event, destination, timeout_s, done, identity, carried=carried)

    def answered(self, entry: QueuedTask, answer: Answer) -> None:
        """Take the answer of an attempt, start what may follow, and pass the answer on."""
        shared = self.shared
        now_s = shared.monotonic_s()
        flights = self._flights
        del flights[entry], shared.flights[entry]
        size = entry.bytes
        shared.in_flight -= 1
        shared.held_bytes -= size
        self._held_bytes -= size
        self._used_s = now_s
        self._window_count += 1
        if now_s >= self._window_s + _RATE_WINDOW_S:
            self._take_rate(now_s)
        queue = self._queue
        # ``healthy`` inlined for a ``Reply``, which nearly every answer is.
        if answer.status < SLOW_DOWN if type(answer) is Reply else healthy(answer):
            if self._breaker.troubled and self._breaker.answered():
                self._closed_again()
            if type(answer) is Reply and answer.cut:
                # Each such answer costs a connection and more bytes than any answer needs: slow
                # down, for the sake of the other sinks.
                self._concurrency.shrink(entry.started_s, now_s)
                self._hold_until_s = max(self._hold_until_s, now_s + CUT_HOLD_S)
            elif (
                self._concurrency.growing
                and (queue or self._due)
                and len(flights) + 1 >= self._concurrency.limit
            ):
                self._concurrency.grow()
        else:
            self._unwell(entry, answer, now_s)
        if shared.waiting:
            shared.wake_waiting()
        if shared.reserve.starving:
            shared.reserve.fell()
        if queue or self._due:
            self.pump(now_s)
        if self._refused and len(queue) <= shared.low_water:
            self.notify_drained()
        took_s = now_s - entry.started_s
        shared.on_attempt(Attempt(entry.task, answer, took_s, entry.destination.uri))

    def _unwell(self, entry: QueuedTask, answer: Answer, now_s: float) -> None:
        """Adapt to an answer that is not healthy, as far as it tells of the sink."""
        if isinstance(answer, TransportError) and answer.reason in NOT_THE_SINKS:
            if not entry.probe:
                return
            if answer.reason != SATURATED:  # that comes again soon, for whichever attempt
                self._breaker.give_probe_back()
                return
        self._trouble(entry, answer, now_s)

    def _trouble(self, entry: QueuedTask, answer: Answer, now_s: float) -> None:
        """Adapt concurrency, hold and breaker to an unhealthy answer."""
        status = answer.status if isinstance(answer, Reply) else 0
        is_silent = silent(answer)
        if is_silent or status in (429, 503):
            self._concurrency.shrink(entry.started_s, now_s)
        if isinstance(answer, Reply) and status in (429, 503):
            wall_ms = self.shared.clock.wall_ms()
            asked_s = retry_after_s(answer.retry_after, wall_ms)
            if asked_s is not None:
                until_s = now_s + min(asked_s, entry.destination.policy.asked_wait_s_max)
                self._hold_until_s = max(self._hold_until_s, until_s)
        if not is_silent and status != 429 and status < 500:
            # The sink is alive, or (a blocked address) waiting is pointless: tasks that can only
            # fail for good must not pile up behind a breaker.
            if self._breaker.answered():
                self._closed_again()
            return
        pause_s = self._breaker.failed(probe=entry.probe, jitter=self.shared.random.unit())
        if pause_s is not None:
            self.shared.opened[self] = None
            self._probe_at_s = max(now_s + pause_s, self._hold_until_s)
            self._wake_at(self._probe_at_s, now_s)

    def _closed_again(self) -> None:
        """Restart with low concurrency, and report room: the breaker has closed."""
        self._concurrency.restart()
        self._notify_all_drained()

    def _notify_all_drained(self) -> None:
        self.notify_drained()
        for paced in tuple(self._paced):
            paced.check_drained()

    def notify_drained(self) -> None:
        """Report room to the engine, if a task was refused and now would not be."""
        shared = self.shared
        if self._refused and (
            self._lacks_probe()
            or (
                self._breaker.state is _CLOSED
                and len(self._queue) <= shared.low_water
                and self._queued_bytes <= shared.low_water_bytes
            )
        ):
            self._refused = False
            self.shared.on_drained(self.uri)

    def _take_rate(self, now_s: float) -> None:
        """End a window of the completion rate."""
        self._rate_per_s = self._window_count / (now_s - self._window_s)
        self._window_s = now_s
        self._window_count = 0

    def _wake_at(self, due_s: float, now_s: float) -> None:
        """Set the timer to *due_s*, unless it fires earlier."""
        if self._timer is not None:
            if self._timer_at_s <= due_s:
                return
            self._timer.cancel()
        self._timer_at_s = due_s
        delay_s = max(due_s - now_s, _TIMER_S_MIN)
        self._timer = self.shared.timers.call_later(delay_s, self._woken)

    def probe(self) -> None:
        """End the pause of an open breaker, soon and never inside this call.

        What the sink has asked for (``Retry-After``) still holds.
        """
        if self._breaker.state is _OPEN:
            now_s = self.shared.monotonic_s()
            self._probe_at_s = max(now_s, self._hold_until_s)
            self._wake_at(self._probe_at_s, now_s)

    def _woken(self) -> None:
        self._timer = None
        now_s = self.shared.clock.monotonic_s()
        if self._breaker.state is BreakerState.OPEN:
            if now_s < self._probe_at_s:
                self._wake_at(self._probe_at_s, now_s)
                return
            self._breaker.pause_over()
        self.pump()
        self._notify_all_drained()

    def take_queued(self) -> list[Task]:
        """Remove and return all waiting tasks, oldest first; attempts in flight stay."""
        tasks = [entry.task for entry in self._queue]
        self._queue.clear()
        self.shared.queued -= len(tasks)
        self._held_bytes -= self._queued_bytes
        self.shared.held_bytes -= self._queued_bytes
        self._queued_bytes = 0
        self.shared.reserve.fell()
        if tasks and not self.shared.stopped:
            # The caller must learn when there is room, as after a refusal, and perhaps no answer
            # follows that would report it. Not from inside this call: the caller is not ready for
            # new tasks.
            self._refused = True
            self.shared.timers.call_later(0.0, self.notify_drained)
        return tasks

    def stop(self) -> None:
        """Cancel the timer: the dispatcher is closing or drops the queue."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.shared.waiting.pop(self, None)

    def drop(self) -> None:
        """Stop: unused."""
        self.stop()

    # -- for queues with a rate limit -------------------------------------------------------------

    def attach(self, paced: Paced) -> None:
        """Add *paced*, which sends by this queue from now on."""
        self._paced[paced] = None

    def detach(self, paced: Paced) -> None:
        """Remove *paced*, which is empty and unused."""
        del self._paced[paced]

    def due(self, paced: Paced) -> None:
        """Let a task of *paced* start with the next ``pump`` that finds a free slot."""
        self._due.append(paced)

    def not_due(self, paced: Paced) -> None:
        """Withdraw *paced*, which has nothing to start any more."""
        self._due.remove(paced)

    def takes(self, *, nothing_waits: bool) -> bool:
        """Whether the breaker admits a task that would wait for its rate."""
        return self._breaker.state is _CLOSED or (nothing_waits and self._lacks_probe())

    @property
    def proven(self) -> bool:
        """Whether the sink has answered lately, and well."""
        return not self._breaker.troubled and (self._rate_per_s > 0.0 or self._window_count > 0)

    @property
    def breaker(self) -> BreakerState:
        """The breaker's state."""
        return self._breaker.state

    def cut_off(self) -> list[str]:
        """Names of the queues waiting behind the open breaker, this one included."""
        if self._breaker.state is not BreakerState.OPEN:
            return []
        names = [self.uri] if self._queue else []
        return names + [paced.uri for paced in self._paced if paced.queued]

    def oldest_in_flight_s(self, now_s: float) -> float:
        """Age of the oldest attempt in flight, seconds; 0 if there is none."""
        for entry in self._flights:
            return now_s - entry.started_s
        return 0.0

    def unused(self, now_s: float) -> bool:
        """Whether the queue can be dropped: idle for long, and not held by ``Retry-After``."""
        used = self._queue or self._flights or self._paced or self.shared.is_starved(self)
        if used or self._hold_until_s > now_s:
            return False
        lives = 1 if self._breaker.state is _CLOSED else _UNUSED_LIVES
        return now_s - self._used_s >= self.shared.limits.idle_s * lives

    def state(self) -> QueueState:
        """A snapshot."""
        now_s = self.shared.clock.monotonic_s()
        elapsed_s = (now_s if self._flights else self._used_s) - self._window_s
        rate_per_s = self._rate_per_s
        if elapsed_s >= _RATE_WINDOW_S or (rate_per_s == 0.0 and elapsed_s > 0.0):
            rate_per_s = self._window_count / max(elapsed_s, 0.05)
        queued = len(self._queue)
        held_s = max(0.0, self._hold_until_s - now_s)
        drain_s = 0.0
        if queued:
            drain_s = held_s + (queued / rate_per_s if rate_per_s > 0.0 else math.inf)
        return QueueState(
            uri=self.uri,
            queued=queued,
            queued_bytes=self._queued_bytes,
            in_flight=len(self._flights),
            concurrency=self._concurrency.limit,
            breaker=self._breaker.state,
            completions_per_s=rate_per_s,
            drain_s=drain_s,
            oldest_in_flight_s=self.oldest_in_flight_s(now_s),
            held_s=held_s,
            refused=self._refused,
            starved=self.shared.is_starved(self),
        )
