"""Starts the Spark of jobs of the archive: small, on this machine unless told otherwise."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.core.errors import StoreError
from distributary.spark import class_archive
from distributary.spark.archive.job import SETTINGS, Done, Wanted, archive
from distributary.spark.archive.logs import TopicLog
from distributary.spark.cluster_conf import PROTECTION, check_protection
from distributary.spark.master import is_local
from distributary.spark.python import write_shim
from distributary.spark.session import at_launch, authentication

__all__ = ["Wanted", "run"]

_REASON_CHARACTERS_MAX: Final = 2_000
_JVM: Final = "-XX:+UseSerialGC -XX:-UsePerfData"
_QUICKLY: Final = " -XX:TieredStopAtLevel=1"


@contextlib.contextmanager
def started(
    scratch: Path,
    master: str,
    overrides: Mapping[str, str],
    *,
    classes: str = "",
    short: bool = False,
    secrets: bool = False,
) -> Iterator[SparkSession]:
    """Yields a small Spark, which stops at the end; what fails inside is a ``StoreError``.

    Args:
        scratch: Folder of its files.
        master: Spark master. Executors elsewhere need a log in a data directory at the same path.
        overrides: The operator's Spark properties; they win.
        classes: Archive of the JVM's classes (``class_archive``); empty: there is none.
        secrets: Tasks carry a password: a master whose executors would get it in clear is refused.
        short: The JVM does little itself, and not for long: to compile what it runs to the fastest
            code would cost more than that code saves.

    Raises:
        SettingsError: See *secrets*.
        StoreError: Spark does not start, or a job of it failed.
    """
    java = f"{_JVM}{_QUICKLY if short else ''}{class_archive.options(classes)}"
    conf = {"spark.driver.extraJavaOptions": java, **overrides}
    if secrets and not is_local(master):
        conf = {**PROTECTION, **conf}
        check_protection(master, conf)
    spark = _session(scratch, master, conf)
    try:
        yield spark
    except (PySparkException, Py4JError, OSError) as error:
        raise StoreError(f"archive: {reason_of(error)}") from error
    finally:
        with contextlib.suppress(Py4JError, OSError):  # the JVM has ended
            spark.stop()


def run(
    wanted: Wanted,
    scratch: Path,
    master: str,
    overrides: Mapping[str, str],
    told: Callable[[Done], None],
    *,
    classes: str = "",
) -> Done:
    """Start Spark, archive what there is to archive, stop Spark.

    Args:
        wanted: What is to be done.
        scratch: See ``started``.
        master: See ``started``.
        overrides: See ``started``.
        told: Called after each step with what is done so far.
        classes: See ``started``.

    Raises:
        DistributaryError: It cannot be done; what manifests name is archived nevertheless.
    """
    secrets = isinstance(wanted.log, TopicLog)
    with started(scratch, master, overrides, classes=classes, secrets=secrets) as spark:
        return archive(spark, wanted, told)


def reason_of(error: Exception) -> str:
    """What *error* says: our own error in a task, else the first line of Spark's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("distributary.core.errors.")]
    found = own[0].partition(": ")[2] if own else (lines[0] if lines else repr(error))
    return found[:_REASON_CHARACTERS_MAX]


def _session(scratch: Path, master: str, overrides: Mapping[str, str]) -> SparkSession:
    """Start Spark with its files in *scratch*.

    Raises:
        StoreError: Spark does not start.
    """
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    if is_local(master):
        os.environ["PYSPARK_PYTHON"] = str(write_shim(scratch / "bin"))
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    conf = {
        "spark.app.name": "distributary archive",
        "spark.master": master,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.python.unix.domain.socket.enabled": "true",
        # Spark sets permissions of its files explicitly, wider than our umask.
        "spark.hadoop.fs.permissions.umask-mode": "077",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.local.dir": str(scratch / "local"),
        "spark.log.level": "ERROR",
        **SETTINGS,
        **authentication(master, overrides),
        **overrides,
    }
    try:
        SparkContext._ensure_initialized(  # noqa: SLF001 - PySpark has no other step for it
            conf=SparkConf().setAll(list(at_launch(conf).items()))
        )
        builder = SparkSession.builder
        for name, value in conf.items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    except Exception as error:
        raise StoreError(f"Spark does not start: {str(error).splitlines()[0]}") from error
