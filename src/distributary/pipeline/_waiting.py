"""Retries that wait: durable rows, ordered by when they are due, parked while a sink is closed."""

import heapq
from collections import deque

from distributary.flow import Task
from distributary.outcome import DoneKey, RetryRow

EVENTS_HELD_MAX = 2_000
"""Waiting rows that keep their event in memory: at 1 KB some 2 MB. The others are read from the
log again when they are due; the log keeps what a row needs (retention rule)."""


class Waiting:
    """The retry rows of a partition. Times are of the monotonic clock, seconds."""

    def __init__(self) -> None:
        self.rows: dict[DoneKey, RetryRow] = {}
        """Rows that wait or are being attempted."""
        self.finished: dict[DoneKey, RetryRow] = {}
        """Rows that are done and stay until the cursor has passed them (DESIGN rule 1)."""
        self._due: list[tuple[float, int, DoneKey]] = []
        self._turns: dict[DoneKey, int] = {}  # the entry of ``_due`` that counts for a row
        self._count = 0
        self._parked: dict[str, deque[DoneKey]] = {}
        self._tasks: dict[DoneKey, Task] = {}

    def put(self, row: RetryRow, due_s: float, task: Task | None) -> None:
        """*row* waits until *due_s*; *task* is kept at hand while there is room."""
        self.rows[row.key] = row
        if task is not None and (row.key in self._tasks or len(self._tasks) < EVENTS_HELD_MAX):
            self._tasks[row.key] = task
        self._count += 1
        self._turns[row.key] = self._count
        heapq.heappush(self._due, (due_s, self._count, row.key))

    def held(self, key: DoneKey) -> Task | None:
        """The task of a row, where it is still at hand."""
        return self._tasks.get(key)

    def next_due_s(self) -> float | None:
        """When the first row is due."""
        return self._due[0][0] if self._due else None

    def pop_due(self, now_s: float, limit: int) -> list[RetryRow]:
        """At most *limit* rows that are due; each is handed out once."""
        found: list[RetryRow] = []
        while self._due and self._due[0][0] <= now_s and len(found) < limit:
            _, turn, key = heapq.heappop(self._due)
            if self._turns.get(key) == turn:
                del self._turns[key]
                found.append(self.rows[key])
        return found

    def park(self, key: DoneKey, uri: str) -> None:
        """The row is due, but its sink takes nothing: it waits for room there."""
        self._parked.setdefault(uri, deque()).append(key)

    def unpark(self, uri: str) -> RetryRow | None:
        """The row that has been parked longest for *uri*, handed out once; None: there is none."""
        queue = self._parked.get(uri)
        row = None
        while queue and row is None:
            row = self.rows.get(queue.popleft())
        if queue is not None and not queue:
            del self._parked[uri]
        return row

    def parked_uris(self) -> list[str]:
        """Sinks for which rows are parked."""
        return list(self._parked)

    def finish(self, key: DoneKey) -> RetryRow | None:
        """The row of *key* is done; it stays in ``finished`` until it is forgotten."""
        row = self.rows.pop(key, None)
        self._tasks.pop(key, None)
        self._turns.pop(key, None)
        if row is not None:
            row = row._replace(done=True)
            self.finished[key] = row
        return row

    def drop(self, key: DoneKey) -> None:
        """Forget the row at once: it is void."""
        self.rows.pop(key, None)
        self._tasks.pop(key, None)
        self._turns.pop(key, None)
        self.finished.pop(key, None)
        for queue in self._parked.values():
            if key in queue:
                queue.remove(key)

    def lowest_offset(self) -> int | None:
        """The lowest record that a row still needs."""
        return min((key.offset for key in self.rows), default=None)
