"""Runs jobs of the archive for ``serve``, one of a kind at a time: each in a process of its own.

The settings ``archive`` and ``archive_every_s`` say where to and how often the log is archived.
What owners ask for of the archive is recalled by another process, while they ask. Each has its own
Spark.
"""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from distributary.core.clock import AgeClock, Clock
from distributary.core.cluster import SharedPlaces, encode_places
from distributary.core.environment import CREDENTIAL_KEY_VARIABLE
from distributary.core.errors import LogError
from distributary.core.log import Reader
from distributary.datadir import DataDir
from distributary.datadir.archived import NOTHING, read_archived
from distributary.partitions.recall_requests import read_requests
from distributary.server.processes.pipeline.job_process import JobStart
from distributary.server.processes.pipeline_process import spark_environ
from distributary.server.processes.supervision.children import Child, program
from distributary.server.settings import Settings
from distributary.sources import secret_variables

LOOK_S: Final = 1.0
"""Interval of looks at the clock, at the settings and at the job under way."""
STOP_S: Final = 2.0
"""Longest wait for a job at a stop: the next one goes on where its last manifest ends."""
JOB_S_MAX: Final = 6 * 3600.0
"""Longest job: one that waits for a file system that is gone must not be the last. What it has
named is archived, and the next job goes on."""
RECALL_LOOK_S: Final = 0.25
"""Interval of looks whether archived records are asked for: three small files."""
RECALL_AGAIN_S: Final = 15.0
"""Least time between two starts of the process that recalls: it may fail at once."""
PASSED_ON: Final = ("spark.hadoop.", "spark.jars")
"""Spark properties of the server that a job gets: those of file systems."""


def has_work(paths: DataDir, partitions: int, to: str) -> bool:
    """Whether a segment that is full is not in the archive *to*.

    Raises:
        LogError: The log cannot be read.
    """
    archived = read_archived(paths.archived, to)
    for number in range(partitions):
        with contextlib.closing(Reader(paths.log, number)) as reader:
            if archived.get(number, NOTHING) < max(reader.segments(), default=0):
                return True
    return False


async def keep_archiving(
    settings: Callable[[], Settings],
    has_work: Callable[[str], bool],
    make: Callable[[Settings, int], Child],
    clock: Clock,
) -> None:
    """Start a job whenever it is due, until cancelled, which ends the one under way.

    Args:
        settings: Returns those in force.
        has_work: Whether there is anything to archive; blocks.
        make: Returns the process of a job, not started; gets the time by which days are old, wall
            clock in milliseconds, 0 while it may be wrong.
        clock: The clocks.
    """
    now_s, ages = clock.monotonic_s, AgeClock(clock, from_start=False)
    begun_s = now_s()
    job: Child | None = None
    try:
        while True:
            await asyncio.sleep(LOOK_S)
            age_ms = ages.now_ms()
            if job is not None and (pid := job.pid) is not None:
                if now_s() - begun_s > JOB_S_MAX:
                    job.kill(pid)
                continue
            chosen = settings()
            due = chosen.archive_every_s and now_s() - begun_s >= chosen.archive_every_s
            if not (chosen.archive and due):
                continue
            begun_s = now_s()
            with contextlib.suppress(LogError):  # retention tells of a log that cannot be read
                if await asyncio.to_thread(has_work, chosen.archive):
                    job = make(chosen, age_ms)
                    await asyncio.to_thread(job.start)
    finally:
        if job is not None:
            await asyncio.shield(asyncio.to_thread(job.stop, STOP_S))


async def keep_recalling(
    settings: Callable[[], Settings],
    wanted: Callable[[], bool],
    make: Callable[[Settings], Child],
    now_s: Callable[[], float],
) -> None:
    """Run the process that recalls while owners ask for archived records, until cancelled.

    Args:
        settings: Returns those in force.
        wanted: Whether an owner asks for some; blocks.
        make: Returns the process, not started.
        now_s: Monotonic clock.
    """
    begun_s = float("-inf")
    job: Child | None = None
    try:
        while True:
            await asyncio.sleep(RECALL_LOOK_S)
            if job is not None and (pid := job.pid) is not None:
                if now_s() - begun_s > JOB_S_MAX:
                    job.kill(pid)
                continue
            chosen = settings()
            if not chosen.archive or now_s() - begun_s < RECALL_AGAIN_S:
                continue
            if await asyncio.to_thread(wanted):
                begun_s = now_s()
                job = make(chosen)
                await asyncio.to_thread(job.start)
    finally:
        if job is not None:
            await asyncio.shield(asyncio.to_thread(job.stop, STOP_S))


def is_recall_wanted(paths: DataDir, partitions: int) -> bool:
    """Whether an owner asks for archived records.

    If none does, it forgets why the last ones could not be had: who asks next waits for the next
    try, not for that one.
    """
    if any(read_requests(paths.recall_requests(number)) for number in range(partitions)):
        return True
    with contextlib.suppress(OSError):
        paths.recall_failed.unlink(missing_ok=True)
    return False


class Shared(NamedTuple):
    """The log that nodes share.

    Attributes:
        places: Where log and store lie, with their passwords.
        partitions: Of the log.
    """

    places: SharedPlaces
    partitions: int


def archive_child(
    settings: Settings,
    paths: DataDir,
    line: Callable[[str], None],
    *,
    recalls: bool = False,
    now_ms: int = 0,
    shared: Shared | None = None,
) -> Child:
    """Returns the process of one job, not started; nobody starts it again.

    Args:
        settings: The settings.
        paths: Paths of the data directory.
        line: Called with each line of its standard error.
        recalls: Whether it recalls; otherwise it archives.
        now_ms: By which days of the archive are old, wall clock; 0: none is.
        shared: The log, where nodes share it; None: it is in the data directory.
    """
    role = "recall" if recalls else "archive"
    start = JobStart(
        data_dir=str(paths.root),
        to=settings.archive,
        java_home=str(settings.java_home or ""),
        log_level=settings.log_level,
        delete_before=_first_day(settings.archive_age_max_s, now_ms),
        partitions=shared.partitions if shared else 0,
    )
    conf = {
        name: value for name, value in settings.spark_conf.items() if name.startswith(PASSED_ON)
    }
    return Child(
        role,
        program(f"distributary.server.processes.{role}_process", start),
        line=line,
        environ=spark_environ(conf) | encode_places(shared and shared.places),
        withheld=(CREDENTIAL_KEY_VARIABLE, *secret_variables(settings.sources)),
        ended=lambda _code: False,
    )


def _first_day(age_max_s: float, now_ms: int) -> str:
    """The first day of which something is younger than *age_max_s*; empty: all days stay."""
    if not (age_max_s and now_ms):
        return ""
    return str(datetime.fromtimestamp(now_ms / 1000 - age_max_s, UTC).date())
