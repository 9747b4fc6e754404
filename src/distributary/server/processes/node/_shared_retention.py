"""Retention of the log that nodes share: the node that leads alone deletes old records.

Owners are on other machines: what they still need is on their status pages, late by an exchange or
two. So what a page says counts only once its owner has written it after the cut. Ages are told by
the clock of the store: a node whose own is wrong would delete what all nodes have. For an hour
after that clock has leapt nothing is old.
"""

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final, Protocol, TypeAlias

from distributary.core.clock import AgeClock
from distributary.core.cluster import KafkaPlace
from distributary.core.database import StoreClock, StorePlace, open_reader
from distributary.core.log.kafka import KafkaRecords, KafkaRetention
from distributary.core.log.kafka.store_archived import read_positions
from distributary.core.log.kafka.store_readers import ReaderRows
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.datadir import StatusField
from distributary.datadir.archived import NOTHING
from distributary.partitions import DirectoryTargets
from distributary.partitions.shared_page import read_page
from distributary.server.processes.receiver.registered_readers import ALL, RegisteredReaders
from distributary.server.processes.receiver.retention import (
    LateArchive,
    RetentionLimits,
    Told,
)
from distributary.server.processes.receiver.route_snapshot import routes_at

UNKNOWN: Final = 0
"""Nothing is deleted: no offset is below it."""

LOOK_S: Final = 0.5
"""Interval of looks at a page after a cut: that of exchanges."""

LOOKS_MAX: Final = 20
"""Then the cut is undone until the next run: an owner that is well writes four times a second."""

CLOSE_S_MAX: Final = 1.0
"""Longest wait for a run under way at the end."""

CHANGES: Final = 2
"""Signs of life that must come after a cut. The first may have been under way already; the next one
was written later, and so is what stands beside it."""

ReadPage: TypeAlias = Callable[[int], Mapping[StatusField, int]]
"""Reads the status page of a partition as it is now."""


class Floors:
    """From which offsets on owners need records. Blocking; for one thread at a time.

    Args:
        read: Reads a page.
        wait: Waits some seconds; returns whether to give up.
    """

    def __init__(self, read: ReadPage, wait: Callable[[float], bool]) -> None:
        self._read = read
        self._wait = wait
        self._seen: dict[int, int] = {}

    def told(self, partition: int) -> int:
        """The offset, where the owner has shown a sign of life since the last call.

        So the first call returns ``UNKNOWN``: the owner may have ended long ago.

        Raises:
            StoreError: The page cannot be read now.
        """
        page = self._read(partition)
        sign = page.get(StatusField.HEARTBEAT_MS, 0)
        before = self._seen.get(partition, sign)
        self._seen[partition] = sign
        return UNKNOWN if sign == before else page.get(StatusField.KEEP_FROM, UNKNOWN)

    def told_anew(self, partition: int) -> int:
        """The offset, as the owner writes it from now on; ``UNKNOWN``: it does not.

        Raises:
            StoreError: The page cannot be read now.
        """
        sign = self._read(partition).get(StatusField.HEARTBEAT_MS, 0)
        changes = 0
        for _ in range(LOOKS_MAX):
            if self._wait(LOOK_S):
                break
            page = self._read(partition)
            now = page.get(StatusField.HEARTBEAT_MS, 0)
            changes += now != sign
            sign = now
            if changes == CHANGES:
                return page.get(StatusField.KEEP_FROM, UNKNOWN)
        return UNKNOWN


class Deletes(Protocol):
    """What ``KafkaRetention.retain`` does, for a partition."""

    def __call__(self, partition: int, keep_from: Callable[[], int], /) -> tuple[int, int]:
        """Returns where the partition begins now, and how many records were deleted."""


class SharedRetention:
    """Deletes records that are beyond the limits, and that nobody needs any more. Blocking.

    Args:
        floors: What owners need.
        deletes: Deletes.
        free: Returns to which offset a partition may be deleted for the sake of all others: archive
            and registered readers.
        cut: Called with a partition and where it begins now, after records were deleted.
    """

    def __init__(
        self,
        floors: Floors,
        deletes: Deletes,
        free: Callable[[int], int] = lambda _partition: ALL,
        cut: Callable[[int, int], None] = lambda _partition, _start: None,
    ) -> None:
        self._floors = floors
        self._deletes = deletes
        self._free = free
        self._cut = cut

    def retain(self, partition: int) -> Told:
        """Delete old records of *partition*.

        Raises:
            DistributaryError: Log or store failed; nothing needed is gone, call again later.
        """
        floors = self._floors
        asked = iter((floors.told, floors.told_anew))
        free = self._free(partition)
        start, count = self._deletes(partition, lambda: min(next(asked)(partition), free))
        if not count:
            return None
        self._cut(partition, start)
        return "records-deleted", {"count": count, "start": start}


class LeaderRetention:
    """``SharedRetention`` of the node that leads. Connects at the first run; close it.

    Args:
        log: The log.
        store: The store, with the generation of the leader.
        limits: How much of a partition is kept.
        late: Told of an archive that is behind.
        lines: Takes lines for people.
    """

    def __init__(
        self,
        log: KafkaPlace,
        store: StorePlace,
        limits: RetentionLimits,
        late: LateArchive,
        *,
        lines: Any,
    ) -> None:
        self._log = log
        self._lines = lines
        self._late = late
        self._store = store
        self._limits = limits
        self._ended = threading.Event()
        self._busy = threading.Lock()
        self._opened = ExitStack()
        self._made: SharedRetention | None = None

    def retain(self, partition: int) -> Told:
        """See ``SharedRetention.retain``."""
        with self._busy:
            if self._ended.is_set():
                return None
            if self._made is None:
                with ExitStack() as opened:
                    self._made = self._make(opened)
                    self._opened = opened.pop_all()
            return self._made.retain(partition)

    def _make(self, opened: ExitStack) -> SharedRetention:
        clock = StoreClock(self._store.url)
        opened.callback(clock.close)
        ages = AgeClock(clock, from_start=True)
        snapshots = StoreSnapshots(self._store, leads=True)
        opened.callback(snapshots.close)
        retention = KafkaRetention(
            self._log,
            snapshots,
            bytes_max=self._limits.bytes_max,
            age_max_s=self._limits.age_max_s,
            now_ms=ages.now_ms,
        )
        opened.callback(retention.close)
        history = DirectoryTargets(self._store.url)
        opened.callback(history.close)

        def routes(records: KafkaRecords, cut: int) -> tuple[int, bytes]:
            return routes_at(records, history, cut)

        archive, reader = self._limits.archive, open_reader(self._store.url, "resource store")
        opened.callback(reader.dispose)
        within: dict[int, int] = {}  # for the run under way

        def archived(partition: int) -> int:
            if not archive:
                return ALL
            position = read_positions(reader, archive).get(partition, NOTHING)
            within[partition] = retention.within(partition)
            self._late.look(partition, position, is_late=position < within[partition])
            return position

        rows = ReaderRows(self._store.url)
        opened.callback(rows.close)
        readers = RegisteredReaders(rows, ages.now_ms, self._lines)

        def free(partition: int) -> int:
            held = readers.held(
                partition, lambda since_ms: retention.held_at_most(partition, since_ms)
            )
            return min(archived(partition), held)

        floors = Floors(lambda number: read_page(self._store.url, number), self._ended.wait)
        return SharedRetention(
            floors,
            lambda partition, keep_from: retention.retain(
                partition, keep_from, routes, within.pop(partition, None)
            ),
            free,
            readers.tell,
        )

    def close(self) -> None:
        """Wait for nothing any more, and close the connections; blocks.

        A run under way that the cluster does not answer keeps its own: the process ends soon.
        """
        self._ended.set()
        if self._busy.acquire(timeout=CLOSE_S_MAX):
            try:
                self._opened.close()
            finally:
                self._busy.release()
