"""The disk as a port, so that tests can enumerate crashes and fail every call.

Callers: every module of this package. Hides: system calls, file locks and shared memory.
The port is as small as the log's own needs: no seek, no append mode, no buffering.
"""

import contextlib
import errno
import mmap
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from distributary.core.clock import SystemClock
from distributary.core.errors import LogUnavailableError
from distributary.core.files import sync_folder
from distributary.core.lease import FileLease, Lease

MAP_BYTES = 4096
"""Length of a file of shared words: one page, the smallest thing that can be mapped."""

FILE_MODE = 0o640
"""New files: events are the operator's; the group may run Spark jobs over them."""

DIRECTORY_MODE = 0o750
"""New folders: as ``FILE_MODE``, and enterable."""

_HINTS = {
    errno.EACCES: "give the user that runs this read and write access",
    errno.EPERM: "give the user that runs this read and write access",
    errno.EROFS: "the file system is read-only: remount it or choose another data directory",
    errno.ENOSPC: "the disk is full: free space or lower the retention",
    errno.EDQUOT: "the disk quota is used up: free space or lower the retention",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max",
    errno.EIO: "the disk reports an I/O error: check the medium before you start again",
    errno.ENOENT: "create the data directory or name another",
    errno.ENOTDIR: "a file is where a folder is needed: choose another data directory",
}
HELD = "{path} is locked by process {holder}: stop it, or choose another data directory"
"""Message for whoever finds the lock taken."""
SPACE_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors that end once somebody frees space."""


def unavailable(error: OSError, path: Path, doing: str) -> LogUnavailableError:
    """Return the error to raise when *doing* something to *path* failed, with the cure.

    Args:
        error: From the system.
        path: The file or folder.
        doing: What was tried, as "cannot <doing>".
    """
    code = error.errno or 0
    hint = _HINTS.get(code)
    name = error.strerror or str(error)
    advice = f"; {hint}" if hint else ""
    return LogUnavailableError(f"cannot {doing} {path}: {name}{advice}")


def write_all(disk: "Disk", handle: int, block: bytes, position: int) -> None:
    """Write the whole *block*, in as many calls as needed.

    Raises:
        OSError: Some of it may have been written.
    """
    done = disk.pwrite(handle, memoryview(block), position)
    while done < len(block):
        taken = disk.pwrite(handle, memoryview(block)[done:], position + done)
        if taken == 0:
            raise OSError(errno.EIO, "the disk takes no bytes")
        done += taken


class Words(Protocol):
    """A few u64 words shared by several processes; each is stored atomically."""

    def __getitem__(self, index: int, /) -> int: ...

    def __setitem__(self, index: int, word: int, /) -> None: ...

    def close(self) -> None:
        """Unmap them. They must not be used afterwards."""


class Disk(Protocol):
    """The disk operations that the log needs. Every call may raise ``OSError``.

    Handles are small integers. ``write`` handles also read.
    """

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        """Open *path*; with *create*, make an empty file where there is none."""

    def close(self, handle: int) -> None:
        """Close *handle* without a sync."""

    def size(self, handle: int) -> int:
        """Return the length of the file in bytes."""

    def pread(self, handle: int, length: int, position: int) -> bytes:
        """Return at most *length* bytes from *position*; fewer only at the end of the file."""

    def pwrite(self, handle: int, block: memoryview, position: int) -> int:
        """Write *block* at *position*; return how many bytes were written (maybe not all)."""

    def truncate(self, handle: int, length: int) -> None:
        """Cut the file to *length* bytes."""

    def fallocate(self, handle: int, length: int) -> None:
        """Allocate *length* bytes for the file; bytes never written read as zero."""

    def fdatasync(self, handle: int) -> None:
        """Make bytes and length durable. After an error: never try again."""

    def rename(self, source: Path, target: Path) -> None:
        """Rename *source* to *target*, replacing it."""

    def unlink(self, path: Path) -> None:
        """Remove the name *path*."""

    def mkdir(self, path: Path) -> None:
        """Make the folder *path* and its missing parents; no error if it exists."""

    def fsync_dir(self, path: Path) -> None:
        """Make the names in folder *path* durable."""

    def listdir(self, path: Path) -> Sequence[str]:
        """List the names in folder *path*, in any order."""

    def map_words(self, path: Path, *, write: bool = False) -> Words:
        """Map the shared words of *path*; with *write* the file is made if it is missing."""

    def lock(self, path: Path) -> Lease:
        """Lock *path* against all other processes.

        Raises:
            LogLockedError: Another process holds the lock; names that process where it can.
        """


class _MappedWords:
    """Shared memory over one page of a file."""

    __slots__ = ("_map", "_words")

    def __init__(self, mapped: mmap.mmap) -> None:
        self._map = mapped
        self._words = memoryview(mapped).cast("Q")

    def __getitem__(self, index: int, /) -> int:
        return self._words[index]

    def __setitem__(self, index: int, word: int, /) -> None:
        self._words[index] = word

    def close(self) -> None:
        self._words.release()
        self._map.close()


class SystemDisk:
    """The machine's disk, by system calls (POSIX; made for Linux)."""

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> int:
        """A file descriptor, closed on exec."""
        flags = os.O_RDWR if write else os.O_RDONLY
        return os.open(path, flags | (os.O_CREAT if create else 0) | os.O_CLOEXEC, FILE_MODE)

    def close(self, handle: int) -> None:
        """``close(2)``."""
        os.close(handle)

    def size(self, handle: int) -> int:
        """``fstat(2)``."""
        return os.fstat(handle).st_size

    def pread(self, handle: int, length: int, position: int) -> bytes:
        """``pread(2)``, again after a short read."""
        block = os.pread(handle, length, position)
        if len(block) in (length, 0):
            return block
        blocks = [block]
        missing = length - len(block)
        while missing and (block := os.pread(handle, missing, position + length - missing)):
            blocks.append(block)
            missing -= len(block)
        return b"".join(blocks)

    def pwrite(self, handle: int, block: memoryview, position: int) -> int:
        """``pwrite(2)``, once."""
        return os.pwrite(handle, block, position)

    def truncate(self, handle: int, length: int) -> None:
        """``ftruncate(2)``."""
        os.ftruncate(handle, length)

    def fallocate(self, handle: int, length: int) -> None:
        """``posix_fallocate(3)``: space that a later write cannot fail to find."""
        os.posix_fallocate(handle, 0, length)

    def fdatasync(self, handle: int) -> None:
        """``fdatasync(2)``."""
        os.fdatasync(handle)

    def rename(self, source: Path, target: Path) -> None:
        """``rename(2)``."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """``unlink(2)``."""
        path.unlink()

    def mkdir(self, path: Path) -> None:
        """``mkdir(2)`` for each missing level, each made durable in its parent."""
        missing: list[Path] = []
        level = path
        while not level.exists():
            missing.append(level)
            level = level.parent
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):  # made by another process meanwhile
                folder.mkdir(mode=DIRECTORY_MODE)
            self.fsync_dir(folder.parent)

    def fsync_dir(self, path: Path) -> None:
        """``fsync(2)`` of the folder."""
        sync_folder(path)

    def listdir(self, path: Path) -> Sequence[str]:
        """``readdir(3)``."""
        return os.listdir(path)  # noqa: PTH208 - plain names are wanted, not paths

    def map_words(self, path: Path, *, write: bool = False) -> Words:
        """``mmap(2)`` of the file's first page, which is fully allocated first.

        A hole would be filled at the first store; on a full disk that store would kill the process
        (SIGBUS), where a write would have reported an error.
        """
        handle = self.open(path, write=write, create=write)
        try:
            length = os.fstat(handle).st_size
            if length < MAP_BYTES and write:
                os.pwrite(handle, bytes(MAP_BYTES - length), length)
                os.fsync(handle)
            elif length < MAP_BYTES:
                raise OSError(errno.ENODATA, "the file is shorter than a page", str(path))
            access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
            return _MappedWords(mmap.mmap(handle, MAP_BYTES, access=access))
        finally:
            os.close(handle)

    def lock(self, path: Path) -> Lease:
        """A lease that does not wait for its holder."""
        return FileLease(path, 0.0, SystemClock(), time.sleep, held=HELD)


SYSTEM_DISK = SystemDisk()
"""The default disk (it holds no state)."""


def lock(path: Path, disk: Disk = SYSTEM_DISK) -> Lease:
    """Lock *path* against all other processes, until the lease is released or this process ends.

    Raises:
        LogLockedError: Another process holds the lock; names that process.
        LogUnavailableError: The lock file cannot be written; the message has the cure.
    """
    try:
        return disk.lock(path)
    except OSError as error:
        raise unavailable(error, path, "lock") from error
