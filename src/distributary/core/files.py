"""Atomic replacement of small files: readers see the old content or the new.

Called by every package that keeps such a file. The log and the outcome journal replace theirs
through ports of their own, so that tests can stop the disk between any two calls. Hides: the
temporary file, its mode, the syncs.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

PRIVATE_MODE: Final = 0o600
"""For files that may hold tokens or whole events: only their owner reads and writes them."""

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


def write_atomically(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o666,
    durable: bool = False,
    contended: bool = False,
) -> None:
    """Replace *path* by *content*: write a temporary file beside it, then rename.

    Args:
        path: Its folder exists.
        content: All of the file.
        mode: Permissions, less the umask. Set before the file has content.
        durable: On the medium on return. Otherwise a power cut may lose or truncate it, and no
            sync is made.
        contended: Several processes may write *path* at the same time. Otherwise there is one
            writer, and the next call removes what a killed writer left beside it.

    Raises:
        OSError: *path* is unchanged; if only the last sync failed, it may hold *content*.
    """
    beside = path.with_name(f"{path.name}.{os.getpid()}.new" if contended else f"{path.name}.new")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(fd)
    beside.rename(path)
    if durable:
        sync_folder(path.parent)


def create_private(path: Path) -> bool:
    """Make an empty file at *path* with ``PRIVATE_MODE``; False if one exists, which is left alone.

    Closing a descriptor of a file drops every lock that the process holds on it, so a file that
    SQLite may have open is not even opened (sqlite.org/howtocorrupt.html, section 2.2).

    Raises:
        OSError: It cannot be made.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        os.close(os.open(path, flags, PRIVATE_MODE))
    except FileExistsError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in *folder* durable: ``fsync(2)`` of it.

    Raises:
        OSError: They may not be.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
