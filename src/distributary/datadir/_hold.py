"""Holds off the deletion of old segments while a backup copies the log.

A lock on a file of each partition: the kernel releases it when the process ends, however it ends,
so no backup that was killed keeps the log from shrinking. Several backups may hold it; retention
deletes while nobody does.

Callers: ``server.backup`` (holds), ``server.processes`` (asks before it deletes). Hides: ``flock``.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HOLD_WAIT_S: Final = 60.0
"""Longest wait for retention that is deleting just now, seconds: it takes a few for a partition."""

_POLL_S: Final = 0.05


@contextlib.contextmanager
def holding_retention(path: Path) -> Iterator[None]:
    """Hold retention off inside the block.

    Args:
        path: The file, made if it is missing.

    Raises:
        OSError: The file cannot be made or locked; ``TimeoutError``: retention did not pause.
    """
    fd = _open(path)
    try:
        give_up_s = time.monotonic() + HOLD_WAIT_S
        while not _locked(fd, fcntl.LOCK_SH):
            if time.monotonic() > give_up_s:
                raise TimeoutError(f"retention did not pause within {HOLD_WAIT_S:g} s")
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def unless_held(path: Path) -> Iterator[bool]:
    """Whether nobody holds retention off; nobody begins to inside the block then.

    Raises:
        OSError: The file cannot be made or locked.
    """
    fd = _open(path)
    try:
        yield _locked(fd, fcntl.LOCK_EX)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    owner = path.parent.parent.stat()
    if os.geteuid() == 0 != owner.st_uid:  # the server must be able to open what root has made
        os.fchown(fd, owner.st_uid, owner.st_gid)
        os.chown(path.parent, owner.st_uid, owner.st_gid)
    return fd


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
