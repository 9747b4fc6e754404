"""Reads one partition of the log from Kafka, as ``core.log.Reader`` reads one from files.

A chunk has the frames of the embedded log, so everything above reads one form. Every call may wait
for the network: call it in a thread, never on an event loop.
"""

import time
from collections.abc import Iterator
from typing import Final

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogDamagedError
from distributary.core.flow import Logged
from distributary.core.log.damage import Damage
from distributary.core.log.frame import iter_frames
from distributary.core.log.kafka._client import FULL_MS, RECORD_BYTES_MAX
from distributary.core.log.kafka._fetcher import READ_S_MAX, RECORD_BYTES_FIRST, Fetcher, Watermarks
from distributary.core.log.kafka.snapshots import Snapshots

NOTHING: Final = -2
"""No record, nor the one before the first."""
READ_BYTES: Final = 1024 * 1024
"""Chunk of ``read`` and ``kinds``."""

SAMPLE_BYTES: Final = 64 * 1024
"""Bytes read at one place: some sixty events of 1 KB, enough for a mean."""
SAMPLED_RECORDS_MIN: Final = 1024
"""Shortest stretch that is measured by itself: a shorter one costs a reading for few records."""
SAMPLES_MAX: Final = 64
"""``offset_within`` measures the mean length of records at this many places at most: Kafka tells no
sizes by offset. A log of fewer records than ``SAMPLED_RECORDS_MIN`` is one such stretch."""

PREFETCH_KBYTES: Final = 1024
"""What a reader fetches ahead: sixteen readers of a partition hold 16 MiB. One larger record is
fetched all the same."""

_SETTINGS: Final = {
    "queued.max.messages.kbytes": PREFETCH_KBYTES,
    "queued.min.messages": 1_000,
    "fetch.message.max.bytes": 512 * 1024,
    "fetch.max.bytes": RECORD_BYTES_MAX,
    "receive.message.max.bytes": RECORD_BYTES_MAX + 1024 * 1024,
    "fetch.queue.backoff.ms": FULL_MS,
    # A fetch that waits at the end holds up the next one, from another place.
    "fetch.wait.max.ms": 10,
}


class KafkaRecords:
    """A reader of one partition: ``partitions.ports.Records``. For one thread at a time; close it.

    A reader keeps its position: ``read_chunk`` from where the last one ended needs no search. It
    fetches nothing while it stands at the end, where the next call may find more.

    Args:
        place: The cluster.
        partition: Its number, from 0.
        snapshots: The routes at the beginning of partitions.
        publishers: Gets who published each record, by offset, before ``read`` yields it; None:
            nobody wants to know. Whoever wants to takes them out again.
    """

    def __init__(
        self,
        place: KafkaPlace,
        partition: int,
        snapshots: Snapshots,
        *,
        publishers: dict[int, str] | None = None,
    ) -> None:
        """See the class.

        Raises:
            LogUnavailableError: librdkafka does not take the settings of *place*.
        """
        self.partition = partition
        self._snapshots = snapshots
        self._fetcher = Fetcher(place, partition, dict(_SETTINGS), publishers=publishers)
        self._end = 0
        self._publishers = publishers
        self._yielded = NOTHING
        """The record that ``read`` has yielded last: a reader that stops there goes on with it, or
        with the next one, from the rest of the chunk."""
        self._chunk = b"", 0
        """The chunk with it, and the record after that."""
        self._means: dict[tuple[int, int], float] = {}

    def rest(self) -> None:
        """Fetch nothing ahead until the next read: it is not known when that will be."""
        self._chunk = b"", 0
        self._fetcher.rest()

    def close(self) -> None:
        """End the connections. The reader must not be used afterwards."""
        self._fetcher.close()

    def start(self) -> int:
        """Returns the offset of the oldest record kept; the end where there is none.

        Records that retention has cut off and not deleted yet do not count.

        Raises:
            LogUnavailableError: The cluster does not answer.
            StoreError: The store of the cuts does not.
        """
        first, cut = self.first(), self._snapshots.cut(self.partition)
        return first if cut is None else max(first, cut.offset)

    def first(self) -> int:
        """Returns the offset of the oldest record that is there, cut off or not.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        return self._watermarks().start

    def durable_end(self) -> int:
        """Returns the offset after the last record that all replicas in sync have.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        return self._watermarks().end

    def _watermarks(self) -> Watermarks:
        watermarks = self._fetcher.watermarks()
        self._end = watermarks.end
        return watermarks

    def read_chunk(self, from_offset: int, bytes_max: int) -> tuple[bytes, int]:
        """Returns whole frames from *from_offset* on, and the offset after them.

        A chunk has no gaps inside; it begins later than *from_offset* where retention or damage has
        removed records, and may then be empty with a larger next offset: read on from that.

        Args:
            from_offset: The first wanted record.
            bytes_max: About how long the chunk may be, bytes; at least one record is returned if
                there is one, of any length.

        Returns:
            The chunk, and where to read on. ``(b"", from_offset)`` at the end.

        Raises:
            LogUnavailableError: The cluster does not answer, or has lost records.
        """
        fetcher = self._fetcher
        if from_offset >= self._end and from_offset >= self.durable_end():
            fetcher.rest()
            return b"", from_offset
        chunk, following = self._gathered(from_offset, bytes_max)
        if following >= self._end:
            fetcher.rest()
        return chunk, following

    def _gathered(self, from_offset: int, bytes_max: int, kind: int = 0) -> tuple[bytes, int]:
        """Returns a chunk from below the known end; empty only where nothing is left below it."""
        fetcher = self._fetcher
        fetcher.seek(from_offset)
        at, deadline_s = from_offset, time.monotonic() + READ_S_MAX
        while True:
            chunk, following = fetcher.gather(bytes_max, kind)
            if chunk or following >= self._end:
                return chunk, following
            if following > at:  # records of other kinds, or damage
                at, deadline_s = following, time.monotonic() + READ_S_MAX
            elif time.monotonic() > deadline_s:
                raise fetcher.overdue()
            fetcher.ready(1.0)

    def read(self, from_offset: int, to_offset: int) -> Iterator[Logged]:
        """Yields the records with ``from_offset <= offset < to_offset``, at most to the end.

        The end is asked for once, with the first record. Damage is skipped.

        Raises:
            LogUnavailableError: As ``read_chunk``.
        """
        return self._records(from_offset, to_offset, 0)

    def kinds(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        """As ``read``, but yields only records of *kind*; the others are fetched all the same."""
        return self._records(from_offset, to_offset, kind)

    def _records(self, from_offset: int, to_offset: int, kind: int) -> Iterator[Logged]:
        start, end = self._watermarks()
        at, end = max(from_offset, start), min(to_offset, end)
        while at < end:
            chunk, following = self._taken(at, kind)
            for logged in iter_frames(chunk, verify=False):
                if logged.offset >= end:
                    return
                if logged.offset >= at:
                    self._yielded = logged.offset
                    yield logged
            at = following
        self._fetcher.rest()

    def _taken(self, at: int, kind: int) -> tuple[bytes, int]:
        """Returns a chunk with the record *at*, or with what follows it, and the offset after."""
        if kind or self._publishers is not None:
            self._chunk = b"", 0
            return self._gathered(at, READ_BYTES, kind)
        goes_on = self._yielded in (at - 1, at) and at < self._chunk[1]
        if not goes_on:
            self._yielded = NOTHING  # the chunk may begin above the record after it
            self._chunk = self._gathered(at, READ_BYTES)
        return self._chunk

    def offset_at(self, time_ms: int) -> int:
        """Returns the first offset appended at *time_ms* or later; the end where none was.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        found = self._fetcher.offset_at(time_ms)
        return self.durable_end() if found is None else found

    def offset_within(self, bytes_max: int) -> int:
        """Returns the start of the newest records of at most *bytes_max* bytes; at least of one.

        An estimate, from the mean length of records at some places: Kafka tells no sizes by offset.

        Raises:
            LogUnavailableError: As ``read_chunk``.
        """
        start, end = self._watermarks()
        length = SAMPLED_RECORDS_MIN
        while length * SAMPLES_MAX < end - start:
            length *= 2
        size = 0.0
        for number in range((end - 1) // length, start // length - 1, -1):
            low, high = max(start, number * length), min(end, (number + 1) * length)
            mean = self._mean_bytes(number, length, low, whole=high - low == length)
            if size + (high - low) * mean > bytes_max:
                return max(min(end - 1, high - int((bytes_max - size) / mean)), start)
            size += (high - low) * mean
        return start

    def _mean_bytes(self, number: int, length: int, low: int, *, whole: bool) -> float:
        """Returns the mean length of the first frames of a stretch, from *low* on."""
        known = self._means.get((number, length))
        if known is not None:
            return known
        chunk, _ = self.read_chunk(low, SAMPLE_BYTES)
        count = sum(1 for _ in iter_frames(chunk, verify=False))
        mean = len(chunk) / count if count else float(RECORD_BYTES_FIRST)
        if whole:  # Its first records are there to stay, until retention takes them.
            self._means[number, length] = mean
            while len(self._means) > 2 * SAMPLES_MAX:
                del self._means[next(iter(self._means))]
        return mean

    def publisher(self, offset: int) -> str | None:
        """Returns who published the record at *offset*; None: nobody was asked, or it is gone.

        Raises:
            LogUnavailableError: The cluster does not answer.
        """
        start, end = self._watermarks()
        if not start <= offset < end:
            return None
        self._fetcher.seek(offset)
        deadline_s = time.monotonic() + READ_S_MAX
        while not self._fetcher.ready_record(1.0):
            if time.monotonic() > deadline_s:
                raise self._fetcher.overdue()
        return self._fetcher.publisher(offset)

    def route_snapshot(self) -> tuple[int, bytes] | None:
        """Returns the offset of the last retention cut, and the routes in force there.

        Raises:
            LogDamagedError: The routes of the cut are not kept: restore them from the store.
            StoreError: The store cannot be read.
        """
        cut = self._snapshots.cut(self.partition)
        if cut is None:
            return None
        snapshot = self._snapshots.get(cut.seq)
        if snapshot is None:
            raise LogDamagedError(f"there is no snapshot of the routes after change {cut.seq}")
        return cut.offset, snapshot

    def damages(self) -> tuple[Damage, ...]:
        """Returns every damaged record that this reader has met, once each (the first 1,000)."""
        return tuple(self._fetcher.damages.values())
