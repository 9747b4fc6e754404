"""Who may use a folder of the log, or a data directory: one process, which the others can name."""

import errno
import fcntl
import os

import pytest

from distributary.core.errors import LogLockedError, LogUnavailableError
from distributary.core.log import lock


@pytest.fixture
def path(tmp_path):
    """Of the lock."""
    return tmp_path / "LOCK"


def test_the_lock_names_its_owner(path):
    """Whoever is refused learns which process to stop; the lock goes with its holder."""
    first = lock(path)
    refused = (
        f"^{path} is locked by process {os.getpid()}: stop it, or choose another data directory$"
    )
    with pytest.raises(LogLockedError, match=refused):
        lock(path)
    first.release()
    second = lock(path)
    assert second.generation == first.generation + 1
    second.release()


def test_a_lock_of_the_version_before_is_respected(path):
    """That one locked the same file in the same way, and wrote its process id alone."""
    with path.open("w") as earlier:
        earlier.write("4711\n")
        earlier.flush()
        fcntl.flock(earlier, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(LogLockedError, match="locked by process 4711: stop it"):
            lock(path)
    lease = lock(path)
    with path.open("r") as later, pytest.raises(BlockingIOError):
        fcntl.flock(later, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert path.read_text().split()[0] == str(os.getpid())
    lease.release()


def test_a_full_disk_keeps_nobody_from_taking_the_lock(path, monkeypatch):
    """Who holds it is merely not told."""

    def full(*_arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        lease = lock(path)
    with pytest.raises(LogLockedError, match="locked by process unknown"):
        lock(path)
    lease.check()
    lease.release()


def test_a_lock_in_a_missing_folder_says_what_to_do(tmp_path):
    """No folder, no lock."""
    with pytest.raises(LogUnavailableError, match="create the data directory"):
        lock(tmp_path / "missing" / "LOCK")
