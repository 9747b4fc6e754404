"""Leases: at most one holder of a name at a time, each with a generation of its own.

A partition's consumer holds one while it delivers (DESIGN rule 2). A lease says who may begin; its
*fence* stands inside every durable write of the holder, so that one who lost the name without
noticing writes nothing any more.

Called by ``partitions``. Hides: ``flock``.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from distributary.core.clock import Clock
from distributary.core.errors import FencedError, LogLockedError

__all__ = ["FileLease", "Lease"]

POLL_S: Final = 0.01
"""How often a lease that is held is tried again: an old holder that finishes costs no more."""
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
        ...

    def release(self) -> None:
        """Let the next holder in."""
        ...


class FileLease:
    """A lease by a file: a ``flock``, with the holder and its generation for people to read.

    The kernel lets the lock go when the process is gone, however it went, so there is nothing to
    wait out and no clock to trust. The fence finds what the lock cannot see: the file was removed
    or replaced, or lies on a file system that locks nothing. It says nothing across machines.

    Args:
        path: Made when it is missing, with its folder.
        wait_s: How long to wait for another holder to finish.
        clock: Time.
        sleep: Waits that many seconds.

    Raises:
        LogLockedError: Another process still holds it.
    """

    def __init__(
        self, path: Path, wait_s: float, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until_s = clock.monotonic_s() + wait_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if clock.monotonic_s() >= until_s:
                    holder = (_numbers(self._fd) or ["?"])[0]
                    os.close(self._fd)
                    raise LogLockedError(
                        f"process {holder} owns the partition of {path} and did not"
                        f" finish within {wait_s:g} s"
                    ) from error
                sleep(POLL_S)
            else:
                break
        before = _numbers(self._fd)[1:2]  # earlier versions wrote no generation
        self.generation = int(before[0]) + 1 if before and before[0].isdecimal() else 1
        self._text = text = b"%d\n%d\n" % (os.getpid(), self.generation)
        # Not truncated first: a process that ends just here must not lose the generation.
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def check(self) -> None:
        """See ``Lease``: the file is still the one that this holder wrote, as it wrote it."""
        try:
            same = os.path.samestat(self._path.stat(), os.fstat(self._fd))
        except OSError:
            same = False
        if not same or os.pread(self._fd, _BYTES_MAX, 0) != self._text:
            raise FencedError(f"{self._path} has another holder than generation {self.generation}")

    def release(self) -> None:
        """Let the next holder in."""
        os.close(self._fd)


def _numbers(fd: int) -> list[str]:
    """Process id and generation, as far as they are there."""
    return os.pread(fd, _BYTES_MAX, 0).decode(errors="replace").split()
