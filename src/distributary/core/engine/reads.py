"""Queues retry rows whose events must be reread, since they are not in memory any more."""

import enum
from collections import deque
from collections.abc import Callable

from distributary.core.engine.limits import EngineLimits
from distributary.core.outcome.rows import RetryRow

STORED_LOOK_S = 0.05
"""Delay before a row whose event is still being stored is checked again: some flushes."""
RECALLED_LOOK_S = 1.0
"""Delay before a row whose record is being recalled is checked again: archives take ten seconds and
more, and 100,000 rows may wait for them."""


class NoTask(enum.Enum):
    """Reason why a row has no task."""

    VOID = 0
    """The record is lost (DESIGN rule 1, the cursor) or damaged."""
    LATER = 1
    """Its event is still being stored."""
    RECALLED = 2
    """Its record is on its way from the archive."""


class Reads:
    """The read queue of a partition's retry rows, with a share for each destination.

    Args:
        limits: How many at a time.
        read: Called when rows are queued and none are being read.
    """

    def __init__(self, limits: EngineLimits, read: Callable[[], None]) -> None:
        self._max = limits.reads_max
        self._read = read
        self._asked: deque[RetryRow] = deque()
        self._under_way = 0
        self._later: dict[str, None] = {}
        self._shares: dict[str, int] = {}

    def capacity(self) -> int:
        """How many more rows may be queued now."""
        # Rows that were granted a reservation are queued even without room.
        return max(0, self._max - self._under_way - len(self._asked))

    def may_ask(self, uri: str) -> int:
        """How many of them for the destination *uri*: one, then twice as many as it accepted."""
        return min(self.capacity(), self._shares.get(uri, 1))

    def come_back(self, uri: str) -> None:
        """Try the destination *uri* again after the current reads: it may have room for more."""
        self._later[uri] = None

    def over(self, uri: str) -> None:
        """Reset the share of the destination *uri*: it is full, or nothing is left for it."""
        self._later.pop(uri, None)
        self._shares.pop(uri, None)

    def ask(self, row: RetryRow) -> None:
        """Queue the task of *row* for reading."""
        self._asked.append(row)
        if not self._under_way:
            self._read()

    def take_batch(self) -> list[RetryRow]:
        """The rows to read now, as one batch: those that asked first, as many as may be read."""
        # A session may begin with reservations of all its rows: their tasks have no room together.
        rows = [self._asked.popleft() for _ in range(min(len(self._asked), self._max))]
        self._under_way = len(rows)
        return rows

    def done(self) -> None:
        """Take note that the batch has been read."""
        self._under_way = 0

    def go_on(self) -> list[str]:
        """Start the next batch. Returns the destinations to try again now."""
        if self._asked and not self._under_way:
            self._read()
        later, self._later = list(self._later), {}
        for uri in later:
            self._shares[uri] = min(2 * self._shares.get(uri, 1), self._max)
        return later
