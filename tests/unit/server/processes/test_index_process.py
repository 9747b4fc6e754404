"""The index process: a log that no receiver has opened yet is nothing to warn of."""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from structlog.testing import capture_logs

from distributary.core.log.folder import open_folder
from distributary.datadir import DataDir
from distributary.server.processes.index_process import REST_LOOKS, IndexStart, run
from kit.event_log import EventLog, numbered


class Looks(threading.Event):
    """Calls *between* at each wait, and is set at the last."""

    def __init__(self, *between: Callable[[], object]) -> None:
        super().__init__()
        self._between = list(between)

    def wait(self, timeout: float | None = None) -> bool:
        """Go on at once."""
        if self._between:
            self._between.pop(0)()
            return False
        self.set()
        return super().wait(timeout)


class Once(threading.Event):
    """Is set at the first wait."""

    def wait(self, timeout: float | None = None) -> bool:
        """Set it, at once."""
        self.set()
        return super().wait(timeout)


def test_a_new_log_is_waited_for(tmp_path: Path) -> None:
    """Neither a warning nor an index before its first appender."""
    paths = DataDir.of(str(tmp_path))
    paths.log.mkdir()
    open_folder(paths.log, 2)
    start = IndexStart(data_dir=str(tmp_path), partitions=2, age_max_s=1e9, log_level="info")
    with capture_logs() as lines:
        run(start, Once())
    assert lines == []
    assert not paths.index(0).exists()


def fill(log: EventLog, numbers: Iterable[int]) -> None:
    """Append an event for each of *numbers*."""
    for number in numbers:
        log.append(numbered(number))


def test_files_are_looked_at_once_a_minute_where_the_log_rests(tmp_path: Path) -> None:
    """New records are seen at the next look, a file that nothing needs within a minute."""
    paths = DataDir.of(str(tmp_path))
    log = EventLog(paths.log, partitions=1, segment_bytes=4096)
    fill(log, range(60))
    useless = paths.index(0) / f"{9:020d}-{9:020d}-{10:020d}.ids"
    seen: list[tuple[bool, int]] = []

    def look() -> None:
        files = list(paths.index(0).glob("*.ids"))
        seen.append((useless in files, len(files)))

    def leave() -> None:
        useless.write_bytes(b"")

    def grow() -> None:
        look()
        fill(log, range(60, 120))

    start = IndexStart(data_dir=str(tmp_path), partitions=1, age_max_s=1e10, log_level="info")
    turns = [lambda: None] * 3  # it waits for records to gather before it completes segments
    rest = [lambda: None] * (REST_LOOKS - 1)
    run(start, Looks(*turns[:1], leave, *rest, look, look, grow, *turns, look))
    log.close()
    assert [left for left, _ in seen] == [True, False, False, False]
    assert seen[-1][1] > seen[-2][1]
