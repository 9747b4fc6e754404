"""Limits of the destination queues, and the memory size of attributes."""

import dataclasses
import sys
from dataclasses import dataclass
from typing import Final

from distributary.core.event import Event

ATTRIBUTE_BYTES_USUAL: Final = 512
"""Bytes of attribute values within the fixed overhead of a task: six of some thirty characters."""


def attribute_bytes(event: Event) -> int:
    """Memory of the attributes of *event* beyond the usual: up to 4 MiB, even without data.

    For tasks off the hot path: replies, whose attributes a sink chooses, and retries.
    """
    return max(0, sum(map(sys.getsizeof, event.attributes.values())) - ATTRIBUTE_BYTES_USUAL)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on waiting tasks and attempts in flight.

    Attributes:
        queued_max: Waiting tasks of one queue. 4,096 is 0.16 s of work at 25,000/s: enough to
            bridge the time to the next chunk, and few to take back at a stop.
        held_bytes_max: Bytes of one queue's tasks, waiting and in flight. 8 MiB is 4,096 events
            of 1 KB with their overhead, or 8 of the largest.
        held_bytes_total_max: The same for all queues together, in equal parts for the tenants. A
            queue may hold as much as is still free of its part (so one busy queue gets half, and n
            of them leave a share for another). An idle queue may take one task beyond the part, out
            of a reserve as large as the whole, of which a tenant may take as much as it leaves to
            others: so sinks that hang do not keep the next one from starting, and all queues hold
            less than twice the limit, once what was sent before another tenant came has ended. A
            tenant that holds nothing may always send one event. 64 MiB: a worker's fair part of a
            machine of 4 GiB.
        in_flight_max: Attempts of all queues together beyond the first of each queue. 2,048:
            twice 1,000 sinks; a connection takes less than 64 KiB.
        in_flight_total_max: The same including the first of each queue, so that a thousand
            hanging sinks do not keep the next one from starting. Needs as many file descriptors.
        retry_reserve: Tasks by which retries may exceed ``queued_max``: a due retry must not lose
            its place to new tasks.
        idle_s: Idle time after which a queue is dropped with its state. 60 s.
    """

    queued_max: int = 4_096
    held_bytes_max: int = 8 * 1024 * 1024
    held_bytes_total_max: int = 64 * 1024 * 1024
    in_flight_max: int = 2_048
    in_flight_total_max: int = 4_096
    retry_reserve: int = 256
    idle_s: float = 60.0

    def divided(self, count: int) -> "Limits":
        """The part of one of *count* tenants: never so little that it could not go on."""
        if count <= 1:
            return self
        return dataclasses.replace(
            self,
            held_bytes_total_max=self.held_bytes_total_max // count,
            in_flight_max=max(1, self.in_flight_max // count),
            in_flight_total_max=max(1, self.in_flight_total_max // count),
        )

    def __post_init__(self) -> None:
        """Assert that the limits leave room for one task and one attempt."""
        assert self.queued_max >= 1
        assert 1 <= self.in_flight_max <= self.in_flight_total_max
