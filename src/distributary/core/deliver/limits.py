"""How much may wait for destinations and be under way, and what attributes weigh."""

import sys
from dataclasses import dataclass
from typing import Final

from distributary.core.event import Event

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
            for it.
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
