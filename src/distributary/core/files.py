"""Small files that are replaced as a whole, so that a reader finds the old content or the new one.

Called by every room that keeps such a file. The log and the journal of outcomes replace theirs
through ports of their own, with which tests stop the disk between any two calls. Hides: the file
beside, its mode, the syncs.
"""

import os
from pathlib import Path
from typing import Final

PRIVATE_MODE: Final = 0o600
"""Of files that may hold tokens or whole events: their owner alone reads and writes them."""


def write_atomically(
    path: Path,
    content: bytes,
    *,
    mode: int = 0o666,
    durable: bool = False,
    contended: bool = False,
) -> None:
    """Make *path* hold *content*: write beside, then rename.

    Args:
        path: Its folder exists.
        content: All of the file.
        mode: Permissions, less the umask. The file has them before it has content.
        durable: It is on the medium when this returns. Otherwise a power cut may lose it or leave
            it cut off, and costs no sync.
        contended: Several processes may write *path* at the same time. Otherwise one writes it,
            and what a killed writer left beside it goes with the next call.

    Raises:
        OSError: *path* is as it was; where only the last sync failed, it may hold *content*.
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
    """Make an empty file at *path* with ``PRIVATE_MODE``; False: there is one, left untouched.

    Closing a descriptor of a file drops every lock that the process holds on it, so one that
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
