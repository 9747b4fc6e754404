"""Following the routes of a log that is elsewhere: what is known is not read again."""

import pytest

from distributary.core.errors import StoreError
from distributary.partitions import routes
from distributary.partitions.routes import RoutesAt, follow_again, follow_from
from kit.logged_routes import Place, kept, put


class Watched:
    """A log that notes where it was read."""

    def __init__(self, log):
        self._log = log
        self.read_from = []

    def __getattr__(self, name):
        return getattr(self._log, name)

    def kinds(self, from_offset, to_offset, kind):
        self.read_from.append(from_offset)
        return self._log.kinds(from_offset, to_offset, kind)


def routes_with(place, known):
    """Follow to the end of the log; returns from where it was read."""
    log = Watched(place.log)
    end = place.log.durable_end()
    follower = follow_from(place.path, log, place.history, end, known=known)
    assert follower.table.snapshot() == place.follow(end).table.snapshot()
    return log.read_from


@pytest.fixture
def long(clock, tmp_path):
    """A log whose changes stand apart."""
    place = Place(clock, tmp_path)
    for seq in range(1, 7):
        place.change(put(seq, "abc"[seq % 3], f"t{seq}", revision=seq))
        for _ in range(10):
            place.event()
    return place


def test_what_another_one_has_found_is_not_read_again(long):
    """The changes come from the store, as large as the log may be."""
    assert routes_with(long, None) == [0]
    assert routes_with(long, RoutesAt(39, 4)) == [39]


def test_a_log_without_a_newer_change_is_not_read(long):
    """Whether the newest one comes from a snapshot or the store; a day of events may follow."""
    assert routes_with(long, RoutesAt(60, 6)) == []
    kept(long, 60)
    assert routes_with(long, None) == []
    long.change(put(7, "a", "new"), in_log=False)
    assert routes_with(long, None)[0] == 60


def test_the_log_is_read_where_the_store_has_lost_changes(long):
    """A standby that took over without the newest ones: they stand in the log."""
    kept(long, 50)
    del long.history.changes[4:]
    log = Watched(long.log)
    table = follow_from(long.path, log, long.history, long.log.durable_end()).table
    assert log.read_from == [50]
    assert table.last_seq == 6


def test_a_table_that_goes_on_reads_no_log_without_a_newer_change(long):
    """In the process that had the partition before, however long ago."""
    follower = long.follow(60)
    log, end = Watched(long.log), long.log.durable_end()
    again = follow_again(follower.table, follower.span, log, long.history, end)
    assert again.span == (60, end)
    assert log.read_from == []


def test_a_snapshot_that_is_newer_serves_alone(long):
    """What was found before it says nothing more."""
    kept(long, 50)
    assert routes_with(long, RoutesAt(39, 4)) == [50]


def test_what_is_found_beyond_the_offset_is_not_used(long):
    """A log that has lost its end: what stands there is another one's."""
    log = Watched(long.log)
    table = follow_from(long.path, log, long.history, 30, known=RoutesAt(39, 4)).table
    assert table.snapshot() == long.follow(30).table.snapshot()
    assert log.read_from[0] == 0


@pytest.mark.parametrize("missing", [1, 3, 4])
def test_the_log_is_read_where_the_store_lacks_a_change(long, missing):
    """It never skips one (DESIGN rule 4)."""
    everything = list(long.history.changes)
    long.history.changes[:] = [each for each in everything if each.seq != missing]
    log = Watched(long.log)
    end = long.log.durable_end()
    table = follow_from(long.path, log, long.history, end, known=RoutesAt(39, 4)).table
    long.history.changes[:] = everything
    assert table.snapshot() == long.follow(end).table.snapshot()
    assert log.read_from[0] == 0


def test_the_log_is_read_where_the_store_does_not_answer(long, monkeypatch):
    """Or has forgotten changes that old."""
    log, end = Watched(long.log), long.log.durable_end()

    def away(_after, _before):
        raise StoreError("away")

    monkeypatch.setattr(long.history, "between", away)
    follow_from(long.path, log, long.history, end, known=RoutesAt(39, 4))
    assert log.read_from[0] == 0


def test_changes_come_in_portions(long, monkeypatch):
    """Ten million routes are no list in memory."""
    monkeypatch.setattr(routes, "CHANGES_AT_ONCE", 2)
    assert routes_with(long, RoutesAt(50, 5)) == [50]
