"""A session as owner of a partition: lock, load, deliver on an event loop, release.

A Spark task opens a session, waits while the epoch lasts, and closes it. The partition consumer
runs on the session's event loop thread.
"""

import asyncio
import contextlib
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from distributary.core.clock import AgeClock, SystemClock, SystemRandom
from distributary.core.deliver import Dispatcher, LoopTimers
from distributary.core.engine import EngineLimits
from distributary.core.errors import DistributaryError, StoreError
from distributary.core.flow import Attempt
from distributary.core.meter import Meter
from distributary.datadir import Phase, StatusField
from distributary.history.writer import HistoryWriter
from distributary.partitions._filing import Filing
from distributary.partitions._history import LOST_TOTAL
from distributary.partitions._history import finish as finish_history
from distributary.partitions._holding import Holding
from distributary.partitions._journaling import LoopWhileQuick, error_of
from distributary.partitions._once import Once
from distributary.partitions._owner_log import owner_log
from distributary.partitions._prepared import SHELF
from distributary.partitions._session_settings import SessionSettings
from distributary.partitions._tracing import Tracing
from distributary.partitions._transports import make_transports
from distributary.partitions.consumer import REST_TICK_S, PartitionConsumer
from distributary.partitions.context import PartitionContext
from distributary.partitions.guardians import Guardians
from distributary.partitions.places import meter_role
from distributary.partitions.recalls import Recalls
from distributary.partitions.routes import note_table

ABRUPT_DRAIN_S = 0.5
"""Time for attempts under way after an abrupt end of the task: the next owner, and so all events of
the partition, wait for the lock."""
SLOW_S = 0.1
"""Before a session ends, sinks with an attempt older than this get no new one."""
BEAT_S_MIN = 0.15
"""Shortest interval of looks at the parent processes and at the log: with the ticks of the consumer
it becomes 0.2 s."""
SWITCH_S = 0.0005
"""Thread switch interval, seconds. While a thread reads for a replay or writes files, the loop goes
on so late after each call of the system: 5 ms by default, which others' deliveries showed."""
EXIT_ALONE = 70
"""Exit code of a process whose session has nobody left that could end it."""
METER_S = 1.0
"""Interval of the metrics' snapshots: replacing a file costs up to a millisecond of the loop."""
OUTCOME_COUNTERS = ("delivered_total", "dead_lettered_total", "dropped_total")
"""What the names of the counters of outcomes begin with."""
FLUSH_S_MAX = 1.0
"""Longest wait at a close for spans that are not sent yet: what is left may be lost."""
STOP_WAIT_S = 5.0
"""Longest wait for the loop to stop; then the process exits."""
_AGES = AgeClock(SystemClock(), from_start=True)  # a leap counts for the sessions after it too


@dataclass(slots=True)
class _Blocking:
    """Runs jobs on a thread pool; reports their end on the loop."""

    loop: asyncio.AbstractEventLoop
    pool: ThreadPoolExecutor

    def run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        self.pool.submit(lambda: self.loop.call_soon_threadsafe(done, error_of(work)))


def _tune() -> None:
    """Set the interpreter up for deliveries."""
    # They make few cycles and many short-lived objects: collecting rarely keeps the pauses out of
    # the latencies, and a quarter off the time that 100,000 routes take.
    gc.set_threshold(100_000, 20, 50)
    sys.setswitchinterval(SWITCH_S)


class PartitionSession:
    """Owns a partition from construction until ``close``.

    Args:
        partition: Partition number.
        epoch: For the status page alone: the lock grants ownership (DESIGN rule 2, one owner).
        settings: Settings of the session.
        guardians: The processes that it depends on; None: its parent.
        holding: The partition; closed by ``close``, or here if this fails. None: it is taken here.

    Raises:
        LogLockedError: The previous owner did not finish in time.
        StoreError, LogError: The stored state cannot be read.
    """

    backlog = 0
    """Records that the live path has not taken, as of the last beat."""
    _held = False
    """Whether attempts wait for a renewal of the lease."""
    _log_reading: ThreadPoolExecutor | None = None
    """Reads a log that is on a cluster."""
    _once: Once | None = None
    """Finds repeats; None: every event is taken, or who appends finds them."""
    _filing: Filing | None = None
    """Writes files of the history; None: none is kept."""
    _recalls: Recalls | None = None
    """What is recalled of the archive; None: there is none."""

    def __init__(
        self,
        partition: int,
        epoch: int,
        settings: SessionSettings,
        guardians: Guardians | None = None,
        holding: Holding | None = None,
    ) -> None:
        self._settings = settings
        self._partition, self._epoch = partition, epoch
        self._places = places = settings.places()
        self._clock = SystemClock()
        self._failure: DistributaryError | None = None
        self._guardians = guardians or Guardians(None, None)
        self._nudged = threading.Event()
        self._words = (0, 0, 0)
        self._beat_s = float("-inf")
        self._log = owner_log(settings.log_level).bind(partition=partition, epoch=epoch)
        self._closing = False
        self._saved_s = float("-inf")
        _tune()
        self._thread = threading.Thread(target=self._run, name=f"owner-p{partition}", daemon=True)
        self._holding = holding or Holding(
            places, partition, settings.budgets(), clock=self._clock, lease=None, log=self._log
        )
        self._status_page = self._holding.status_page
        with ExitStack() as opened:  # closed here where anything fails, by ``_shut`` otherwise
            undo = opened.enter_context(ExitStack())
            undo.callback(self._holding.close)
            self._status_page[StatusField.PHASE] = Phase.LOADING
            self._status_page[StatusField.EPOCH] = epoch
            self._status_page[StatusField.PID] = os.getpid()
            self._holding.keep_within(settings.budgets())
            self._prepared = SHELF.take(places)
            opened.callback(self._put_back)
            self._prepared.targets.warn_to(self._warn)
            self._prepared.targets.keep_within(settings.reach)
            self._prepared.targets.issue_as(settings.issuer_url, settings.issuer_key_file)
            role, find = f"owner-p{partition}", self._prepared.targets.get
            self._tracing = Tracing.open(settings.otlp, role, self._warn, find)
            self._loop = uvloop.new_event_loop()
            opened.callback(self._loop.close)  # its thread has ended by then, or never began
            self._pool = ThreadPoolExecutor(1, f"flush-p{partition}")
            self._aside = ThreadPoolExecutor(1, f"aside-p{partition}")
            self._reading = ThreadPoolExecutor(1, f"reading-p{partition}")
            opened.callback(self._reading.shutdown)
            opened.callback(self._aside.shutdown)
            opened.callback(self._pool.shutdown)
            self._meter = Meter(places.scratch.meter(meter_role(partition)))
            opened.callback(self._meter.save)
            self.consumer = self._load()
            self._tail = self._holding.tail.follow(self.consumer, self._loop)
            self._loop.set_exception_handler(self._on_loop_error)
            self._thread.start()
            opened.callback(self._finish_history)
            opened.callback(self._end_loop)
            self._call(self._begin)
            undo.pop_all()
            self._opened = opened.pop_all()

    def _load(self) -> PartitionConsumer:
        partition, holding = self._partition, self._holding
        self._ownership = ownership = holding.ownership
        self._meter.add("journal_damage_total", holding.take_damages())
        cursor = ownership.state.mark.offset
        follower = self._prepared.follow(partition, holding.records, cursor)
        attempts = self._settings.log_attempts
        folder, archive = self._settings.history, self._settings.archive
        if folder and attempts != "none":
            files = HistoryWriter(Path(folder), partition, self._settings.history_mark)
            self._filing = Filing(files, f"filing-p{partition}", self._loop.call_soon_threadsafe)
        self._follower = follower
        self._recalls = self._places.recalls(partition, archive, self._clock) if archive else None
        limits = self._settings.once_of_readers
        if limits is not None:
            make = partial(self._places.records, partition)
            once = Once(limits, make, clock=self._clock, meter=self._meter, report=self._say)
            self._prepared.begin(once, partition, cursor)
            self._once = once
        timers, blocking = LoopTimers(self._loop), _Blocking(self._loop, self._pool)
        return PartitionConsumer(
            PartitionContext(
                partition=partition,
                make_records=lambda: self._places.records(partition),
                follower=follower,
                targets=self._prepared.targets,
                ownership=ownership,
                reservations=holding.reservations,
                tallies=holding.tallies,
                status_page=self._status_page,
                meter=self._meter,
                history_files=None if self._filing is None else self._filing.files,
                failures_only=attempts == "failures",
                clock=self._clock,
                ages=_AGES,
                timers=timers,
                random=SystemRandom(),
                blocking=blocking,
                journaling=LoopWhileQuick(timers, blocking, self._clock)
                if ownership.local
                else None,
                aside=_Blocking(self._loop, self._aside),
                reading=_Blocking(self._loop, self._reading),
                filing=self._filing,
                log_reading=None if ownership.local else self._beside_the_log(),
                make_dispatcher=self._make_dispatcher,
                routes_path=self._places.scratch.routes(partition),
                failing=holding.failing,
                on_failed=self._on_failed,
                on_tick=self._on_tick,
                on_taken=lambda: self._tail.look_soon(),  # noqa: PLW0108 - made later
                report=self._say,
                warn=self._warn,
                backfill_budget=self._settings.backfill_budget(),
                limits=EngineLimits(partitions=max(self._settings.partitions, 1)),
                tracing=self._tracing and self._tracing.attempts,
                recalls=self._recalls,
                once=self._once,
            )
        )

    def _say(self, event: str, fields: dict[str, object]) -> None:
        self._log.info(event, **fields)

    def _beside_the_log(self) -> _Blocking:
        self._log_reading = ThreadPoolExecutor(1, f"log-p{self._partition}")
        return _Blocking(self._loop, self._log_reading)

    def _warn(self, event: str, fields: dict[str, object]) -> None:
        self._log.warning(event, **fields)

    def _put_back(self) -> None:
        """Keep targets and route table for the next owner in this process."""
        self._prepared.targets.warn_to(lambda _event, _fields: None)
        if self._once is not None:
            self._prepared.end(self._once, self._partition)
        SHELF.put(self._places, self._prepared)

    def _make_dispatcher(
        self, on_attempt: Callable[[Attempt], None], on_drained: Callable[[str], None]
    ) -> Dispatcher:
        timers = LoopTimers(self._loop)
        transports = make_transports(
            self._loop, self._settings.reach, self._warn, self._places.nodes()
        )
        return Dispatcher(
            transports,
            clock=self._clock,
            timers=timers,
            random=SystemRandom(),
            on_attempt=on_attempt,
            on_drained=on_drained,
            tracing=self._tracing and self._tracing.attempts,
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
        self._status_page[StatusField.PHASE] = Phase.RUNNING
        self._status_page[StatusField.HEARTBEAT_MS] = self._clock.wall_ms()

    def _on_tick(self) -> None:
        """Look around, in the turn in which the consumer does so."""
        page = self._status_page
        words = page[StatusField.STOP], page[StatusField.END_EPOCH], page[StatusField.SUCCESSOR]
        if words != self._words:
            self._words = words
            self.nudge()
        if self._recalls is not None:
            self._recalls.tick()
        if self._once is not None:
            self._once.tick()
        if self._clock.monotonic_s() - self._beat_s >= BEAT_S_MIN:
            self._beat()

    def _beat(self) -> None:
        self._beat_s = self._clock.monotonic_s()
        if not self._guardians.alive():
            # Nobody will ever end this session, and the next owner waits for the lock (DESIGN
            # rule 7, stopping).
            self._log.error("parent-gone")
            os._exit(EXIT_ALONE)
        if self._holding.lease.lapsing or self._held:
            self._lapse()
        page = self._status_page
        if page[StatusField.PHASE] == Phase.ABSENT and page[StatusField.EPOCH] == self._epoch:
            # The last words of the owner before may have come late.
            page[StatusField.PHASE] = Phase.RUNNING
        now_s = self._clock.monotonic_s()
        if now_s - self._saved_s >= METER_S:
            self._saved_s = now_s
            if self._tracing is not None:
                self._tracing.spans.count_into(self._meter)
            self._meter.save()
        self._tail.look()  # a ring may have been lost
        self.backlog = max(0, self._tail.end() - self.consumer.live_offset)

    def _lapse(self) -> None:
        """Start no attempt while the lease is nearly over: another owner may have the partition."""
        lease = self._holding.lease
        if lease.lapsing != self._held:
            self._held = lease.lapsing
            self._log.warning("lease-lapsing" if self._held else "lease-renewed")
            dispatcher = self.consumer.dispatcher
            dispatcher.hold("lease") if self._held else dispatcher.go_on("lease")

    def _beat_alone(self) -> None:
        """Go on when the consumer has failed, until the session is closed."""
        if not self._closing:
            self._beat()
            self._loop.call_later(REST_TICK_S, self._beat_alone)

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
        self.nudge()
        self._loop.call_soon_threadsafe(self._beat_alone)

    # -- the thread of the task ---------------------------------------------------------------

    def counts(self) -> tuple[int, int, int]:
        """Returns the next record of the live path, and attempts and outcomes counted so far."""
        attempts = sum(self._meter.histogram("attempt_duration_seconds").counts)
        counters = dict(self._meter.counters)  # the loop adds to it meanwhile
        outcomes = sum(n for name, n in counters.items() if name.startswith(OUTCOME_COUNTERS))
        return self.consumer.live_offset, attempts, int(outcomes)

    def wait(self, seconds: float) -> None:
        """Wait for *seconds*, or until somebody asks for something; raise what stopped the owner.

        Requests of the driver, the server and other owners count, which are on the status page,
        and ``nudge``.
        """
        self._nudged.wait(seconds)
        self._nudged.clear()
        if self._failure is not None:
            raise self._failure

    def nudge(self) -> None:
        """End the present or the next ``wait``; any thread may ask."""
        self._nudged.set()

    def enter(self, epoch: int) -> None:
        """Serve *epoch* from now on: for the status page and the log alone."""
        self._epoch = epoch
        self._log = self._log.bind(epoch=epoch)
        self._status_page[StatusField.EPOCH] = epoch
        self._status_page[StatusField.PHASE] = Phase.RUNNING

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
        if drain_s is None:
            drain_s = self._settings.drain_s if orderly else ABRUPT_DRAIN_S
        try:
            return self._end(drain_s)
        finally:
            self._holding.close()
            if self._tracing is not None:
                self._tracing.spans.flush(FLUSH_S_MAX)  # the next owner need not wait any more

    def hand_over(self) -> Holding:
        """As an orderly ``close``, but keep the partition for the next session of this process.

        Raises:
            DistributaryError: The session has failed; the partition is released.
        """
        with ExitStack() as undo:
            undo.callback(self._holding.close)
            self._end(self._settings.drain_s)
            if self._failure is not None:
                raise self._failure
            undo.pop_all()
        return self._holding

    def _end(self, drain_s: float) -> int:
        """Finish attempts under way, make their outcomes durable, end loop and threads."""
        self._status_page[StatusField.PHASE] = Phase.DRAINING
        left: Future[int] = Future()
        self._loop.call_soon_threadsafe(self._tail.stop)
        self._loop.call_soon_threadsafe(self.consumer.drain, drain_s, left.set_result)
        hurry = self._holding.ownership.hurry
        self._loop.call_soon_threadsafe(self._loop.call_later, drain_s, hurry)
        with self._opened:  # the loop ends before the partition is released, whatever happens
            count = left.result(drain_s + 30.0)
            if self._failure is None:
                self._prepared.keep(self._partition, self._follower)
                table, mark = self._follower.table, self._ownership.state.mark
                note_table(
                    self._places.scratch.routes(self._partition), table.last_seq, mark.offset
                )
        return count

    def _finish_history(self) -> None:
        """When the server stops: people see the last rows while it does not run."""
        filing = self._filing
        if filing is None:
            return
        try:
            if self._failure is None and self._status_page[StatusField.STOP]:
                lost = finish_history(self._ownership, filing.files, filing.wait)
                self._meter.add(LOST_TOTAL, lost)
        except StoreError as error:
            self._warn("history-not-written", {"error": str(error)})
        finally:
            filing.end()

    def _end_loop(self) -> None:
        self._closing = True
        if self._once is not None:
            self._once.stop()
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
        if self._log_reading is not None:
            # A read may wait for the cluster for half a minute, and the next owner for the lease.
            self._log_reading.shutdown(wait=False)
        if self._recalls is not None:
            self._recalls.close()
