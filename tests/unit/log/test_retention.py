"""Retention deletes what is old or too much, never what is needed, and keeps the routes."""

import errno

import pytest

from distributary.errors import LogDamagedError, LogUnavailableError
from distributary.log import retain
from distributary.testing.small_log import PARTITION_DIR, SmallLog

FOR_EVER_S = 1e9


@pytest.fixture
def old_log():
    """Twelve records, three in a segment, a minute between records."""
    log = SmallLog(segment_bytes=1024)
    log.open()
    for number in range(12):
        log.clock.move_to(number * 60.0)
        log.append(b"%03d" % number * 100)
    return log


def keep(log, keep_from, *, bytes_max=10**9, age_max_s=FOR_EVER_S, snapshot=None):
    """Run retention with a snapshot that says where it was cut."""
    return retain(
        PARTITION_DIR,
        keep_from,
        bytes_max=bytes_max,
        age_max_s=age_max_s,
        now_ms=log.clock.wall_ms(),
        snapshot_at_cut=snapshot or (lambda cut: b"routes at %d" % cut),
        disk=log.disk,
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
    """Records at or above the smallest cursor, lag or retry stay, however large the log is."""
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
