"""Computes the cursor of a record stream whose matches finish in any order."""

from collections import deque
from typing import cast

from distributary.core.flow import Mark, Task

LISTED_MAX = 16
"""Most open matches of one record in a list, which is small; more are kept in a dict."""
NO_RECORD = -1
"""Stands for no offset."""


class Tracker:
    """The low-water mark of one reader: below it, every match has a final outcome or a row.

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
        """Count of records with an unfinished match."""
        return len(self._open)

    @property
    def next_offset(self) -> int:
        """Offset after the last record passed."""
        return self._next

    @property
    def finished_count(self) -> int:
        """Count of finished matches at or above the mark of the last ``mark`` call."""
        return self._finished

    def take(self, offset: int, checksum: int, tasks: list[Task]) -> None:
        """Pass the record at *offset* and track its matches."""
        if offset > self._next:
            self.skip_to(offset)
        if tasks:
            # Searching a list would make a record that matches 10,000 routes cost their square.
            self._open[offset] = tasks[:] if len(tasks) <= LISTED_MAX else dict.fromkeys(tasks)
            # Kept with the checksum of the record before it: that pair is a cursor.
            self._order.append(Mark(offset, self._checksum))
            self._counts.append(len(tasks))
        self._next = offset + 1
        self._checksum = checksum

    def begin(self, offset: int, checksum: int) -> None:
        """Like ``take``, for a record whose matches follow by ``add``, until ``complete``."""
        assert self._partial == NO_RECORD
        self.skip_to(offset)
        self._open[offset] = {}
        self._order.append(Mark(offset, self._checksum))
        self._counts.append(0)
        self._partial = offset
        self._next = offset + 1
        self._checksum = checksum

    def add(self, task: Task) -> None:
        """Add a match of the record that was begun."""
        cast("dict[Task, None]", self._open[self._partial])[task] = None
        self._counts[-1] += 1

    def complete(self) -> None:
        """End the record that was begun: all its matches are added."""
        if not self._open[self._partial]:
            del self._open[self._partial]
        self._partial = NO_RECORD

    def skip_to(self, offset: int) -> None:
        """Pass a gap (damage, skipped offsets) up to *offset*."""
        if offset > self._next:
            self._next = offset
            self._checksum = 0

    def finish(self, task: Task) -> bool:
        """Mark *task* (the same object) as finished; False if it already was."""
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
        """True if *task* (the same object) is not finished."""
        return task in self._open.get(task.position.offset, ())

    def open_below(self, offset: int) -> list[Task]:
        """Unfinished matches of records below *offset*, oldest first."""
        found: list[Task] = []
        for mark in self._order:
            if mark.offset >= offset:
                break
            found.extend(self._open.get(mark.offset, ()))
        return found

    def open_before(self, finished_count: int, end: int) -> list[Task]:
        """Matches that keep the mark from passing *finished_count* finished ones.

        Args:
            finished_count: At least 1.
            end: Records from here on are ignored.
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
        """The cursor: the lowest record with an open match, else the end of the passed records."""
        order = self._order
        still_open = self._open
        while order and order[0].offset not in still_open:
            order.popleft()
            self._finished -= self._counts.popleft()
        return order[0] if order else Mark(self._next, self._checksum)
