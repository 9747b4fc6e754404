"""Retention deletes what is old or too much, never what is needed, and keeps the routes."""

import errno

import pytest

from distributary.core.errors import LogDamagedError, LogUnavailableError
from distributary.core.flow import RecordKind, RouteRecord
from distributary.core.log import BODY_BYTES_MAX, encode_frame, retain
from distributary.core.route import BlindMatcher, RouteTable
from distributary.testing.small_log import PARTITION_DIR, SmallLog

FOR_EVER_S = 1e9
SNAPSHOT_PIECE_BYTES = 8 * 1024 * 1024


@pytest.fixture
def old_log():
    """Twelve records, three in a segment, a minute between records."""
    log = SmallLog(segment_bytes=1024)
    log.open()
    for number in range(12):
        log.clock.move_to(number * 60.0)
        log.append(b"%03d" % number * 100)
    return log


def keep(log, keep_from, *, bytes_max=10**9, age_max_s=FOR_EVER_S, snapshot=None, again=None):
    """Run retention with a snapshot that says where it was cut."""
    more = {} if again is None else {"keep_from_again": again}
    return retain(
        PARTITION_DIR,
        keep_from,
        bytes_max=bytes_max,
        age_max_s=age_max_s,
        now_ms=log.clock.wall_ms(),
        snapshot_at_cut=snapshot or (lambda cut: b"routes at %d" % cut),
        disk=log.disk,
        **more,
    )


def test_keeps_everything_within_its_limits(old_log):
    """Nothing is deleted that is neither old nor too much."""
    assert keep(old_log, 12).segment_count == 0
    assert len(old_log.records()) == 12


def test_deletes_down_to_the_size(old_log):
    """The oldest segments go until the rest fits."""
    done = keep(old_log, 12, bytes_max=2048)
    assert (done.start, done.segment_count, done.freed_bytes) == (6, 2, 2048)
    assert [record.offset for record in old_log.records()] == list(range(6, 12))


def test_deletes_by_age(old_log):
    """A segment goes when its newest record is older than the limit."""
    done = keep(old_log, 12, age_max_s=6 * 60)
    assert done.start == 3
    assert keep(old_log, 12, age_max_s=5 * 60 - 1).start == 6


@pytest.mark.parametrize(("needed", "start"), [(0, 0), (2, 0), (3, 3), (5, 3), (8, 6), (12, 9)])
def test_never_deletes_what_is_needed(old_log, needed, start):
    """Records at or above the smallest cursor, backfill or retry stay, however large the log is."""
    assert keep(old_log, needed, bytes_max=0).start == start
    assert [record.offset for record in old_log.records()] == list(range(start, 12))


def test_the_newest_segment_always_stays(old_log):
    """The appender writes to it."""
    assert keep(old_log, 10**6, bytes_max=0, age_max_s=0).start == 9
    assert old_log.append(b"on") == 12


def test_the_routes_at_the_cut_are_kept(old_log):
    """A reader that begins at the oldest record finds the routes that stand before it."""
    with old_log.reader() as reader:
        assert reader.route_snapshot() is None
        keep(old_log, 7, bytes_max=0)
        assert reader.start() == 6
        assert reader.route_snapshot() == (6, b"routes at 6")
        keep(old_log, 12, bytes_max=0)
        assert reader.route_snapshot() == (9, b"routes at 9")
    assert [name for name in old_log.disk.listdir(PARTITION_DIR) if "routes" in name] == [
        "00000000000000000009.routes"
    ]


@pytest.mark.parametrize("size", [0, SNAPSHOT_PIECE_BYTES, BODY_BYTES_MAX + 1, 40_000_000])
def test_a_snapshot_is_as_long_as_the_routes_need(old_log, size):
    """However many routes stand: they are kept, and the old segments go."""
    routes = b"r" * (size // 2) + b"s" * (size - size // 2)
    assert keep(old_log, 12, bytes_max=0, snapshot=lambda _cut: routes).start == 9
    assert [record.offset for record in old_log.records()] == [9, 10, 11]
    with old_log.reader() as reader:
        assert reader.route_snapshot() == (9, routes)


def test_a_snapshot_of_an_older_version_is_read(old_log):
    """It stands in one record, of up to the largest size of one."""
    keep(old_log, 12, bytes_max=0)
    routes = b"r" * (SNAPSHOT_PIECE_BYTES + 5)
    frame = encode_frame(RecordKind.ROUTE_SNAPSHOT, routes, 9, 0, stamp=0)
    old_log.disk.content(PARTITION_DIR / "00000000000000000009.routes")[:] = frame
    with old_log.reader() as reader:
        assert reader.route_snapshot() == (9, routes)


@pytest.mark.parametrize(
    "fault", ["cut short", "a piece too many", "a piece twice", "a flipped bit"]
)
def test_a_long_snapshot_counts_as_a_whole(old_log, fault):
    """Routes that are missing, or another's, would send events to the wrong subscribers."""
    keep(old_log, 12, bytes_max=0, snapshot=lambda _cut: b"r" * (2 * SNAPSHOT_PIECE_BYTES))
    content = old_log.disk.content(PARTITION_DIR / "00000000000000000009.routes")
    half = len(content) // 2
    if fault == "cut short":
        del content[half:]
    elif fault == "a piece too many":
        content += content[half:]
    elif fault == "a piece twice":
        content[half:] = content[:half]
    else:
        content[-1] ^= 1
    with old_log.reader() as reader, pytest.raises(LogDamagedError):
        reader.route_snapshot()


def test_who_begins_in_the_past_meanwhile_keeps_what_it_needs(old_log):
    """Making a snapshot takes a while: what is needed by then stays, and so does its beginning."""
    needed = [12]

    def snapshot(cut):
        needed[0] = 4
        return b"routes at %d" % cut

    done = keep(old_log, 12, bytes_max=0, snapshot=snapshot, again=lambda: needed[0])
    assert (done.start, done.segment_count) == (0, 0)
    assert [record.offset for record in old_log.records()] == list(range(12))
    with old_log.reader() as reader:
        assert (reader.start(), reader.route_snapshot()) == (0, None)
    assert keep(old_log, 4, bytes_max=0, again=lambda: needed[0]).start == 3


@pytest.mark.slow
def test_a_hundred_thousand_triggers_do_not_stop_retention(old_log):
    """Their routes are kept at the cut, and the old segments go."""
    table = RouteTable(BlindMatcher)
    for seq in range(1, 100_001):
        filters = ({"exact": {"type": f"com.example.orders.created.{seq}"}},)
        uid = f"{seq:08d}-0000-4000-8000-000000000000"
        table.apply(
            RouteRecord(seq=seq, op="put", uid=uid, revision=1, filters=filters, address=uid)
        )
    snapshot = table.snapshot()
    assert len(snapshot) > BODY_BYTES_MAX
    assert keep(old_log, 12, bytes_max=0, snapshot=lambda _cut: snapshot).segment_count == 3
    with old_log.reader() as reader:
        _, found = reader.route_snapshot()
    assert len(RouteTable.restore(found, BlindMatcher)) == 100_000


def test_the_snapshot_comes_before_the_deletion(old_log):
    """A snapshot that cannot be made leaves the log as it is."""

    def broken(_cut):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        keep(old_log, 12, bytes_max=0, snapshot=broken)
    assert len(old_log.records()) == 12
    old_log.disk.fail(1, errno.ENOSPC, only=lambda name: name == "pwrite")
    with pytest.raises(LogUnavailableError, match="free space"):
        keep(old_log, 12, bytes_max=0)
    assert len(old_log.records()) == 12


def test_an_interrupted_deletion_is_finished_by_the_next(old_log):
    """Once the snapshot stands the log begins there; leftovers go with the next call."""
    old_log.disk.fail(1, errno.EIO, only=lambda name: name == "unlink")
    with pytest.raises(LogUnavailableError):
        keep(old_log, 12, bytes_max=0)
    assert [record.offset for record in old_log.records()] == [9, 10, 11]
    old_log.disk.heal()
    done = keep(old_log, 0)
    assert (done.start, done.segment_count) == (9, 3)


def test_a_damaged_snapshot_is_never_skipped(old_log):
    """Whoever needs the routes is told that they cannot be read."""
    keep(old_log, 12, bytes_max=0)
    old_log.disk.content(PARTITION_DIR / "00000000000000000009.routes")[40] ^= 4
    with old_log.reader() as reader, pytest.raises(LogDamagedError):
        reader.route_snapshot()


def test_a_reader_goes_on_while_segments_are_deleted(old_log):
    """What a reader holds open it reads; what it asks for later begins at the cut."""
    with old_log.reader() as reader:
        _, offset = reader.read_chunk(0, 400)
        keep(old_log, 12, bytes_max=0)
        assert reader.read_chunk(offset, 400)[1] == offset + 1
        assert reader.read_chunk(0, 400)[1] == 10


def test_an_empty_folder_has_nothing_to_delete():
    """Retention of a partition without segments does nothing."""
    log = SmallLog()
    log.disk.mkdir(PARTITION_DIR)
    assert keep(log, 0).segment_count == 0
