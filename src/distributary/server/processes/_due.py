"""Background tasks of the control process: timers, endings of subscriptions, metric snapshots."""

import asyncio
import contextlib

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import StoreError
from distributary.core.meter import Meter
from distributary.core.outcome import QuotaStore
from distributary.core.sqlite import sqlite_url
from distributary.datadir import DataDir, WriteSigns
from distributary.server.processes._route_wire import RouteAppendClient
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.timers import Endings, SubscriptionTimers

SAVE_S = 1.0
"""Interval between two metric snapshots of the control process, seconds."""

_log = structlog.get_logger(__name__)


class TimerService:
    """Runs the timers and endings of subscriptions, with a separate connection to the log.

    Args:
        paths: Paths of the data directory; the store must exist.
        partitions: Number of partitions of the log.
        log: Appends timer events; for this service alone, which closes it.
        subscriptions: Ends subscriptions.
        clock: For timers and expiries.
        meter: Counts; saved once a second.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        log: RouteAppendClient,
        subscriptions: Subscriptions,
        *,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._schedule = Schedule(sqlite_url(paths.state_db))
        self._counts = QuotaStore(paths.quota_db)
        self._log = log
        self._timers = SubscriptionTimers(
            self._schedule,
            self._log,
            clock,
            partition_count=partitions,
            count=meter.add,
            may_have_news=WriteSigns(paths.state_db).look,
        )
        self._endings = Endings(
            self._schedule,
            subscriptions,
            clock,
            counts=self._counts,
            count=meter.add,
            may_have_news=WriteSigns(paths.state_db, paths.quota_db).look,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def before_start(self, store: Store) -> None:
        """End subscriptions that expired while no server ran; call it before ingest starts."""
        try:
            await asyncio.to_thread(self._endings.end_before_start, store)
        except StoreError as error:  # the endings retry as soon as they run
            _log.warning("endings-held-up", reason=str(error))

    def start(self) -> None:
        """Start the tasks; the leader must run."""
        loops = (self._timers.run(), self._endings.run(), self._write())
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        """Cancel the tasks and close the stores; no timer event is made afterwards."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._log.close()
        self._schedule.close()
        self._counts.close()
        self._meter.save()

    async def _write(self) -> None:
        while True:
            self._meter.gauges["timers"] = len(self._timers)
            self._meter.save()
            await asyncio.sleep(SAVE_S)
