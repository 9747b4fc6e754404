"""The driver process of the pipeline: runs Spark and its query; ``serve`` may restart it."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import msgspec
import structlog

from distributary.core.clock import boot_s
from distributary.core.cluster import SharedPlaces, take_places
from distributary.core.errors import StoreError
from distributary.datadir import PARENT, DataDir, LiveFile, MappedStatusPage, StatusField
from distributary.history.place import mark
from distributary.server.processes.base.logging import configure, set_level
from distributary.server.processes.supervision.children import end_with_parent
from distributary.server.processes.supervision.ends import starting
from distributary.spark import DriverSettings, Withheld

LOOK_S = 0.5
"""How often the process checks for a changed log level."""
EXIT_FAILED = 1
"""Exit code: the driver could not start; another start may work."""
_SPARK_CONF = "DISTRIBUTARY_DRIVER_SPARK_CONF"
"""Environment variable with the operator's Spark settings, as JSON: they may hold secrets, and
every user of the machine sees the arguments of processes."""


class PipelineStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the driver process: its argument, as JSON. Holds no secret.

    Attributes:
        driver: Settings of the driver.
        log_level: Least level that is logged.
        waits: Whether it begins only when its node leads.
    """

    driver: DriverSettings
    log_level: str
    waits: bool = False


def _follow_level(path: Path) -> None:
    """Apply changes of the log level, in a thread: the main thread mostly waits for Spark."""
    live = LiveFile(path)
    while True:
        news = live.look()
        if news is not None:
            set_level(news.log_level)
        time.sleep(LOOK_S)


def spark_environ(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Environment variables that pass *spark_conf* to the driver process."""
    return {_SPARK_CONF: msgspec.json.encode(spark_conf).decode()}


def take_spark_conf() -> dict[str, str]:
    """Take what ``spark_environ`` passed out of the environment."""
    return msgspec.json.decode(os.environ.pop(_SPARK_CONF), type=dict[str, str])


def _entrusted(shared: SharedPlaces | None, settings: DriverSettings) -> bytes:
    """What executors get with their tasks; empty where all is in the data directory.

    Raises:
        StoreError: A file of keys cannot be read.
    """
    if shared is None:
        return b""
    # Imported here: no other driver needs what owners import.
    from distributary.partitions import SessionSettings, entrusted_of  # noqa: PLC0415

    session = msgspec.json.decode(settings.session, type=SessionSettings)
    _mark(session.history, session.history_mark, DataDir.of(settings.data_dir))
    given = entrusted_of(
        shared,
        DataDir.of(settings.data_dir),
        key_file=session.credential_key_file,
        issuer_key_file=session.issuer_key_file,
    )
    return msgspec.json.encode(given)


def _mark(folder: str, by: str, paths: DataDir) -> None:
    """Mark the folder that owners on any machine write history files into."""
    if not folder or not by:
        return
    try:
        mark(Path(folder), by, replace=Path(folder).is_relative_to(paths.root))
    except (OSError, StoreError) as error:
        structlog.get_logger().warning("history-off", folder=folder, reason=str(error))


def _leads(paths: DataDir) -> Callable[[], bool]:
    """Returns what says whether the node of this process leads now."""
    page = MappedStatusPage(paths.node_page)
    return lambda: boot_s() * 1000 < page[StatusField.LEADS_UNTIL_MS]


def _end(code: int) -> NoReturn:
    """End the process at once, since its JVM has ended or is ending.

    PySpark's exit handlers call the JVM again, which takes nearly a second without one.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: list[str]) -> int:
    """Entry point: one argument, ``PipelineStart`` as JSON, and ``spark_environ``."""
    end_with_parent(int(os.environ[PARENT]))
    start = msgspec.json.decode(arguments[0], type=PipelineStart)
    spark_conf = take_spark_conf()
    shared = take_places(os.environ)
    configure(start.log_level, role="pipeline")
    paths = DataDir.of(start.driver.data_dir)
    threading.Thread(target=_follow_level, args=(paths.live,), daemon=True).start()
    # Imported here, so that no other process loads Spark.
    from distributary.spark.driver import EXIT_JVM_GONE, run  # noqa: PLC0415

    leads = _leads(paths) if start.waits else None

    def drive() -> int:
        withheld = Withheld(spark_conf, _entrusted(shared, start.driver))
        return run(start.driver, withheld, paths.spark, leads)

    code = starting(drive, EXIT_FAILED)
    if code == EXIT_JVM_GONE:
        _end(code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
