"""Atomic replacement of small files: readers see the old content or the new.

Called by every package that keeps such a file. The log and the outcome journal replace theirs
through ports of their own, so that tests can stop the disk between any two calls. Hides: the
temporary file, its mode, the syncs.
"""

import os
from pathlib import Path
from typing import Final

PRIVATE_MODE: Final = 0o600
"""For files that may hold tokens or whole events: only their owner reads and writes them."""


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
