"""Retention on a Kafka cluster: the leader alone deletes the oldest records of partitions.

The topic itself keeps everything (``retention.ms=-1``): the cluster does not know what consumers
still need. Every step may wait for the network: run it in a thread.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol

from distributary.core.cluster import KafkaPlace
from distributary.core.log.kafka._client import (
    ANSWER_S_MAX,
    admin_library,
    library,
    log_error,
    settings_of,
    topic_of,
)
from distributary.core.log.kafka.records import KafkaRecords
from distributary.core.log.kafka.snapshots import Cut, Snapshots


class Deleted(NamedTuple):
    """What a run did.

    Attributes:
        start: Offset of the oldest record that is left.
        records: How many were deleted.
    """

    start: int
    records: int


class RoutesAt(Protocol):
    """Finds the routes in force below an offset."""

    def __call__(self, records: KafkaRecords, cut: int, /) -> tuple[int, bytes]:
        """Returns the number of the last change below *cut*, and a snapshot of the routes."""


UNLIMITED: Final = 0.0
"""No limit of age."""


class KafkaRetention:
    """Deletes records beyond the limits that no cursor, backfill or retry still needs.

    Args:
        place: The cluster.
        snapshots: Where the routes at cuts are kept.
        bytes_max: Records of one partition together, bytes, as far as their mean length tells.
        age_max_s: Age of a record above which it is deleted, seconds; 0.0: none is too old.
        now_ms: Returns the time by which records have an age, wall clock, milliseconds; 0 while it
            may be wrong: none is too old then.
    """

    def __init__(
        self,
        place: KafkaPlace,
        snapshots: Snapshots,
        *,
        bytes_max: int,
        age_max_s: float,
        now_ms: Callable[[], int],
    ) -> None:
        self._place = place
        self._snapshots = snapshots
        self._bytes_max = bytes_max
        self._age_max_s = age_max_s
        self._now_ms = now_ms
        self._readers: dict[int, KafkaRecords] = {}
        self._admin: Any = None

    def retain(
        self,
        partition: int,
        keep_from: Callable[[], int],
        routes_at: RoutesAt,
        within: int | None = None,
    ) -> Deleted:
        """Delete the oldest records of *partition* beyond the limits; the newest one stays.

        Args:
            partition: Its number.
            keep_from: Returns the smallest of cursor, backfills and waiting retries; 0 where that
                is unknown: nothing is deleted then. Called again after the snapshot, whose making
                takes long enough for a reader to begin in the past. Then the cut is undone and
                nothing is deleted.
            routes_at: Finds the routes in force at the cut.
            within: What the method of this name has just returned; None: it is asked.

        Raises:
            LogError: The cluster failed a step; nothing needed is gone, call again later.
            StoreError: The store failed a step; the same.
        """
        records = self._records(partition)
        first = records.first()
        before = self._snapshots.cut(partition)
        begun = first if before is None else max(before.offset, first)
        needed = keep_from()
        cut = min(needed, self.within(partition) if within is None else within)
        if cut > begun:
            seq, snapshot = routes_at(records, cut)
            self._snapshots.put(partition, Cut(cut, seq), snapshot)
            if keep_from() < cut:
                self._snapshots.put_back(partition, before)
                return Deleted(first, 0)
            begun = cut
        elif needed < begun:  # whoever cut here ended before it asked again
            return Deleted(first, 0)
        if begun > first:
            self._delete(partition, begun)
            self._snapshots.prune()
        return Deleted(begun, begun - first)

    def _records(self, partition: int) -> KafkaRecords:
        if partition not in self._readers:
            self._readers[partition] = KafkaRecords(self._place, partition, self._snapshots)
        return self._readers[partition]

    def within(self, partition: int) -> int:
        """Returns the first offset of *partition* that is within the limits.

        Raises:
            LogError: The cluster does not answer.
        """
        records = self._records(partition)
        within = records.offset_within(self._bytes_max)
        if self._age_max_s == UNLIMITED:
            return within
        oldest_ms = self._now_ms() - int(self._age_max_s * 1000)
        return min(max(within, records.offset_at(oldest_ms)), max(records.durable_end() - 1, 0))

    def held_at_most(self, partition: int, since_ms: int) -> int:
        """Returns from where on registered readers may hold *partition*, beyond its limits.

        As many bytes again as the limit, where there is one, and nothing older than *since_ms*: of
        the disks of brokers nothing is known here.

        Raises:
            LogError: The cluster does not answer.
        """
        records = self._records(partition)
        return max(records.offset_at(since_ms), records.offset_within(2 * self._bytes_max))

    def _delete(self, partition: int, before_offset: int) -> None:
        if self._admin is None:
            self._admin = admin_library().AdminClient(settings_of(self._place))
        kafka = library()
        place = kafka.TopicPartition(topic_of(self._place), partition, before_offset)
        answers = self._admin.delete_records([place], request_timeout=ANSWER_S_MAX)
        try:
            answers[place].result()
        except kafka.KafkaException as error:
            doing = f"delete old records of partition {partition}"
            raise log_error(error.args[0], doing) from error

    def close(self) -> None:
        """End the connections."""
        for records in self._readers.values():
            records.close()
        self._readers.clear()
        self._admin = None
