"""The task of a retry row that is not at hand any more: read again from the log."""

from distributary.event import record as event_record
from distributary.flow import Leg, Origin, Position, Task
from distributary.outcome import RetryRow
from distributary.pipeline._dead_letter import dead_letter_event
from distributary.pipeline._decode import event_at
from distributary.pipeline._surroundings import Surroundings


class Reload:
    """Reads tasks of rows again.

    Args:
        around: Ports of the owner.
    """

    def __init__(self, around: Surroundings) -> None:
        self._partition = around.partition
        self._records = around.make_records()

    def close(self) -> None:
        """Let the log's files go."""
        self._records.close()

    def task(self, row: RetryRow, stored: bytes | None) -> Task | None:
        """The task of *row*.

        Args:
            row: The row.
            stored: Its event, where that never stood in the log: a reply that became a dead
                letter.

        Returns:
            None where the row is void: the log lost that record (DESIGN rule 1), or it was damaged.

        Raises:
            LogError: It cannot be read now.
        """
        key = row.key
        found = next(iter(self._records.read(key.offset, key.offset + 1)), None)
        if found is None or found.checksum != row.checksum:
            return None
        event, ttl, carried = event_at(found, key.index)
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
            ttl,
            carried,
        )
