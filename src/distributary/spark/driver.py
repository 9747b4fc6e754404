"""The Spark driver: starts the query, restarts it, ends its epochs, stops it.

Runs in a separate process, which ``server`` restarts, since its JVM can die. Communicates with
the owners only through the status pages of the partitions.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import structlog
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from distributary.core.errors import SettingsError, StoreError
from distributary.datadir import DataDir, MappedStatusPage, Phase, StatusField, StatusPage
from distributary.spark import checkpoint
from distributary.spark._epochs import Epochs
from distributary.spark.cluster import answering, await_slots, check_executors, first_jobs
from distributary.spark.cluster_conf import python_on_executors
from distributary.spark.delivery_columns import COUNTS
from distributary.spark.delivery_source import delivery_rows
from distributary.spark.driver_settings import DriverSettings, Withheld
from distributary.spark.history import History
from distributary.spark.master import ANSWER_S, is_local
from distributary.spark.package import give_package
from distributary.spark.python import write_shim
from distributary.spark.session import open_session
from distributary.spark.standby import StandBy

if TYPE_CHECKING:
    from distributary.spark.shared_side import SharedSide

ASK_S = 1.0
"""Interval at which the driver asks the JVM for its query: each call costs both some 2 ms. Whether
the JVM lives is looked up at each look, by its process."""
LOOK_S = 0.25
"""Interval at which the driver checks the query and the status pages."""
DRAINED_LOOK_S = 0.02
"""Interval of looks whether owners have drained, where the pages tell: a stop waits for it."""
STARTING_LOOK_S = 0.1
"""The same until the first epoch has begun: readiness waits for it."""
RESTART_WAIT_S = (0.2, 1.0, 5.0, 15.0)
"""Backoff before the query is restarted; the last one repeats."""
STEADY_S = 60.0
"""A query that ran for so long resets the backoff."""
PROGRESS_S = 30.0
"""Interval of the log line ``pipeline-progress``."""
TRIED_MS = 600_000
"""Executors that ran owners less than ten minutes ago have the Python that owners need."""
HEIR_S = 3.0
"""Longest wait of a leader that leaves for the next one: followers look once a second."""
HEIR_LOOK_S = 0.1
"""Interval of asking who leads meanwhile."""
EXIT_JVM_GONE = 71
"""Exit code: the JVM has died, restart the driver unless it was to stop."""


class Driver:
    """Supervisor of the streaming query, until SIGTERM.

    Args:
        settings: Of the driver.
        withheld: What none of its arguments shows.
        monotonic_s: The monotonic clock.
        sleep: Waits seconds.
        checked: Whether the executors are known to run what they need.
    """

    def __init__(
        self,
        settings: DriverSettings,
        withheld: Withheld,
        monotonic_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        *,
        checked: bool = False,
    ) -> None:
        self._settings = settings
        self._withheld = withheld
        self._now_s = monotonic_s
        self._sleep = sleep
        self._stop = threading.Event()
        self._log = structlog.get_logger()
        self._paths = DataDir.of(settings.data_dir)
        self._shared = self._shared_side()
        self._status_pages: Sequence[StatusPage] = (
            [MappedStatusPage(self._paths.status_page(p)) for p in range(settings.partitions)]
            if self._shared is None
            else self._shared.status_pages
        )
        self._own_page = MappedStatusPage(self._paths.driver_page)
        self._own_page[StatusField.PHASE] = Phase.LOADING
        self._query: StreamingQuery | None = None
        self._epochs = Epochs(self._status_pages, settings.epoch_s, began=self._on_epoch)
        self._history = History(
            settings.history,
            settings.history_age_max_s,
            settings.history_bytes_max,
            self._paths,
            outbox=settings.history_outbox,
        )
        self._refused: SettingsError | None = None
        self._checked = checked
        self._left = False
        self._progress_s = 0.0
        self._asked_s = float("-inf")
        self._last_live = 0

    def _shared_side(self) -> "SharedSide | None":
        """What the driver of a cluster does beside; None: all is in the data directory."""
        entrusted = self._withheld.entrusted
        if not entrusted:
            return None
        # Its clients, which no other form loads.
        from distributary.spark.shared_side import SharedSide  # noqa: PLC0415

        settings = self._settings
        return SharedSide(entrusted, self._paths, settings.partitions, self._log, settings.holder)

    def run(self) -> int:
        """Run until SIGTERM. Returns the exit code of the process.

        Raises:
            SettingsError: The Spark master cannot run the pipeline.
        """
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # The parent stops us in its own order.
        failures = 0
        while not self._stop.is_set():
            # After a failed query too: Spark fails its jobs a moment before it stops.
            if _spark_stopped():
                return self._end_stopped("before the query began")
            started_s = self._now_s()
            try:
                self._run_query()
                reason = "the query ended"
            except (Py4JNetworkError, ConnectionError, EOFError) as error:
                if self._refused is not None:
                    raise self._refused from error
                self._log.error("pipeline-jvm-gone", error=str(error)[:500])
                return EXIT_JVM_GONE
            except (PySparkException, Py4JError) as error:
                if not _jvm_lives():
                    self._log.error("pipeline-jvm-gone", error=str(error)[:500])
                    return EXIT_JVM_GONE
                reason = str(error)[:2000]
            if self._stop.is_set():
                break
            if _spark_stopped():
                return self._end_stopped(reason)
            steady = self._now_s() - started_s > STEADY_S
            # A query that was ready is restarted at once, however often it ends.
            steady = steady or any(
                status_page[StatusField.READY] for status_page in self._status_pages
            )
            failures = 0 if steady else failures + 1
            wait_s = RESTART_WAIT_S[min(failures, len(RESTART_WAIT_S)) - 1] if failures else 0.2
            self._log.error("pipeline-restarts", reason=reason, wait_s=wait_s)
            checkpoint.set_aside(self._paths.spark / "checkpoint")
            self._sleep(wait_s)
        self._history.stop()
        if self._left:
            _kill_jvm()
            return EXIT_JVM_GONE
        return 0

    def _end_stopped(self, reason: str) -> int:
        """End the JVM, whose context nothing starts again; returns the exit code."""
        self._log.error("spark-stopped", reason=reason)
        _kill_jvm()
        return EXIT_JVM_GONE

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()
        if self._own_page[StatusField.PHASE] == Phase.LOADING and os.getpgrp() == os.getpid():
            # Nothing is in flight, and Spark ignores signals while it starts: end the JVM with us.
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            os.killpg(0, signal.SIGTERM)
            os._exit(0)

    def _refuse(self, error: SettingsError) -> None:
        """Kill the JVM, which ends the call that waits for a master that does not answer."""
        self._refused = error
        _kill_jvm()

    # -- one query ----------------------------------------------------------------------------

    def _run_query(self) -> None:
        reason = checkpoint.prepare(self._paths.spark / "checkpoint", self._settings.partitions)
        if reason is not None:
            self._log.warning("spark-checkpoint-rebuilt", reason=reason)
        self._epochs.reset()
        query = self._start_query()
        self._history.start()
        try:
            self._own_page[StatusField.PHASE] = Phase.RUNNING
            while not self._stop.is_set() and self._goes_on(query):
                self._own_page[StatusField.HEARTBEAT_MS] = time.time_ns() // 1_000_000
                self._watch(query)
                self._sleep(LOOK_S if self._epochs.epoch else STARTING_LOOK_S)
            self._own_page[StatusField.PHASE] = Phase.DRAINING
            if self._stop.is_set():
                self._leave(query)
            elif (error := query.exception()) is not None:
                raise error
        finally:
            self._query = None
            # Spark ends the processes of the tasks of a query that stops.
            if not self._left and query.isActive:
                query.stop()
            self._own_page[StatusField.PHASE] = Phase.LOADING

    def _goes_on(self, query: StreamingQuery) -> bool:
        """Whether the query is active.

        Raises:
            ConnectionError: The JVM has ended, or its application is deserted.
        """
        if not _jvm_lives():
            raise ConnectionError("the JVM has ended")
        if self._shared is not None and self._shared.deserted:
            _kill_jvm()
            raise ConnectionError("the application is deserted: another one gets executors")
        now_s = self._now_s()
        if now_s - self._asked_s >= ASK_S:
            self._asked_s = now_s
            return bool(query.isActive)
        return True

    def _start_query(self) -> StreamingQuery:
        settings, withheld = self._settings, self._withheld
        local = is_local(settings.master)
        opening = contextlib.nullcontext() if local else answering(settings.master, self._refuse)
        spark = _session(settings, withheld, opening)
        if self._shared is not None:
            give_package(spark, self._paths.spark)
            self._shared.begin(spark)
        if not local and not self._checked:
            self._check_cluster(spark)
            self._checked = True
        rows = delivery_rows(spark, settings.session, settings.partitions, withheld.entrusted)
        return (
            rows.writeStream.format("noop")
            .queryName("distributary-pipeline")
            .option("checkpointLocation", str(self._paths.spark / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )

    def _check_cluster(self, spark: SparkSession) -> None:
        """Refuse a cluster that cannot run the query.

        Raises:
            SettingsError: It has too few task slots, or executors lack what they need.
        """
        settings = self._settings
        data_dir = None if self._shared is not None else self._paths.root
        tried = data_dir is None and self._owned_lately()
        found = self._await_slots(spark)
        with first_jobs(self._paths.spark, _kill_jvm, self._log):
            check_executors(spark, settings.master, found, data_dir, tried=tried)

    def _await_slots(self, spark: SparkSession) -> int:
        wait_s = ANSWER_S if self._shared is None else self._shared.wait_s
        try:
            return await_slots(spark, self._settings.master, self._settings.partitions, wait_s)
        except SettingsError:
            if self._shared is not None:
                self._shared.missed()
            raise

    def _owned_lately(self) -> bool:
        """Whether owners on executors have given signs of life, to whoever led before."""
        since_ms = time.time_ns() // 1_000_000 - TRIED_MS
        return any(page[StatusField.HEARTBEAT_MS] > since_ms for page in self._status_pages)

    # -- while it runs ------------------------------------------------------------------------

    def _watch(self, query: StreamingQuery) -> None:
        now_s = self._now_s()
        self._query = query
        self._epochs.look(now_s)
        if self._shared is not None:
            self._shared.show()
        if now_s - self._progress_s > PROGRESS_S:
            self._progress_s = now_s
            self._say_progress()

    def _on_epoch(self, epoch: int) -> None:
        progress = None if self._query is None else self._query.lastProgress
        self._log.info("epoch-began", epoch=epoch, spark=_summary(progress))

    def _leave(self, query: StreamingQuery) -> None:
        """Leave owners to the next leader, whose driver will ask for them, or drain them."""
        self._left = self._followed()
        if self._left:
            self._log.info("owners-left")
        else:
            self._drain(query)

    def _followed(self) -> bool:
        """Wait for the next leader, where owners can deliver until its driver has executors."""
        shared, ours = self._shared, self._settings.holder
        if shared is None or not ours or not shared.outlived:
            return False
        until_s, leader = self._now_s() + HEIR_S, ""
        while not leader and self._now_s() < until_s:
            with contextlib.suppress(StoreError):
                leader = shared.leader()
            self._sleep(HEIR_LOOK_S)
        return leader not in {"", ours}

    def _drain(self, query: StreamingQuery) -> None:
        """Wait until owners have drained; the query may stop then."""
        for status_page in self._status_pages:
            status_page[StatusField.STOP] = 1
        until_s = self._now_s() + self._settings.drain_s + 5.0
        while self._now_s() < until_s and query.isActive and not self._drained():
            self._sleep(DRAINED_LOOK_S if self._shared is None else LOOK_S)

    def _drained(self) -> bool:
        held = None if self._shared is None else self._shared.held()
        if held is not None:
            return not held
        return all(
            status_page[StatusField.PHASE] in {Phase.ABSENT, Phase.LOADING}
            for status_page in self._status_pages
        )

    def _say_progress(self) -> None:
        live = sum(status_page[StatusField.LIVE_OFFSET] for status_page in self._status_pages)
        self._log.info(
            "pipeline-progress",
            epoch=self._epochs.epoch,
            live=[status_page[StatusField.LIVE_OFFSET] for status_page in self._status_pages],
            cursor=[
                status_page[StatusField.COMMITTED_OFFSET] for status_page in self._status_pages
            ],
            records_per_s=round(max(0, live - self._last_live) / PROGRESS_S, 1),
            in_flight=sum(status_page[StatusField.IN_FLIGHT] for status_page in self._status_pages),
            queued=sum(status_page[StatusField.QUEUED] for status_page in self._status_pages),
            backfilling=sum(
                status_page[StatusField.BACKFILLING] for status_page in self._status_pages
            ),
            waiting=sum(status_page[StatusField.WAITING] for status_page in self._status_pages),
        )
        self._last_live = live


def _session(
    settings: DriverSettings,
    withheld: Withheld,
    opening: contextlib.AbstractContextManager[None],
) -> SparkSession:
    """Open the session, or return the one that is open."""
    paths = DataDir.of(settings.data_dir)
    return open_session(
        paths.spark,
        settings.partitions,
        settings.master,
        withheld.spark_conf,
        opening,
        sockets=paths.worker_sockets,
        archive=settings.class_archive,
        host=settings.host if withheld.entrusted else "",
    )


def _jvm() -> "subprocess.Popen[bytes] | None":
    """Returns the process of this driver's JVM; None: it was not started."""
    gateway = SparkContext._gateway  # noqa: SLF001 - nothing public names the process
    return getattr(gateway, "proc", None)


def _kill_jvm() -> None:
    jvm = _jvm()
    if jvm is not None:
        jvm.kill()


def _jvm_lives() -> bool:
    jvm = _jvm()
    return jvm is not None and jvm.poll() is None


def _spark_stopped() -> bool:
    """Whether Spark has stopped its context: its master has ended the application, for example.

    PySpark does not notice that, and returns the stopped one whenever a session is asked for.
    """
    context = SparkContext._active_spark_context  # noqa: SLF001 - PySpark does not tell of it
    if context is None or context._jsc is None:  # noqa: SLF001 - as above
        return False
    try:
        return bool(context._jsc.sc().isStopped())  # noqa: SLF001 - as above
    except (Py4JError, OSError, EOFError):
        return True  # a JVM that does not answer this is of no more use


def _summary(progress: Any) -> dict[str, Any] | None:
    """Returns the fields of Spark's progress report that matter for an epoch."""
    if not progress:
        return None
    observed = progress["observedMetrics"].get(COUNTS)
    counts = {} if observed is None else observed.asDict(recursive=True)
    duration_ms = progress["durationMs"].get("triggerExecution")
    records = counts.get("records") or 0
    return {
        "batch": progress["batchId"],
        "duration_ms": duration_ms,
        "records_per_s": round(1000 * records / duration_ms, 1) if duration_ms else None,
        **counts,
    }


def _stand_by(settings: DriverSettings, withheld: Withheld, leads: Callable[[], bool]) -> bool:
    """Start Spark, and wait until the node leads; returns whether executors are warm."""
    paths = DataDir.of(settings.data_dir)
    page = MappedStatusPage(paths.driver_page)
    page[StatusField.PHASE] = Phase.LOADING
    signal.signal(signal.SIGTERM, _end_with_jvm)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    spark = _session(settings, withheld, contextlib.nullcontext())
    give_package(spark, paths.spark)
    standby = StandBy(paths.spark, leads, _jvm_lives, _spark_stopped, kill=_kill_jvm)
    return standby.wait(spark, settings.session, settings.partitions, withheld.entrusted)


def _end_with_jvm(_number: int, _frame: FrameType | None) -> None:
    """End this process and the JVM: nothing is in flight, and Spark would end in good order."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)
    os._exit(0)


def run(
    settings: DriverSettings,
    withheld: Withheld,
    scratch: Path,
    leads: Callable[[], bool] | None = None,
) -> int:
    """Entry of the driver's process.

    Args:
        settings: Of the driver.
        withheld: What none of its arguments shows.
        scratch: Folder for Spark's files.
        leads: Whether the node of this process leads: no query begins before. None: it is alone.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    # Where Spark's UI listens: nobody has to sign in there.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if withheld.entrusted and not is_local(settings.master):
        os.environ["PYSPARK_PYTHON"] = python_on_executors(withheld.spark_conf)
    else:  # tasks run on this machine, or see its disk: the "python3" of PATH may be another one
        os.environ["PYSPARK_PYTHON"] = str(write_shim(scratch / "bin"))
    if withheld.entrusted:
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        # Executors have their sockets where they run, and this process by the same setting here.
        sockets = DataDir.of(settings.data_dir).worker_sockets
        sockets.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(sockets)
    warm = False
    if leads is not None:
        try:
            warm = _stand_by(settings, withheld, leads)
        except (Py4JError, ConnectionError, EOFError) as error:
            structlog.get_logger().error("pipeline-jvm-gone", error=str(error)[:500])
            _kill_jvm()
            return EXIT_JVM_GONE
    return Driver(settings, withheld, checked=warm).run()
