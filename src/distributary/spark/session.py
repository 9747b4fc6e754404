"""Opens the Spark session of the query, with its settings and the reason of each."""

import os
import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import structlog
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from distributary.spark import class_archive
from distributary.spark.cluster_conf import SHARED_KEY, check_protection, cluster_conf
from distributary.spark.master import TASK_FAILURES_MAX, is_local, resolve

_SECRET = re.compile(r"secret|passw|token|credential|key(?!store|tab)", re.IGNORECASE)
"""Names of settings that may be secrets: more than Spark's own ``spark.redaction.regex``."""

SOCKET_FOLDER_BYTES_MAX = 60
"""Spark refuses a longer path of the folder of its sockets: it appends some forty bytes, and the
system allows 107 in all."""

FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


def session_conf(scratch: Path, partitions: int, archive: str = "") -> dict[str, str]:
    """Returns Spark's settings for a query over *partitions*, with scratch files in *scratch*.

    *archive* is the archive of classes, if there is one (``class_archive``).
    """
    return {
        # A row reaches the JVM when it is written only if nothing is buffered: by that a worker
        # notices a dead JVM.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.execution.pandas.udf.buffer.size": "5",
        # TCP's delayed acknowledgement between JVM and worker costs 40 ms a stage.
        "spark.python.unix.domain.socket.enabled": "true",
        # The default forks chmod for every checkpoint file on a local disk.
        "spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER,
        "spark.sql.streaming.checkpointLocation": str(scratch / "checkpoint"),
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.pollingDelay": "10ms",
        # A task owns its partition for the whole epoch: a speculative copy could never own it.
        "spark.speculation": "false",
        # Failures of one partition's task must not end the others'.
        "spark.task.maxFailures": str(TASK_FAILURES_MAX),
        # Spark must not be reachable from outside, nor listen without need. Who turns its UI on
        # may look: it is on loopback (``driver.run``), ends no job and shows no secret.
        "spark.ui.enabled": "false",
        "spark.ui.killEnabled": "false",
        "spark.redaction.regex": f"(?i){_SECRET.pattern}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.default.parallelism": str(partitions),
        # The JVM only schedules tasks: a small heap, the collector that costs least memory, and a
        # young generation that is collected rather than grown: it would take a third of the heap.
        # Without counters for other programs the JVM does not wake twenty times a second.
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": (
            "-XX:+UseSerialGC -Xss512k -XX:ReservedCodeCacheSize=64m"
            " -XX:MaxMetaspaceSize=192m -XX:TieredStopAtLevel=1"
            " -XX:MaxNewSize=48m -XX:-UsePerfData"
            f" -Djava.net.preferIPv4Stack=true{class_archive.options(archive)}"
        ),
        # Spark sets permissions of its files explicitly, wider than our umask.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        "spark.python.daemon.module": "distributary.spark.worker_daemon",
        # Workers that idle between epochs stay: starting one costs 0.3 s.
        "spark.python.worker.reuse": "true",
    }


def sparse_heartbeats(overrides: Mapping[str, str]) -> dict[str, str]:
    """Returns Spark's setting for heartbeats of an executor that is the driver's own process.

    Each costs a look at all memory pools; nobody but the driver itself could miss one. Nothing
    where the operator has set the timeout that has to be longer.
    """
    timed = "spark.network.timeout" in overrides
    return {} if timed else {"spark.executor.heartbeatInterval": "60s"}


def authentication(master: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Returns Spark's settings that protect its ports with a shared secret.

    Every local user can reach the driver's ports, and without authentication could schedule and
    kill tasks there, and have Java objects deserialized. In local mode, on YARN and on Kubernetes
    Spark generates the secret for its processes. For a standalone cluster (``spark://``) the
    operator sets it.

    Args:
        master: Spark master.
        overrides: The operator's own settings.

    Returns:
        Nothing for a standalone cluster if *overrides* hold no secret.
    """
    made = {"spark.authenticate": "true"}
    if master.startswith("local"):
        return made
    if master.startswith(("yarn", "k8s")) or SHARED_KEY in overrides:
        return made | {"spark.network.crypto.enabled": "true"}  # it leaves this machine
    return {}


def worker_sockets(folder: Path) -> dict[str, str]:
    """Returns Spark's setting that puts sockets of Python workers into *folder*, made and emptied.

    By default they are in the shared folder for temporary files, and stay there after a kill.

    Args:
        folder: Below one that is closed to other users.

    Returns:
        Nothing if its path is too long for a socket in it.
    """
    if len(os.fsencode(folder)) > SOCKET_FOLDER_BYTES_MAX:
        structlog.get_logger().warning(
            "worker-sockets-elsewhere", folder=str(folder), reason="its path is too long for them"
        )
        return {}
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # it may have been there
    # Not the folder itself: the driver of a node works in it.
    for left in folder.iterdir():
        left.unlink(missing_ok=True)
    return {"spark.python.unix.domain.socket.dir": str(folder)}


def at_launch(conf: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings of *conf* for the JVM's command line.

    Every local user can read a command line, so settings that may be secrets by their name are
    left out; the running JVM gets them later.
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
    archive: str = "",
    host: str = "",
) -> SparkSession:
    """Start Spark, or return the running session.

    Args:
        scratch: Folder for Spark's files.
        partitions: Of the log.
        master: As in the settings; it needs a task slot for each partition.
        overrides: The operator's own settings; they win.
        opening: Entered while waiting for the master.
        sockets: Folder for sockets of workers on this machine.
        archive: Archive of the JVM's classes, if there is one.
        host: Where executors of a cluster reach this process, which need nothing of its disk;
            empty: they are on this machine, or see its disk.

    Raises:
        SettingsError: Executors would get secrets in clear: see ``check_protection``.
    """
    master = resolve(master, partitions)
    builder = SparkSession.builder.appName("distributary").master(master)
    secret = authentication(master, overrides)
    if not (secret or host) and overrides.get("spark.authenticate") != "true":
        structlog.get_logger().warning(
            "spark-without-authentication", master=master, set=SHARED_KEY
        )
    conf = {**session_conf(scratch, partitions, archive), **secret}
    conf |= {**(cluster_conf(host, archive) if host else {}), **overrides}
    if host:
        check_protection(master, conf)
    if is_local(master):
        conf = {**worker_sockets(sockets), **sparse_heartbeats(overrides), **conf}
    # The JVM first: its start does not count as waiting for the master.
    SparkContext._ensure_initialized(  # noqa: SLF001 - PySpark has no other step for it
        conf=SparkConf().setAll(list(at_launch(conf).items()))
    )
    for key, value in conf.items():
        builder = builder.config(key, value)
    with opening:
        return builder.getOrCreate()
