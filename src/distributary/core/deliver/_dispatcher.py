"""The dispatcher: takes tasks, sends each once by the lane of its sink, reports what came of it.

Called by ``pipeline``. Hides the lanes, their coming and going, and the stop. It does not retry:
what an answer means is for ``policy.classify``, and a retry is offered like a new task.

Everything here runs on one thread, that of the event loop of the transports. Another thread
hands its tasks over with ``loop.call_soon_threadsafe``.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from distributary.core.clock import Clock, Random
from distributary.core.deliver._breaker import BreakerState
from distributary.core.deliver._lane import Lane
from distributary.core.deliver._lane_state import Admission, LaneState
from distributary.core.deliver._paced import PacedLane
from distributary.core.deliver._shared import Limits, Shared, attribute_bytes
from distributary.core.deliver._timers import TimerHandle, Timers
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.transport import Transport
from distributary.core.flow import Attempt, Task

_SWEEP_SHARE: Final = 0.5
"""Unused lanes are looked for at this share of their lifetime."""


def _ignore_room(_uri: str) -> None:
    """Stand in where nobody asked to be told of room."""


class Dispatcher:
    """Sends tasks, one lane for each sink URI.

    Args:
        transports: Delivery protocol name (``Destination.protocol``) -> its transport. The
            dispatcher owns them: ``close`` closes them.
        clock: Time; durations are monotonic.
        timers: Waits on the same time line.
        random: Chance for the breakers' pauses.
        on_attempt: Called once for each attempt with what came of it. Must not raise.
        limits: How much may wait and be under way.
        on_room: Called with the URI of a lane that refused a task, once it has room again, its
            breaker has closed, or it needs a task to probe its sink with.
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
        on_room: Callable[[str], None] = _ignore_room,
    ) -> None:
        self._shared = Shared(
            transports,
            clock=clock,
            timers=timers,
            random=random,
            on_attempt=on_attempt,
            on_room=on_room,
            limits=limits or Limits(),
        )
        self._sinks: dict[str, Lane] = {}
        self._lanes: dict[str, Lane | PacedLane] = {}  # those, and the queues with a pace
        self._sweep: TimerHandle | None = None

    def offer(self, task: Task, destination: Destination) -> Admission:
        """Offer one attempt of *task*.

        Returns:
            ``ADMITTED``: ``on_attempt`` is called once for it, never from inside this call.
            ``FULL`` or ``OPEN``: nothing was taken, the caller decides (its route lags), and
            ``on_room`` tells when to come back.
        """
        return self._lane_of(destination).offer(task, destination, reserve=0)

    def offer_retry(self, task: Task, destination: Destination) -> Admission:
        """Offer as ``offer`` does, with a small reserve above the limit of the queue."""
        reserve = self._shared.limits.retry_reserve
        more_bytes = attribute_bytes(task.event)
        return self._lane_of(destination).offer(
            task, destination, reserve=reserve, more_bytes=more_bytes
        )

    def _lane_of(self, destination: Destination) -> Lane | PacedLane:
        lane = self._lanes.get(destination.lane)
        return self._new_lane(destination) if lane is None else lane

    def _new_lane(self, destination: Destination) -> Lane | PacedLane:
        if self._sweep is None:
            self._sweep_later()
        name = destination.sink_lane
        of_sink = self._sinks.get(name)
        if of_sink is None:
            broker = destination.protocol != "HTTP"
            of_sink = self._sinks[name] = Lane(name, self._shared, broker=broker)
            self._lanes[name] = of_sink
        if destination.lane == name:
            return of_sink
        paced = PacedLane(destination.lane, of_sink, self._shared)
        self._lanes[destination.lane] = paced
        return paced

    def lane(self, uri: str) -> LaneState | None:
        """The lane of a sink as it stands; None: nothing was sent there lately."""
        lane = self._lanes.get(uri)
        return None if lane is None else lane.state()

    def lanes(self) -> list[LaneState]:
        """All lanes as they stand."""
        return [lane.state() for lane in self._lanes.values()]

    def is_open(self, uri: str) -> bool:
        """True where the breaker of this lane is open: it takes nothing."""
        lane = self._lanes.get(uri)
        return lane is not None and lane.breaker is BreakerState.OPEN

    def cut_off(self) -> list[str]:
        """Lanes with tasks behind a breaker that has opened since this was asked, and is open."""
        opened, self._shared.opened = self._shared.opened, {}
        return [uri for lane in opened for uri in lane.cut_off()]

    @property
    def in_flight(self) -> int:
        """Attempts under way."""
        return self._shared.in_flight

    @property
    def queued(self) -> int:
        """Tasks that wait."""
        return self._shared.queued

    @property
    def held_bytes(self) -> int:
        """Bytes of all tasks, waiting and in flight, with a flat sum for each."""
        return self._shared.held_bytes

    def oldest_in_flight_s(self) -> float:
        """Age of the oldest attempt under way, seconds; 0 if there is none."""
        for flight in self._shared.flights:
            return self._shared.clock.monotonic_s() - flight.started_s
        return 0.0

    def cool_down(self, slow_s: float) -> None:
        """Prepare a hand-over: from now on slow lanes start nothing new.

        A lane is slow while its oldest attempt under way is older than *slow_s*. The others go
        on, so that the hand-over costs the fast sinks nothing and waits for no slow one.
        """
        assert slow_s >= 0.0
        self._shared.slow_s = slow_s

    def warm_up(self) -> None:
        """Undo ``cool_down``."""
        self._shared.slow_s = None
        for lane in tuple(self._lanes.values()):
            lane.pump()

    def take_queued(self, uri: str | None = None) -> list[Task]:
        """Hand back every task that has not been started, and forget it.

        Args:
            uri: Of this sink alone (its breaker is open and its route is to lag, say); None:
                of all.

        Returns:
            The tasks, oldest first within each lane. No ``on_attempt`` follows for them;
            ``on_room`` follows when the lane has room (or lacks a probe), as after a refusal.
        """
        if uri is not None:
            lane = self._lanes.get(uri)
            return [] if lane is None else lane.take_queued()
        return [task for lane in self._lanes.values() for task in lane.take_queued()]

    async def close(self, *, abort: bool) -> None:
        """Stop for good: start nothing, take nothing, end what is under way.

        Tasks that wait stay for ``take_queued``.

        Args:
            abort: True: cut attempts short; each ends as ``TransportError("closed")``, and
                whether the sink has the event is not known. False: wait for their answers
                (each has its own deadline).
        """
        self._shared.stopped = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        for lane in self._lanes.values():
            lane.stop()
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
        """Lanes of sinks that are no longer used must not stay for ever."""
        self._sweep = None
        now_s = self._shared.clock.monotonic_s()
        for lane in [lane for lane in self._lanes.values() if lane.unused(now_s)]:
            lane.drop()
            del self._lanes[lane.uri]
            self._sinks.pop(lane.uri, None)
        if self._lanes:
            self._sweep_later()
