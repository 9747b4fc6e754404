"""Computes the cursor of a record stream whose matches finish in any order."""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Final, TypeAlias, cast

from distributary.core.flow import Mark, Task

LISTED_MAX: Final = 16
"""Most open matches of one record in a list, which is small; more are kept in a dict."""
NO_RECORD: Final = -1
"""Stands for no offset."""

_Open: TypeAlias = Task | list[Task] | dict[Task, None]
"""The open matches of a record: the only one it has, as is usual; else a list or a dict."""


class Tracker:
    """The low-water mark of one reader: below it, every match has a final outcome or a row.

    Args:
        mark: Where the reader begins.
    """

    __slots__ = ("_checksum", "_finished", "_next", "_open", "_order", "_partial", "_partial_count")

    def __init__(self, mark: Mark) -> None:
        self._open: dict[int, _Open] = {}
        # Each record with matches: offset, checksum of the record before it, matches. The first
        # two are a cursor.
        self._order: deque[tuple[int, int, int]] = deque()
        self._finished = 0
        self._partial = NO_RECORD
        self._partial_count = 0
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
            count = len(tasks)
            # Searching a list would make a record that matches 10,000 routes cost their square.
            self._open[offset] = (
                tasks[0]
                if count == 1
                else tasks[:]
                if count <= LISTED_MAX
                else dict.fromkeys(tasks)
            )
            self._order.append((offset, self._checksum, count))
        self._next = offset + 1
        self._checksum = checksum

    def begin(self, offset: int, checksum: int) -> None:
        """Like ``take``, for a record whose matches follow by ``add``, until ``complete``."""
        assert self._partial == NO_RECORD
        self.skip_to(offset)
        self._open[offset] = {}
        self._partial = offset
        self._partial_count = 0
        self._order.append((offset, self._checksum, 0))
        self._next = offset + 1
        self._checksum = checksum

    def add(self, task: Task) -> None:
        """Add a match of the record that was begun."""
        cast("dict[Task, None]", self._open[self._partial])[task] = None
        self._partial_count += 1
        self._order[-1] = (*self._order[-1][:2], self._partial_count)

    def complete(self) -> None:
        """End the record that was begun, or given back: all its matches are added."""
        if not self._open[self._partial]:
            del self._open[self._partial]
        self._partial = NO_RECORD

    def give_back(self, tasks: list[Task]) -> None:
        """Forget *tasks*, which the newest record has and which are not finished.

        They follow again by ``add``, until ``complete``.
        """
        assert self._partial == NO_RECORD
        offset, checksum, count = self._order[-1]
        gone = {id(task) for task in tasks}
        left = [task for task in self._open_at(offset) if id(task) not in gone]
        self._open[offset] = dict.fromkeys(left)
        self._partial = offset
        self._partial_count = count - len(tasks)
        self._order[-1] = offset, checksum, self._partial_count

    def rewind(self, tasks: Sequence[Task]) -> None:
        """Forget *tasks*, unfinished and the last ones, in order: their records are passed again.

        Others of the first of these records stay: it is passed again by ``take_again``.
        """
        gone = {id(task) for task in tasks}
        first = tasks[0].position.offset
        offset = self._next
        while offset > first:
            offset, self._checksum, count = self._order.pop()
            still = self._open_at(offset)
            self._open.pop(offset, None)
            left = [task for task in still if id(task) not in gone]
            if offset > first:
                self._finished -= count - len(still)
                continue
            if left:
                self._open[offset] = dict.fromkeys(left)
            count -= len(still) - len(left)
            if count:
                self._order.append((offset, self._checksum, count))
        self._next = first

    def take_again(self, offset: int, checksum: int, tasks: list[Task]) -> None:
        """As ``take``, where *offset* may be of the record to which the tracker was rewound."""
        if not self._order or self._order[-1][0] != offset:
            self.take(offset, checksum, tasks)
            return
        _, before, count = self._order[-1]
        self._open[offset] = dict.fromkeys([*self._open_at(offset), *tasks])
        self._order[-1] = offset, before, count + len(tasks)
        self._next = offset + 1
        self._checksum = checksum

    def skip_to(self, offset: int) -> None:
        """Pass a gap (damage, skipped offsets) up to *offset*."""
        if offset > self._next:
            self._next = offset
            self._checksum = 0

    def finish(self, task: Task) -> bool:
        """Mark *task* (the same object) as finished; False if it already was."""
        offset = task.position[1]
        still_open = self._open
        tasks = still_open.get(offset)
        if tasks is task:
            del still_open[offset]
            self._finished += 1
            return True
        try:
            if isinstance(tasks, list):
                tasks.remove(task)
            elif isinstance(tasks, dict):
                del tasks[task]
            else:
                return False
        except (KeyError, ValueError):
            return False
        if not tasks and offset != self._partial:
            del still_open[offset]
        self._finished += 1
        return True

    def _open_at(self, offset: int) -> Collection[Task]:
        """Unfinished matches of the record at *offset*."""
        tasks = self._open.get(offset, ())
        return (tasks,) if isinstance(tasks, Task) else tasks

    def holds(self, task: Task) -> bool:
        """True if *task* (the same object) is not finished."""
        return task in self._open_at(task.position.offset)

    def open_below(self, offset: int) -> list[Task]:
        """Unfinished matches of records below *offset*, oldest first."""
        found: list[Task] = []
        for at, _, _ in self._order:
            if at >= offset:
                break
            found.extend(self._open_at(at))
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
        for at, _, count in self._order:
            if passed >= finished_count or at >= end:
                break
            still = self._open_at(at)
            found.extend(still)
            passed += count - len(still)
        return found

    def mark(self) -> Mark:
        """The cursor: the lowest record with an open match, else the end of the passed records."""
        order = self._order
        still_open = self._open
        while order and order[0][0] not in still_open:
            self._finished -= order.popleft()[2]
        return Mark(*order[0][:2]) if order else Mark(self._next, self._checksum)
