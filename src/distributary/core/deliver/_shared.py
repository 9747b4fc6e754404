"""What the queues of one dispatcher share: ports, callbacks, and two budgets.

Called by ``queue`` and ``dispatcher``. Hides how the room that is left is divided, so that no
sink can take what the others need.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from distributary.core.clock import Clock, Random
from distributary.core.deliver._timers import Timers
from distributary.core.deliver.transport import Transport
from distributary.core.event import Event
from distributary.core.flow import Attempt

TASK_BYTES_OVERHEAD: Final = 1_024
"""What a task with six attributes holds beside its data (measured: 980 bytes with its queue
entry). Attributes beyond the usual are counted by ``attribute_bytes``: not on the hot path."""

_WOKEN_MAX: Final = 4
"""Queues that one freed place wakes: the first may want no place any more, or not get the kind
of place that is free; all of them in turn would cost too much."""


ATTRIBUTE_BYTES_USUAL: Final = 512
"""Of that for the values of the attributes: six of some thirty characters."""


def attribute_bytes(event: Event) -> int:
    """What the attributes of *event* hold beyond the usual: up to 4 MiB, even without data.

    For tasks that are not on the hot path: replies, whose sinks choose them, and retries.
    """
    return max(0, sum(map(sys.getsizeof, event.attributes.values())) - ATTRIBUTE_BYTES_USUAL)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much may wait and how much may be under way.

    Attributes:
        queued_max: Tasks that wait in one queue. 4,096 is 0.16 s of work at 25,000/s: enough to
            bridge the pipeline's next chunk, little to hand over at a stop.
        held_bytes_max: Bytes of one queue's tasks, waiting and in flight. 8 MiB is 4,096 events
            of 1 KB with what they cost beside their data, or 8 of the largest.
        held_bytes_total_max: The same for all queues together. A queue may hold as much as is
            still free (so one busy queue gets half, and n of them leave a share for the next
            newcomer); an idle queue may always take one task. 64 MiB: a worker's fair part of a
            machine of 4 GiB.
        in_flight_max: Attempts of all queues together beyond the first of each queue. 2,048:
            twice 1,000 sinks; memory of a connection is below 64 KiB.
        in_flight_total_max: The same including the first of each queue, so that a thousand
            hanging sinks do not keep the next one from starting. File descriptors must allow
            for it and 1,024 idle connections.
        retry_reserve: Tasks by which retries may exceed ``queued_max``: a retry that was due
            must not lose its place to what is new.
        idle_s: A queue that nobody used for so long is dropped with what it learnt. 60 s.
    """

    queued_max: int = 4_096
    held_bytes_max: int = 8 * 1024 * 1024
    held_bytes_total_max: int = 64 * 1024 * 1024
    in_flight_max: int = 2_048
    in_flight_total_max: int = 4_096
    retry_reserve: int = 256
    idle_s: float = 60.0

    def __post_init__(self) -> None:
        """Assert that the limits leave room for one task and one attempt."""
        assert self.queued_max >= 1
        assert 1 <= self.in_flight_max <= self.in_flight_total_max


class Starter(Protocol):
    """A queue, as far as the budget needs it."""

    def pump(self) -> None:
        """Start what may start; join ``Shared.waiting`` if only a place was missing."""


class Flight(Protocol):
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
        slow_s: While cooling down: queues whose oldest attempt is older start nothing; None: no
            cooling down.
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
        self.flights: dict[Flight, None] = {}
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
