"""The pipeline's driver process: Spark and its query, in a process that may be replaced."""

import os
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

import msgspec

from distributary.datadir import DataDir, LiveFile
from distributary.partitions import SessionSettings
from distributary.server.processes._children import end_with_parent
from distributary.server.processes._ends import starting
from distributary.server.processes._logging import configure, set_level

LOOK_S = 0.5
"""How often the process looks whether the log level has changed."""
EXIT_FAILED = 1
"""Exit code: the driver could not start; another start may work."""
_SPARK_CONF = "DISTRIBUTARY_DRIVER_SPARK_CONF"
"""Variable with the operator's Spark settings, as JSON: there may be secrets among them, and
everybody on the machine sees the arguments of processes."""


class PipelineStart(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver process must know; an argument, as JSON. Holds no secret."""

    session: SessionSettings
    master: str
    epoch_s: float


def _follow_level(path: Path) -> None:
    """Take the log level as it changes. The main thread waits for Spark much of the time."""
    live = LiveFile(path)
    while True:
        news = live.look()
        if news is not None:
            set_level(news.log_level)
        time.sleep(LOOK_S)


def spark_environ(spark_conf: Mapping[str, str]) -> dict[str, str]:
    """Variables by which the driver process learns of *spark_conf*."""
    return {_SPARK_CONF: msgspec.json.encode(spark_conf).decode()}


def _end(code: int) -> NoReturn:
    """End the process at once: what it holds is of a JVM that is gone or going.

    PySpark's own way out asks the JVM again, which takes nearly a second where there is none.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main(arguments: list[str]) -> int:
    """Entry of the process: one argument, ``PipelineStart`` as JSON, and ``spark_environ``."""
    end_with_parent(int(os.environ["DISTRIBUTARY_PARENT"]))
    start = msgspec.json.decode(arguments[0], type=PipelineStart)
    spark_conf = msgspec.json.decode(os.environ.pop(_SPARK_CONF), type=dict[str, str])
    configure(start.session.log_level, role="pipeline")
    paths = DataDir.of(start.session.data_dir)
    threading.Thread(target=_follow_level, args=(paths.live,), daemon=True).start()
    # Loaded here: this is the process that pays for Spark.
    from distributary.spark.driver import EXIT_JVM_GONE, DriverSettings, run  # noqa: PLC0415

    settings = DriverSettings(
        session=start.session,
        partitions=start.session.partitions,
        master=start.master,
        spark_conf=spark_conf,
        epoch_s=start.epoch_s,
        drain_s=start.session.drain_s,
    )
    code = starting(lambda: run(settings, paths.spark), EXIT_FAILED)
    if code == EXIT_JVM_GONE:
        _end(code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
