"""Finds a partition for a task whose process owns none.

The number of a task is only where it looks first: Spark gives its workers back in any order, and a
process that owns a partition goes on with it, whichever task it gets. The lock of a partition is
the one truth (DESIGN rule 2, one owner): a task serves the first partition whose lock it gets.

Where all are held, some process may hold one without a task: its JVM has ended, or Spark gave the
tasks of this epoch to other workers. Nothing is paused meanwhile, so the task waits a moment, and
then asks for the partition.
"""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from distributary.core.lease import Lease

PATIENCE_S: Final = 0.5
"""How long a task waits before it asks a holder for its partition: Spark starts the tasks of an
epoch within some hundredths of a second, and the holder may be among them."""


class Place(Protocol):
    """A partition, as a task sees it that looks for one."""

    @property
    def epoch(self) -> int:
        """Epoch that its owner serves or last served."""

    def due(self) -> bool:
        """Whether it may be tried: it is not sick, or its backoff is over."""

    def take(self) -> Lease | None:
        """Take its lock, without waiting; None: somebody has it."""

    def ask(self) -> None:
        """Ask its holder to let go. Repeat it: a holder may have missed it."""

    def withdraw(self) -> None:
        """Ask no more."""


class Search:
    """The search of one task.

    Args:
        places: All partitions, by number.
        first: Number of the one to look at first.
        epoch: Epoch of the task.
        now_s: The monotonic clock.
    """

    def __init__(
        self, places: Sequence[Place], first: int, epoch: int, now_s: Callable[[], float]
    ) -> None:
        self._places = [*places[first:], *places[:first]]
        self._first = first
        self._epoch = epoch
        self._now_s = now_s
        self._since_s = now_s()
        self._asked: Place | None = None

    @property
    def asking(self) -> bool:
        """Whether a holder was asked: its partition may be free at any moment."""
        return self._asked is not None

    def look(self) -> tuple[int, Lease] | None:
        """Look at all partitions once.

        Returns:
            Number and lock of the partition that the task owns from now on; None: look again.
        """
        tried = [place for place in self._places if place.due()]
        for place in tried:
            lease = place.take()
            if lease is not None:
                self.end()
                number = (self._first + self._places.index(place)) % len(self._places)
                return number, lease
        if self._now_s() - self._since_s >= PATIENCE_S:
            self._ask(tried)
        return None

    def _ask(self, tried: Sequence[Place]) -> None:
        """Ask for a partition whose holder has no task of this epoch."""
        idle = next((place for place in tried if place.epoch != self._epoch), None)
        if idle is not self._asked:
            self.end()
            self._asked = idle
        if idle is not None:
            idle.ask()

    def end(self) -> None:
        """Ask nobody any more."""
        if self._asked is not None:
            self._asked.withdraw()
            self._asked = None
