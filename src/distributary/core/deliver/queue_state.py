"""What a queue tells its callers: whether it takes a task, and how it stands."""

import enum
from typing import NamedTuple

from distributary.core.deliver.breaker import BreakerState


class Admission(enum.Enum):
    """What became of an offered task."""

    ADMITTED = "admitted"
    """Taken: exactly one attempt follows, unless ``take_queued`` hands it back."""
    FULL = "full"
    """Not taken: the queue is full (or the dispatcher is closing)."""
    OPEN = "open"
    """Not taken: the sink's breaker is open."""


class QueueState(NamedTuple):
    """A queue as it stood at one moment.

    Attributes:
        uri: The sink.
        queued: Tasks that wait.
        queued_bytes: Bytes of the tasks that wait (with a flat sum for each).
        in_flight: Attempts under way.
        concurrency: How many may be under way now.
        breaker: State of the circuit breaker.
        completions_per_s: Answers a second, over the last second or so.
        drain_s: Seconds until what waits has been sent at this pace; 0 if nothing waits,
            infinite where nothing has been answered lately.
        oldest_in_flight_s: Age of the oldest attempt under way; 0 if there is none.
        held_s: Seconds for which ``Retry-After`` still forbids to start; 0: not held.
        paced: A rate limit holds what waits: then it drains no faster, however fast the sink is.
    """

    uri: str
    queued: int
    queued_bytes: int
    in_flight: int
    concurrency: int
    breaker: BreakerState
    completions_per_s: float
    drain_s: float
    oldest_in_flight_s: float
    held_s: float
    paced: bool = False
