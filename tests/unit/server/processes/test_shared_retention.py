"""Retention of a shared log: what an owner elsewhere needs is known only once it says so."""

import pytest

from distributary.core.errors import StoreError
from distributary.datadir import StatusField
from distributary.server.processes.node._shared_retention import UNKNOWN, Floors, SharedRetention


class Owner:
    """The page of a partition whose owner writes whenever somebody waits."""

    def __init__(self, keep_from=5):
        self.page = {StatusField.KEEP_FROM: keep_from, StatusField.HEARTBEAT_MS: 1}
        self.beats = True
        self.waited = 0
        self.next = []

    def read(self, _partition):
        """See ``ReadPage``."""
        return dict(self.page)

    def beat(self, keep_from=None):
        """Write the page."""
        self.page[StatusField.HEARTBEAT_MS] += 1
        if keep_from is not None:
            self.page[StatusField.KEEP_FROM] = keep_from

    def wait(self, _seconds):
        """Time passes."""
        self.waited += 1
        if self.beats:
            self.beat(self.next.pop(0) if self.next else None)
        return False


def test_what_an_owner_said_before_this_leader_began_is_not_known():
    """A page outlives its owner."""
    owner = Owner(keep_from=7)
    floors = Floors(owner.read, owner.wait)
    assert floors.told(0) == UNKNOWN
    assert floors.told(0) == UNKNOWN  # no sign of life since
    owner.beat()
    assert floors.told(0) == 7
    assert floors.told(0) == UNKNOWN


def test_a_partition_that_no_owner_has_had_is_not_known():
    """Its page is empty."""
    floors = Floors(lambda _partition: {}, lambda _seconds: False)
    assert [floors.told(0), floors.told(0), floors.told_anew(0)] == [UNKNOWN] * 3


def test_after_a_cut_the_second_sign_of_life_counts():
    """The first may have been under way before the cut."""
    owner = Owner(keep_from=9)
    owner.next = [9, 4]
    assert Floors(owner.read, owner.wait).told_anew(0) == 4
    assert owner.waited == 2


@pytest.mark.parametrize("ends", [True, False], ids=["the process ends", "the owner is silent"])
def test_who_says_nothing_after_a_cut_undoes_it(ends):
    """Nobody waits for ever."""
    owner = Owner(keep_from=9)
    owner.beats = False
    assert Floors(owner.read, lambda s: owner.wait(s) or ends).told_anew(0) == UNKNOWN


def test_a_run_asks_before_the_cut_and_anew_after_it():
    """And tells what it has deleted."""
    owner = Owner(keep_from=9)
    owner.next = [9, 9]
    asked = []

    def deletes(partition, keep_from):
        asked.append((partition, keep_from(), keep_from()))
        return 9, 4

    retention = SharedRetention(Floors(owner.read, owner.wait), deletes)
    retention.retain(3)
    owner.beat()
    assert retention.retain(3) == ("records-deleted", {"count": 4, "start": 9})
    assert asked == [(3, UNKNOWN, 9), (3, 9, 9)]
    nothing = SharedRetention(Floors(owner.read, owner.wait), lambda *_: (9, 0))
    assert nothing.retain(3) is None


def test_a_store_that_is_away_is_no_answer():
    """The run fails, and the next one asks again."""

    def away(_partition):
        raise StoreError("away")

    with pytest.raises(StoreError):
        Floors(away, lambda _seconds: False).told(0)
