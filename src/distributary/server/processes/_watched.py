"""Which processes are watched, by which signs of life.

Called by ``_serve``. Readers and owners are not our children: Spark starts them again.
"""

import contextlib
import os
import signal
from collections.abc import Callable

from distributary.datadir import ConsumerPhase, DataDir, MappedStatusPage, StatusField
from distributary.server.processes._children import Child
from distributary.server.processes._watchdog import WatchedProcess


def watched_processes(
    paths: DataDir,
    partitions: int,
    ingest: Child,
    pipeline: Child,
    sources: Callable[[], Child | None],
) -> list[WatchedProcess]:
    """Every process of the server but this one.

    Args:
        paths: Of the data directory.
        partitions: Of the log.
        ingest: Answers publishers.
        pipeline: The driver; leads the session of everything that Spark starts.
        sources: The process of the sources, if there is one now.
    """
    found = [_ingest(paths, ingest), _driver(paths, pipeline), _sources(paths, sources)]
    for number in range(partitions):
        status_page = MappedStatusPage(paths.status_page(number))
        found += [_owner(number, status_page, pipeline), _reader(number, status_page, pipeline)]
    return found


def _ingest(paths: DataDir, child: Child) -> WatchedProcess:
    status_page = MappedStatusPage(paths.ingest_page)
    return WatchedProcess(
        role="ingest",
        pid=lambda: child.pid,
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        excused=lambda: bool(status_page[StatusField.COMMITTING]),
        replace=child.kill,
    )


def _driver(paths: DataDir, child: Child) -> WatchedProcess:
    status_page = MappedStatusPage(paths.driver_page)
    return WatchedProcess(
        role="pipeline",
        pid=lambda: child.pid,
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        settled=lambda: status_page[StatusField.PHASE] == ConsumerPhase.RUNNING,
        replace=child.kill,
        family=True,
    )


def _sources(paths: DataDir, child: Callable[[], Child | None]) -> WatchedProcess:
    status_page = MappedStatusPage(paths.sources_page)

    def pid() -> int | None:
        now = child()
        return None if now is None else now.pid

    def replace(which: int) -> None:
        now = child()
        if now is not None:
            now.kill(which)

    return WatchedProcess(
        role="sources", pid=pid, sign=lambda: status_page[StatusField.HEARTBEAT_MS], replace=replace
    )


def _owner(number: int, status_page: MappedStatusPage, pipeline: Child) -> WatchedProcess:
    return WatchedProcess(
        role=f"owner of partition {number}",
        pid=lambda: (
            status_page[StatusField.CONSUMER_PID]
            if status_page[StatusField.PHASE] != ConsumerPhase.ABSENT
            else None
        ),
        sign=lambda: status_page[StatusField.HEARTBEAT_MS],
        settled=lambda: (
            status_page[StatusField.PHASE] in {ConsumerPhase.RUNNING, ConsumerPhase.DRAINING}
        ),
        replace=lambda pid: _kill_worker(pid, pipeline),
    )


def _reader(number: int, status_page: MappedStatusPage, pipeline: Child) -> WatchedProcess:
    return WatchedProcess(
        role=f"reader of partition {number}",
        pid=lambda: status_page[StatusField.READER_PID] or None,
        sign=lambda: status_page[StatusField.READER_MS],
        excused=lambda: bool(status_page[StatusField.READER_WAITS]),
        replace=lambda pid: _kill_worker(pid, pipeline),
    )


def _kill_worker(pid: int, pipeline: Child) -> None:
    """Kill a Spark worker, if *pid* is one of this server: a status page may hold an old one."""
    with contextlib.suppress(ProcessLookupError):
        if pipeline.pid is not None and os.getsid(pid) == pipeline.pid:
            os.kill(pid, signal.SIGKILL)
