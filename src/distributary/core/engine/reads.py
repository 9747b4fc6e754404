"""Which retry rows are to be read again, since their events are not in memory any more."""

import enum
from collections import deque
from collections.abc import Callable

from distributary.core.engine.limits import EngineLimits
from distributary.core.outcome.rows import RetryRow

STORED_LOOK_S = 0.05
"""A row whose event was just handed to the store is looked at again this late: some flushes."""


class NoTask(enum.Enum):
    """Why a row has no task."""

    VOID = 0
    """The log lost that record (DESIGN rule 1), or it was damaged."""
    LATER = 1
    """Its event is on its way to the store."""


class Reads:
    """The rows of a partition that are read, or are to be.

    Args:
        limits: How many at a time.
        read: Called when there is something to read and nothing is being read.
    """

    def __init__(self, limits: EngineLimits, read: Callable[[], None]) -> None:
        self._max = limits.reads_max
        self._read = read
        self._asked: deque[RetryRow] = deque()
        self._under_way = 0
        self._later: dict[str, None] = {}
        self._shares: dict[str, int] = {}

    def capacity(self) -> int:
        """How many more rows may be asked for now."""
        # Who has its reservation at last asks whether there is room or not.
        return max(0, self._max - self._under_way - len(self._asked))

    def may_ask(self, uri: str) -> int:
        """How many of them for the destination *uri*: one, then twice as many as it took."""
        return min(self.capacity(), self._shares.get(uri, 1))

    def come_back(self, uri: str) -> None:
        """The destination *uri* may have room for more than that: try again after these."""
        self._later[uri] = None

    def over(self, uri: str) -> None:
        """The destination *uri* takes no more now, or nothing is left for it."""
        self._later.pop(uri, None)
        self._shares.pop(uri, None)

    def ask(self, row: RetryRow) -> None:
        """Read the task of *row* soon."""
        self._asked.append(row)
        if not self._under_way:
            self._read()

    def take_batch(self) -> list[RetryRow]:
        """What is to be read now, in one go."""
        rows = list(self._asked)
        self._asked.clear()
        self._under_way = len(rows)
        return rows

    def done(self) -> None:
        """The batch has been read."""
        self._under_way = 0

    def go_on(self) -> list[str]:
        """Read what was asked for meanwhile; who shall come back now."""
        if self._asked and not self._under_way:
            self._read()
        later, self._later = list(self._later), {}
        for uri in later:
            self._shares[uri] = min(2 * self._shares.get(uri, 1), self._max)
        return later
