"""Leases: at most one holder of a name at a time, each with a generation of its own.

A partition's consumer holds one while it delivers (DESIGN rule 2), an appender one of its
partition of the log, and ``serve`` one of the data directory. A lease says who may begin; its
*fence* stands inside every durable write of the holder, so that one who lost the name without
noticing writes nothing any more.

Called by ``partitions`` and ``log``. Hides: ``flock``.
"""

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import FencedError, LogLockedError

POLL_S: Final = 0.01
"""How often a lease that is held is tried again: an old holder that finishes costs no more."""
SETTLED_S: Final = 1.0
"""A file whose newest change is older than this is known by the time of that change: the next one
has another, whatever file system counts it."""
HELD: Final = "process {holder} owns the partition of {path} and did not finish within {wait_s:g} s"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_BYTES_MAX: Final = 64
"""Of the file: two numbers."""


class Lease(Protocol):
    """The right to act under a name, until ``release`` or the end of the process.

    Attributes:
        generation: Higher than that of every holder before.
    """

    generation: int

    def check(self) -> None:
        """Call it inside each durable write, before the write counts.

        Raises:
            FencedError: Another holder has the name by now: write nothing.
        """

    def release(self) -> None:
        """Let the next holder in."""


class FileLease:
    """A lease by a file: a ``flock``, with the holder and its generation for people to read.

    The kernel lets the lock go when the process is gone, however it went, so there is nothing to
    wait out and no clock to trust. The fence finds what the lock cannot see: the file was removed
    or replaced, or lies on a file system that locks nothing. It says nothing across machines.

    Args:
        path: Made when it is missing, in a folder that is there.
        wait_s: How long to wait for another holder to finish.
        clock: Time.
        sleep: Waits that many seconds.
        held: Message of the error, with places for ``holder``, ``path`` and ``wait_s``.

    Raises:
        LogLockedError: Another process still holds it.
    """

    def __init__(
        self,
        path: Path,
        wait_s: float,
        clock: Clock,
        sleep: Callable[[float], None],
        *,
        held: str = HELD,
    ) -> None:
        self._path = path
        self._clock = clock
        self._known: tuple[int, int, int] | None = None
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until_s = clock.monotonic_s() + wait_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if clock.monotonic_s() >= until_s:
                    holder = (_numbers(self._fd) or ["unknown"])[0]
                    os.close(self._fd)
                    why = held.format(holder=holder, path=path, wait_s=wait_s)
                    raise LogLockedError(why) from error
                sleep(POLL_S)
            else:
                break
        before = _numbers(self._fd)[1:2]  # earlier versions wrote no generation
        self.generation = int(before[0]) + 1 if before and before[0].isdecimal() else 1
        self._text = text = b"%d\n%d\n" % (os.getpid(), self.generation)
        try:
            # Not truncated first: a process that ends just here must not lose the generation.
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))
        except OSError as error:
            if error.errno not in _FULL:
                os.close(self._fd)
                raise
            # The lock itself needs no space: who holds it is merely not told.
            self._text = os.pread(self._fd, _BYTES_MAX, 0)

    def check(self) -> None:
        """See ``Lease``: the file is still the one that this holder wrote, as it wrote it.

        One system call, once the file has stood for ``SETTLED_S``.
        """
        try:
            found = self._path.stat()
            known = found.st_dev, found.st_ino, found.st_ctime_ns
            if known == self._known:
                return
            same = os.path.samestat(found, os.fstat(self._fd))
        except OSError:
            same = False
        if not same or os.pread(self._fd, _BYTES_MAX, 0) != self._text:
            raise FencedError(f"{self._path} has another holder than generation {self.generation}")
        if self._clock.wall_ms() / 1000 - found.st_ctime >= SETTLED_S:
            self._known = known

    def release(self) -> None:
        """Let the next holder in."""
        os.close(self._fd)


def _numbers(fd: int) -> list[str]:
    """Process id and generation, as far as they are there."""
    return os.pread(fd, _BYTES_MAX, 0).decode(errors="replace").split()
