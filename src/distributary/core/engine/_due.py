"""The timer of the retry rows: has those attempted that are due."""

from collections.abc import Callable
from typing import Final

from distributary.core.engine._waiting import Waiting
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import DistributaryError
from distributary.core.outcome import RetryRow

DUE_COUNT: Final = 256
"""Due rows taken before the loop gets its turn."""


class Due:
    """Wakes up when the first row is due.

    Args:
        around: Ports of the owner.
        waiting: The rows.
        attempt: Makes the attempt of a row.
        fail: Takes why the owner cannot go on.
        room: For how many rows there is room that must be read first; ``arm`` when there is again.
    """

    def __init__(
        self,
        around: Surroundings,
        waiting: Waiting,
        attempt: Callable[[RetryRow], object],
        fail: Callable[[DistributaryError], None],
        *,
        room: Callable[[], int],
    ) -> None:
        self._clock = around.clock
        self._timers = around.timers
        self._waiting = waiting
        self._attempt = attempt
        self._room = room
        self._fail = fail
        self._armed_s: float | None = None
        self._stopped = False

    def stop(self) -> None:
        """Attempt no row any more."""
        self._stopped = True

    def arm(self) -> None:
        """A row was put: be there when it is due."""
        due_s = self._waiting.next_due_s()
        if due_s is None or self._stopped or not self._room():
            return
        if self._armed_s is not None and self._armed_s <= due_s:
            return
        self._armed_s = due_s
        self._timers.call_later(max(0.0, due_s - self._clock.monotonic_s()), self._run)

    def _run(self) -> None:
        self._armed_s = None
        if self._stopped:
            return
        try:
            count = min(DUE_COUNT, self._room())
            for row in self._waiting.pop_due(self._clock.monotonic_s(), count):
                self._attempt(row)
        except DistributaryError as error:
            self._fail(error)  # The rows that were taken are durable: the next owner's.
            return
        self.arm()
