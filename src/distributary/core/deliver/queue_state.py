"""Results of the destination queues: admission of a task, and a snapshot."""

import enum
from typing import NamedTuple

from distributary.core.deliver.breaker import BreakerState


class Admission(enum.Enum):
    """The result of offering a task."""

    ADMITTED = "admitted"
    """Taken: exactly one attempt follows, unless ``take_queued`` returns the task."""
    FULL = "full"
    """Not taken: the queue is full (or the dispatcher is closing)."""
    OPEN = "open"
    """Not taken: the sink's breaker is open."""


class QueueState(NamedTuple):
    """A snapshot of a queue.

    Attributes:
        uri: The name of the queue.
        queued: Waiting tasks.
        queued_bytes: Bytes of the waiting tasks (with a fixed overhead for each).
        in_flight: Attempts in flight.
        concurrency: Current limit of attempts in flight.
        breaker: State of the circuit breaker.
        completions_per_s: Answers a second, over the last second or so with attempts in flight.
        drain_s: Seconds until the waiting tasks have been sent at this rate; 0 if none wait,
            infinite without recent answers.
        oldest_in_flight_s: Age of the oldest attempt in flight; 0 if there is none.
        held_s: Seconds for which ``Retry-After`` still forbids starts; 0: not held.
        paced: A rate limit delays the tasks: a faster sink drains the queue no faster.
        refused: It has refused a task, and has not had room since.
        starved: It refused that task while it held none itself: others of its tenant hold too much.
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
    refused: bool = False
    starved: bool = False
