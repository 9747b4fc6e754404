"""Checks that a Spark cluster can run the query: task slots, and what its executors need.

Called by ``driver`` once the session is open. Waits for slots, which appear as executors register;
then one task in each slot looks for the data directory, or imports what it will run.
"""

import contextlib
import importlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.partitions.executor import lease_holder
from distributary.spark._patience import Patience
from distributary.spark.master import too_few, unanswered

if TYPE_CHECKING:
    import pyarrow as pa

OPENED_S = 90.0
"""Longest wait for a session on a master, which was reached before. Spark asks it for a minute; the
session itself takes up to 20 s of a busy machine."""
FIRST_JOBS_S = 300.0
"""Wait for the jobs that try executors before the query begins. Their Python has to start, which
took 70 s on a busy machine, and may have to be fetched and unpacked first. A job whose task hangs
never ends: Spark takes its executor for running. After each wait in vain the next one is twice as
long."""
FIRST_JOBS_S_MAX = 3600.0
"""The longest such wait: an hour fetches 30 GB at 100 Mbit/s."""
FIRST_JOBS = "first-jobs"
"""Name of the file of these waits, beside Spark's checkpoint."""
LOOK_S = 0.2
"""Interval at which slots are counted while waiting for them."""
REASON_CHARS_MAX = 500
"""Limit of Spark's error text if its executors cannot run the check."""
NEEDED = (
    "distributary.spark._delivery_task",
    "distributary.partitions.cluster_places",
)
"""What an owner on an executor imports."""
TRIES_MAX = 2
"""Tries to run a task in each slot."""
PROBE = "spark-probe"
"""Name of the file in ``run/`` that executors must see."""


@contextlib.contextmanager
def answering(master: str, give_up: Callable[[SettingsError], None]) -> Iterator[None]:
    """Calls *give_up* in another thread if the body takes longer than ``OPENED_S``."""
    error = unanswered(master, f"no answer within {OPENED_S:g} s")
    with _within(OPENED_S, lambda: give_up(error)):
        yield


@contextlib.contextmanager
def first_jobs(folder: Path, give_up: Callable[[], None], log: Any) -> Iterator[None]:
    """Calls *give_up* in another thread if the body takes too long; the next time it may longer.

    Args:
        folder: Of Spark's files; that of these waits is there.
        give_up: Ends the JVM, and by that the call that waits for the jobs.
        log: Takes lines for people.
    """
    patience = Patience(folder / FIRST_JOBS, FIRST_JOBS_S, FIRST_JOBS_S_MAX)
    in_vain = threading.Event()

    def late() -> None:
        in_vain.set()
        log.error("first-jobs-late", limit_s=patience.wait_s)
        patience.spend()
        give_up()

    with _within(patience.wait_s, late):
        yield
    if not in_vain.is_set():
        patience.renew()


@contextlib.contextmanager
def _within(limit_s: float, late: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(limit_s, late)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def await_slots(spark: SparkSession, master: str, partitions: int, wait_s: float) -> int:
    """Wait until there is a task slot for each partition; returns how many there are.

    Args:
        spark: The session.
        master: Its master, for people.
        partitions: Of the log.
        wait_s: Longest wait.

    Raises:
        SettingsError: There are too few.
    """
    until_s = time.monotonic() + wait_s
    while (found := task_slots(spark)) < partitions:
        if time.monotonic() > until_s:
            raise too_few(master, found, partitions)
        time.sleep(LOOK_S)
    return found


def check_executors(
    spark: SparkSession, master: str, found: int, data_dir: Path | None, *, tried: bool = False
) -> None:
    """Refuse *master* if the query cannot run on its executors. Waits for as long as they take.

    Args:
        spark: The session.
        master: Its master, for people.
        found: Its task slots.
        data_dir: What executors must see; None: they need nothing of this disk.
        tried: Executors of the cluster have run owners lately: what they import is not looked at,
            which takes as long as the start of their processes.

    Raises:
        SettingsError: An executor cannot see *data_dir*, or cannot import what it needs.
    """
    if data_dir is None:
        if not tried:
            _check_imports(spark, master, found)
        return
    try:
        blind = blind_hosts(spark, found, data_dir)
    except Py4JJavaError as error:
        # The Python that executors run is in the data directory too.
        reason = str(error.java_exception.getMessage())
        lines = [line.strip() for line in reason.splitlines() if line.strip()]
        raise _blind(master, data_dir, lines[0][:REASON_CHARS_MAX]) from error
    if blind:
        raise _blind(master, data_dir, f"on {', '.join(blind)}")


def _check_imports(spark: SparkSession, master: str, count: int) -> None:
    """Refuse *master* if an executor cannot import what owners need."""
    faults: list[str] = []
    for _ in range(TRIES_MAX):
        try:
            faults = _faults_of(_tries_of(spark, count, barrier=True))
            break
        except (PySparkException, Py4JJavaError) as error:  # an executor may have been lost
            reason = str(error)
            faults = [line.strip() for line in reason.splitlines() if line.strip()][-1:]
    if faults:
        raise SettingsError(
            f"executors of the Spark master {master} cannot run owners:"
            f" {'; '.join(faults)[:REASON_CHARS_MAX]}. Give them a Python with what distributary"
            " depends on: spark_conf spark.pyspark.python or spark.archives"
        )


def warm_spare(spark: SparkSession, partitions: int, log: Any) -> frozenset[str]:
    """Have the task slots that no partition uses start their Python: a task that moves finds it.

    Args:
        spark: The session.
        partitions: Of the log; each has a slot.
        log: Takes lines for people.

    Returns:
        Spark's ids of the executors whose Python has run a task.
    """
    try:
        count = task_slots(spark) - partitions
        tries = _tries_of(spark, count, barrier=False) if count > 0 else []
    except (PySparkException, Py4JError, ConnectionError) as error:
        tries = [_Try("", str(error)[:REASON_CHARS_MAX])]
    for fault in _faults_of(tries):
        log.warning("spare-executor-cold", reason=fault)
    return frozenset(each.executor for each in tries if not each.fault)


class _Try(NamedTuple):
    """What a task has found.

    Attributes:
        executor: Spark's id of the executor where it ran; empty: unknown.
        fault: What is wrong with its Python, with the host; empty: nothing.
    """

    executor: str
    fault: str


def _tries_of(spark: SparkSession, count: int, *, barrier: bool) -> list[_Try]:
    """Try the Python in so many task slots.

    It runs as the tasks of the query do: so the processes that this starts are those that they use.
    By another way Spark would start a second daemon on each executor, for nothing.
    """
    numbers = spark.range(0, count, 1, count)
    rows = numbers.mapInArrow(_import, "executor string, fault string", barrier=barrier).collect()
    return [_Try(row["executor"], row["fault"]) for row in rows]


def _faults_of(tries: Iterable[_Try]) -> list[str]:
    return sorted({each.fault for each in tries if each.fault})


def _import(numbers: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Task on an executor: yields where it ran, and what is wrong with the Python there."""
    import pyarrow as pa  # noqa: PLC0415 - for executors: this process needs none of it

    for _ in numbers:
        pass
    fault = ""
    try:
        for name in NEEDED:
            importlib.import_module(name)
        importlib.import_module(NEEDED[-1]).import_clients()
    except Exception as error:  # noqa: BLE001 - told to the operator, whatever it is
        fault = f"{socket.gethostname()}: {error}"
    found = _Try(lease_holder().executor, fault)
    yield pa.record_batch([pa.array([value]) for value in found], names=list(_Try._fields))


def _blind(master: str, data_dir: Path, reason: str) -> SettingsError:
    return SettingsError(
        f"executors of the Spark master {master} cannot see the data directory {data_dir}"
        f" ({reason}). Owners work on its files: mount it there at the same path, with"
        " the same Python, or leave --spark-master out"
    )


def task_slots(spark: SparkSession) -> int:
    """Returns how many tasks can run at once now."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark has no count of slots
    profile = context.resourceProfileManager().defaultResourceProfile()
    found: int = context.maxNumConcurrentTasks(profile)
    return found


def blind_hosts(spark: SparkSession, count: int, data_dir: Path) -> list[str]:
    """Returns hosts of executors that do not see a file written to *data_dir* here.

    Args:
        spark: The session.
        count: Its task slots; all are checked, at one time.
        data_dir: The data directory.
    """
    path = DataDir(data_dir).run / PROBE
    token = secrets.token_hex(16)
    path.write_text(token, encoding="ascii")
    try:
        looks = spark.sparkContext.parallelize(range(count), count).barrier()
        hosts = looks.mapPartitions(_Look(str(path), token)).collect()
    finally:
        path.unlink(missing_ok=True)
    return sorted({host for host in hosts if host})


class _Look:
    """Task on an executor: yields the name of its host if it does not see the probe."""

    def __init__(self, path: str, token: str) -> None:
        self._path = path
        self._token = token

    def __call__(self, _numbers: Iterable[int]) -> Iterable[str]:
        try:
            seen = Path(self._path).read_text(encoding="ascii") == self._token
        except (OSError, UnicodeDecodeError):
            seen = False
        return [] if seen else [socket.gethostname()]
