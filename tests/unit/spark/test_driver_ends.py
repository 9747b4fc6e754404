"""When the driver and a warm standby end their JVM: the process that comes next starts one."""

import signal
import threading
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from distributary.core.errors import StoreError
from distributary.datadir import DataDir, StatusField
from distributary.spark import DriverSettings, Withheld, cluster, driver
from distributary.spark.driver import EXIT_JVM_GONE, HEIR_LOOK_S, HEIR_S, Driver
from distributary.spark.standby import STOPPED_LOOK_S, StandBy
from distributary.testing.virtual import VirtualClock

RUNS_MAX = 5
"""Then a driver that goes on is ended by the test."""


class GoesOnError(Exception):
    """The driver has not ended."""


class Jvm:
    """A JVM with a context, which Spark stops.

    Attributes:
        stopped: Whether it has.
        killed: Whether its process was.
    """

    def __init__(self):
        self.stopped = self.killed = False
        self._ended = threading.Event()

    def isStopped(self):  # noqa: N802 - Spark's name
        """As Spark's."""
        return self.stopped

    def sc(self):
        """Spark's context."""
        return self

    def kill(self):
        """As that of a process."""
        self.killed = True
        self._ended.set()

    def wait_for_a_task_that_hangs(self, *_, **__):
        """A job: it ends with the JVM."""
        assert self._ended.wait(30.0)
        raise Py4JNetworkError("the JVM has ended")

    def poll(self):
        """As that of a process."""
        return -9 if self.killed else None


@pytest.fixture
def jvm(monkeypatch):
    """The one of this process, as PySpark has it."""
    made = Jvm()
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jsc=made))
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=made))
    monkeypatch.setattr(signal, "signal", lambda _number, _handler: None)
    return made


def driver_of(folder, query=None, **more):
    """A driver that calls *query* for its query; with *more* settings."""
    DataDir(folder).run.mkdir(parents=True)
    runs = []

    def sleep(_seconds):
        runs.append(1)
        if len(runs) >= RUNS_MAX:
            raise GoesOnError

    made = Driver(
        DriverSettings(
            data_dir=str(folder),
            session="{}",
            history="",
            history_age_max_s=3600.0,
            history_bytes_max=0,
            partitions=1,
            master="auto",
            epoch_s=100.0,
            drain_s=1.0,
            **more,
        ),
        Withheld(),
        VirtualClock().monotonic_s,
        sleep,
    )
    made._run_query = query or made._run_query
    return made


def test_a_context_that_spark_stopped_is_not_taken_again(jvm, tmp_path):
    """PySpark would return it for ever: the JVM ends, and the supervisor starts another."""

    def query():
        jvm.stopped = True
        raise PySparkException("the application was removed by its master")

    assert driver_of(tmp_path, query).run() == EXIT_JVM_GONE
    assert jvm.killed


def test_a_context_that_stops_after_its_query_is_not_taken_either(jvm, tmp_path):
    """Spark fails the jobs of an application before it stops the context."""
    queries = []

    def query():
        queries.append(1)
        if len(queries) >= RUNS_MAX:
            raise GoesOnError
        raise PySparkException("the application was removed by its master")

    made = driver_of(tmp_path, query)
    made._sleep = lambda _seconds: setattr(jvm, "stopped", True)
    assert made.run() == EXIT_JVM_GONE
    assert (len(queries), jvm.killed) == (1, True)


def test_a_query_that_fails_is_restarted_while_spark_runs(jvm, tmp_path):
    """In the same JVM."""

    def query():
        raise PySparkException("a task failed too often")

    with pytest.raises(GoesOnError):
        driver_of(tmp_path, query).run()
    assert not jvm.killed


def test_a_standby_whose_context_was_stopped_ends(tmp_path, monkeypatch):
    """Long before its node leads, when another start would cost deliveries."""
    clock, asked = VirtualClock(), []

    def stopped():
        asked.append(clock.monotonic_s())
        return clock.monotonic_s() > 5.0

    def sleep(seconds):
        clock.move_to(clock.monotonic_s() + seconds)
        assert clock.monotonic_s() < 10.0, "it goes on"

    clocks = {"sleep": sleep, "monotonic_s": clock.monotonic_s}
    standby = StandBy(tmp_path, lambda: False, lambda: True, stopped, kill=lambda: None, **clocks)
    monkeypatch.setattr(StandBy, "_warm", lambda *_: True)
    monkeypatch.setattr("distributary.spark.standby.task_slots", lambda _spark: 1)
    with pytest.raises(ConnectionError, match="Spark has stopped"):
        standby.wait(None, "{}", 1, b"")
    assert len(asked) <= 2 + 5.0 / STOPPED_LOOK_S


def test_the_jvm_of_a_standby_that_cannot_go_on_is_ended(jvm, monkeypatch, tmp_path):
    """Else its executors stay with an application that nobody leads."""

    def stand_by(*_):
        raise ConnectionError("Spark has stopped")

    monkeypatch.setattr(driver, "_stand_by", stand_by)
    monkeypatch.setattr(driver, "write_shim", lambda folder: folder)
    monkeypatch.setenv("PYSPARK_PYTHON", "")
    monkeypatch.setenv("SPARK_LOCAL_IP", "")
    settings = driver_of(tmp_path, None)._settings
    assert driver.run(settings, Withheld(), tmp_path / "spark", lambda: True) == EXIT_JVM_GONE
    assert jvm.killed


class Query:
    """One that runs until it is stopped.

    Attributes:
        stopped: Whether it was.
    """

    isActive = True  # noqa: N815 - Spark's name

    def __init__(self):
        self.stopped = False

    def stop(self):
        """As Spark's: its tasks end, and the processes that run them."""
        self.stopped = True


class Leaving:
    """The driver of a leader that is stopped, while its query runs.

    Attributes:
        query: Its query.
        waited_s: How long it has waited for anything.
    """

    def __init__(self, folder, leaders, *, outlived=True):
        made = self.driver = driver_of(folder, holder=OURS)
        self.query, self.waited_s, self._leaders = Query(), 0.0, list(leaders)
        made._start_query = self._begin
        made._sleep = self._wait
        made._now_s = lambda: self.waited_s
        made._shared = SimpleNamespace(outlived=outlived, leader=self._leader, held=set)

    def _begin(self):
        self.driver._stop.set()
        return self.query

    def _wait(self, seconds):
        self.waited_s += seconds

    def _leader(self):
        found = self._leaders.pop(0) if len(self._leaders) > 1 else self._leaders[0]
        if isinstance(found, Exception):
            raise found
        return found


OURS, NEXT = '["node-1", "a:1"]', '["node-2", "b:1"]'


def test_a_leader_that_leaves_leaves_its_owners_to_the_next_one(jvm, tmp_path):
    """Its application ends at once; no task is ended, and no owner is asked to."""
    leaving = Leaving(tmp_path, ["", StoreError("away"), NEXT])
    assert leaving.driver.run() == EXIT_JVM_GONE
    assert (jvm.killed, leaving.query.stopped) == (True, False)
    assert leaving.driver._status_pages[0][StatusField.STOP] == 0
    assert leaving.waited_s < HEIR_S


@pytest.mark.parametrize(
    ("leaders", "outlived"),
    [([""], True), ([OURS], True), ([NEXT], False)],
    ids=["nobody leads", "it leads still", "no owner outlives it"],
)
def test_a_leader_that_nobody_follows_ends_its_owners(jvm, tmp_path, leaders, outlived):
    """In good order, as on a machine alone; it waits a moment for one who follows."""
    leaving = Leaving(tmp_path, leaders, outlived=outlived)
    assert leaving.driver.run() == 0
    assert (jvm.killed, leaving.query.stopped) == (False, True)
    assert leaving.driver._status_pages[0][StatusField.STOP] == 1
    assert leaving.waited_s <= (HEIR_S + HEIR_LOOK_S if leaders == [""] else HEIR_LOOK_S)


def test_first_jobs_that_do_not_end_are_given_up(jvm, tmp_path, monkeypatch):
    """A task hangs, and Spark takes its executor for running: another application has others."""
    monkeypatch.setattr(cluster, "FIRST_JOBS_S", 0.02)
    monkeypatch.setattr(driver, "await_slots", lambda *_: 2)
    monkeypatch.setattr(driver, "check_executors", jvm.wait_for_a_task_that_hangs)
    made = driver_of(tmp_path, lambda: made._check_cluster(None))
    assert made.run() == EXIT_JVM_GONE
    assert jvm.killed


def test_first_jobs_get_more_time_after_each_wait_in_vain(tmp_path, monkeypatch):
    """Else executors that need long to fetch their Python would never deliver."""
    monkeypatch.setattr(cluster, "FIRST_JOBS_S", 0.01)
    monkeypatch.setattr(cluster, "FIRST_JOBS_S_MAX", 0.04)
    waits = []
    log = SimpleNamespace(error=lambda _event, limit_s: waits.append(limit_s))

    def try_once(*, hangs):
        late = threading.Event()
        with cluster.first_jobs(tmp_path, late.set, log):
            assert not hangs or late.wait(60)

    for hangs in (True, True, True, True, False, True):
        try_once(hangs=hangs)
    assert waits == [0.01, 0.02, 0.04, 0.04, 0.01]


def test_a_standby_whose_executors_do_not_get_warm_ends(jvm, tmp_path, monkeypatch):
    """It would not hear that its node leads."""
    monkeypatch.setattr(cluster, "FIRST_JOBS_S", 0.02)
    monkeypatch.setattr("distributary.spark.standby.task_slots", lambda _spark: 1)
    rows = SimpleNamespace(collect=jvm.wait_for_a_task_that_hangs)
    numbers = SimpleNamespace(mapInArrow=lambda *_, **__: rows)
    spark = SimpleNamespace(range=lambda *_: numbers)
    lives = driver._jvm_lives
    standby = StandBy(tmp_path, lambda: False, lives, driver._spark_stopped, kill=driver._kill_jvm)
    with pytest.raises(ConnectionError, match="the JVM has ended"):
        standby.wait(spark, "{}", 1, b"")
    assert jvm.killed
