"""The tasks of retry rows that are not at hand any more: read again, beside the loop."""

import enum
from collections import deque
from collections.abc import Callable

from distributary.core.engine._dead_letter import dead_letter_event
from distributary.core.engine.surroundings import Surroundings
from distributary.core.errors import DistributaryError, LogError, StoreError
from distributary.core.event import record as event_record
from distributary.core.flow import Leg, Origin, Position, Task, events_of
from distributary.core.outcome import RetryRow

READ_MAX = 64
"""Rows that are read, or wait to be, at a time: each costs some 0.4 ms."""
STORED_LOOK_S = 0.05
"""A row whose event was just handed to the store is looked at again this late: some flushes."""


class NoTask(enum.Enum):
    """Why a row has no task."""

    VOID = 0
    """The log lost that record (DESIGN rule 1), or it was damaged."""
    LATER = 1
    """Its event is on its way to the store."""


class Reload:
    """Reads tasks of rows again.

    Args:
        around: Ports of the owner.
        take: Called for each row with its task, or why it has none.
        free: Called with what shall ``come_back`` when rows may be asked for again.
        fail: Takes why rows cannot be read at all.
    """

    def __init__(
        self,
        around: Surroundings,
        *,
        take: Callable[[RetryRow, Task | NoTask], None],
        free: Callable[[list[str]], None],
        fail: Callable[[DistributaryError], None],
    ) -> None:
        self._partition = around.partition
        self._records = around.make_records()
        self._store = around.store
        self._reading = around.reading
        self._take = take
        self._free = free
        self._fail = fail
        self._asked: deque[RetryRow] = deque()
        self._under_way = 0
        self._later: dict[str, None] = {}
        self._shares: dict[str, int] = {}
        self._closed = False

    def room(self) -> int:
        """How many more rows may be asked for now."""
        # Who has its slot at last asks whether there is room or not.
        return max(0, READ_MAX - self._under_way - len(self._asked))

    def may_ask(self, uri: str) -> int:
        """How many of them for the lane of *uri*: one, and twice as many each time it took all."""
        return min(self.room(), self._shares.get(uri, 1))

    def come_back(self, uri: str) -> None:
        """There may be room in the lane of *uri* for more than that: try again after these."""
        self._later[uri] = None

    def over(self, uri: str) -> None:
        """The lane of *uri* takes no more now, or nothing is left for it."""
        self._later.pop(uri, None)
        self._shares.pop(uri, None)

    def ask(self, row: RetryRow) -> None:
        """Read the task of *row* soon."""
        self._asked.append(row)
        if not self._under_way:
            self._read()

    def close(self) -> None:
        """Let the log's files go, behind what is being read; nobody is told any more."""
        self._closed = True
        self._reading.run(self._records.close, lambda _error: None)

    def _read(self) -> None:
        rows = list(self._asked)
        self._asked.clear()
        self._under_way = len(rows)
        found: list[Task | NoTask] = []
        failed: list[DistributaryError] = []

        def work() -> None:
            try:
                found.extend(map(self._task, rows))
            except LogError as error:
                failed.append(error)

        def done(error: StoreError | None) -> None:
            self._under_way = 0
            if self._closed:
                return
            if failed or error is not None:
                self._fail(failed[0] if error is None else error)
                return
            for row, task in zip(rows, found, strict=True):
                self._take(row, task)
            if self._asked:
                self._read()
            later, self._later = list(self._later), {}
            for uri in later:
                self._shares[uri] = min(2 * self._shares.get(uri, 1), READ_MAX)
            self._free(later)

        self._reading.run(work, done)

    def _task(self, row: RetryRow) -> Task | NoTask:
        """The task of *row*; beside the loop.

        Raises:
            LogError, StoreError: It cannot be read now.
        """
        key = row.key
        stored = None
        if row.event is not None:
            # Its event never stood in the log: a reply that became a dead letter.
            stored = self._store.row_event(key)
            if stored is None:
                return NoTask.LATER
        found = next(iter(self._records.read(key.offset, key.offset + 1)), None)
        if found is None or found.checksum != row.checksum:
            # A letter that is sent again needs no log: what was kept of it must not get lost
            # because its record is gone, by retention or by the medium.
            return NoTask.VOID if stored is None else self._of_store(row, stored)
        held = events_of(found)
        if held is None:
            return NoTask.VOID
        event = held.events[key.index]
        if stored is not None:
            (event,) = event_record.decode(stored)
        elif row.leg is Leg.DEAD_LETTER and row.failure is not None:
            event = dead_letter_event(event, row.failure)
        return Task(
            Position(self._partition, key.offset, key.index),
            row.checksum,
            key.route,
            event,
            row.leg,
            row.attempt,
            found.time_ms,
            Origin.RETRY,
            held.ttls[key.index],
            held.carried,
        )

    def _of_store(self, row: RetryRow, stored: bytes) -> Task:
        """A task of a row that has its own event, and no record any more."""
        (event,) = event_record.decode(stored)
        place = Position(self._partition, row.key.offset, row.key.index)
        logged_ms = row.not_before_ms
        retry = Origin.RETRY
        route = row.key.route
        return Task(place, row.checksum, route, event, row.leg, row.attempt, logged_ms, retry)
