"""Retention: each receiver periodically deletes old segments of its part of the log.

Only retention frees disk space, so no failure may end it: failures are logged, counted and retried.
"""

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from distributary.core.clock import AgeClock, Clock
from distributary.core.log import Reader, Retained, partition_dir, read_folder, retain
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField, unless_held
from distributary.datadir.archived import NOTHING, read_archived
from distributary.datadir.publishers import forget_below
from distributary.datadir.readers import ReaderFiles
from distributary.server.processes.receiver.registered_readers import ALL, RegisteredReaders

RETAIN_S: Final = 15.0
"""Interval between two runs, after a failure too."""


READERS_DISK_SHARE: Final = 0.1
"""Share of the disk that may be held for registered readers."""

NOTHING_DELETED: Final = Retained(0, 0, 0)
"""While a backup copies the log."""


Told: TypeAlias = tuple[str, dict[str, int]] | None
"""What a run has done, as a line of the server's log; None: nothing."""


async def keep_retaining(
    partitions: Sequence[int], retain: Callable[[int], Told], meter: Meter, log: Any
) -> None:
    """Run retention over *partitions* periodically, until cancelled.

    Args:
        partitions: Their numbers.
        retain: Deletes old records of one; called in a thread.
        meter: Counts failures by partition, and has a gauge of those that fail now.
        log: Takes lines for people.
    """
    while True:
        await asyncio.sleep(RETAIN_S)
        for number in partitions:
            await _look_after(number, retain, meter, log)


async def _look_after(number: int, retain: Callable[[int], Told], meter: Meter, log: Any) -> None:
    failing = 0.0
    try:
        told = await asyncio.to_thread(retain, number)
        if told is not None:
            log.info(told[0], partition=number, **told[1])
    except Exception as error:  # noqa: BLE001 - a bug must not fill the disk silently
        failing = 1.0
        meter.add(f'retention_failures_total{{partition="{number}"}}')
        log.warning("retention-failed", partition=number, error=str(error) or repr(error))
    meter.gauges[f'retention_failing{{partition="{number}"}}'] = failing


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much of a partition is kept.

    Attributes:
        bytes_max: Size of all segments of one partition, bytes.
        age_max_s: Age of its newest record above which a segment is deleted, seconds.
        archive: Where the log is archived: nothing is deleted that is not; empty: nowhere.
    """

    bytes_max: int
    age_max_s: float
    archive: str = ""


class LateArchive:
    """Tells of an archive that is behind what retention would delete: the log grows.

    Args:
        archive: Where the log is archived.
        meter: Has a gauge for each partition.
        log: Takes lines for people.
    """

    def __init__(self, archive: str, meter: Meter, log: Any) -> None:
        self._archive = archive
        self._meter = meter
        self._log = log

    def look(self, partition: int, archived_to: int, *, is_late: bool) -> None:
        """Note whether *partition*, which is archived to an offset, waits for the archive."""
        if not self._archive:
            return
        name = f'archive_late{{partition="{partition}"}}'
        if is_late and not self._meter.gauges.get(name):
            self._log.warning(
                "archive-late", partition=partition, archive=self._archive, archived_to=archived_to
            )
        self._meter.gauges[name] = float(is_late)


class Retention:
    """Deletes segments beyond the limits that no cursor, backfill or retry still needs.

    Args:
        paths: Paths of the data directory.
        partitions: Numbers of the partitions that this process appends to.
        limits: How much is kept.
        clock: Gives the age of segments; none is old, and no reader silent, for an hour after it
            has leapt.
        meter: Counts failures by partition, and has a gauge of those that fail now.
        log: Takes lines for people.
        disk_bytes: Returns the size of the disk of the log, bytes; None: it is looked up.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: Sequence[int],
        limits: RetentionLimits,
        *,
        clock: Clock,
        meter: Meter,
        log: Any,
        disk_bytes: Callable[[], int] | None = None,
    ) -> None:
        self._paths = paths
        self._disk_bytes = disk_bytes or (lambda: shutil.disk_usage(paths.log).total)
        self._ages = AgeClock(clock, from_start=True)
        self._readers = RegisteredReaders(ReaderFiles(paths.readers), self._ages.now_ms, log)
        self._partitions = partitions
        self._limits = limits
        self._meter = meter
        self._log = log
        self._late = LateArchive(limits.archive, meter, log)

    async def run(self) -> None:
        """Run retention over all partitions periodically, until cancelled."""
        await keep_retaining(self._partitions, self._run, self._meter, self._log)

    def _run(self, number: int) -> Told:
        retained = self.retain_partition(number)
        if not retained.segment_count:
            return None
        return "segments-deleted", {
            "count": retained.segment_count,
            "bytes": retained.freed_bytes,
            "start": retained.start,
        }

    def retain_partition(self, partition: int) -> Retained:
        """Delete old segments of *partition*, unless a backup copies them; blocks.

        Who published their records is forgotten with them.

        Raises:
            DistributaryError: The disk or the store failed; retry later.
            OSError: Notes of who published cannot be deleted; retry later.
        """
        paths = self._paths
        with unless_held(paths.retention_hold(partition)) as free:
            return self._retain(partition) if free else NOTHING_DELETED

    def _archived(self, partition: int) -> int:
        """Offset to which *partition* may be deleted for the archive's sake; tells if it is late.

        Raises:
            LogError: The log cannot be read.
        """
        limits = self._limits
        if not limits.archive:
            return ALL
        archived = read_archived(self._paths.archived, limits.archive).get(partition, NOTHING)
        since_ms = self._ages.now_ms() - int(limits.age_max_s * 1000)
        with contextlib.closing(Reader(self._paths.log, partition)) as reader:
            over = max(reader.offset_within(limits.bytes_max), reader.offset_at(since_ms))
            # The newest segment stays in any case.
            late = archived < min(over, reader.segments()[-1])
        self._late.look(partition, archived, is_late=late)
        return archived

    def _held(self, partition: int) -> int:
        """Offset from which on *partition* is held for registered readers.

        Raises:
            LogError: The log cannot be read.
            OSError: The disk cannot be asked.
        """

        def bound(since_ms: int) -> int:
            partitions = read_folder(self._paths.log)
            share = int(self._disk_bytes() * READERS_DISK_SHARE / partitions)
            with contextlib.closing(Reader(self._paths.log, partition)) as reader:
                return max(reader.offset_at(since_ms), reader.offset_within(share))

        return self._readers.held(partition, bound)

    def _retain(self, partition: int) -> Retained:
        paths = self._paths

        kept = min(self._archived(partition), self._held(partition))

        def keep_from() -> int:
            return min(needed_from(), kept)

        def needed_from() -> int:
            with contextlib.closing(MappedStatusPage(paths.status_page(partition))) as status_page:
                return status_page[StatusField.KEEP_FROM]

        def routes_at(cut: int) -> bytes:
            # Imported at the first deletion: publishers wait for all that a restarted ingest
            # process imports at its start.
            from distributary.server.processes.receiver import route_snapshot  # noqa: PLC0415

            return route_snapshot.snapshot_at(paths, partition, cut)

        retained = retain(
            partition_dir(paths.log, partition),
            keep_from(),
            bytes_max=self._limits.bytes_max,
            age_max_s=self._limits.age_max_s,
            now_ms=self._ages.now_ms(),
            snapshot_at_cut=routes_at,
            keep_from_again=keep_from,
        )
        if retained.segment_count:
            self._readers.tell(partition, retained.start)
        # At each run: a crash, or a disk that failed, may have left notes of deleted records.
        forget_below(paths.publishers(partition), retained.start)
        return retained
