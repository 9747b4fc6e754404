"""A session as owner of a partition: lock, load, deliver on an event loop, release.

A Spark task opens a session, waits while the epoch lasts, and closes it. The partition consumer
runs on the session's event loop thread.
"""

import asyncio
import contextlib
import gc
import io
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import structlog
import uvloop

from distributary.core.clock import SystemClock, SystemRandom
from distributary.core.deliver import Dispatcher, LoopTimers
from distributary.core.errors import DistributaryError, LogUnavailableError, StoreError
from distributary.core.flow import Attempt
from distributary.core.journal import Journal
from distributary.core.lease import FileLease, Lease
from distributary.core.log import Reader
from distributary.core.meter import Meter
from distributary.core.outcome import (
    AGE_MAX_S,
    BYTES_MAX,
    ROUTE_BYTES_MAX,
    Budgets,
    DeliveryStore,
    FileOwnership,
    QuotaStore,
)
from distributary.core.sqlite import sqlite_url
from distributary.datadir import Bell, ConsumerPhase, DataDir, MappedStatusPage, StatusField
from distributary.history.writer import HistoryWriter
from distributary.partitions._history import finish as finish_history
from distributary.partitions._journaling import LoopWhileQuick, error_of
from distributary.partitions._log_tail import LogTail
from distributary.partitions._prepared import SHELF, stands_in
from distributary.partitions._transports import make_transports
from distributary.partitions.consumer import PartitionConsumer
from distributary.partitions.context import PartitionContext
from distributary.partitions.guardians import Guardians
from distributary.partitions.ports import BackfillBudget
from distributary.partitions.routes import note_table
from distributary.resource import Reach

LOG_WAIT_S = 10.0
"""Longest wait for the ingest process to recover the log, which usually takes a second."""
LOCK_WAIT_S = 60.0
"""Longest wait for the previous owner, which may be finishing attempts."""
ABRUPT_DRAIN_S = 0.5
"""Time for attempts under way after an abrupt end of the task: the next owner, and so all events of
the partition, wait for the lock."""
SLOW_S = 0.1
"""Before a session ends, sinks with an attempt older than this get no new one."""
HEARTBEAT_S = 0.25
"""How often the session checks its status page and its parent process."""
EXIT_ALONE = 70
"""Exit code of a process whose session has nobody left that could end it."""
METER_S = 1.0
"""Interval of the metrics' snapshots: replacing a file costs up to a millisecond of the loop."""
OUTCOME_COUNTERS = ("delivered_total", "dead_lettered_total", "dropped_total")
"""What the names of the counters of outcomes begin with."""
STOP_WAIT_S = 5.0
"""Longest wait for the loop to stop; then the process exits."""


class SessionSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a session; sent to the Spark workers as JSON.

    Attributes:
        data_dir: The data directory.
        reach: Where events may be sent.
        log_attempts: Which attempts the history has: ``all``, ``failures`` or ``none``.
        history: Folder that the owner writes history files into; empty: it writes none.
        log_level: Least level of lines that the owner writes to standard error.
        drain_s: Time for attempts under way at an orderly stop, seconds.
        credential_key_file: Key file of credentials; empty: in the data directory. Never the keys
            themselves: a worker reads its environment or this file.
        partitions: Number of partitions: each owner has an equal share of the budgets.
        lag_bytes_max: Log that backfills may keep, over all partitions, bytes; 0: unlimited.
        lag_age_max_s: The same by age, seconds; 0: unlimited.
        dead_letter_bytes_max: Kept dead letters over all partitions, bytes.
        dead_letter_route_bytes_max: The same of one route.
        dead_letter_age_max_s: The same by age, seconds.
    """

    data_dir: str
    reach: Reach = msgspec.field(default_factory=Reach)
    log_attempts: str = "all"
    history: str = ""
    log_level: str = "info"
    drain_s: float = 10.0
    credential_key_file: str = ""
    partitions: int = 1
    lag_bytes_max: int = 0
    lag_age_max_s: float = 0.0
    dead_letter_bytes_max: int = BYTES_MAX
    dead_letter_route_bytes_max: int = ROUTE_BYTES_MAX
    dead_letter_age_max_s: float = AGE_MAX_S

    def backfill_budget(self) -> BackfillBudget:
        """Returns the backfill budget of one partition."""
        return BackfillBudget(self.lag_bytes_max // self.partitions, self.lag_age_max_s)

    def budgets(self) -> Budgets:
        """Returns the dead letter budgets of one partition."""
        whole = Budgets(
            self.dead_letter_route_bytes_max,
            self.dead_letter_bytes_max,
            self.dead_letter_age_max_s,
        )
        return whole.share(self.partitions)


@dataclass(slots=True)
class _Blocking:
    """Runs jobs on a thread pool; reports their end on the loop."""

    loop: asyncio.AbstractEventLoop
    pool: ThreadPoolExecutor

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        self.pool.submit(lambda: self.loop.call_soon_threadsafe(done, error_of(work)))


class PartitionSession:
    """Owns a partition from construction until ``close``.

    Args:
        partition: Partition number.
        epoch: For the status page alone: the lock grants ownership (DESIGN rule 2, one owner).
        settings: Settings of the session.
        guardians: The processes that it depends on; None: its parent.
        lease: The lock of the partition; released by ``close``, or here if this fails. None: it is
            taken here.

    Raises:
        LogLockedError: The previous owner did not finish in time.
        StoreError, LogError: The stored state cannot be read.
    """

    def __init__(
        self,
        partition: int,
        epoch: int,
        settings: SessionSettings,
        guardians: Guardians | None = None,
        lease: Lease | None = None,
    ) -> None:
        self._settings = settings
        self._partition = partition
        self._paths = paths = DataDir.of(settings.data_dir)
        self._clock = SystemClock()
        self._failure: DistributaryError | None = None
        self._guardians = guardians or Guardians(None, None)
        self._stopped = threading.Event()
        self._log = owner_log(settings.log_level).bind(partition=partition, epoch=epoch)
        self._closing = False
        self._saved_s = float("-inf")
        self._history_files: HistoryWriter | None = None
        # Deliveries make few cycles and many short-lived objects: collecting rarely keeps the
        # pauses out of the latencies, and a quarter off the time that 100,000 routes take.
        gc.set_threshold(100_000, 20, 50)
        self._thread = threading.Thread(target=self._run, name=f"owner-p{partition}", daemon=True)
        with ExitStack() as opened:  # closed here where anything fails, by ``_shut`` otherwise
            paths.outcome(partition).mkdir(parents=True, exist_ok=True)
            if lease is None:
                lease = FileLease(paths.owner_lock(partition), LOCK_WAIT_S, self._clock, time.sleep)
            opened.callback(lease.release)
            self._status_page = MappedStatusPage(paths.status_page(partition))
            opened.callback(self._status_page.close)
            self._prepared = SHELF.take(paths, settings.credential_key_file)
            opened.callback(self._put_back)
            self._prepared.targets.report_to(self._warn)
            self._prepared.targets.keep_within(settings.reach)
            opened.callback(self._status_page.__setitem__, StatusField.PHASE, ConsumerPhase.ABSENT)
            self._status_page[StatusField.PHASE] = ConsumerPhase.LOADING
            self._status_page[StatusField.EPOCH] = epoch
            self._status_page[StatusField.CONSUMER_PID] = os.getpid()
            self._loop = uvloop.new_event_loop()
            opened.callback(self._loop.close)  # its thread has ended by then, or never began
            self._pool = ThreadPoolExecutor(1, f"flush-p{partition}")
            self._aside = ThreadPoolExecutor(1, f"aside-p{partition}")
            self._reading = ThreadPoolExecutor(1, f"reading-p{partition}")
            opened.callback(self._reading.shutdown)
            opened.callback(self._aside.shutdown)
            opened.callback(self._pool.shutdown)
            self._meter = Meter(paths.meter(f"owner-p{partition:04d}"))
            opened.callback(self._meter.save)
            self.consumer = self._load(opened, lease)
            self._tail = self._make_tail(opened)
            self._loop.set_exception_handler(self._on_loop_error)
            self._thread.start()
            opened.callback(self._finish_history)
            opened.callback(self._end_loop)
            self._call(self._begin)
            self._opened = opened.pop_all()

    def _load(self, opened: ExitStack, lease: Lease) -> PartitionConsumer:
        paths, partition = self._paths, self._partition
        self._records = records = Reader(paths.log, partition)
        opened.callback(records.close)
        self._quota = quota = QuotaStore(paths.quota_db, self._clock)
        opened.callback(quota.close)
        # Numbers of a new data directory are above those of an older one in the same history: a
        # microsecond is less than a row takes.
        journal = Journal(
            paths.journal(partition), fence=lease.check, rows_from=self._clock.wall_ms() * 1000
        )
        opened.callback(journal.close)
        url = sqlite_url(paths.delivery_db(partition))
        store = DeliveryStore(url, partition, self._settings.budgets(), fence=lease.check)
        opened.callback(store.close)
        self._ownership = ownership = FileOwnership(store, journal)
        cursor = ownership.state.mark.offset
        self._wait_for_log(records, cursor)
        if ownership.fit(lambda mark: stands_in(records, mark)):
            before, cursor = cursor, ownership.state.mark.offset
            self._log.error("log-lost-its-tail", cursor=before, going_back_to=cursor)
        follower = self._prepared.follow(partition, records, cursor)
        attempts = self._settings.log_attempts
        folder = self._settings.history
        if folder and attempts != "none":
            self._history_files = HistoryWriter(Path(folder), partition)
        self._follower = follower
        timers, blocking = LoopTimers(self._loop), _Blocking(self._loop, self._pool)
        return PartitionConsumer(
            PartitionContext(
                partition=partition,
                make_records=lambda: Reader(paths.log, partition),
                follower=follower,
                targets=self._prepared.targets,
                ownership=ownership,
                quota=quota,
                status_page=self._status_page,
                meter=self._meter,
                history_files=self._history_files,
                failures_only=attempts == "failures",
                clock=self._clock,
                timers=timers,
                random=SystemRandom(),
                blocking=blocking,
                journaling=LoopWhileQuick(timers, blocking, self._clock),
                aside=_Blocking(self._loop, self._aside),
                reading=_Blocking(self._loop, self._reading),
                make_dispatcher=self._make_dispatcher,
                routes_path=paths.routes(partition),
                failing_path=paths.failing(partition),
                on_failed=self._on_failed,
                on_taken=lambda: self._tail.look_soon(),  # noqa: PLW0108 - made later
                report=lambda event, fields: self._log.info(event, **fields),
                warn=self._warn,
                backfill_budget=self._settings.backfill_budget(),
            )
        )

    def _make_tail(self, opened: ExitStack) -> LogTail:
        records = Reader(self._paths.log, self._partition)
        opened.callback(records.close)
        bell = Bell(self._paths.bell(self._partition), self._status_page)
        opened.callback(bell.close)
        return LogTail(records, bell, self._status_page, self.consumer, self._loop)

    def _warn(self, event: str, fields: dict[str, object]) -> None:
        self._log.warning(event, **fields)

    def _put_back(self) -> None:
        """Keep targets and route table for the next owner in this process."""
        self._prepared.targets.report_to(lambda _event, _fields: None)
        SHELF.put(self._paths, self._settings.credential_key_file, self._prepared)

    def _wait_for_log(self, records: Reader, cursor: int) -> None:
        """Wait until the ingest process has recovered the partition.

        Ingest recovers to an end at or above the cursor. An end below it is out of date, not a
        loss of the medium: going back to it would deliver a whole log again.
        """
        until_s = self._clock.monotonic_s() + LOG_WAIT_S
        while records.durable_end() < cursor:
            if self._clock.monotonic_s() >= until_s:
                raise LogUnavailableError(
                    f"the log ends at {records.durable_end()}, below the cursor {cursor}:"
                    " the ingest process has not recovered it; its log lines say why"
                )
            time.sleep(0.05)

    def _make_dispatcher(
        self, on_attempt: Callable[[Attempt], None], on_drained: Callable[[str], None]
    ) -> Dispatcher:
        timers = LoopTimers(self._loop)
        transports = make_transports(self._loop, self._settings.reach, self._warn)
        return Dispatcher(
            transports,
            clock=self._clock,
            timers=timers,
            random=SystemRandom(),
            on_attempt=on_attempt,
            on_drained=on_drained,
        )

    # -- the loop's thread --------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def _call(self, work: Callable[[], None]) -> None:
        """Run *work* on the loop and wait for it; raises its error."""
        done: Future[None] = Future()

        def run() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - handed to the waiting thread
                done.set_exception(error)
            else:
                done.set_result(None)

        self._loop.call_soon_threadsafe(run)
        done.result()

    def _begin(self) -> None:
        self.consumer.start()
        self._tail.start(self.consumer.live_offset)
        self._status_page[StatusField.PHASE] = ConsumerPhase.RUNNING
        self._status_page[StatusField.HEARTBEAT_MS] = self._clock.wall_ms()
        self._heartbeat()

    def _heartbeat(self) -> None:
        if self._closing:
            return
        if not self._guardians.alive():
            # Nobody will ever end this session, and the next owner waits for the lock (DESIGN
            # rule 7, stopping).
            self._log.error("parent-gone")
            os._exit(EXIT_ALONE)
        now_s = self._clock.monotonic_s()
        if now_s - self._saved_s >= METER_S:
            self._saved_s = now_s
            self._meter.save()
        self._tail.look()  # a ring may have been lost
        self._loop.call_later(HEARTBEAT_S, self._heartbeat)

    def _on_loop_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an unexpected exception on the loop.

        In one of our callbacks it may leave a match half done: the owner fails, and the next one
        starts from the durable state. In a connection it costs that connection alone.
        """
        error = context.get("exception")
        lines = traceback.format_exception(error) if isinstance(error, BaseException) else []
        self._log.error("bug", message=context.get("message"), trace="".join(lines)[-4000:])
        if "handle" in context and not self._closing:
            self.consumer.fail(DistributaryError(f"a bug in the owner: {error!r}"))

    def _on_failed(self, error: DistributaryError) -> None:
        self._failure = error
        self._log.error("owner-failed", error=str(error), code=error.code)
        self._stopped.set()

    # -- the thread of the task ---------------------------------------------------------------

    def counts(self) -> tuple[int, int]:
        """Returns the attempts and the outcomes of matches that the metrics have counted."""
        attempts = sum(self._meter.histogram("attempt_duration_seconds").counts)
        counters = dict(self._meter.counters)  # the loop adds to it meanwhile
        outcomes = sum(n for name, n in counters.items() if name.startswith(OUTCOME_COUNTERS))
        return attempts, int(outcomes)

    def wait(self, seconds: float) -> None:
        """Wait, at most for *seconds*; raise what stopped the owner, if it was stopped."""
        if self._stopped.wait(seconds):
            assert self._failure is not None
            raise self._failure

    def enter(self, epoch: int) -> None:
        """Serve *epoch* from now on: for the status page and the log alone."""
        self._log = self._log.bind(epoch=epoch)
        self._status_page[StatusField.EPOCH] = epoch
        self._status_page[StatusField.PHASE] = ConsumerPhase.RUNNING

    def quieten(self) -> None:
        """Prepare for the end: sinks with an attempt older than ``SLOW_S`` get no new one."""
        self._loop.call_soon_threadsafe(self.consumer.dispatcher.begin_drain, SLOW_S)

    def close(self, *, orderly: bool, drain_s: float | None = None) -> int:
        """Finish attempts under way, make their outcomes durable, release the partition.

        Args:
            orderly: The driver ended the epoch. Otherwise the task just ended, as when its JVM
                is killed (DESIGN rule 7, stopping): attempts get only a moment, and unfinished
                ones are left to the next owner, as after a crash.
            drain_s: Time for attempts under way, seconds; None: as the settings say.

        Returns:
            The number of unfinished attempts.
        """
        self._status_page[StatusField.PHASE] = ConsumerPhase.DRAINING
        left: Future[int] = Future()
        self._loop.call_soon_threadsafe(self._tail.stop)
        if drain_s is None:
            drain_s = self._settings.drain_s if orderly else ABRUPT_DRAIN_S
        self._loop.call_soon_threadsafe(self.consumer.drain, drain_s, left.set_result)
        count = left.result(drain_s + 30.0)
        self._shut()
        return count

    def _shut(self) -> None:
        if self._failure is None:
            self._prepared.keep(self._partition, self._follower)
            table, mark = self._follower.table, self._ownership.state.mark
            note_table(self._paths.routes(self._partition), table.last_seq, mark.offset)
        self._opened.close()

    def _finish_history(self) -> None:
        """When the server stops: people see the last rows while it does not run."""
        files = self._history_files
        if files is None or self._failure is not None or not self._status_page[StatusField.STOP]:
            return
        try:
            finish_history(self._ownership, files)
        except StoreError as error:
            self._warn("history-not-written", {"error": str(error)})

    def _end_loop(self) -> None:
        self._closing = True
        self._loop.call_soon_threadsafe(self._tail.stop)
        closing = asyncio.run_coroutine_threadsafe(
            self.consumer.dispatcher.close(abort=True), self._loop
        )
        with contextlib.suppress(TimeoutError):
            closing.result(STOP_WAIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(STOP_WAIT_S)
        if self._thread.is_alive():
            # It may be sending yet, and the lock is let go of next (DESIGN rule 2).
            self._log.error("owner-hangs")
            os._exit(70)
        self._pool.shutdown()
        self._aside.shutdown()
        self._reading.shutdown()


class _LastingStream(io.StringIO):
    """Standard error, which breaks when the JVM ends: lines are lost then, and stop nobody."""

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def owner_log(level: str) -> Any:
    """Returns a logger of JSON lines to standard error, which passes through the JVM."""
    return structlog.wrap_logger(
        structlog.WriteLogger(_LastingStream()),
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        role="owner",
    )
