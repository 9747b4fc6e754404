"""What the queues of one dispatcher share: ports, callbacks, and two budgets.

Called by ``_queue`` and ``_dispatcher``. Hides how the room that is left is divided, so that no
sink can take what the others need.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from distributary.core.clock import Clock, Random
from distributary.core.deliver._timers import Timers
from distributary.core.deliver.limits import Limits
from distributary.core.deliver.transport import Transport
from distributary.core.flow import Attempt

TASK_BYTES_OVERHEAD: Final = 1_024
"""What a task with six attributes holds beside its data (measured: 980 bytes with its queue
entry). Attributes beyond the usual are counted by ``attribute_bytes``: not on the hot path."""

_WOKEN_MAX: Final = 4
"""Queues that one freed place wakes: the first may want no place any more, or not get the kind
of place that is free; all of them in turn would cost too much."""


class Starter(Protocol):
    """A queue, as far as the budget needs it."""

    def pump(self) -> None:
        """Start what may start; join ``Shared.waiting`` if only a place was missing."""


class InFlight(Protocol):
    """An attempt under way, as far as its age counts."""

    started_s: float


class Opened(Protocol):
    """A queue whose breaker has opened."""

    def cut_off(self) -> list[str]:
        """Names of the queues that wait behind the breaker, while it is open."""


class Shared:
    """State of a dispatcher that its queues read and count in.

    Attributes:
        in_flight: Attempts under way in all queues.
        held_bytes: Bytes of all tasks, waiting and in flight.
        slow_s: While draining: queues whose oldest attempt is older start nothing; None: no
            draining.
        stopped: Nothing starts and nothing is taken any more.
        queued: Tasks that wait in all queues.
        flights: What is under way, in the order in which it started.
        opened: Queues whose breaker has opened, until somebody has looked after them.
    """

    __slots__ = (
        "clock",
        "flights",
        "held_bytes",
        "in_flight",
        "limits",
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
        self.timers = timers
        self.random = random
        self.on_attempt = on_attempt
        self.on_drained = on_drained
        self.limits = limits
        self.in_flight = 0
        self.held_bytes = 0
        self.slow_s: float | None = None
        self.stopped = False
        # Counted as it changes: there may be 10,000 queues, and these are asked for ten times a
        # second.
        self.queued = 0
        self.flights: dict[InFlight, None] = {}
        self.opened: dict[Opened, None] = {}
        self.waiting: dict[Starter, None] = {}  # queues that found no place, in that order

    def place_free(self, *, first: bool) -> bool:
        """Whether another attempt may start.

        Args:
            first: Whether the queue has none in flight; then the larger limit holds.
        """
        limits = self.limits
        return self.in_flight < (limits.in_flight_total_max if first else limits.in_flight_max)

    def wake_waiting(self) -> None:
        """Let the queues that waited longest start, as far as places are free."""
        for _ in range(_WOKEN_MAX):
            if not self.waiting or not self.place_free(first=True):
                return
            queue = next(iter(self.waiting))
            del self.waiting[queue]
            queue.pump()
