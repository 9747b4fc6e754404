"""State shared by the queues of one tenant: ports, callbacks, and two budgets.

Called by ``_queue`` and ``_dispatcher``. Hides how the budgets are divided, so that no sink can
use up what others need.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from distributary.core.clock import Clock, Random
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


class Starter(Protocol):
    """A queue that can wait for a free slot."""

    def pump(self) -> None:
        """Start what may start; join ``Shared.waiting`` if only a free slot is missing."""


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
        low_water: Waiting tasks with which a queue that refused one reports room.
        low_water_bytes: The same in bytes.
        opened: Queues whose breaker has opened since the last ``Dispatcher.cut_off``.
    """

    __slots__ = (
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
        "opened",
        "queued",
        "random",
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
    ) -> None:
        self.transports = transports
        self.clock = clock
        self.monotonic_s = clock.monotonic_s
        self.timers = timers
        self.random = random
        self.on_attempt = on_attempt
        self.on_drained = on_drained
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
        self.in_flight_max = limits.in_flight_max
        self.low_water = int(limits.queued_max * LOW_WATER_SHARE)
        held_bytes_max = min(limits.held_bytes_max, limits.held_bytes_total_max)
        self.low_water_bytes = int(held_bytes_max * LOW_WATER_SHARE)

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
