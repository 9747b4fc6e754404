"""Background tasks of the control process: timers, endings, lifecycle events, metrics."""

import asyncio
import contextlib
import time
from collections.abc import Sequence

import structlog

from distributary.core.clock import Clock, until_next_s
from distributary.core.errors import StoreError
from distributary.core.meter import Meter
from distributary.datadir import DataDir
from distributary.datadir.shared_signs import signs_of
from distributary.server.processes.control.form import AppendClient, Form
from distributary.subscriptions.lifecycle import LifecyclePublisher, heard
from distributary.subscriptions.service import Subscriptions
from distributary.subscriptions.status import Transition
from distributary.subscriptions.store.lifecycle_rows import LifecycleOutbox
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.timers import Endings, SubscriptionTimers

SAVE_S = 1.0
"""Interval between two metric snapshots of the control process, seconds."""

_log = structlog.get_logger(__name__)


class TimerService:
    """Runs the timers and endings of subscriptions, and tells what becomes of them.

    Args:
        paths: Paths of the data directory; the store must exist.
        form: How many partitions the log has, and where the stores lie.
        logs: Append timer events and lifecycle events; for this service alone, which closes them.
        subscriptions: Ends subscriptions.
        clock: For timers and expiries.
        meter: Counts; saved once a second.
        base_url: Of the server, for the source of lifecycle events.
    """

    def __init__(
        self,
        paths: DataDir,
        form: Form,
        logs: tuple[AppendClient, AppendClient],
        subscriptions: Subscriptions,
        *,
        clock: Clock,
        meter: Meter,
        base_url: str,
    ) -> None:
        url, leader = form.store
        self._meter = meter
        self._schedule = Schedule(url, leader=leader)
        self._counts = form.reservations()
        self._logs = logs
        self._timers = SubscriptionTimers(
            self._schedule,
            logs[0],
            clock,
            partition_count=form.partitions,
            count=meter.add,
            may_have_news=signs_of(url),
        )
        self._endings = Endings(
            self._schedule,
            subscriptions,
            clock,
            counts=self._counts,
            count=meter.add,
            may_have_news=signs_of(url, paths.quota_db),
        )
        self._outbox = LifecycleOutbox(url, leader=leader)
        self._lifecycle = LifecyclePublisher(
            self._outbox,
            logs[1],
            clock,
            base_url=base_url,
            partition_count=form.partitions,
            count=meter.add,
            may_have_news=signs_of(url),
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def before_start(self, store: Store) -> None:
        """End subscriptions that expired while no server ran; call it before ingest starts."""
        try:
            await asyncio.to_thread(self._endings.end_before_start, store)
        except StoreError as error:  # the endings retry as soon as they run
            _log.warning("endings-held-up", reason=str(error))

    def hear(self, transitions: Sequence[Transition]) -> None:
        """Tell of *transitions* of deliveries; from any thread."""
        self._lifecycle.hand(heard(transitions))

    def start(self) -> None:
        """Start the tasks; the leader must run."""
        loops = (self._timers.run(), self._endings.run(), self._lifecycle.run(), self._write())
        self._tasks = [asyncio.create_task(loop) for loop in loops]

    async def stop(self) -> None:
        """Cancel the tasks and close the stores; no timer event is made afterwards."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        for log in self._logs:
            log.close()
        self._outbox.close()
        self._schedule.close()
        self._counts.close()
        self._meter.save()

    async def _write(self) -> None:
        while True:
            self._meter.gauges["timers"] = len(self._timers)
            self._meter.save()
            await asyncio.sleep(until_next_s(SAVE_S, time.monotonic()))
