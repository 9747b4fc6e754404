"""The lock that only one process at a time holds on a partition."""

import os

import pytest

from distributary.core.errors import LogLockedError
from distributary.partitions import OwnerLock


def test_a_free_lock_is_taken_without_waiting(tmp_path, clock):
    """Its folder is made."""
    lock = OwnerLock(tmp_path / "p0000" / "OWNER", 1.0, clock, pytest.fail)
    assert int((tmp_path / "p0000" / "OWNER").read_text()) == os.getpid()
    lock.release()


def test_a_lock_that_stays_held_names_its_holder(tmp_path, clock):
    """So that a person can look at that process."""
    first = OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    with pytest.raises(LogLockedError, match=f"process {os.getpid()} owns"):
        OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    first.release()
    OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail).release()


def test_the_name_of_an_earlier_holder_does_not_shine_through(tmp_path, clock):
    """A longer number was there before."""
    (tmp_path / "OWNER").write_text("123456789123456789")
    lock = OwnerLock(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    assert (tmp_path / "OWNER").read_text() == str(os.getpid())
    lock.release()
