"""Retention of a shared log: what an owner elsewhere needs is known only once it says so."""

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace, sqlite_url
from distributary.core.errors import StoreError
from distributary.core.log.kafka import MemorySnapshots, retention
from distributary.core.log.reader_notes import ReaderNote
from distributary.core.meter import Meter
from distributary.datadir import StatusField
from distributary.server.processes.node import _shared_retention
from distributary.server.processes.node._shared_retention import (
    UNKNOWN,
    Floors,
    LeaderRetention,
    SharedRetention,
)
from distributary.server.processes.receiver.retention import LateArchive, RetentionLimits
from distributary.testing.virtual import VirtualClock


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


DAY_S = 86_400.0


class Shared:
    """A leader's retention of records of a day's age at most, without cluster or database."""

    def __init__(self, folder, monkeypatch):
        self.clock = VirtualClock()
        self.asked_ms = []
        self.lines = []
        self.note = ReaderNote({0: 3}, self.clock.wall_ms())
        monkeypatch.setattr(_shared_retention, "StoreClock", lambda _url: self)
        monkeypatch.setattr(_shared_retention, "ReaderRows", lambda _url: self)
        monkeypatch.setattr(_shared_retention, "DirectoryTargets", lambda _url: self)
        monkeypatch.setattr(
            _shared_retention, "StoreSnapshots", lambda _place, *, leads: self.snapshots(leads)
        )
        monkeypatch.setattr(_shared_retention, "read_page", lambda _url, _number: {})
        monkeypatch.setattr(retention, "KafkaRecords", lambda *_: self)
        self.monotonic_s, self.wall_ms = self.clock.monotonic_s, self.clock.wall_ms
        self.warning = self.info = lambda name, **_more: self.lines.append(name)
        database = folder / "state.db"
        database.touch()
        self.retention = LeaderRetention(
            KafkaPlace(servers=("nowhere.invalid:1",), prefix="p"),
            StorePlace(sqlite_url(database)),
            RetentionLimits(1 << 30, DAY_S),
            LateArchive("", Meter(), self),
            lines=self,
        )

    def snapshots(self, _leads):
        """See ``StoreSnapshots``."""
        made = MemorySnapshots()
        made.close = self.close
        return made

    def close(self):
        """Nothing is open."""

    def read(self):
        """See ``ReaderRows``."""
        return {"one": self.note}

    def forget(self, _name):
        """See ``ReaderRows``."""

    def first(self):
        """See ``KafkaRecords``; so are the next ones."""
        return 0

    def offset_within(self, _bytes_max):
        return 0

    def offset_at(self, time_ms):
        self.asked_ms.append(time_ms)
        return 0

    def durable_end(self):
        return 9

    def run(self):
        """Run retention; returns the times of which it has asked for older records."""
        self.asked_ms.clear()
        self.retention.retain(0)
        return list(self.asked_ms)


def test_nothing_is_old_for_an_hour_after_the_clock_of_the_store_leapt(tmp_path, monkeypatch):
    """No record, and no registered reader: a database may be ahead for a moment."""
    shared = Shared(tmp_path, monkeypatch)
    begun_ms = shared.clock.wall_ms()
    day_ms = round(DAY_S * 1000)
    assert shared.run() == [begun_ms - 7 * day_ms, begun_ms - day_ms]
    shared.clock.jump(30 * day_ms)
    assert max(shared.run()) < 0
    shared.clock.move_to(1_800.0)
    assert max(shared.run()) < 0
    assert shared.lines == []
    shared.clock.move_to(3_600.0)
    assert shared.run() == [shared.clock.wall_ms() - day_ms]
    assert shared.lines == ["reader-forgotten"]
    shared.retention.close()
