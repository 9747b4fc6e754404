"""How far a stream of records is finished, when its matches finish in any order."""

from collections import deque
from typing import cast

from distributary.flow import Task
from distributary.outcome import Mark

LISTED_MAX = 16
"""Open matches of one record that are kept in a list, which is small; more are kept in a dict."""


class Tracker:
    """The watermark of one reader: below it, every match has a final outcome or a row.

    Args:
        mark: Where the reader begins.
    """

    __slots__ = ("_checksum", "_next", "_open", "_order")

    def __init__(self, mark: Mark) -> None:
        self._open: dict[int, list[Task] | dict[Task, None]] = {}
        self._order: deque[Mark] = deque()
        self._next, self._checksum = mark

    @property
    def open_count(self) -> int:
        """Records with at least one match that is not finished."""
        return len(self._open)

    @property
    def next_offset(self) -> int:
        """The record after the last one that was passed."""
        return self._next

    def take(self, offset: int, checksum: int, tasks: list[Task]) -> None:
        """The reader passes the record at *offset*, which has these matches to finish."""
        self.skip_to(offset)
        if tasks:
            # Finding one among many in a list would make a record that matches 10,000 routes
            # cost as many squared.
            self._open[offset] = tasks[:] if len(tasks) <= LISTED_MAX else dict.fromkeys(tasks)
            # Kept with the checksum of the record before it: that pair is a cursor.
            self._order.append(Mark(offset, self._checksum))
        self._next = offset + 1
        self._checksum = checksum

    def skip_to(self, offset: int) -> None:
        """The reader passes a gap (damage, a leap of offsets) up to *offset*."""
        if offset > self._next:
            self._next = offset
            self._checksum = 0

    def finish(self, task: Task) -> None:
        """*task* needs no more care here."""
        offset = task.position[1]
        tasks = self._open[offset]
        if len(tasks) == 1:
            assert task in tasks
            del self._open[offset]
        elif type(tasks) is dict:
            del tasks[task]
        else:
            cast("list[Task]", tasks).remove(task)

    def open_below(self, offset: int) -> list[Task]:
        """Matches of records below *offset* that are not finished, oldest first."""
        found: list[Task] = []
        for mark in self._order:
            if mark.offset >= offset:
                break
            found.extend(self._open.get(mark.offset, ()))
        return found

    def mark(self) -> Mark:
        """The cursor: the lowest record with an open match, else the end of what was passed."""
        order = self._order
        still_open = self._open
        while order and order[0].offset not in still_open:
            order.popleft()
        return order[0] if order else Mark(self._next, self._checksum)
