"""Backpressure policy: pause reading for a full destination queue, or backfill its route.

A pause delays every route of the partition, so only a sink that will have room at once is worth
one: without it, a burst to a fast sink would read the log twice. The routes of a slower sink are
backfilled alone (DESIGN promise 4, a bad sink is alone).
"""

from collections.abc import Callable

from distributary.core.deliver.breaker import BreakerState
from distributary.core.deliver.limits import Limits
from distributary.core.deliver.queue_state import QueueState

DRAIN_S_MAX = 1.0
"""Longest drain time of a queue that is worth a pause: a full one at 4,000/s or more. The only sink
may have it times the partitions, which share what it takes: whether it is worth a pause is not to
depend on their number, and a machine that drains eight has an eighth of itself for each."""
PAUSE_S = 0.02
"""Longest single pause before the queue is checked again."""
UNPROVEN_S = 0.25
"""A queue without any answer yet is worth a pause this long: its connections are being made. Times
the partitions, too, for the only sink."""
SHARE_MAX = 0.5
"""A sink may pause the intake for at most this share of a second, unless it is the only one. The
events behind, perhaps for idle sinks, are unknown until they are read; a backfill costs one route a
second read of the log."""
REJOIN_SHARE = 0.25
"""A backfilled route joins the live reader when its queue is at most this full."""
_QUEUED_MAX = Limits().queued_max


class Backpressure:
    """The pause budget of each sink.

    Args:
        queue: Returns the state of the queue with this name.
        alone: True for the only sink: a pause for it delays no other.
        partitions: Number of partitions that send to the same sinks.
    """

    def __init__(
        self,
        queue: Callable[[str], QueueState | None],
        alone: Callable[[str], bool],
        partitions: int = 1,
    ) -> None:
        self._queue = queue
        self._alone = alone
        self._partitions = partitions
        self._spent: dict[str, float] = {}
        self._window_s = 0.0
        self._last: tuple[str, float] | None = None

    def worth(self, uri: str, now_s: float) -> bool:
        """True if the intake should pause for the queue of *uri*; call again after each pause."""
        queue = self._queue(uri)
        if queue is None or queue.breaker is not BreakerState.CLOSED or queue.held_s > 0.0:
            return False
        if queue.starved:
            return False  # Room comes with the answers of other sinks, which may hang.
        if self._is_slow(uri, queue):
            return False
        self._note(uri, now_s)
        return self._spent[uri] <= SHARE_MAX or self._alone(uri)

    def _is_slow(self, uri: str, queue: QueueState) -> bool:
        """True if the queue of *uri* has no room within the time that is worth a pause."""
        if queue.completions_per_s == 0.0:
            took_s, worth_s = queue.oldest_in_flight_s, UNPROVEN_S
        else:
            took_s, worth_s = queue.drain_s, DRAIN_S_MAX
            if not queue.paced and queue.oldest_in_flight_s <= PAUSE_S:
                return False
        if took_s <= worth_s:
            return False
        return took_s > worth_s * self._partitions or not self._alone(uri)

    def _note(self, uri: str, now_s: float) -> None:
        if now_s - self._window_s > 1.0:
            self._window_s = now_s
            self._spent.clear()
        spent = self._spent.get(uri, 0.0)
        if self._last is not None and self._last[0] == uri:
            spent += min(now_s - self._last[1], PAUSE_S)
        self._spent[uri] = spent
        self._last = (uri, now_s)

    def is_filled(self, uri: str) -> bool:
        """True if a replay must leave what room the queue of *uri* has to other matches."""
        queue = self._queue(uri)
        return (
            queue is not None
            and queue.breaker is BreakerState.CLOSED
            and queue.queued > _QUEUED_MAX * REJOIN_SHARE
        )

    def is_full(self, uri: str) -> bool:
        """True if the queue of *uri* has refused a task, and has had no room since."""
        queue = self._queue(uri)
        return queue is not None and queue.refused

    def comfortable(self, uri: str) -> bool:
        """True if the queue of *uri* has room enough for its route to join the live reader."""
        queue = self._queue(uri)
        if queue is None:
            return True
        if queue.breaker is BreakerState.HALF_OPEN and not queue.queued and not queue.in_flight:
            return True  # It needs a probe, which only the next event can provide.
        return (
            queue.breaker is BreakerState.CLOSED
            and not queue.starved
            and queue.held_s == 0.0
            and queue.queued <= _QUEUED_MAX * REJOIN_SHARE
            and queue.drain_s < 1.0
        )
