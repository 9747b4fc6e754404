"""Ends the owners of partitions that have outlived the JVM of their task, when the server stops."""

import contextlib
import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

from distributary.core.lease import is_held
from distributary.datadir import PARENT, DataDir, MappedStatusPage, StatusField

POLL_S = 0.02
"""Interval of looking whether an owner has ended."""
END_S = 2.0
"""Longest wait for owners that were asked to end: four times what they give attempts under way."""


def ask_owners_to_end(status_pages: Iterable[MappedStatusPage]) -> None:
    """Have owners begin nothing more. Repeat it when no driver is left that could undo it."""
    for status_page in status_pages:
        status_page[StatusField.STOP] = 1


def end_owners(paths: DataDir, status_pages: Iterable[MappedStatusPage]) -> None:
    """Wait for owners of this server's partitions to end; kill those that do not. Idempotent."""
    until_s = time.monotonic() + END_S
    for partition, status_page in enumerate(status_pages):
        while is_held(paths.owner_lock(partition)):
            if time.monotonic() >= until_s:
                _kill(status_page[StatusField.PID])
                break
            time.sleep(POLL_S)


def _kill(pid: int) -> None:
    """Kill *pid* if it descends from this server: a status page may hold an old number."""
    with contextlib.suppress(OSError):
        environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        if b"%b=%d" % (PARENT.encode(), os.getpid()) in environ:
            os.kill(pid, signal.SIGKILL)
