"""Signs of a write to a SQLite file, by which a process knows when to read it again."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

SETTLED_NS: Final = 100_000_000
"""Age after which another write has another time: kernels stamp files every 1 to 10 ms."""


class WriteSigns:
    """Tells whether SQLite files may have been written since the last look.

    Costs two ``stat(2)`` a file, where the shortest statement costs a hundred times as much. Size
    and time of the write-ahead log change with each write. Two writes within one tick of the
    kernel's clock look alike, so a file that was written just now may be written again unseen: it
    stays suspect until it has rested for ``SETTLED_NS``.

    Args:
        paths: The files; they need not exist yet.
        wall_ns: The wall clock.
    """

    def __init__(self, *paths: Path, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._paths = [f"{path}{ending}" for path in paths for ending in ("", "-wal")]
        self._wall_ns = wall_ns
        self._seen: list[tuple[int, int, int] | None] | None = None

    def look(self) -> bool:
        """Whether a write since the last call is possible. The first call counts as one."""
        seen = [_stamp(path) for path in self._paths]
        settled = self._wall_ns() - SETTLED_NS
        rests = all(stamp is None or stamp[2] < settled for stamp in seen)
        changed, self._seen = seen != self._seen, seen if rests else None
        return changed


def _stamp(path: str) -> tuple[int, int, int] | None:
    """Inode, size and time of the last write, nanoseconds; None: there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a path object would cost as much as the call
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
