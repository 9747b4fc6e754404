"""Waiting for a database that is away: it restarts, or another machine takes its place."""

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from distributary.core.clock import Clock
from distributary.core.errors import StoreAwayError

AWAY_S_MAX: Final = 300.0
"""Longest wait for a database. What is in memory is delivered meanwhile, as long as the lease
lasts; after that nothing is begun. Who waits longer opens the partition anew."""
PAUSE_S: Final = 0.25
"""Between two tries: little beside the time that a database takes to start."""

_Found = TypeVar("_Found")


class Patience:
    """Repeats what a database does not take now. For any thread.

    Args:
        clock: Measures the wait.
        wait_s: Longest wait of one call.
        pause: Waits that many seconds; None: until ``end`` at most.
    """

    def __init__(
        self, clock: Clock, wait_s: float = AWAY_S_MAX, pause: Callable[[float], None] | None = None
    ) -> None:
        self._clock = clock
        self._wait_s = wait_s
        self._ended = threading.Event()
        self._pause: Callable[[float], object] = pause or self._ended.wait

    def run(self, work: Callable[[], _Found], failed: Callable[[], None] = lambda: None) -> _Found:
        """Return what *work* returns, which is called until it succeeds. *failed*: before a repeat.

        Raises:
            StoreAwayError: It has not succeeded in time, or before ``end``.
            StoreError: At once: a repeat would fail as well, or another owner has the partition.
        """
        until_s = self._clock.monotonic_s() + self._wait_s
        while True:
            try:
                return work()
            except StoreAwayError:
                if self._ended.is_set() or self._clock.monotonic_s() >= until_s:
                    raise
            failed()
            self._pause(PAUSE_S)

    def end(self) -> None:
        """Wait no more, from now on: the owner ends, and its successor does the rest."""
        self._ended.set()
