"""Leases by a file."""

import os
import time

import pytest

from distributary.core import lease as lease_module
from distributary.core.errors import FencedError, LogLockedError
from distributary.core.lease import FileLease, is_held
from distributary.testing.virtual import VirtualClock


@pytest.fixture
def clock():
    """Time that stands."""
    return VirtualClock()


def test_a_free_lock_is_taken_without_waiting(tmp_path, clock):
    """It names its holder."""
    lock = FileLease(tmp_path / "OWNER", 1.0, clock, pytest.fail)
    assert (tmp_path / "OWNER").read_text() == f"{os.getpid()}\n1\n"
    lock.release()


def test_a_lock_that_stays_held_names_its_holder(tmp_path, clock):
    """So that a person can look at that process."""
    first = FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    with pytest.raises(LogLockedError, match=f"process {os.getpid()} owns"):
        FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    first.release()
    FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail).release()


def test_the_name_of_an_earlier_holder_does_not_shine_through(tmp_path, clock):
    """A longer number was there before."""
    (tmp_path / "OWNER").write_text("123456789123456789")  # as earlier versions wrote it
    lock = FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    assert (tmp_path / "OWNER").read_text() == f"{os.getpid()}\n1\n"
    lock.release()


def test_a_lease_goes_on_where_the_one_before_ended(tmp_path, clock):
    """Also where the holder before was killed, and had said more about itself."""
    (tmp_path / "OWNER").write_text("12345678901234567890\n41\nmore")
    lease = FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    assert lease.generation == 42
    assert (tmp_path / "OWNER").read_text() == f"{os.getpid()}\n42\n"
    lease.check()
    lease.release()


def test_a_holder_whose_file_was_written_by_another_is_fenced(tmp_path, clock):
    """Where nothing locks: before the file has settled, after that, and again after a look."""
    for settled in (False, True):
        path = tmp_path / f"OWNER-{settled}"
        clock.jump(int(time.time() * 1000) - clock.wall_ms() + (5_000 if settled else 0))
        lease = FileLease(path, 0.0, clock, pytest.fail)
        lease.check()
        lease.check()
        path.touch()  # changes its times alone
        lease.check()
        path.write_text(f"{os.getpid()}\n{lease.generation + 1}\n")
        with pytest.raises(FencedError, match="generation 1"):
            lease.check()
        lease.release()


def test_a_settled_file_costs_one_system_call(tmp_path, clock, monkeypatch):
    """The fence stands in every flush."""
    lease = FileLease(tmp_path / "OWNER", 0.0, clock, pytest.fail)
    clock.jump(int(time.time() * 1000) - clock.wall_ms() + 5_000)
    lease.check()
    with monkeypatch.context() as without:
        without.setattr(lease_module, "os", None)  # a path's own ``stat`` is what is left
        lease.check()
    lease.release()


def test_a_holder_whose_file_was_replaced_is_fenced(tmp_path, clock):
    """The lock on a file that has no name any more stops nobody."""
    path = tmp_path / "OWNER"
    lease = FileLease(path, 0.0, clock, pytest.fail)
    path.unlink()
    path.write_text(f"{os.getpid()}\n{lease.generation}\n")
    with pytest.raises(FencedError, match="generation 1"):
        lease.check()
    lease.release()


def test_who_only_looks_sees_a_holder_and_changes_nothing(tmp_path):
    """Another process may look whether the lease is held; the generation stays."""
    path = tmp_path / "OWNER"
    assert not is_held(path)
    assert not path.exists()
    lease = FileLease(path, 0.0, VirtualClock(), pytest.fail)
    text = path.read_bytes()
    assert is_held(path)
    lease.check()
    lease.release()
    assert not is_held(path)
    assert path.read_bytes() == text
