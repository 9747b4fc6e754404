"""Retention: each receiver periodically deletes old segments of its part of the log.

Only retention frees disk space, so no failure may end it: failures are logged, counted and retried.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from distributary.core.clock import Clock
from distributary.core.log import Retained, partition_dir, retain
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField

RETAIN_S: Final = 15.0
"""Interval between two runs, after a failure too."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much of a partition is kept.

    Attributes:
        bytes_max: Size of all segments of one partition, bytes.
        age_max_s: Age of its newest record above which a segment is deleted, seconds.
    """

    bytes_max: int
    age_max_s: float


class Retention:
    """Deletes segments beyond the limits that no cursor, backfill or retry still needs.

    Args:
        paths: Paths of the data directory.
        partitions: Numbers of the partitions that this process appends to.
        limits: How much is kept.
        clock: Gives the age of segments.
        meter: Counts failures by partition, and has a gauge of those that fail now.
        log: Takes lines for people.
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
    ) -> None:
        self._paths = paths
        self._partitions = partitions
        self._limits = limits
        self._clock = clock
        self._meter = meter
        self._log = log

    async def run(self) -> None:
        """Run retention over all partitions periodically, until cancelled."""
        while True:
            await asyncio.sleep(RETAIN_S)
            for number in self._partitions:
                await self._look_after(number)

    async def _look_after(self, number: int) -> None:
        failing = 0.0
        try:
            self._tell(number, await asyncio.to_thread(self.retain_partition, number))
        except Exception as error:  # noqa: BLE001 - a bug must not fill the disk silently
            failing = 1.0
            self._meter.add(f'retention_failures_total{{partition="{number}"}}')
            reason = str(error) or repr(error)
            self._log.warning("retention-failed", partition=number, error=reason)
        self._meter.gauges[f'retention_failing{{partition="{number}"}}'] = failing

    def _tell(self, number: int, retained: Retained) -> None:
        if retained.segment_count:
            self._log.info(
                "segments-deleted",
                partition=number,
                count=retained.segment_count,
                bytes=retained.freed_bytes,
                start=retained.start,
            )

    def retain_partition(self, partition: int) -> Retained:
        """Delete old segments of *partition*; blocks.

        Raises:
            DistributaryError: The disk or the store failed; retry later.
        """
        paths = self._paths

        def keep_from() -> int:
            with contextlib.closing(MappedStatusPage(paths.status_page(partition))) as status_page:
                return status_page[StatusField.KEEP_FROM]

        def routes_at(cut: int) -> bytes:
            # Imported at the first deletion: publishers wait for all that a restarted ingest
            # process imports at its start.
            from distributary.server.processes import _route_snapshot  # noqa: PLC0415 - see above

            return _route_snapshot.snapshot_at(paths, partition, cut)

        return retain(
            partition_dir(paths.log, partition),
            keep_from(),
            bytes_max=self._limits.bytes_max,
            age_max_s=self._limits.age_max_s,
            now_ms=self._clock.wall_ms(),
            snapshot_at_cut=routes_at,
            keep_from_again=keep_from,
        )
