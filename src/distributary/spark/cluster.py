"""Checks that a Spark cluster can run the query: task slots, and access to the data directory.

Called by ``driver`` once the session is open. Waits for slots, which appear as executors register;
then one task in each slot looks for the data directory.
"""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from distributary.core.errors import SettingsError
from distributary.datadir import DataDir
from distributary.spark.master import ANSWER_S, too_few, unanswered

LOOK_S = 0.2
"""Interval at which slots are counted while waiting for them."""
REASON_CHARS_MAX = 500
"""Limit of Spark's error text if its executors cannot run the check."""
PROBE = "spark-probe"
"""Name of the file in ``run/`` that executors must see."""


@contextlib.contextmanager
def answering(master: str, give_up: Callable[[SettingsError], None]) -> Iterator[None]:
    """Calls *give_up* in another thread if the body takes longer than ``ANSWER_S``."""
    error = unanswered(master, f"no answer within {ANSWER_S:g} s")
    timer = threading.Timer(ANSWER_S, give_up, (error,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_cluster(spark: SparkSession, master: str, partitions: int, data_dir: Path) -> None:
    """Refuse *master* if the query cannot run on it.

    Raises:
        SettingsError: Too few slots within ``ANSWER_S``, or an executor that cannot see *data_dir*.
    """
    until_s = time.monotonic() + ANSWER_S
    while (found := task_slots(spark)) < partitions:
        if time.monotonic() > until_s:
            raise too_few(master, found, partitions)
        time.sleep(LOOK_S)
    try:
        blind = blind_hosts(spark, found, data_dir)
    except Py4JJavaError as error:
        # The Python that executors run is in the data directory too.
        reason = str(error.java_exception.getMessage())
        lines = [line.strip() for line in reason.splitlines() if line.strip()]
        raise _blind(master, data_dir, lines[0][:REASON_CHARS_MAX]) from error
    if blind:
        raise _blind(master, data_dir, f"on {', '.join(blind)}")


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
