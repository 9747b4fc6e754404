"""Readers find their place, keep it, and never pass the durable end."""

import random

import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import iter_frames
from distributary.testing.simulated_disk import SimulatedDisk
from distributary.testing.small_log import PARTITION_DIR, SmallLog


class _CountingDisk(SimulatedDisk):
    """Counts the bytes that are read."""

    bytes_read = 0

    def pread(self, handle, length, position):
        block = super().pread(handle, length, position)
        self.bytes_read += len(block)
        return block


@pytest.fixture
def long_log():
    """Some hundred records of many lengths over several segments, a second apart."""
    log = SmallLog(segment_bytes=1 << 18)
    log.open()
    chance = random.Random(3)
    for number in range(400):
        log.clock.move_to(number)
        kind = RecordKind.ROUTE if number % 50 == 0 else RecordKind.EVENTS
        log.append(b"%d" % number + bytes(chance.choice([0, 10, 1000, 9000])), kind=kind)
    return log


def test_random_access_finds_each_record(long_log):
    """A search in the middle of segments ends at the record that was asked for."""
    with long_log.reader() as reader:
        for number in [*range(0, 400, 7), 399, 0]:
            chunk, _ = reader.read_chunk(number, 1)
            (record,) = iter_frames(chunk)
            assert (record.offset, record.body.rstrip(b"\0")) == (number, b"%d" % number)
        assert reader.damages() == ()


def test_a_search_leaves_allocated_space_alone():
    """Segments are allocated before they are written: a search does not look through the zeros."""
    disk = _CountingDisk()
    small = SmallLog(disk=disk, segment_bytes=1 << 26)
    small.open()
    for number in range(50):
        small.append(b"%d" % number + bytes(1000))
    disk.bytes_read = 0
    with small.reader() as reader:
        chunk, _ = reader.read_chunk(49, 1)
    assert [record.offset for record in iter_frames(chunk)] == [49]
    assert disk.bytes_read < 20 * 64 * 1024


def test_zeros_in_bodies_do_not_end_a_search():
    """A body of zeros looks like allocated space: its record and those behind it are found."""
    small = SmallLog(segment_bytes=1 << 23)
    small.open()
    for size in [1000, 300_000, 1000, 500_000, 10, 400_000, 1000]:
        small.append(bytes(size))
    with small.reader() as reader:
        for number in range(7):
            chunk, _ = reader.read_chunk(number, 1)
            assert [record.offset for record in iter_frames(chunk)] == [number]
        assert reader.damages() == ()


def test_times_find_their_records(long_log):
    """Every second finds the record of that second; the far past and future the ends."""
    start_ms = long_log.clock.wall_ms() - 399_000
    with long_log.reader() as reader:
        for number in range(0, 400, 13):
            assert reader.offset_at(start_ms + number * 1000) == number
            assert reader.offset_at(start_ms + number * 1000 - 999) == number
        assert reader.offset_at(0) == 0
        assert reader.offset_at(start_ms + 10**9) == 400


def test_a_size_finds_the_newest_segments_that_fit(long_log):
    """Whole segments, as retention deletes them; the newest counts whatever its size."""
    with long_log.reader() as reader:
        assert reader.offset_within(1 << 40) == reader.start() == 0
        newest = reader.offset_within(0)
        two = reader.offset_within(2 << 18)
        assert 0 < two < newest < 400
        assert newest == reader.offset_within(1 << 18)


def test_one_kind_is_read_over_segments(long_log):
    """Route records are found in all segments."""
    with long_log.reader() as reader:
        assert [r.offset for r in reader.kinds(0, 400, RecordKind.ROUTE)] == list(range(0, 400, 50))
        assert [r.offset for r in reader.kinds(51, 150, RecordKind.ROUTE)] == [100]


def test_sequential_chunks_search_nothing(long_log):
    """Reading on from where the last chunk ended costs one call of the disk."""
    with long_log.reader() as reader:
        _, offset = reader.read_chunk(5, 2000)
        for _ in range(10):
            long_log.disk.fail(0, 0)
            _, offset = reader.read_chunk(offset, 2000)
            assert long_log.disk.calls <= 2


def test_a_record_longer_than_the_chunk_comes_whole(log):
    """However short a chunk may be, it holds a whole record."""
    log.append(b"x" * 3000)
    with log.reader() as reader:
        chunk, offset = reader.read_chunk(0, 10)
    assert offset == 1
    assert len(next(iter_frames(chunk)).body) == 3000


def test_bytes_that_are_not_synced_do_not_exist(log):
    """Between write and sync a reader sees nothing of it."""
    log.append(b"durable")
    seen = []
    with log.reader() as reader:

        def look(name):
            if name == "fdatasync":
                seen.append((reader.durable_end(), len(list(reader.read(0, 9)))))
                seen.append(reader.read_chunk(1, 999))
            return False

        log.disk.fail(1, 5, only=look)
        log.append(b"not yet")
        log.disk.heal()
        assert seen == [(1, 1), (b"", 1)]
        assert reader.durable_end() == 2


def test_a_reader_sees_through_a_restart_of_the_appender(log):
    """The shared end stays mapped: a reader goes on when a new process appends."""
    log.append(b"a")
    with log.reader() as reader:
        assert reader.read_chunk(0, 999)[1] == 1
        log.disk.fail(0, 0)
        log.appender.close()
        log.open()
        log.append(b"b")
        chunk, offset = reader.read_chunk(1, 999)
        assert ([r.body for r in iter_frames(chunk)], offset) == ([b"b"], 2)


def test_the_end_of_a_dead_writer_is_believed_after_some_looks(log):
    """A writer that died between its two stores: both values were durable."""
    log.append(b"a")
    words = log.disk.map_words(PARTITION_DIR / "end")
    words[0] = 7
    with log.reader() as reader:
        assert reader.durable_end() == 1


def test_a_long_log_reopens_where_it_ended(long_log):
    """Recovery of a larger segment finds its end, and the time goes on from there."""
    long_log.appender.close()
    long_log.clock.jump(-(10**7))
    long_log.open()
    assert long_log.append(b"later") == 400
    records = long_log.records()
    assert records[-1].time_ms == records[-2].time_ms


def test_time_goes_on_over_an_empty_segment():
    """The newest segment may be empty after a crash: the time comes from the one before."""
    log = SmallLog(segment_bytes=2048)
    log.open()
    log.append(b"x" * 900)
    log.append(b"x" * 900)
    newest_ms = log.clock.wall_ms()
    log.disk.fail(1, 5, only=lambda name: name == "pwrite")
    with pytest.raises(Exception, match="write"):
        log.append(b"x" * 900)
    log.disk.kill()
    log.disk.heal()
    log.clock.jump(-(10**6))
    log.open()
    log.append(b"next")
    assert log.records()[-1].time_ms == newest_ms


def test_more_than_a_segment_goes_in_several_commits(log):
    """One call may append more than a segment holds."""
    bodies = [b"%03d" % number * 100 for number in range(60)]
    assert log.append(*bodies) == 0
    assert log.bodies() == bodies
    assert log.append() == 60
