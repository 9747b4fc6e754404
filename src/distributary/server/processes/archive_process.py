"""The process of one archive job that ``serve`` starts, at the lowest priority.

A failure changes nothing: the next job goes on where this one's last manifest ends.
"""

import sys
from datetime import date
from pathlib import Path
from typing import Any

from distributary.server.processes.pipeline.archive_job import ArchiveOrder, run_archive
from distributary.server.processes.pipeline.job_process import JobStart, run_job
from distributary.server.processes.pipeline_process import take_spark_conf


def run(start: JobStart, log: Any) -> None:
    """Archive what there is to archive.

    Raises:
        DistributaryError: It cannot be done.
    """
    order = ArchiveOrder(
        data_dir=Path(start.data_dir),
        to=start.to,
        spark_conf=take_spark_conf(),
        java_home=Path(start.java_home) if start.java_home else None,
        delete_before=date.fromisoformat(start.delete_before) if start.delete_before else None,
    )
    done = run_archive(order, lambda _done: None)
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


if __name__ == "__main__":
    sys.exit(run_job("archive", 19, sys.argv[1], run))
