"""The log on Kafka for those who look for events: searches, and who published one.

By an id, the index that each node makes of the topic (``core.log.offset_indexer``) tells where to
look. What it has not got yet is read through, within the bounds of a search.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import Logged, Position
from distributary.core.log.indexed import Index, IndexedOffsets
from distributary.core.log.kafka.ends import KafkaEnds
from distributary.core.log.kafka.records import KafkaRecords
from distributary.core.log.kafka.snapshots import Snapshots

KEPT_MAX: Final = 16
"""Readers that are kept for the next search: making one takes some 50 ms, and each holds a
connection to a broker and some threads."""


class KafkaSearchedLog:
    """``core.log.finder.SearchedLog`` over the topic. Safe from any thread; close it.

    Args:
        place: The cluster.
        partitions: How many partitions are in use.
        snapshots: Where partitions begin.
        index_folder: Returns the folder of a partition's index, of the topic with an id; None:
            nothing is indexed.
    """

    def __init__(
        self,
        place: KafkaPlace,
        partitions: int,
        snapshots: Snapshots,
        index_folder: Callable[[str, int], Path] | None = None,
    ) -> None:
        self.partitions = partitions
        self._place = place
        self._snapshots = snapshots
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, list[KafkaRecords]] = OrderedDict()
        self._closed = False
        self._index_folder = index_folder
        self._identity = ""
        self._indexes: dict[int, Index] = {}

    def open(self, partition: int) -> "LentRecords":
        """Returns a reader; close it, which gives it back.

        Raises:
            LogUnavailableError: The cluster does not let us in.
        """
        with self._lock:
            kept = self._kept.get(partition)
            if kept:
                return LentRecords(self, kept.pop())
        return LentRecords(self, KafkaRecords(self._place, partition, self._snapshots))

    def indexed(self, partition: int) -> IndexedOffsets | None:
        """See ``SearchedLog``: files of another topic, of this name, are never used."""
        if self._index_folder is None:
            return None
        if not self._identity:
            try:
                self._identity = KafkaEnds(self._place).identity()
            except LogUnavailableError:
                return None
        if partition not in self._indexes:
            folder = self._index_folder(self._identity, partition)
            self._indexes[partition] = Index(folder)
        return IndexedOffsets(self._indexes[partition])

    def publisher(self, position: Position) -> str | None:
        """Returns who published the event at *position*; None: nobody was asked, or it is gone.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        lent = self.open(position.partition)
        try:
            return lent.records.publisher(position.offset)
        finally:
            lent.close()

    def take_back(self, records: KafkaRecords) -> None:
        """Keep *records* for the next search; close the one that was used least recently."""
        with self._lock:
            if self._closed:
                surplus = [records]
            else:
                self._kept.setdefault(records.partition, []).append(records)
                self._kept.move_to_end(records.partition)
                surplus = []
                while sum(map(len, self._kept.values())) > KEPT_MAX:
                    oldest = next(iter(self._kept))
                    surplus.append(self._kept[oldest].pop(0))
                    if not self._kept[oldest]:
                        del self._kept[oldest]
        for each in surplus:
            each.close()

    def close(self) -> None:
        """Close what is kept; what is lent is closed when it is given back."""
        with self._lock:
            self._closed = True
            kept, self._kept = self._kept, OrderedDict()
        for readers in kept.values():
            for each in readers:
                each.close()


class LentRecords:
    """A reader that goes back when it is closed: ``core.log.finder.LookedThrough``.

    Attributes:
        records: The reader.
    """

    def __init__(self, log: KafkaSearchedLog, records: KafkaRecords) -> None:
        self.records = records
        self._log = log

    def start(self) -> int:
        """See ``KafkaRecords``."""
        return self.records.start()

    def durable_end(self) -> int:
        """See ``KafkaRecords``."""
        return self.records.durable_end()

    def offset_at(self, time_ms: int) -> int:
        """See ``KafkaRecords``."""
        return self.records.offset_at(time_ms)

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """See ``KafkaRecords``."""
        return self.records.read_chunk(from_offset, bytes_max)

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """See ``KafkaRecords``."""
        return self.records.read(from_offset, to_offset)

    def close(self) -> None:
        """Give the reader back."""
        self.records.rest()
        self._log.take_back(self.records)
