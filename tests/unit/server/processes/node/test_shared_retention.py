"""Retention of a shared log: what an owner elsewhere needs is known only once it says so."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.meter import Meter
from distributary.datadir import StatusField
from distributary.server.processes.node._shared_retention import UNKNOWN, Floors, SharedRetention
from distributary.server.processes.receiver.retention import LateArchive


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


def test_what_is_not_archived_is_kept():
    """The lower of both counts, and an archive that nobody has written keeps everything."""
    owner = Owner(keep_from=9)
    asked = []

    def deletes(_partition, keep_from):
        asked.append(keep_from())
        return 0, 0

    for archived in (4, 12, UNKNOWN):
        retention = SharedRetention(
            Floors(owner.read, owner.wait), deletes, lambda _partition, to=archived: to
        )
        retention.retain(0)
        owner.beat()
        retention.retain(0)
    assert asked == [UNKNOWN, 4, UNKNOWN, 9, UNKNOWN, UNKNOWN]


def test_a_late_archive_is_said_once():
    """While it waits the gauge is 1; whoever names no archive has no gauge."""
    meter, lines = Meter(), []

    class Log:
        def warning(self, name, **_more):
            lines.append(name)

    late = LateArchive("/archive", meter, Log())
    for waits in (True, True, False, True):
        late.look(0, 7, is_late=waits)
        assert meter.gauges['archive_late{partition="0"}'] == float(waits)
    assert lines == ["archive-late"] * 2
    none = Meter()
    LateArchive("", none, Log()).look(0, 7, is_late=True)
    assert not none.gauges


def test_a_store_that_is_away_is_no_answer():
    """The run fails, and the next one asks again."""

    def away(_partition):
        raise StoreError("away")

    with pytest.raises(StoreError):
        Floors(away, lambda _seconds: False).told(0)
