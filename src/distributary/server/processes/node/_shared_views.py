"""How the control part of a node reads what owners and receivers of all nodes keep."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from distributary.core.cluster import SharedPlaces
from distributary.core.database import StorePlace
from distributary.core.errors import DistributaryError
from distributary.core.flow import Position
from distributary.core.journal_frames import HistoryBlock
from distributary.core.log.finder import SearchedLog
from distributary.core.log.kafka import KafkaEnds, KafkaRecords, KafkaSearchedLog
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.outcome import DeliveryRowsReader, TallyReader
from distributary.core.outcome.postgres import PostgresDeliveryReader, PostgresTallyReader
from distributary.datadir import DataDir
from distributary.partitions.ports import Records
from distributary.server.processes.control.views import awaited_of

LOOK_S: Final = 2.0
"""Interval of questions where the log ends: metrics and the backlog shown are so late."""


class Ends:
    """Where the partitions of a log elsewhere end, as last seen.

    Args:
        read: Asks for all of them; blocks.
    """

    def __init__(self, read: Callable[[], Sequence[int]]) -> None:
        self._read = read
        self._ends: Sequence[int] = ()

    def look(self) -> None:
        """Ask once. Without an answer none is known: an old one would hide a backlog."""
        try:
            self._ends = self._read()
        except DistributaryError:
            self._ends = ()

    def end(self, partition: int) -> int | None:
        """See ``Views.end``."""
        ends = self._ends
        return ends[partition] if partition < len(ends) else None

    def follow(self) -> None:
        """Ask again and again; never returns."""
        pause = threading.Event()
        while True:
            self.look()
            pause.wait(LOOK_S)


class SharedViews:
    """``Views`` of log and store that nodes share.

    Args:
        places: Where they lie.
        store: The store.
        partitions: Number of partitions.
        paths: The data directory of this node, with its index, and what owners ask for.

    Raises:
        DistributaryError: The store cannot be opened.
    """

    def __init__(
        self, places: SharedPlaces, store: StorePlace, partitions: int, paths: DataDir
    ) -> None:
        numbers = range(partitions)
        self._places = places
        self._paths = paths
        self._snapshots = StoreSnapshots(StorePlace(store.url))
        self._searched = KafkaSearchedLog(
            places.log, partitions, self._snapshots, paths.topic_index
        )
        ends = KafkaEnds(places.log)
        self._ends = Ends(lambda: ends.read(partitions))
        owned = [PostgresDeliveryReader(store.url, number) for number in numbers]
        self._owned = owned
        self.deliveries: Sequence[DeliveryRowsReader] = owned
        self.tallies: Sequence[TallyReader] = [
            PostgresTallyReader(store.url, number) for number in numbers
        ]

    def waiting_rows(self, partition: int) -> Sequence[HistoryBlock]:
        """See ``Views.waiting_rows``: they ride in the frames of flushes."""
        return self._owned[partition].waiting_rows()

    def begin(self) -> None:
        """Begin to ask where the log ends, in a thread."""
        threading.Thread(target=self._ends.follow, name="log-ends", daemon=True).start()

    def end(self, partition: int) -> int | None:
        """See ``Views.end``."""
        return self._ends.end(partition)

    def searched(self, *, indexed: bool) -> SearchedLog:
        """See ``Views.searched``: a node that makes no index has no files of one."""
        del indexed
        return self._searched

    def publisher(self, position: Position) -> str | None:
        """See ``Views.publisher``: it stands beside the event.

        Raises:
            LogError: The log cannot be read now.
        """
        return self._searched.publisher(position)

    def awaited(self, partition: int, offset: int) -> str:
        """See ``Views.awaited``: for the archive."""
        return awaited_of(self._paths, partition, offset)

    def records(self, partition: int) -> Records:
        """See ``Views.records``."""
        return KafkaRecords(self._places.log, partition, self._snapshots)
