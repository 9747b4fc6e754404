"""A process of a job of the archive that ``serve`` starts: its start parameters, and how it ends.

It says what it has done, or why not, as lines of the server's log.
"""

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import structlog

from distributary.core.errors import DistributaryError
from distributary.datadir import PARENT
from distributary.server.processes.base.logging import configure
from distributary.server.processes.supervision.children import end_with_parent


class JobStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the process: its argument, as JSON.

    Attributes:
        data_dir: Data directory.
        to: Path or URL of the archive.
        java_home: Java to run Spark on; empty: one is looked for.
        log_level: Least level that is logged.
        delete_before: Days of the archive before this one (``2026-01-31``) are deleted; empty:
            none is.
        partitions: Of a log that nodes share, whose place is in the environment; else 0.
    """

    data_dir: str
    to: str
    java_home: str
    log_level: str
    delete_before: str = ""
    partitions: int = 0


def _end(_number: int, _frame: FrameType | None) -> None:
    """End this process and its JVM at once: a file that is not finished does not count."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)
    os._exit(0)


def run_job(role: str, niceness: int, argument: str, work: Callable[[JobStart, Any], None]) -> int:
    """Do *work* in this process, and return its exit code.

    Args:
        role: Of the process.
        niceness: Its priority.
        argument: ``JobStart`` as JSON.
        work: Called with the start parameters and the log.
    """
    end_with_parent(int(os.environ[PARENT]))
    os.nice(niceness)
    start = msgspec.json.decode(argument, type=JobStart)
    configure(start.log_level, role=role)
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # the parent stops us in its order
    log = structlog.get_logger()
    try:
        work(start, log)
    except DistributaryError as error:
        event = f"{role}-failed"
        log.warning(event, archive=start.to, reason=str(error))
        return 1
    return 0
