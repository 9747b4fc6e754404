"""State shared by the queues of one tenant: ports, callbacks, and two budgets.

Called by ``_queue`` and ``_dispatcher``. Hides how the budgets are divided, so that no sink can
use up what others need.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final, Protocol, TypeAlias

from distributary.core.clock import Clock, Random
from distributary.core.deliver._reserve import Reserve
from distributary.core.deliver._timers import Timers
from distributary.core.deliver.limits import Limits
from distributary.core.deliver.transport import Transport
from distributary.core.flow import Attempt, Task

TASK_BYTES_OVERHEAD: Final = 1_024
"""Memory of a task with six attributes besides its data (measured: 980 bytes with its queue entry).
``attribute_bytes`` counts attributes beyond that, off the hot path."""

LOW_WATER_SHARE: Final = 0.25
"""Fill level at which a queue that refused a task reports room: low enough for many tasks to fit,
high enough not to run dry."""

_WOKEN_MAX: Final = 4
"""Queues woken for one free slot: the first may not need it any more, or may not get this kind of
slot; waking all of them would cost too much."""

STARVED_TOLD_MAX: Final = 16
"""Idle queues of a tenant that are told of room at once: those that have waited longest."""


PROVEN_FACTOR: Final = 2
"""By how much more than for others a tenant may exceed its part for a sink that has answered well
lately: of many that hang none does, and those that answer go on in what is left of the reserve."""

UNPROVEN_S_MAX: Final = 60.0
"""Longest time for which sinks that answer may leave no room for another: then one that waits goes
by their limit. A new sink must get an attempt to show that it answers."""

TOLD_S: Final = 30.0
"""How long a queue that was told of room comes before those that were not. Its events may have to
be read first, from the log or the archive, one read after the other. Nothing is kept free for
it."""


class Starter(Protocol):
    """A queue that can wait for a free slot."""

    def pump(self) -> None:
        """Start what may start; join ``Shared.waiting`` if only a free slot is missing."""


class Starved(Protocol):
    """An idle queue that can wait for the bytes of others to fall."""

    @property
    def proven(self) -> bool:
        """Whether its sink has answered lately, and well."""

    def notify_drained(self) -> None:
        """Report room to the engine, if a task was refused and now would not be."""


_Line: TypeAlias = OrderedDict[Starved, int]
_NOT_TOLD: Final = (0.0, False)


class InFlight(Protocol):
    """An attempt in flight, with its start time."""

    started_s: float

    @property
    def task(self) -> Task:
        """What is sent."""


class Opened(Protocol):
    """A queue whose breaker has opened."""

    def cut_off(self) -> list[str]:
        """Names of the queues that wait behind the breaker, while it is open."""


class Shared:
    """The counters, budgets and ports of one tenant's queues in a dispatcher.

    Attributes:
        in_flight: Attempts in flight in all queues.
        held_bytes: Bytes of all tasks, waiting and in flight.
        slow_s: Before the end: queues whose oldest attempt is older start nothing; None: not yet.
        stopped: True: nothing is started or accepted any more.
        queued: Waiting tasks in all queues.
        flights: Attempts in flight, in the order of their start.
        part_bytes: What all queues may hold; idle ones may exceed it, out of the reserve.
        open_bytes: The same for idle queues that need not ask ``fits_idle``: none while one waits.
        low_water: Waiting tasks with which a queue that refused one reports room.
        low_water_bytes: The same in bytes.
        opened: Queues whose breaker has opened since the last ``Dispatcher.cut_off``.
    """

    __slots__ = (
        "_lines",
        "_told",
        "_unproven_s",
        "clock",
        "flights",
        "held_bytes",
        "in_flight",
        "in_flight_max",
        "limits",
        "low_water",
        "low_water_bytes",
        "monotonic_s",
        "on_attempt",
        "on_drained",
        "open_bytes",
        "opened",
        "part_bytes",
        "queued",
        "random",
        "reserve",
        "slow_s",
        "stopped",
        "timers",
        "transports",
        "waiting",
    )

    def __init__(
        self,
        transports: Mapping[str, Transport],
        *,
        clock: Clock,
        timers: Timers,
        random: Random,
        on_attempt: Callable[[Attempt], None],
        on_drained: Callable[[str], None],
        limits: Limits,
        reserve: Reserve,
    ) -> None:
        self.transports = transports
        self.clock = clock
        self.monotonic_s = clock.monotonic_s
        self.timers = timers
        self.random = random
        self.on_attempt = on_attempt
        self.on_drained = on_drained
        self.reserve = reserve
        # Idle queues that were refused, in order, with the bytes of what they were offered: those
        # whose sinks have not answered lately, and the others.
        self._lines: tuple[_Line, _Line] = (OrderedDict(), OrderedDict())
        # Those that were told of room: until when it is theirs, and by which limit.
        self._told: dict[Starved, tuple[float, bool]] = {}
        self._unproven_s = 0.0  # when none of the first line waited, or one was told
        self.keep_within(limits)
        self.in_flight = 0
        self.held_bytes = 0
        self.slow_s: float | None = None
        self.stopped = False
        # Counted as they change: there may be 10,000 queues, and these are read ten times a second.
        self.queued = 0
        self.flights: dict[InFlight, None] = {}
        self.opened: dict[Opened, None] = {}
        self.waiting: dict[Starter, None] = {}  # queues that wait for a free slot, in order

    def keep_within(self, limits: Limits) -> None:
        """Change the limits; what is there already stays."""
        self.limits = limits
        self.part_bytes = limits.held_bytes_total_max
        self._open()
        self.in_flight_max = limits.in_flight_max
        self.low_water = int(limits.queued_max * LOW_WATER_SHARE)
        held_bytes_max = min(limits.held_bytes_max, limits.held_bytes_total_max)
        self.low_water_bytes = int(held_bytes_max * LOW_WATER_SHARE)

    def fits(self, queued: int, held_bytes: int, size: int, reserve: int) -> bool:
        """Whether a queue that is not idle may take another task.

        Args:
            queued: Its waiting tasks.
            held_bytes: Bytes that it holds.
            size: Of the task, bytes.
            reserve: Tasks above the limit that the caller may use.
        """
        limits = self.limits
        free = self.part_bytes - self.held_bytes
        share = min(limits.held_bytes_max, free) + reserve * TASK_BYTES_OVERHEAD
        return queued < limits.queued_max + reserve and held_bytes + size <= share

    def fits_idle(self, queue: Starved, size: int) -> bool:
        """Whether the idle *queue* may take a task of *size* bytes; if not, it is told when."""
        _, by_proven = told = self._told.pop(queue, _NOT_TOLD)
        proven = queue.proven
        line = self._lines[proven]
        room = self._has_room(size, self.reserve.free_bytes(), proven=proven or by_proven)
        # Who was not told waits behind those that wait: else a queue that has just got its answer
        # would always come first.
        if room and (told is not _NOT_TOLD or not line or not self.held_bytes):
            if self.starves:  # it may have waited, among those that had not answered too
                for each in self._lines:
                    each.pop(queue, None)
                self._open()
            return True
        if not proven and not line:
            self._unproven_s = self.monotonic_s()
        # Of several tasks the largest counts: told for a smaller one, it would be refused again.
        line[queue] = max(size, line.get(queue, 0))
        if told is not _NOT_TOLD:
            line.move_to_end(queue, last=False)
        self._open()
        self.reserve.starving[self] = None
        if room:
            self.reserve.tell_later()
        return False

    def _open(self) -> None:
        self.open_bytes = -1 if self.starves else self.part_bytes

    def _has_room(self, size: int, free_bytes: int, *, proven: bool, promised: int = 0) -> bool:
        held = self.held_bytes + promised
        if not held or held + size <= self.part_bytes:
            return True  # One that holds nothing may always send an event.
        # Of the reserve, a tenant may take as much as it leaves.
        share = free_bytes * PROVEN_FACTOR if proven else free_bytes
        return size <= free_bytes and held + size <= self.part_bytes + share

    def is_starved(self, queue: Starved) -> bool:
        """Whether *queue* was refused while it was idle, and has not been told of room since."""
        return any(queue in line for line in self._lines)

    @property
    def excess_bytes(self) -> int:
        """Bytes beyond the tenant's part."""
        return max(0, self.held_bytes - self.part_bytes)

    @property
    def starves(self) -> bool:
        """Whether idle queues that were refused wait for room."""
        return any(self._lines)

    def tell_starved(self, free_bytes: int) -> bool:
        """Tell the idle queues that have waited longest and have room now.

        Args:
            free_bytes: Of the reserve.

        Returns:
            Whether there were some.
        """
        now_s = self.monotonic_s()
        for queue in [queue for queue, (until_s, _) in self._told.items() if until_s <= now_s]:
            del self._told[queue]
        told: list[Starved] = []
        promised = 0
        for by_proven in (True, False):
            line = self._lines[by_proven]
            for queue, size in list(islice(line.items(), STARVED_TOLD_MAX)):
                late = not by_proven and now_s >= self._unproven_s + UNPROVEN_S_MAX
                proven = by_proven or late
                if self._has_room(size, free_bytes, proven=proven, promised=promised):
                    promised += size
                    told.append(queue)
                    del line[queue]
                    self._told[queue] = now_s + TOLD_S, proven
                    if not by_proven:
                        self._unproven_s = now_s
        if not self._lines[False]:
            self._unproven_s = now_s
        self._open()
        for queue in told:
            if not self.stopped:
                queue.notify_drained()
        return bool(told)

    def place_free(self, *, first: bool) -> bool:
        """Whether another attempt may start.

        Args:
            first: Whether the queue has none in flight; then the larger limit applies.
        """
        limits = self.limits
        return self.in_flight < (limits.in_flight_total_max if first else limits.in_flight_max)

    def wake_waiting(self) -> None:
        """Let the queues that have waited longest start, as far as slots are free."""
        for _ in range(_WOKEN_MAX):
            if not self.waiting or not self.place_free(first=True):
                return
            queue = next(iter(self.waiting))
            del self.waiting[queue]
            queue.pump()
