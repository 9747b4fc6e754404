"""Starts Spark before its node leads: the query begins at once when it does.

Called by ``driver``, on nodes that share log and store. The session is opened, executors are there,
their Python processes have imported what owners need, and have read routes and targets. Nothing of
this needs a lease, and nothing is owned or written.
"""

import functools
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.spark.cluster import first_jobs, task_slots

if TYPE_CHECKING:
    import pyarrow as pa

LOOK_S: Final = 0.05
"""Interval of looks whether the node leads: a small part of what is to be gained."""
SLOTS_LOOK_S: Final = 1.0
"""Interval of counting slots: those of a driver that is gone become free."""
STOPPED_LOOK_S: Final = 1.0
"""Interval of looks whether Spark has stopped: each is a call of the JVM, of some 2 ms."""


class StandBy:
    """Waits, with an open session, until the node leads.

    Args:
        folder: Of Spark's files.
        leads: Whether it does.
        lives: Whether the JVM lives.
        stopped: Whether Spark has stopped its context; asks the JVM.
        kill: Ends the JVM.
        sleep: Waits seconds.
        monotonic_s: The monotonic clock.
    """

    def __init__(
        self,
        folder: Path,
        leads: Callable[[], bool],
        lives: Callable[[], bool],
        stopped: Callable[[], bool],
        *,
        kill: Callable[[], None],
        sleep: Callable[[float], None] = time.sleep,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._leads = leads
        self._lives = lives
        self._stopped = stopped
        self._kill = kill
        self._sleep = sleep
        self._now_s = monotonic_s
        self._asked_s = float("-inf")
        self._log = structlog.get_logger()

    def wait(self, spark: SparkSession, session: str, partitions: int, entrusted: bytes) -> bool:
        """Wait; returns whether executors were tried meanwhile, and are warm.

        Args:
            spark: The session.
            session: ``SessionSettings`` as JSON.
            partitions: Of the log.
            entrusted: What executors get, as JSON.

        Raises:
            ConnectionError: The JVM has ended, or Spark has stopped in it.
        """
        if self._leads():
            return False
        while not self._over(lambda: task_slots(spark) >= partitions):
            self._sleep(SLOTS_LOOK_S)
        if self._leads():
            return False
        with first_jobs(self._folder, self._kill, self._log):
            warm = self._warm(spark, session, partitions, entrusted)
        if self._lives():
            self._log.info("stands-by", warm=warm)
        while not self._over(lambda: False):
            self._sleep(LOOK_S)
        return warm

    def _over(self, there: Callable[[], bool]) -> bool:
        if not self._lives():
            raise ConnectionError("the JVM has ended")
        if self._leads():
            return True
        now_s = self._now_s()
        if now_s - self._asked_s >= STOPPED_LOOK_S:
            self._asked_s = now_s
            if self._stopped():
                raise ConnectionError("Spark has stopped: another JVM starts it again")
        return there()

    def _warm(self, spark: SparkSession, session: str, partitions: int, entrusted: bytes) -> bool:
        """Have each process that will own a partition prepare; whether all could."""
        numbers = spark.range(0, partitions, 1, partitions)
        task = functools.partial(_prepare, session, entrusted)
        try:
            rows = numbers.mapInArrow(task, "fault string", barrier=True).collect()
            faults = [row["fault"] for row in rows]
        except (PySparkException, Py4JError) as error:
            faults = [str(error)]
        if faults:
            self._log.warning("standby-cold", reason=faults[0][:500])
        return not faults


def _prepare(
    session: str, entrusted: bytes, numbers: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Task on an executor: prepare its process to own a partition; yields what went wrong."""
    import pyarrow as pa  # noqa: PLC0415 - for executors: the driver needs none of it

    from distributary.spark import _delivery_task  # noqa: PLC0415 - as above

    given = _delivery_task.decode_entrusted(entrusted)
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            try:
                _delivery_task.prepare(session, number, given)
            except Exception as error:  # noqa: BLE001 - told to the operator, whatever it is
                yield pa.record_batch([pa.array([str(error)])], names=["fault"])
