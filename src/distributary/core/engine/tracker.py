"""How far a stream of records is finished, when its matches finish in any order."""

from collections import deque
from typing import cast

from distributary.core.flow import Mark, Task

LISTED_MAX = 16
"""Open matches of one record that are kept in a list, which is small; more are kept in a dict."""
NO_RECORD = -1
"""An offset that no record has."""


class Tracker:
    """The watermark of one reader: below it, every match has a final outcome or a row.

    Args:
        mark: Where the reader begins.
    """

    __slots__ = ("_checksum", "_counts", "_finished", "_next", "_open", "_order", "_partial")

    def __init__(self, mark: Mark) -> None:
        self._open: dict[int, list[Task] | dict[Task, None]] = {}
        self._order: deque[Mark] = deque()
        self._counts: deque[int] = deque()  # matches of each record in ``_order``
        self._finished = 0
        self._partial = NO_RECORD
        self._next, self._checksum = mark

    @property
    def open_count(self) -> int:
        """Records with at least one match that is not finished."""
        return len(self._open)

    @property
    def next_offset(self) -> int:
        """The record after the last one that was passed."""
        return self._next

    @property
    def finished_count(self) -> int:
        """Finished matches at the watermark that was asked for last, or above it."""
        return self._finished

    def take(self, offset: int, checksum: int, tasks: list[Task]) -> None:
        """The reader passes the record at *offset*, which has these matches to finish."""
        if offset > self._next:
            self.skip_to(offset)
        if tasks:
            # Finding one among many in a list would make a record that matches 10,000 routes
            # cost as many squared.
            self._open[offset] = tasks[:] if len(tasks) <= LISTED_MAX else dict.fromkeys(tasks)
            # Kept with the checksum of the record before it: that pair is a cursor.
            self._order.append(Mark(offset, self._checksum))
            self._counts.append(len(tasks))
        self._next = offset + 1
        self._checksum = checksum

    def begin(self, offset: int, checksum: int) -> None:
        """As ``take``, for a record whose matches come later, by ``add``, until ``complete``."""
        assert self._partial == NO_RECORD
        self.skip_to(offset)
        self._open[offset] = {}
        self._order.append(Mark(offset, self._checksum))
        self._counts.append(0)
        self._partial = offset
        self._next = offset + 1
        self._checksum = checksum

    def add(self, task: Task) -> None:
        """One more match of the record that was begun."""
        cast("dict[Task, None]", self._open[self._partial])[task] = None
        self._counts[-1] += 1

    def complete(self) -> None:
        """All matches of the record that was begun have been added."""
        if not self._open[self._partial]:
            del self._open[self._partial]
        self._partial = NO_RECORD

    def skip_to(self, offset: int) -> None:
        """The reader passes a gap (damage, a leap of offsets) up to *offset*."""
        if offset > self._next:
            self._next = offset
            self._checksum = 0

    def finish(self, task: Task) -> bool:
        """*task*, as it was given, needs no more care here; False where that was so already."""
        offset = task.position[1]
        tasks = self._open.get(offset)
        if tasks is None:
            return False
        try:
            if type(tasks) is dict:
                del tasks[task]
            else:
                cast("list[Task]", tasks).remove(task)
        except (KeyError, ValueError):
            return False
        if not tasks and offset != self._partial:
            del self._open[offset]
        self._finished += 1
        return True

    def holds(self, task: Task) -> bool:
        """True where *task*, as it was given, is not finished."""
        return task in self._open.get(task.position.offset, ())

    def open_below(self, offset: int) -> list[Task]:
        """Matches of records below *offset* that are not finished, oldest first."""
        found: list[Task] = []
        for mark in self._order:
            if mark.offset >= offset:
                break
            found.extend(self._open.get(mark.offset, ()))
        return found

    def open_before(self, finished_count: int, end: int) -> list[Task]:
        """Matches that keep the watermark from passing *finished_count* finished ones.

        Args:
            finished_count: How many; from 1.
            end: Records from here on are left alone.
        """
        found: list[Task] = []
        passed = 0
        end = end if self._partial == NO_RECORD else min(end, self._partial)
        for mark, count in zip(self._order, self._counts, strict=True):
            if passed >= finished_count or mark.offset >= end:
                break
            still = self._open.get(mark.offset, ())
            found.extend(still)
            passed += count - len(still)
        return found

    def mark(self) -> Mark:
        """The cursor: the lowest record with an open match, else the end of what was passed."""
        order = self._order
        still_open = self._open
        while order and order[0].offset not in still_open:
            order.popleft()
            self._finished -= self._counts.popleft()
        return order[0] if order else Mark(self._next, self._checksum)
