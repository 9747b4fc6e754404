"""Following the routes: holes are restored from history, damage stops, snapshots shorten."""

import pytest

from distributary.core.errors import LogDamagedError, StoreError
from distributary.core.event import Event
from distributary.core.flow import RecordKind, RouteRecord, encode_route
from distributary.core.route import RouteTable
from distributary.partitions import routes
from distributary.partitions.routes import (
    RouteFollower,
    RoutesAt,
    follow_again,
    follow_from,
    follow_on,
    kept_at,
    move_table,
    save_table,
)
from distributary.testing.memory_log import MemoryLog
from kit.simulation.ports import SimulatedTargets


def put(seq, uid, *types, revision=1):
    """A change."""
    return RouteRecord(seq=seq, op="put", uid=uid, revision=revision, types=types)


def delete(seq, uid):
    """A deletion."""
    return RouteRecord(seq=seq, op="delete", uid=uid, revision=1)


def matches(table, name):
    """Routes that see an event of that type."""
    return table.match(Event({"specversion": "1.0", "id": "1", "source": "/", "type": name}, None))


class Place:
    """A log with routes in it."""

    def __init__(self, clock, folder):
        self.log = MemoryLog(clock)
        self.history = SimulatedTargets()
        self.path = folder / "routes"

    def change(self, record, *, in_log=True):
        self.history.changes.append(record)
        if in_log:
            return self.log.append([(RecordKind.ROUTE, encode_route(record))])
        return None

    def event(self):
        return self.log.append([(RecordKind.EVENTS, b"")])

    def follow(self, offset=None):
        end = self.log.durable_end() if offset is None else offset
        return follow_from(self.path, self.log, self.history, end)


@pytest.fixture
def place(clock, tmp_path):
    """An empty log."""
    return Place(clock, tmp_path)


def test_an_empty_log_has_no_routes(place):
    """The table is empty and ready."""
    assert len(place.follow().table) == 0


def test_the_routes_are_those_that_stand_below_the_offset(place):
    """What comes at the offset or later is the live path's to apply."""
    place.change(put(1, "a", "t"))
    place.event()
    place.change(put(2, "b", "t"))
    assert matches(place.follow(2).table, "t") == ("a",)
    assert matches(place.follow(3).table, "t") == ("a", "b")


def test_the_live_path_applies_changes_as_it_meets_them(place):
    """And says what changed, and where."""
    follower = place.follow()
    at = place.change(put(1, "a", "t"))
    place.event()
    changes = [follower.pass_record(logged) for logged in place.log.read(0, 2)]
    assert [list(found) for found in changes] == [[put(1, "a", "t")], []]
    assert matches(follower.table, "t") == ("a",)
    assert follower.changed_at("a") == at
    assert follower.changed_at("unknown") == 0


def test_a_change_that_is_seen_twice_counts_once(place):
    """A half-appended change was rolled forward at start."""
    follower = place.follow()
    place.change(put(1, "a", "t"))
    place.change(put(2, "a", "u", revision=2))
    place.log.append([(RecordKind.ROUTE, encode_route(put(1, "a", "t")))])
    changes = [list(follower.pass_record(logged)) for logged in place.log.read(0, 3)]
    assert (matches(follower.table, "t"), matches(follower.table, "u")) == ((), ("a",))
    assert [len(found) for found in changes] == [1, 1, 0]


def test_a_damaged_change_is_restored_from_history_when_the_next_record_shows_the_hole(place):
    """A missed change would send events to the wrong subscribers (rule 4)."""
    follower = place.follow()
    place.event()
    place.change(put(1, "a", "t"))
    place.event()
    place.log.damage(1)
    for logged in place.log.read(0, 3):
        follower.pass_record(logged)
    assert matches(follower.table, "t") == ("a",)
    assert follower.changed_at("a") == 2


def test_a_hole_restores_no_change_that_lies_behind_it(place):
    """The next route record in the log bounds what the hole can have held."""
    follower = place.follow()
    place.change(put(1, "a", "t"))
    place.event()
    place.change(put(2, "b", "t"))
    place.log.damage(0)
    read = list(place.log.read(0, 3))
    assert follower.pass_record(read[0]) == [put(1, "a", "t")]
    assert matches(follower.table, "t") == ("a",)
    follower.pass_record(read[1])
    assert matches(follower.table, "t") == ("a", "b")


def test_a_gap_in_the_numbers_is_filled_from_history(place):
    """The record of change 1 is gone and left no hole in the offsets."""
    follower = place.follow()
    place.change(put(1, "a", "t"), in_log=False)
    place.change(put(2, "b", "t"))
    (logged,) = place.log.read(0, 1)
    assert follower.pass_record(logged) == [put(1, "a", "t"), put(2, "b", "t")]
    assert matches(follower.table, "t") == ("a", "b")


def test_a_hole_at_the_end_is_restored_when_it_is_passed(place):
    """No record behind it shows it: the reader tells how far it looked."""
    follower = place.follow()
    place.change(put(1, "a", "t"))
    place.log.damage(0)
    assert follower.pass_gap(1) == [put(1, "a", "t")]
    assert matches(follower.table, "t") == ("a",)
    follower.pass_gap(1)  # nothing between: history is not asked again
    assert follower.table.last_seq == 1


def test_a_hole_is_restored_at_a_start_as_well(place):
    """The change is missing below the cursor."""
    place.change(put(1, "a", "t"))
    place.event()
    place.change(delete(2, "a"))
    place.event()
    place.log.damage(2)
    assert matches(place.follow().table, "t") == ()


def test_a_history_that_cannot_tell_stops_the_partition(place):
    """Never skipped."""

    def between(_after_seq, _before_seq):
        raise StoreError("history was deleted")

    follower = place.follow(0)
    place.history.between = between
    place.change(put(1, "a", "t"))
    place.event()
    place.log.damage(0)
    (behind,) = place.log.read(0, 2)
    with pytest.raises(StoreError):
        follower.pass_record(behind)


def test_a_route_record_that_cannot_be_read_stops_the_partition(place):
    """Its checksums hold, so no copy of it is better."""
    follower = place.follow()
    place.log.append([(RecordKind.ROUTE, b"{not json")])
    (logged,) = place.log.read(0, 1)
    with pytest.raises(LogDamagedError, match="offset 0"):
        follower.pass_record(logged)


def test_a_saved_table_and_what_follows_say_the_same_as_the_whole_log(place):
    """Snapshot and replay equal replay from scratch."""
    for seq in range(1, 9):
        place.change(put(seq, f"r{seq % 3}", f"t{seq}", revision=seq))
    whole = place.follow().table.snapshot()
    for at in range(9):
        save_table(place.path, at, place.follow(at).table.snapshot())
        assert place.follow().table.snapshot() == whole
        place.path.unlink()


def test_a_table_saved_behind_the_cursor_is_not_used(place):
    """The cursor went back: that table holds changes that do not stand yet."""
    place.change(put(1, "a", "t"))
    place.change(delete(2, "a"))
    save_table(place.path, 2, place.follow(2).table.snapshot())
    assert matches(place.follow(1).table, "t") == ("a",)


@pytest.mark.parametrize("content", [b"", b"short", b"\0" * 40], ids=["empty", "short", "zeros"])
def test_a_damaged_cache_is_ignored(place, content):
    """It is a cache: the log says the same."""
    place.change(put(1, "a", "t"))
    place.path.write_bytes(content)
    assert matches(place.follow().table, "t") == ("a",)


def test_a_kept_table_can_be_told_to_stand_further_on(place):
    """No change lies between: a start then need not look for any."""
    place.change(put(1, "a", "t"))
    save_table(place.path, 1, place.follow().table.snapshot())
    size = place.path.stat().st_size
    place.event()
    place.event()
    move_table(place.path, 3)
    assert place.path.stat().st_size == size
    looked_from = []
    plain = place.log.kinds
    place.log.kinds = lambda begin, *more: looked_from.append(begin) or plain(begin, *more)
    assert matches(place.follow(3).table, "t") == ("a",)
    assert looked_from[0] == 3
    assert matches(place.follow(2).table, "t") == ("a",)


@pytest.mark.parametrize("at", range(16))
def test_a_cache_whose_place_is_damaged_is_ignored(place, at):
    """Changes would be passed over if the place were believed."""
    save_table(place.path, 0, place.follow().table.snapshot())
    place.change(put(1, "a", "t"))
    content = bytearray(place.path.read_bytes())
    content[at] ^= 1
    place.path.write_bytes(content)
    assert matches(place.follow().table, "t") == ("a",)


def test_a_damaged_cache_is_not_told_to_stand_further_on(place):
    """It stays as it is: not to be believed."""
    place.path.write_bytes(b"\0" * 40)
    move_table(place.path, 3)
    assert place.path.read_bytes() == b"\0" * 40


def test_a_torn_cache_is_ignored(place):
    """Nothing of it is synced, so a power cut may leave half of it."""
    place.change(put(1, "a", "t"))
    save_table(place.path, 1, place.follow().table.snapshot())
    place.path.write_bytes(place.path.read_bytes()[:-3])
    assert matches(place.follow().table, "t") == ("a",)


def test_the_snapshot_at_the_cut_stands_for_what_retention_deleted(place):
    """The records that made the routes are gone."""
    place.change(put(1, "a", "t"))
    place.event()
    place.change(put(2, "b", "t"))
    place.log.drop(2)
    assert matches(place.follow().table, "t") == ("a", "b")


def test_a_follower_that_begins_somewhere_keeps_the_table_that_it_was_given(place):
    """It looks at nothing below."""
    table = RouteTable()
    table.apply(put(1, "a", "t"))
    follower = RouteFollower(place.log, place.history, table, 0)
    assert follower.table is table


class CountedLog(MemoryLog):
    """A log that counts the records that were looked through."""

    def __init__(self, clock):
        super().__init__(clock)
        self.looked = 0

    def kinds(self, offset, end, *kinds):
        self.looked += max(0, min(end, self.durable_end()) - offset)
        return super().kinds(offset, end, *kinds)


def test_a_start_looks_through_no_backlog_where_no_change_is_missing(place, clock):
    """An owner that is far behind the log starts as quickly as one that is not."""
    place.log = CountedLog(clock)
    cursor = place.change(put(1, "a", "t")) + 1
    for _ in range(500):
        place.event()
    place.follow(cursor)
    assert place.log.looked == cursor


def test_a_hole_is_passed_without_a_look_at_the_backlog(place, clock):
    """Where no change is newer than the table, the hole held none."""
    place.log = CountedLog(clock)
    cursor = place.change(put(1, "a", "t")) + 1
    follower = place.follow(cursor)
    for _ in range(500):
        place.event()
    place.log.looked = 0
    assert not follower.pass_gap(cursor + 5)
    assert place.log.looked == 0


def kept(place, at_offset):
    """Keep the routes that stand at *at_offset*, as an owner does; their table."""
    table = place.follow(at_offset).table
    save_table(place.path, at_offset, table.snapshot())
    return table


def follow_on_at(place, table, offset):
    """The routes at *offset*, from *table*."""
    return follow_on(table, kept_at(place.path), place.log, place.history, offset)


def test_a_table_that_was_built_before_goes_on(place):
    """The table of a former owner serves the next one, and is the one that the log gives."""
    table = kept(place, place.change(put(1, "a", "t")) + 1)
    place.change(put(2, "b", "t"))
    place.event()
    end = place.change(delete(3, "a")) + 1
    follower = follow_on_at(place, table, end)
    assert follower.table is table
    assert table.snapshot() == place.follow(end).table.snapshot()


def test_a_table_of_another_partition_that_is_further_is_not_used(place):
    """An event is never met by routes that came after it (DESIGN rule 4)."""
    kept(place, place.change(put(1, "a", "t")) + 1)
    place.event()
    cursor = place.log.durable_end()
    newer = place.follow(place.change(put(2, "b", "t")) + 1).table
    assert follow_on_at(place, newer, cursor) is None


def test_a_table_that_is_behind_what_is_kept_catches_up(place):
    """Changes below what is kept come from the store, those above it from the log."""
    table = place.follow(place.change(put(1, "a", "t")) + 1).table
    kept(place, place.change(put(2, "b", "t")) + 1)
    end = place.change(put(3, "c", "t")) + 1
    follower = follow_on_at(place, table, end)
    assert matches(follower.table, "t") == ("a", "b", "c")


def test_a_table_is_not_used_where_the_store_has_forgotten_the_changes_since(place, monkeypatch):
    """Then the routes are compiled from the nearest snapshot."""
    table = place.follow(place.change(put(1, "a", "t")) + 1).table
    cursor = place.change(put(2, "b", "t")) + 1
    kept(place, cursor)

    def forgotten(_after, _before):
        raise StoreError("trimmed")

    monkeypatch.setattr(place.history, "between", forgotten)
    assert follow_on_at(place, table, cursor) is None


@pytest.mark.parametrize("content", [None, b"", b"torn", bytes(100)])
def test_a_table_is_not_used_where_nothing_says_how_far_it_may_be(place, content):
    """Without what is kept beside the journal the routes are compiled anew."""
    cursor = place.change(put(1, "a", "t")) + 1
    table = place.follow(cursor).table
    if content is not None:
        place.path.write_bytes(content)
    assert follow_on_at(place, table, cursor) is None


def test_a_table_goes_on_in_the_partition_that_it_followed(place):
    """From wherever no change lies between: nothing need be kept beside the journal."""
    place.change(put(1, "a", "t"))
    offsets = [place.event() for _ in range(3)]
    follower = place.follow(offsets[0])
    for offset in offsets:
        follower.pass_record(next(iter(place.log.read(offset, offset + 1))))
    table, span = follower.table, follower.span
    assert span == (offsets[0], offsets[-1] + 1)
    for offset in offsets:  # the cursor may be below what was read
        again = follow_again(table, span, place.log, place.history, offset)
        assert again.table is table
    end = place.change(put(2, "b", "t")) + 1
    again = follow_again(table, span, place.log, place.history, end)
    assert matches(again.table, "t") == ("a", "b")
    assert again.span == (end, end)


def test_a_table_does_not_go_on_below_its_last_change(place):
    """An event is never met by routes that came after it (DESIGN rule 4)."""
    place.change(put(1, "a", "t"))
    cursor = place.event()
    follower = place.follow(cursor)
    change = place.change(put(2, "b", "t"))
    for offset in range(cursor, change + 1):
        follower.pass_record(next(iter(place.log.read(offset, offset + 1))))
    assert follow_again(follower.table, follower.span, place.log, place.history, cursor) is None
    assert follow_again(follower.table, follower.span, place.log, place.history, change) is None
    assert follow_again(follower.table, follower.span, place.log, place.history, change + 1)


def test_a_table_does_not_go_on_where_records_above_it_are_deleted(place):
    """Changes among them would be missing."""
    follower = place.follow(place.change(put(1, "a", "t")) + 1)
    end = place.event() + 1
    place.log.drop(end)
    assert follow_again(follower.table, follower.span, place.log, place.history, end) is None


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
    """The table at the end of the log, and where the log was read first."""
    log = Watched(place.log)
    end = place.log.durable_end()
    follower = follow_from(place.path, log, place.history, end, known=known)
    assert follower.table.snapshot() == place.follow(end).table.snapshot()
    return log.read_from[0]


@pytest.fixture
def long(place):
    """A log whose changes stand apart."""
    for seq in range(1, 7):
        place.change(put(seq, "abc"[seq % 3], f"t{seq}", revision=seq))
        for _ in range(10):
            place.event()
    return place


def test_what_another_one_has_found_is_not_read_again(long):
    """The changes come from the store, as large as the log may be."""
    assert routes_with(long, None) == 0
    assert routes_with(long, RoutesAt(39, 4)) == 39
    assert routes_with(long, RoutesAt(66, 6)) == 66


def test_a_snapshot_that_is_newer_serves_alone(long):
    """What was found before it says nothing more."""
    kept(long, 50)
    assert routes_with(long, RoutesAt(39, 4)) == 50


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
    assert routes_with(long, RoutesAt(61, 6)) == 61
