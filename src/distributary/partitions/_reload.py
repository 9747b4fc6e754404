"""Reads the tasks of retry rows that are no longer in memory, outside the event loop."""

from collections.abc import Callable

from distributary.core.engine.dead_letter import dead_letter_event
from distributary.core.engine.reads import NoTask
from distributary.core.event import record as event_record
from distributary.core.flow import TOLD, DoneKey, Origin, Position, Stage, Task, events_of
from distributary.core.outcome import RetryRow
from distributary.partitions._log_thread import LogThread
from distributary.partitions.context import PartitionContext


class Reload:
    """Reads the tasks of retry rows from log and store.

    Args:
        context: Ports of the consumer.
        thread: Where reads run.
        brings_event: Tells whether the event of a row is still on its way to the store.
    """

    def __init__(
        self, context: PartitionContext, thread: LogThread, brings_event: Callable[[DoneKey], bool]
    ) -> None:
        self._partition = context.partition
        self._records = context.kept()
        self._store = context.ownership.store
        self._thread = thread
        self._brings_event = brings_event

    def close(self) -> None:
        """Close the log's files after reads under way, whose results are discarded."""
        self._thread.close(self._records.close)

    def read(
        self, rows: list[RetryRow], then: Callable[[list[tuple[RetryRow, Task | NoTask]]], object]
    ) -> None:
        """Call *then* with each of *rows* and its task, or the reason why it has none."""
        found: list[Task | NoTask] = []
        coming = {row.key for row in rows if self._brings_event(row.key)}

        def read() -> None:
            del found[:]
            found.extend(NoTask.LATER if row.key in coming else self._task(row) for row in rows)

        self._thread.run(read, lambda: then(list(zip(rows, found, strict=True))))

    def _task(self, row: RetryRow) -> Task | NoTask:
        """Returns the task of *row*; blocks.

        Raises:
            LogError, StoreError: The task cannot be read now.
        """
        key = row.key
        stored = None
        if row.event is not None:
            # Its event never stood in the log: a reply that became a dead letter.
            stored = self._store.row_event(key)
            if stored is None:
                return NoTask.LATER
        archived = key.offset < self._records.archived_to()
        # Asked before it is read: what arrives from the archive meanwhile is no lost record.
        if archived and stored is None and self._awaits(key.offset):
            return NoTask.RECALLED
        found = next(iter(self._records.read(key.offset, key.offset + 1)), None)
        held = None
        # What is recalled was durable, and its frame is another one than the log's.
        if found is not None and (
            archived
            or found.checksum == row.checksum
            or key.offset < self._records.archived_to()  # by now
        ):
            held = events_of(found)
        if found is None and stored is None and self._awaits(key.offset):
            return NoTask.RECALLED
        if found is None or held is None:
            # A dead letter that is sent again needs no log: what was kept of it must not get lost
            # because its record is gone, by retention or by the medium.
            return NoTask.VOID if stored is None else self._of_store(row, stored)
        event = held.events[key.index]
        if stored is not None:
            (event,) = event_record.decode(stored)
        elif row.stage is Stage.DEAD_LETTER and row.failure is not None:
            event = dead_letter_event(event, row.failure)
        return Task(
            Position(self._partition, key.offset, key.index),
            row.checksum,
            key.route,
            event,
            row.stage,
            row.attempt,
            found.time_ms,
            Origin.RETRY,
            held.ttls[key.index],
            held.carried,
            held.address == TOLD,
        )

    def _awaits(self, offset: int) -> bool:
        """Whether the record at *offset* is on its way from the archive."""
        return self._records.readable_to(offset, offset + 1) == offset

    def _of_store(self, row: RetryRow, stored: bytes) -> Task:
        """Returns the task of a row with a stored event, whose record is deleted."""
        (event,) = event_record.decode(stored)
        place = Position(self._partition, row.key.offset, row.key.index)
        logged_ms = row.not_before_ms
        retry = Origin.RETRY
        route = row.key.route
        return Task(place, row.checksum, route, event, row.stage, row.attempt, logged_ms, retry)
