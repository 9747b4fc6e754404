"""The owner's lock: at most one process delivers a partition (DESIGN rule 2).

A ``flock``: the kernel lets it go when the process is gone, however it went, so there is no
lease to wait out and no clock to trust. It says nothing across machines; there, a lease with a
generation in PostgreSQL takes its place.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from distributary.core.clock import Clock
from distributary.core.errors import LogLockedError

POLL_S = 0.01
"""How often a held lock is tried again: an old owner that finishes costs no more than this."""


class OwnerLock:
    """Holds the lock of one partition until ``release``.

    Args:
        path: The lock's file; made when it is missing.
        wait_s: How long to wait for another owner to finish.
        clock: Time.
        sleep: Waits that many seconds.

    Raises:
        LogLockedError: Another process still owns the partition.
    """

    def __init__(
        self, path: Path, wait_s: float, clock: Clock, sleep: Callable[[float], None]
    ) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        until_s = clock.monotonic_s() + wait_s
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if clock.monotonic_s() >= until_s:
                    holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
                    os.close(self._fd)
                    raise LogLockedError(
                        f"process {holder or '?'} owns the partition of {path} and did not"
                        f" finish within {wait_s:g} s"
                    ) from error
                sleep(POLL_S)
            else:
                break
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        """Let the next owner in."""
        os.close(self._fd)
