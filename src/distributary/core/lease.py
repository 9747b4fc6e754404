"""Leases: at most one holder of a name at a time, each with a higher generation.

A partition's consumer holds one while it delivers (DESIGN rule 2, one owner), an appender one of
its partition of the log, and ``serve`` one of the data directory. Acquiring the lease permits to
begin; its *fence* is checked inside every durable write of the holder, so that a holder that has
lost the name without noticing writes nothing.

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
"""Retry interval for a held lease: the most that a hand-over waits after the old holder ends."""
SETTLED_S: Final = 1.0
"""A file that is unchanged for this long is identified by its modification time: the next change
has another, whatever the file system's resolution."""
HELD: Final = "process {holder} owns the partition of {path} and did not finish within {wait_s:g} s"
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_BYTES_MAX: Final = 64
"""Most bytes read of the file, which has two numbers."""


class Lease(Protocol):
    """The right to act under a name, until ``release`` or the end of the process.

    Attributes:
        generation: Higher than that of every earlier holder.
    """

    generation: int

    @property
    def lapsing(self) -> bool:
        """Whether the holder must start nothing now: its time is nearly over. Costs little."""

    def check(self) -> None:
        """Raise if the name is lost. Call it inside each durable write, before the write counts.

        Raises:
            FencedError: Another holder has the name: write nothing.
        """

    def release(self) -> None:
        """Release the name for the next holder."""


class FileLease:
    """A lease by a ``flock`` on a file that shows the holder and its generation to people.

    The kernel releases the lock when the process ends, for whatever reason, so there is no timeout
    and no clock to trust. The fence finds what the lock cannot: the file was removed or replaced,
    or is on a file system without locks. It does not work across machines.

    Args:
        path: Made if it is missing, in an existing folder.
        wait_s: How long to wait for another holder to finish.
        clock: Measures the wait.
        sleep: Sleeps for that many seconds.
        held: Message of the error, with places for ``holder``, ``path`` and ``wait_s``.

    Attributes:
        lapsing: False: a lock has no end but its holder's.

    Raises:
        LogLockedError: Another process still holds it.
    """

    lapsing: Final = False

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
            # Not truncated first: a process that ends here must not lose the generation.
            os.pwrite(self._fd, text, 0)
            os.ftruncate(self._fd, len(text))
        except OSError as error:
            if error.errno not in _FULL:
                os.close(self._fd)
                raise
            # The lock needs no space: only the holder's number is missing.
            self._text = os.pread(self._fd, _BYTES_MAX, 0)

    def check(self) -> None:
        """As ``Lease``: check that the file is still the one that this holder wrote, unchanged.

        One system call, once the file is ``SETTLED_S`` old.
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
        """Release the name for the next holder."""
        os.close(self._fd)


def is_held(path: Path) -> bool:
    """Whether some process holds the ``FileLease`` of *path*; False where there is no such file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def read_holder(path: Path) -> tuple[int, int]:
    """Process id and generation of the newest holder of the ``FileLease`` of *path*; 0: unknown.

    Takes no lock, which somebody might be waiting for: it may have ended.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0, 0
    try:
        found = [int(each) if each.isdecimal() else 0 for each in _numbers(fd)]
    finally:
        os.close(fd)
    pid, generation = (*found, 0, 0)[:2]
    return pid, generation


def _numbers(fd: int) -> list[str]:
    """Read process id and generation, as far as they are there."""
    return os.pread(fd, _BYTES_MAX, 0).decode(errors="replace").split()
