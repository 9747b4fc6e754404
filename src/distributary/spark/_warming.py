"""Which executors of a cluster still have to start their Python.

Spark places the tasks that make it start, and may place none of them where they are wanted: a slot
there was taken, or an executor was lost meanwhile. So each of them tells where it ran.

Called by ``shared_side``. Pure.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

AGAIN_S: Final = 2.0
"""Pause before those that are still cold are tried again; each further one is twice as long."""
AGAIN_S_MAX: Final = 60.0
"""Longest pause: a round costs a task in each free slot, some milliseconds where it is warm."""


class Warming:
    """Knows the executors whose Python runs, and when to try the others."""

    def __init__(self) -> None:
        self._warm: set[str] = set()
        self._tried: set[str] = set()
        self._next_s = float("-inf")
        self._pause_s = AGAIN_S

    def due(self, alive: AbstractSet[str], owning: AbstractSet[str], now_s: float) -> bool:
        """Whether a round of tasks is to run now; ``told`` takes what it has found.

        Args:
            alive: The executors.
            owning: Those whose Python runs owners: they are tried once, for their free slots.
            now_s: Monotonic clock.
        """
        cold = alive - self._warm
        new = cold - self._tried
        if not new and (not cold - owning or now_s < self._next_s):
            return False
        self._pause_s = AGAIN_S if new else min(2 * self._pause_s, AGAIN_S_MAX)
        self._next_s = now_s + self._pause_s
        self._tried |= new
        return True

    def told(self, warm: Iterable[str]) -> None:
        """Tasks have run on these executors."""
        self._warm.update(warm)
