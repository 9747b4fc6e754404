"""Waiting retries: durable rows by due time, or deferred while their sink takes nothing."""

import heapq
from collections import Counter, deque
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Final

from distributary.core.deliver.limits import attribute_bytes
from distributary.core.engine.limits import ROW_TASK_BYTES, EngineLimits
from distributary.core.flow import DoneKey, Task
from distributary.core.outcome.rows import RetryRow

STALE_SPARE = 1_024
"""Stale entries allowed in a heap, besides as many as there are rows."""
DEFERRED_LOOK_COUNT = 256
"""Sinks with deferred rows tried at a tick, in turn: 10,000 of them take four seconds."""
_NONE: Final[dict[DoneKey, int]] = {}


class RetryRows:
    """The timer queue of a partition's retry rows. Times are monotonic, in seconds.

    Args:
        limits: Bounds on rows, and on their events in memory.
    """

    def __init__(self, limits: EngineLimits) -> None:
        self._limits = limits
        self.rows: dict[DoneKey, RetryRow] = {}
        """Rows waiting or being attempted."""
        self.finished: dict[DoneKey, RetryRow] = {}
        """Finished rows that the cursor has not passed yet (DESIGN rule 1, the cursor)."""
        self._due: list[tuple[float, int, DoneKey]] = []
        self._turns: dict[str, dict[DoneKey, int]] = {}
        """By route: the entry of ``_due`` that counts for a row."""
        self._timed = 0  # rows in ``_turns``
        self._count = 0
        self._deferred: dict[str, deque[DoneKey]] = {}
        self._tasks: dict[DoneKey, tuple[Task, int]] = {}  # and its size
        self._held_bytes = 0
        self._by_route: Counter[str] = Counter()
        self._touched: set[str] = set()
        self._at: Counter[int] = Counter()  # rows of each record in ``_offsets``
        self._needed: set[DoneKey] = set()
        self._offsets: list[int] = []  # a heap
        self.archived_to = 0
        """Records below are in an archive: rows of them keep nothing of the log. It only grows."""

    def add(self, row: RetryRow) -> None:
        """Add or replace *row*, without a due time."""
        if row.key not in self.rows:
            self._by_route[row.key.route] += 1
            self._touched.add(row.key.route)
            if self.needs_log(row):
                self._need(row.key)
        self.rows[row.key] = row

    def needs_log(self, row: RetryRow) -> bool:
        """Whether the event of *row* stands in the log alone."""
        return row.event is None and row.key.offset >= self.archived_to

    def _need(self, key: DoneKey) -> None:
        """Make the log keep the record of this row, which has no event of its own."""
        self._needed.add(key)
        if key.offset not in self._at:
            if len(self._offsets) > 2 * len(self._needed) + STALE_SPARE:
                self._forget_offsets()
            heapq.heappush(self._offsets, key.offset)
        self._at[key.offset] += 1

    def _forget_offsets(self) -> None:
        """Compact the heap: above a row that waits long, finished ones would accumulate."""
        self._at = +self._at
        self._offsets = sorted(self._at)

    def hold(self, key: DoneKey, task: Task) -> None:
        """Keep the task of a row in memory if there is room."""
        self._let_go(key)
        size = _size(task)
        if self._held_bytes + size <= self._limits.row_events_bytes_max:
            self._held_bytes += size
            self._tasks[key] = task, size

    def _let_go(self, key: DoneKey) -> None:
        held = self._tasks.pop(key, None)
        if held is not None:
            self._held_bytes -= held[1]

    def saturated(self, route: str, share: float = 1.0) -> bool:
        """True if *route* has at least *share* of the rows that it may have."""
        count = self._by_route.get(route)
        if not count:
            return False  # Nearly always: called for every match.
        limits = self._limits
        if count >= limits.rows_per_route_max * share:
            return True
        if len(self.rows) < limits.rows_max * share:
            return False
        fair = limits.rows_max // max(len(self._by_route), 1)
        return count >= max(limits.rows_least, fair) * share

    def room(self, route: str, share: float) -> int:
        """How many more rows *route* may have within *share* of its limits; 0 or less: none."""
        if self.saturated(route, share):
            return 0
        limits = self._limits
        mine = int(limits.rows_per_route_max * share) - self._by_route.get(route, 0)
        return min(mine, int(limits.rows_max * share) - len(self.rows))

    def put(self, row: RetryRow, due_s: float, task: Task | None) -> None:
        """Let *row* wait until *due_s*; keep *task* in memory if there is room."""
        self.add(row)
        if task is not None:
            self.hold(row.key, task)
        self._count += 1
        turns = self._turns.setdefault(row.key.route, {})
        self._timed += row.key not in turns
        turns[row.key] = self._count
        if len(self._due) > 2 * self._timed + STALE_SPARE:
            self._forget_due()
        heapq.heappush(self._due, (due_s, self._count, row.key))

    def _forget_due(self) -> None:
        """Compact the heap: entries of rows that were put again stay until their time, for days."""
        self._due = [entry for entry in self._due if self._turn(entry[2]) == entry[1]]
        heapq.heapify(self._due)

    def _turn(self, key: DoneKey) -> int | None:
        """The entry that counts for the row of *key*; None: it has no due time."""
        return self._turns.get(key.route, _NONE).get(key)

    def _end_turn(self, key: DoneKey) -> None:
        turns = self._turns.get(key.route, _NONE)
        if key in turns:
            del turns[key]
            self._timed -= 1
            if not turns:
                del self._turns[key.route]

    def hasten(self, rows: Collection[RetryRow], now_s: float) -> None:
        """Let idle *rows* be due now; they wait for nothing else then."""
        if not rows:
            return
        keys = {row.key for row in rows}
        for uri, queue in list(self._deferred.items()):
            left = deque(key for key in queue if key not in keys)
            if left:
                self._deferred[uri] = left
            else:
                del self._deferred[uri]
        for row in rows:
            self.put(row, now_s, None)

    def held(self, key: DoneKey) -> Task | None:
        """The task of a row if it is in memory."""
        held = self._tasks.get(key)
        return None if held is None else held[0]

    def next_due_s(self) -> float | None:
        """Due time of the first row."""
        return self._due[0][0] if self._due else None

    def pop_due(self, now_s: float, limit: int) -> list[RetryRow]:
        """Remove and return at most *limit* due rows from the timer queue."""
        found: list[RetryRow] = []
        while self._due and self._due[0][0] <= now_s and len(found) < limit:
            _, turn, key = heapq.heappop(self._due)
            if self._turn(key) == turn:
                self._end_turn(key)
                found.append(self.rows[key])
        return found

    def waiting(self, routes: Collection[str]) -> list[RetryRow]:
        """Rows of *routes* with a due time."""
        return [self.rows[key] for route in routes for key in self._turns.get(route, _NONE)]

    def defer(self, key: DoneKey, uri: str) -> None:
        """Let a due row wait until its sink has room."""
        self._deferred.setdefault(uri, deque()).append(key)

    def pop_deferred(self, uri: str) -> RetryRow | None:
        """Remove and return the row deferred longest for *uri*; None: there is none."""
        queue = self._deferred.get(uri)
        row = None
        while queue and row is None:
            row = self.rows.get(queue.popleft())
        if queue is not None and not queue:
            del self._deferred[uri]
        return row

    def deferred_uris(self, limit: int = DEFERRED_LOOK_COUNT) -> list[str]:
        """At most *limit* sinks with deferred rows, round-robin."""
        uris = list(islice(self._deferred, limit))
        for uri in uris:
            self._deferred[uri] = self._deferred.pop(uri)
        return uris

    def finish(self, key: DoneKey) -> RetryRow | None:
        """Mark the row of *key* as done and move it to ``finished``."""
        row = self._remove(key)
        if row is not None:
            row = row._replace(done=True, event=None)
            self.finished[key] = row
        return row

    def _remove(self, key: DoneKey) -> RetryRow | None:
        row = self.rows.pop(key, None)
        if row is not None:
            if key in self._needed:
                self._needed.remove(key)
                self._at[key.offset] -= 1
            self._by_route[key.route] -= 1
            self._touched.add(key.route)
            if not self._by_route[key.route]:
                del self._by_route[key.route]
        self._let_go(key)
        self._end_turn(key)
        return row

    def drop(self, key: DoneKey) -> None:
        """Forget a void row at once."""
        self._remove(key)
        self.finished.pop(key, None)
        for queue in self._deferred.values():
            if key in queue:
                queue.remove(key)

    def take_touched(self) -> tuple[set[str], Mapping[str, int]]:
        """The routes whose rows have become more or fewer since the last call; rows by route."""
        touched, self._touched = self._touched, set()
        return touched, self._by_route

    @property
    def count(self) -> int:
        """Count of rows waiting or being attempted."""
        return len(self.rows)

    def idle(self) -> set[DoneKey]:
        """Keys of rows without an attempt in flight; may include removed rows."""
        return set[DoneKey]().union(*self._turns.values(), *self._deferred.values())

    def idle_below(self, offset: int) -> list[RetryRow]:
        """Rows below *offset* that need the log and have no attempt in flight."""
        lowest = self.lowest_offset()
        if lowest is None or lowest >= offset:
            return []
        return [
            self.rows[key]
            for key in self.idle()
            if key.offset < offset and key in self.rows and self.needs_log(self.rows[key])
        ]

    def lowest_offset(self) -> int | None:
        """The lowest record that a row still needs."""
        offsets = self._offsets
        while offsets and not self._at[offsets[0]]:
            del self._at[heapq.heappop(offsets)]
        return offsets[0] if offsets else None


def _size(task: Task) -> int:
    return ROW_TASK_BYTES + attribute_bytes(task.event) + task.event.data_bytes()
