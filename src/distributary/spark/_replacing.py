"""Which executors Spark is to replace, until it lists them no more.

Spark may fail to: it cannot reach its master now, or has asked once, got no answer and never asks
again. An executor that was found silent is not found again, since its leases were taken. So it is
kept here.

Called by ``shared_side``. Pure.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

AGAIN_S: Final = 5.0
"""Pause before Spark is asked again, where it could not do it: a master that restarts is back in
some seconds."""
OVERDUE_S: Final = 30.0
"""How long an executor may be there still. Spark's worker ends the process within 10 s, and the
driver gives up one that it does not hear of as soon."""


class Replacing:
    """Executors that are to be replaced."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}
        self._next_s: dict[str, float] = {}

    def want(self, executors: Iterable[str], now_s: float) -> set[str]:
        """Have these replaced; returns those of them that were not to be so far."""
        new = set(executors) - self._since_s.keys()
        self._since_s |= dict.fromkeys(new, now_s)
        self._next_s |= dict.fromkeys(new, now_s)
        return new

    def spare(self, executors: Iterable[str]) -> None:
        """Leave these where they are."""
        for executor in executors:
            self._since_s.pop(executor, None)
            self._next_s.pop(executor, None)

    def due(self, alive: AbstractSet[str], now_s: float) -> list[str]:
        """Returns those that Spark is to be asked for now; ``told`` takes its answer.

        Args:
            alive: The executors; who is not among them has gone.
            now_s: Monotonic clock.
        """
        self.spare(self._since_s.keys() - alive)
        due = sorted(each for each, next_s in self._next_s.items() if now_s >= next_s)
        self._next_s |= dict.fromkeys(due, now_s + AGAIN_S)
        return due

    def told(self, executor: str) -> None:
        """Spark replaces it: it is not to be asked again."""
        self._next_s.pop(executor, None)

    def overdue(self, now_s: float) -> list[str]:
        """Returns those that should have gone long ago."""
        since = self._since_s.items()
        return sorted(each for each, since_s in since if now_s - since_s > OVERDUE_S)
