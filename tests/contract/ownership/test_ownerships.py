"""Every back end of what an owner holds passes the shipped contract suite."""

import os
from pathlib import Path

import pytest

from distributary.core.database import sqlite_url
from distributary.core.journal import Journal, JournalState
from distributary.core.lease import FileLease
from distributary.core.outcome import DeliveryStore, FileOwnership
from distributary.testing import check_ownership
from distributary.testing.memory_lease import MemoryLeases
from distributary.testing.memory_ownership import MemoryOwnership, MemoryStore
from distributary.testing.virtual import VirtualClock


class Faults:
    """Stops a flush at one of its places, once."""

    def __init__(self):
        self._armed = {}

    def arm(self, place, error):
        """See ``Ownerships``."""
        self._armed[place] = error

    def touch(self, place):
        """A flush has come to *place*."""
        error = self._armed.pop(place, None)
        if error is not None:
            raise error


class MemoryOwnerships(Faults):
    """Partitions in memory."""

    places = ("rows", "cursor", "end")

    def __init__(self):
        super().__init__()
        self._leases = MemoryLeases()
        self._left = {}
        self._held = {}

    def open(self, partition, budgets=None):
        lease = self._leases.take(str(partition))
        store, state = self._left.setdefault(partition, (MemoryStore(), JournalState()))
        store.budgets = budgets or store.budgets
        ownership = MemoryOwnership(store, state, lease.check, self.touch)
        self._held[id(ownership)] = lease
        return ownership

    def let_go(self, ownership):
        self._held.pop(id(ownership)).release()

    def usurp(self, partition):
        self._leases.usurp(str(partition))


class FileOwnerships(Faults):
    """Partitions as a data directory has them."""

    places = ("rows", "cursor", "frame", "torn", "synced", "end")

    def __init__(self, folder: Path):
        super().__init__()
        self._folder = folder
        self._held = {}

    def open(self, partition, budgets=None):
        folder = self._folder / str(partition)
        folder.mkdir(exist_ok=True)
        lease = FileLease(folder / "OWNER", 0.0, VirtualClock(), pytest.fail)

        def fence(place):
            lease.check()
            self.touch(place)

        url = sqlite_url(folder / "delivery.db")
        store = DeliveryStore(url, partition, budgets, lambda: fence("rows"))
        journal = Journal(folder / "journal", self, lambda: fence("cursor"))
        ownership = FileOwnership(store, journal)
        self._held[id(ownership)] = lease, store, journal
        return ownership

    def let_go(self, ownership):
        lease, store, journal = self._held.pop(id(ownership))
        store.close()
        journal.close()
        lease.release()

    def usurp(self, partition):
        (self._folder / str(partition) / "OWNER").unlink()

    # -- the calls on the journal's medium

    def _touch_medium(self, place):
        """A medium that refuses says so as the system does."""
        try:
            self.touch(place)
        except check_ownership.StoreError as error:
            raise OSError(str(error)) from error

    def write(self, fd, payload):
        """Not at all, in part, or whole."""
        self._touch_medium("frame")
        written = os.write(fd, payload[: len(payload) // 2])
        self._touch_medium("torn")
        return written + os.write(fd, payload[written:])

    def fdatasync(self, _fd):
        """The bytes reach the medium or not: here they do."""
        self._touch_medium("synced")
        self._touch_medium("end")


@pytest.fixture(params=["memory", "files"])
def made(request, tmp_path):
    """Partitions that nobody has owned."""
    return MemoryOwnerships() if request.param == "memory" else FileOwnerships(tmp_path)


@pytest.mark.parametrize("check", check_ownership.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, made):
    """What the owners count on."""
    check(made)


class CursorFirst(MemoryOwnership):
    """Writes the cursor before the rows."""

    def flush(self, batch):
        self._touch("rows")
        self._state.marks.append(batch.mark)
        self._state.done.update(batch.done)
        self._touch("cursor")
        given_up = self._apply(batch.changes)
        self._touch("end")
        return given_up


class Unfenced(MemoryOwnership):
    """Lets an older generation write."""

    def __init__(self, store, state, _fence, touch):
        super().__init__(store, state, touch=touch)


class Undying(MemoryOwnership):
    """Goes on after its medium has failed."""

    def flush(self, batch):
        self._dead = False
        return super().flush(batch)


@pytest.mark.parametrize(
    ("wrong", "check"),
    [
        (CursorFirst, check_ownership.check_the_power_goes_within_a_flush),
        (Unfenced, check_ownership.check_an_owner_that_lost_the_partition_writes_nothing),
        (Undying, check_ownership.check_a_medium_that_refuses_ends_the_ownership),
    ],
)
def test_check_ownership_finds_what_is_wrong(wrong, check, monkeypatch):
    """The suite itself fails a back end that breaks a promise."""
    monkeypatch.setitem(globals(), "MemoryOwnership", wrong)
    with pytest.raises(AssertionError):
        check(MemoryOwnerships())
