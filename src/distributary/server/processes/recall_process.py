"""The process that recalls archived records while owners ask for them, at a low priority.

``serve`` starts it at the first request. It ends when nobody has asked for a minute, so a server
whose replays stay within its log never has it.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from distributary.core.errors import DistributaryError
from distributary.core.files import write_atomically
from distributary.core.log import read_folder
from distributary.core.log.recalled import list_recalled
from distributary.datadir import DataDir
from distributary.partitions.recalls import read_requests
from distributary.server.processes.pipeline.archive_job import alone, is_path
from distributary.server.processes.pipeline.job_process import JobStart, run_job
from distributary.server.processes.pipeline_process import take_spark_conf
from distributary.spark import find_java, java_environment, usable_class_archive

if TYPE_CHECKING:
    from distributary.spark.archive.recall import Brought, Needed

IDLE_S: Final = 60.0
"""How long the process, with its JVM, waits for another request."""
LOOK_S: Final = 0.1
"""Interval of looks at the requests."""
MASTER: Final = "local[1]"
"""One core: a second task would compete with the owners. Python takes 8 us of it an event."""
NICENESS: Final = 5
"""Priority below that of owners, by so much that it gets a fourth of a core that one of them keeps
busy. With 10 it got a tenth, less than a replay needs: owners waited for it, and a core idled."""


def wanted_of(paths: DataDir, partitions: int) -> "list[tuple[int, int]]":
    """Returns partition and record of each stretch that is asked for and not there yet."""
    by_partition = []
    for number in range(partitions):
        there = list_recalled(paths.recalled(number))
        asked = read_requests(paths.recall_requests(number))
        by_partition.append(
            [
                (number, offset)
                for offset, _ in asked
                if not any(each.from_offset <= offset < each.to_offset for each in there)
            ]
        )
    longest = max(map(len, by_partition), default=0)
    return [each[turn] for turn in range(longest) for each in by_partition if turn < len(each)]


def serve(
    wanted: Callable[[], "list[Needed]"],
    recall: "Callable[[list[Needed]], Brought]",
    log: Any,
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Recall what is wanted until nobody has wanted anything for ``IDLE_S``."""
    last_s = now_s()
    while now_s() - last_s < IDLE_S:
        asked = wanted()
        if not asked:
            sleep(LOOK_S)
            continue
        brought = recall(asked)
        last_s = now_s()
        if not brought.stretches:
            sleep(LOOK_S)  # Nobody has them: the owners see that too, once they look again.
        else:
            log.info("recalled", segments=brought.stretches, events=brought.events)
        if brought.damaged or brought.missing:
            log.warning(
                "recalled-incomplete", damaged=brought.damaged, missing=list(brought.missing)[:10]
            )


def run(start: JobStart, log: Any) -> None:
    """Recall until nobody asks; a failure is noted for those who wait.

    Raises:
        DistributaryError: Spark does not start, or the archive cannot be read.
    """
    paths = DataDir(Path(start.data_dir))
    try:
        _run(paths, start, log)
    except DistributaryError as error:
        with contextlib.suppress(OSError):  # a disk that is full: the log says it
            write_atomically(paths.recall_failed, str(error).encode(), mode=0o600)
        raise


def _run(paths: DataDir, start: JobStart, log: Any) -> None:
    partitions = read_folder(paths.log).partitions
    java = find_java(os.environ, chosen=Path(start.java_home) if start.java_home else None)
    with alone(paths.recall_lock, paths.recall_scratch):
        _sweep(paths, partitions)
        os.environ.update(java_environment(java, paths.recall_scratch / "java"))
        # Imported here: it imports pyspark, which needs to know its Java.
        from distributary.spark.archive.recall import Needed, Recaller  # noqa: PLC0415 - see above
        from distributary.spark.archive.session import started  # noqa: PLC0415 - see above

        session = started(
            paths.recall_scratch,
            MASTER,
            take_spark_conf(),
            classes=usable_class_archive(java),
            short=is_path(start.to),  # Spark reads nothing of it: see ``Recaller``.
        )
        with session as spark:
            recaller = Recaller(spark, start.to)

            def recall(asked: list[Needed]) -> "Brought":
                brought = recaller.recall(asked)
                paths.recall_failed.unlink(missing_ok=True)
                return brought

            serve(
                lambda: [
                    Needed(number, offset, paths.recalled(number))
                    for number, offset in wanted_of(paths, partitions)
                ],
                recall,
                log,
            )


def _sweep(paths: DataDir, partitions: int) -> None:
    """Delete what a killed process has left half written."""
    for number in range(partitions):
        for path in paths.recalled(number).glob("*.new"):
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(run_job("recall", NICENESS, sys.argv[1], run))
