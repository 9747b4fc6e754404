"""Every kind of lease passes the shipped contract suite, the memory one included."""

from pathlib import Path

import pytest

from distributary.core.lease import FileLease
from distributary.testing import check_leases
from distributary.testing.memory_lease import MemoryLeases
from distributary.testing.virtual import VirtualClock


class FileLeases:
    """A folder of leases."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._clock = VirtualClock()

    def take(self, name: str) -> FileLease:
        """Without waiting for who holds it."""
        return FileLease(self._folder / name, 0.0, self._clock, pytest.fail)

    def usurp(self, name: str) -> None:
        """Somebody removes the file: the lock on it stops nobody."""
        (self._folder / name).unlink()


@pytest.fixture(params=["memory", "file"])
def leases(request, tmp_path):
    """Nobody holds any."""
    return MemoryLeases() if request.param == "memory" else FileLeases(tmp_path)


@pytest.mark.parametrize("check", check_leases.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, leases):
    """Leases keep what consumers and stores count on."""
    check(leases)


def test_check_leases_finds_a_lease_that_fences_nobody():
    """The suite itself fails leases whose old holders go on."""

    class Careless(MemoryLeases):
        def take(self, name):
            lease = super().take(name)
            lease.check = lambda: None
            return lease

    with pytest.raises(AssertionError):
        check_leases.check_who_lost_the_name_is_fenced(Careless())
