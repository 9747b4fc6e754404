"""How the control part reads what owners and receivers keep: here, from files of this machine."""

from collections.abc import Sequence
from typing import Final, Protocol

from distributary.core.errors import LogError
from distributary.core.flow import Position
from distributary.core.journal_blocks import read_blocks
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log import Reader
from distributary.core.log.finder import FileLog, SearchedLog
from distributary.core.log.indexed import Index
from distributary.core.outcome import (
    DeliveryReader,
    DeliveryRowsReader,
    TallyFileReader,
    TallyReader,
)
from distributary.datadir import DataDir
from distributary.datadir.publishers import Publishers
from distributary.partitions.ports import Records
from distributary.partitions.recall_requests import is_awaited

RECALLING: Final = "events are on their way from the archive"
"""What a run waits for while they are read."""

UNREADABLE: Final = "the archive cannot be read; the server's log says why"
"""What it waits for where that has failed."""


def awaited_of(paths: DataDir, partition: int, offset: int) -> str:
    """What the record *offset* is waited for where it is asked for of the archive; else empty."""
    if not is_awaited(paths.recall_requests(partition), offset):
        return ""
    # What was noted names the archive of all tenants: it is in the log, and not for one of them.
    return UNREADABLE if paths.recall_failed.exists() else RECALLING


class Views(Protocol):
    """Reads what owners and receivers keep, wherever it lies.

    Attributes:
        deliveries: Of each partition, in their order.
        tallies: Likewise.
    """

    deliveries: Sequence[DeliveryRowsReader]
    tallies: Sequence[TallyReader]

    def waiting_rows(self, partition: int) -> Sequence[HistoryBlock]:
        """Returns the rows of the history that its files may not hold yet.

        Raises:
            StoreError: They cannot be read now.
        """

    def end(self, partition: int) -> int | None:
        """Returns the record after the last durable one of *partition*; None: not known yet.

        Never waits.
        """

    def searched(self, *, indexed: bool) -> SearchedLog:
        """Returns the log, for searches.

        Args:
            indexed: Whether its index of ids is used, where it has one.
        """

    def publisher(self, position: Position) -> str | None:
        """Returns who published the event at *position*; None: not known. May wait."""

    def awaited(self, partition: int, offset: int) -> str:
        """Returns what a read of *offset* in *partition* waits for, in words; empty: nothing."""

    def records(self, partition: int) -> Records:
        """Returns a new reader of *partition*; close it.

        Raises:
            LogError: It cannot be read.
        """


class FileViews:
    """``Views`` of the data directory.

    Args:
        paths: Its paths.
        partitions: Number of partitions.
    """

    def __init__(self, paths: DataDir, partitions: int) -> None:
        numbers = range(partitions)
        self._paths = paths
        self._partitions = partitions
        self._ends: dict[int, Reader] = {}
        self._publishers = [Publishers(paths.publishers(number)) for number in numbers]
        self.deliveries: Sequence[DeliveryRowsReader] = [
            DeliveryReader(paths.delivery_db(number), number) for number in numbers
        ]
        self.tallies: Sequence[TallyReader] = [
            TallyFileReader(paths.tallies(number)) for number in numbers
        ]

    def waiting_rows(self, partition: int) -> Sequence[HistoryBlock]:
        """See ``Views.waiting_rows``."""
        return read_blocks(self._paths.journal(partition))

    def end(self, partition: int) -> int | None:
        """See ``Views.end``."""
        try:
            if partition not in self._ends:
                self._ends[partition] = Reader(self._paths.log, partition)
            return self._ends[partition].durable_end()
        except LogError:
            return None  # No appender has created it yet.

    def searched(self, *, indexed: bool) -> SearchedLog:
        """See ``Views.searched``."""
        paths = self._paths
        numbers = range(self._partitions)
        indexes = [Index(paths.index(number) if indexed else None) for number in numbers]
        return FileLog(paths.log, indexes)

    def publisher(self, position: Position) -> str | None:
        """See ``Views.publisher``."""
        return self._publishers[position.partition].of(position.offset)

    def awaited(self, partition: int, offset: int) -> str:
        """See ``Views.awaited``: for the archive."""
        return awaited_of(self._paths, partition, offset)

    def records(self, partition: int) -> Records:
        """See ``Views.records``."""
        return Reader(self._paths.log, partition)
