"""The Spark session of the pipeline: its settings, each with its reason."""

import os
import re
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from distributary.datadir import SOCKET_PATH_BYTES_MAX
from distributary.spark.master import TASK_FAILURES_MAX, is_local, resolve

SHARED_KEY = "spark.authenticate.secret"
"""Spark's property for the secret that driver and executors share."""

_SECRET = re.compile(r"secret|passw|token|credential|key(?!store|tab)", re.IGNORECASE)
"""In the names of settings that may be secrets: more than Spark's own ``spark.redaction.regex``."""

SOCKET_NAME_BYTES = len("/.00000000-0000-0000-0000-000000000000.sock")
"""What Spark appends to the folder of its sockets."""

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def session_conf(scratch: Path, partitions: int) -> dict[str, str]:
    """Spark's settings for a pipeline of *partitions* with its scratch files in *scratch*."""
    return {
        # Rows flow while the epoch runs only where nothing is buffered: one chunk a row, one row
        # a batch (DESIGN, "What makes rows flow").
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.execution.pandas.udf.buffer.size": "5",
        # TCP's delayed acknowledgement between JVM and worker costs 40 ms a stage.
        "spark.python.unix.domain.socket.enabled": "true",
        # The default forks chmod for every checkpoint file on a local disk.
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        "spark.sql.streaming.checkpointLocation": str(scratch / "checkpoint"),
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.pollingDelay": "10ms",
        # A task tails its partition for the whole epoch: a second copy could never own it.
        "spark.speculation": "false",
        # One partition that cannot be owned waits in its task; it must not end the others'.
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
        # Nothing of Spark's is reachable from outside, and nothing listens without need.
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.default.parallelism": str(partitions),
        # The JVM only passes chunks on: a small heap, the collector that costs least memory.
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": (
            "-XX:+UseSerialGC -Xss512k -XX:ReservedCodeCacheSize=64m"
            " -XX:MaxMetaspaceSize=192m -XX:TieredStopAtLevel=1"
            " -Djava.net.preferIPv4Stack=true"
        ),
        # Spark's own files ask for what the umask would refuse.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "distributary.spark.worker_daemon",
        # Workers that idle between epochs stay: starting one costs 0.3 s.
        "spark.python.worker.reuse": "true",
    }


def authentication(master: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings that let nobody speak to its ports who does not know a secret.

    Every local user reaches the ports of the driver: without authentication, whoever connects
    schedules and kills tasks there, and has objects of Java deserialized. In local mode, on YARN
    and on Kubernetes Spark makes the secret itself and tells its own processes alone. A cluster
    with a master of its own (``spark://``) has the secret of whoever set it up.

    Args:
        master: Spark master.
        overrides: The operator's own settings.

    Returns:
        Nothing for a master that needs a secret where *overrides* hold none.
    """
    made = {"spark.authenticate": "true"}
    if master.startswith("local"):
        return made
    if master.startswith(("yarn", "k8s")) or SHARED_KEY in overrides:
        return made | {"spark.network.crypto.enabled": "true"}  # it leaves this machine
    return {}


def worker_sockets(folder: Path) -> dict[str, str]:
    """Spark's setting that puts the sockets of Python workers into *folder*, made and emptied.

    Otherwise they lie in the folder for everybody's temporary files, and stay there after a kill.

    Args:
        folder: Below one that is closed to other users.

    Returns:
        Nothing where its path leaves no room for their names.
    """
    if len(os.fsencode(folder)) + SOCKET_NAME_BYTES > SOCKET_PATH_BYTES_MAX:
        structlog.get_logger().warning(
            "worker-sockets-elsewhere", folder=str(folder), reason="its path is too long for them"
        )
        return {}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return {"spark.python.unix.domain.socket.dir": str(folder)}


def at_launch(conf: Mapping[str, str]) -> dict[str, str]:
    """Those of *conf* that the JVM is started with: PySpark writes them on its command line.

    Everybody on the machine sees that. So what may be a secret by its name is left out, and is
    told to the JVM once it runs.
    """
    return {name: value for name, value in conf.items() if not _SECRET.search(name)}


def open_session(
    scratch: Path,
    partitions: int,
    master: str,
    overrides: Mapping[str, str],
    opening: AbstractContextManager[None],
    *,
    sockets: Path,
) -> SparkSession:
    """Start Spark, or find it running.

    Args:
        scratch: Folder for Spark's files.
        partitions: Of the log.
        master: As in the settings; it needs a task slot for each partition.
        overrides: The operator's own settings; they win.
        opening: Entered while the master is asked.
        sockets: Folder for those of workers on this machine.
    """
    master = resolve(master, partitions)
    builder = SparkSession.builder.appName("distributary").master(master)
    secret = authentication(master, overrides)
    if not secret and overrides.get("spark.authenticate") != "true":
        structlog.get_logger().warning(
            "spark-without-authentication", master=master, set=SHARED_KEY
        )
    conf = {**session_conf(scratch, partitions), **secret, **overrides}
    if is_local(master):
        conf = {**worker_sockets(sockets), **conf}
    # The JVM first: how long it takes to start says nothing about the master.
    SparkContext._ensure_initialized(  # noqa: SLF001 - PySpark has no other step for it
        conf=SparkConf().setAll(list(at_launch(conf).items()))
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    with opening:
        return builder.getOrCreate()
