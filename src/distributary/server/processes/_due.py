"""What the control process does unasked: fires timers, ends subscriptions, writes its numbers."""

import asyncio
import contextlib

import structlog

from distributary.core.clock import Clock
from distributary.core.errors import StoreError
from distributary.core.meter import Meter
from distributary.core.outcome import QuotaStore
from distributary.core.sqlite import sqlite_url
from distributary.datadir import DataDir
from distributary.server.processes._route_wire import RouteAppendClient
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.timers import Endings, SubscriptionTimers

SAVE_S = 1.0
"""How often the numbers of the control process are written, seconds."""

_log = structlog.get_logger(__name__)


class TimerService:
    """Timers and endings of one server, with a connection to the log of their own.

    Args:
        paths: Of the data directory; the store must have been made.
        partitions: Of the log.
        subscriptions: Ends them.
        clock: For all of it.
        meter: Counts, and is written once a second.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        subscriptions: Subscriptions,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._meter = meter
        self._schedule = Schedule(sqlite_url(paths.state_db))
        self._counts = QuotaStore(paths.quota_db)
        self._log = RouteAppendClient(paths.append_socket)
        self._timers = SubscriptionTimers(
            self._schedule, self._log, clock, partition_count=partitions, count=meter.add
        )
        self._endings = Endings(
            self._schedule, subscriptions, clock, counts=self._counts, count=meter.add
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def before_start(self, store: Store) -> None:
        """End what expired while no server ran; call it before the log takes events."""
        try:
            await asyncio.to_thread(self._endings.end_before_start, store)
        except StoreError as error:  # the endings try again as soon as they run
            _log.warning("endings-held-up", reason=str(error))

    def start(self) -> None:
        """Begin; the leader must have been started."""
        loops = (self._timers.run(), self._endings.run(), self._write())
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        """Stop, between two turns or in one; no tick is made after it."""
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
