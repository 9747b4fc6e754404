"""Atomic replacement of small files: readers see the old content or the new.

Called by every package that keeps such a file. The log and the outcome journal replace theirs
through ports of their own, so that tests can stop the disk between any two calls. Hides: the
temporary file, its mode, the syncs.
"""

import os
import stat
from pathlib import Path
from typing import Final

from distributary.core.errors import StoreError

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


def open_bits_of(path: Path, service_folder: Path | None) -> int:
    """The bits of the mode of *path* that let others read it.

    Args:
        path: A file with a secret.
        service_folder: Folder of a service manager for this service alone: the mode of a file
            directly in it may show an access list as rights of the group. None: there is none.
    """
    return 0o037 if service_folder is not None and path.parent == service_folder else 0o077


def read_private(
    path: Path, bytes_max: int, *, what: str, remedy: str, open_bits: int = 0o077
) -> bytes:
    """The first *bytes_max* bytes of a file that others may not read.

    Args:
        path: The file; its mode counts only where it is a regular one.
        bytes_max: More is not read.
        what: Name of the file, for people.
        remedy: What to do if others have read it.
        open_bits: Those of its mode that let others read it.

    Raises:
        StoreError: Others may read it, or it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            state = os.fstat(descriptor)
            if stat.S_ISREG(state.st_mode) and state.st_mode & open_bits:
                raise StoreError(
                    f"others may read {what} {path} (mode {stat.S_IMODE(state.st_mode):o}):"
                    f" make it private with: chmod 600 {path}. If others may have read it,"
                    f" {remedy}"
                )
            return file.read(bytes_max)
    except OSError as error:
        raise StoreError(f"{what} {path} cannot be read: {error.strerror}") from error


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
