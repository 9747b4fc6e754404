"""The process of one archive job that ``serve`` starts, at the lowest priority.

It says what it has done, or why not, as a line of the server's log. A failure changes nothing: the
next job goes on where this one's last manifest ends.
"""

import os
import signal
import sys
import time
from datetime import UTC, date, datetime
from pathlib import Path
from types import FrameType

import msgspec
import structlog

from distributary.core.errors import DistributaryError
from distributary.datadir import PARENT
from distributary.server.processes.base.logging import configure
from distributary.server.processes.pipeline.archive_job import ArchiveOrder, run_archive
from distributary.server.processes.pipeline_process import take_spark_conf
from distributary.server.processes.supervision.children import end_with_parent


class ArchiveStart(msgspec.Struct, frozen=True, kw_only=True):
    """Start parameters of the process: its argument, as JSON.

    Attributes:
        data_dir: Data directory.
        to: Path or URL of the archive.
        java_home: Java to run Spark on; empty: one is looked for.
        log_level: Least level that is logged.
        age_max_s: Age above which days of the archive are deleted; 0: never.
    """

    data_dir: str
    to: str
    java_home: str
    log_level: str
    age_max_s: float = 0.0


def _end(_number: int, _frame: FrameType | None) -> None:
    """End this process and its JVM at once: what no manifest names does not count."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGTERM)
    os._exit(0)


def _first_day(age_max_s: float) -> date | None:
    """The first day of which something is younger than *age_max_s*; None: all days stay."""
    if not age_max_s:
        return None
    return datetime.fromtimestamp(time.time() - age_max_s, UTC).date()


def main(arguments: list[str]) -> int:
    """Entry point of the process: one argument, ``ArchiveStart`` as JSON."""
    end_with_parent(int(os.environ[PARENT]))
    os.nice(19)
    start = msgspec.json.decode(arguments[0], type=ArchiveStart)
    configure(start.log_level, role="archive")
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, lambda _number, _frame: None)  # the parent stops us in its order
    log = structlog.get_logger()
    order = ArchiveOrder(
        data_dir=Path(start.data_dir),
        to=start.to,
        spark_conf=take_spark_conf(),
        java_home=Path(start.java_home) if start.java_home else None,
        delete_before=_first_day(start.age_max_s),
    )
    try:
        done = run_archive(order, lambda _done: None)
    except DistributaryError as error:
        log.warning("archive-failed", archive=start.to, reason=str(error))
        return 1
    if done.days_deleted:
        log.info("archive-days-deleted", archive=start.to, days=list(done.days_deleted))
    for lost in done.lost:
        log.warning("archive-incomplete", **lost._asdict())
    log.info(
        "archived",
        archive=start.to,
        events=done.events,
        segments=done.ranges,
        bytes=done.bytes,
        to={str(number): offset for number, offset in sorted(done.positions.items())},
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
