"""The queue of a target that has not consented to deliveries: it admits nothing.

Called by ``_dispatcher`` only. What is offered waits elsewhere, in rows and backfills, as behind an
open breaker; with the consent the destination gets another queue.
"""

from distributary.core.clock import Clock
from distributary.core.deliver.breaker import BreakerState
from distributary.core.deliver.destination import Destination
from distributary.core.deliver.queue_state import Admission, QueueState
from distributary.core.flow import Task


class ClosedQueue:
    """A queue without tasks, attempts or a transport.

    Args:
        uri: Its name, ``Destination.queue``.
        clock: For its age.
        idle_s: Time without an offer after which it can be dropped.
    """

    __slots__ = ("_clock", "_idle_s", "_used_s", "uri")

    breaker = BreakerState.OPEN

    def __init__(self, uri: str, clock: Clock, idle_s: float) -> None:
        self.uri = uri
        self._clock = clock
        self._idle_s = idle_s
        self._used_s = clock.monotonic_s()

    def offer(
        self, _task: Task, _destination: Destination, *, reserve: int, more_bytes: int = 0
    ) -> Admission:
        """Refuse, as a queue with an open breaker does."""
        del reserve, more_bytes  # nothing is admitted, however small
        self._used_s = self._clock.monotonic_s()
        return Admission.OPEN

    def take_queued(self) -> list[Task]:
        """There are no tasks."""
        return []

    def probe(self) -> None:
        """Nothing is sent without consent."""

    def stop(self) -> None:
        """Nothing runs."""

    def drop(self) -> None:
        """Nothing runs."""

    def unused(self, now_s: float) -> bool:
        """Whether nothing was offered for long."""
        return now_s - self._used_s >= self._idle_s

    def state(self) -> QueueState:
        """A snapshot."""
        return QueueState(
            uri=self.uri,
            queued=0,
            queued_bytes=0,
            in_flight=0,
            concurrency=0,
            breaker=self.breaker,
            completions_per_s=0.0,
            drain_s=0.0,
            oldest_in_flight_s=0.0,
            held_s=0.0,
        )
