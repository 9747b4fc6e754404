"""Retention, now and then: the ingest process deletes old segments of its partitions.

Called by ``ingest_process``. It is what gives disk space back, so nothing that goes wrong may end
it: what failed is told, counted, and tried again.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any, Final

from distributary.core.clock import Clock
from distributary.core.log import Retained, partition_dir, retain
from distributary.core.meter import Meter
from distributary.datadir import DataDir, MappedStatusPage, StatusField

RETAIN_S: Final = 15.0
"""How often old segments are looked for, and how soon it is tried again after a failure."""


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much stays.

    Attributes:
        bytes_max: Segments of one partition together, bytes.
        age_max_s: A segment goes when all its records are older, seconds.
    """

    bytes_max: int
    age_max_s: float


class Retention:
    """Deletes what is old or too much and needed by nobody.

    Args:
        paths: Of the data directory.
        partitions: How many the log has.
        limits: How much stays.
        clock: Tells how old segments are.
        meter: Counts failures by partition; says which partitions fail now.
        log: Takes lines for people.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
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
        """Look after all partitions, again and again, until cancelled."""
        while True:
            await asyncio.sleep(RETAIN_S)
            for number in range(self._partitions):
                await self._look_after(number)

    async def _look_after(self, number: int) -> None:
        failing = 0.0
        try:
            self._tell(number, await asyncio.to_thread(self.retain_partition, number))
        except Exception as error:  # noqa: BLE001 - a bug there must not fill the disk unsaid
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
            DistributaryError: Not now: the disk or the store refused.
        """
        paths = self._paths

        def keep_from() -> int:
            with contextlib.closing(MappedStatusPage(paths.status_page(partition))) as status_page:
                return status_page[StatusField.KEEP_FROM]

        def routes_at(cut: int) -> bytes:
            # Loaded when old segments go, for the first time: whoever starts the ingest process
            # again waits for everything that it loads at its start, and publishers with it.
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
