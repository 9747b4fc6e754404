"""Which processes are watched, by which signs of life.

Called by ``_serve``. Readers and owners are not our children: Spark starts them again.
"""

import contextlib
import os
import signal
from collections.abc import Callable

from distributary.datadir import Board, Phase, Places, Word
from distributary.server.processes._children import Child
from distributary.server.processes._watchdog import Watched


def watched_processes(
    places: Places,
    partitions: int,
    ingest: Child,
    pipeline: Child,
    sources: Callable[[], Child | None],
) -> list[Watched]:
    """Every process of the server but this one.

    Args:
        places: Of the data directory.
        partitions: Of the log.
        ingest: Answers publishers.
        pipeline: The driver; leads the session of everything that Spark starts.
        sources: The process of the sources, if there is one now.
    """
    found = [_ingest(places, ingest), _driver(places, pipeline), _sources(places, sources)]
    for number in range(partitions):
        board = Board(places.board(number))
        found += [_owner(number, board, pipeline), _reader(number, board, pipeline)]
    return found


def _ingest(places: Places, child: Child) -> Watched:
    board = Board(places.ingest_board)
    return Watched(
        role="ingest",
        pid=lambda: child.pid,
        sign=lambda: board[Word.HEARTBEAT_MS],
        excused=lambda: bool(board[Word.COMMITTING]),
        replace=child.kill,
    )


def _driver(places: Places, child: Child) -> Watched:
    board = Board(places.driver_board)
    return Watched(
        role="pipeline",
        pid=lambda: child.pid,
        sign=lambda: board[Word.HEARTBEAT_MS],
        settled=lambda: board[Word.PHASE] == Phase.RUNNING,
        replace=child.kill,
        family=True,
    )


def _sources(places: Places, child: Callable[[], Child | None]) -> Watched:
    board = Board(places.sources_board)

    def pid() -> int | None:
        now = child()
        return None if now is None else now.pid

    def replace(which: int) -> None:
        now = child()
        if now is not None:
            now.kill(which)

    return Watched(role="sources", pid=pid, sign=lambda: board[Word.HEARTBEAT_MS], replace=replace)


def _owner(number: int, board: Board, pipeline: Child) -> Watched:
    return Watched(
        role=f"owner of partition {number}",
        pid=lambda: board[Word.OWNER_PID] if board[Word.PHASE] != Phase.ABSENT else None,
        sign=lambda: board[Word.HEARTBEAT_MS],
        settled=lambda: board[Word.PHASE] in {Phase.RUNNING, Phase.DRAINING},
        replace=lambda pid: _kill_worker(pid, pipeline),
    )


def _reader(number: int, board: Board, pipeline: Child) -> Watched:
    return Watched(
        role=f"reader of partition {number}",
        pid=lambda: board[Word.READER_PID] or None,
        sign=lambda: board[Word.READER_MS],
        excused=lambda: bool(board[Word.READER_WAITS]),
        replace=lambda pid: _kill_worker(pid, pipeline),
    )


def _kill_worker(pid: int, pipeline: Child) -> None:
    """Kill a worker of Spark, if *pid* is one of this server: a board may hold an old number."""
    with contextlib.suppress(ProcessLookupError):
        if pipeline.pid is not None and os.getsid(pid) == pipeline.pid:
            os.kill(pid, signal.SIGKILL)
