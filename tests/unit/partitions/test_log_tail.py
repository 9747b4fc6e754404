"""The tail of a partition's log: chunks in order, one at a time, and no record missed."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.datadir import StatusField
from distributary.partitions._log_tail import BUSY_PAUSES, CHUNK_BYTES, LogTail


class Records:
    """A log whose record *n* is the byte *n*; two make a chunk, unless they are larger."""

    record_bytes = 1

    def __init__(self, end=0):
        self.end = end
        self.error = None
        self.on_read = lambda: None

    def read_chunk(self, from_offset, bytes_max):
        del bytes_max
        if self.error is not None:
            raise self.error
        after = min(from_offset + 2, self.end)
        chunk = bytes(range(from_offset, after)) * self.record_bytes
        self.on_read()
        return chunk, max(after, from_offset)


class Consumer:
    """Keeps what it is fed until it is told to take it."""

    def __init__(self):
        self.fed = []
        self.buffered_bytes = 0
        self.failures = []

    def feed(self, to_offset, chunk):
        self.fed.append((to_offset, chunk))
        self.buffered_bytes += len(chunk)

    def fail(self, error):
        self.failures.append(error)


class Loop:
    """An event loop that does what it was asked when the test says so."""

    def __init__(self):
        self.soon = []
        self.later = []
        self.readers = {}

    def add_reader(self, fd, callback):
        self.readers[fd] = callback

    def remove_reader(self, fd):
        del self.readers[fd]

    def call_soon(self, callback):
        self.soon.append(callback)

    def call_later(self, pause_s, callback):
        self.later.append((pause_s, callback))

    def run(self):
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()


class Bell:
    """A bell that the test rings."""

    fd = 7

    def __init__(self):
        self.heard_count = 0

    def heard(self):
        self.heard_count += 1


class World:
    """A tail, and all that is around it."""

    def __init__(self, end):
        self.records, self.consumer, self.loop = Records(end), Consumer(), Loop()
        self.bell, self.page = Bell(), {StatusField.AWAITS_RECORDS: 0}
        self.tail = LogTail(self.records, self.bell, self.page, self.consumer, self.loop)

    @property
    def awaits(self):
        return self.page[StatusField.AWAITS_RECORDS]

    def take(self):
        """The consumer takes what it holds, and the loop turns."""
        self.consumer.buffered_bytes = 0
        self.tail.look_soon()
        self.tail.look_soon()
        self.loop.run()


def test_reads_on_when_the_consumer_has_taken_all():
    """One chunk at a time: what waits is bounded, and the log keeps the rest."""
    world = World(end=5)
    world.tail.start(0)
    world.tail.look()
    assert world.consumer.fed == [(2, b"\0\1")]
    world.take()
    world.take()
    assert world.consumer.fed == [(2, b"\0\1"), (4, b"\2\3"), (5, b"\4")]
    assert not world.awaits
    world.take()
    assert world.awaits
    assert len(world.consumer.fed) == 3


def test_a_ring_brings_the_next_record():
    """The consumer sleeps until then."""
    world = World(end=0)
    world.tail.start(0)
    assert (world.awaits, world.consumer.fed) == (1, [])
    world.records.end = 1
    world.loop.readers[world.bell.fd]()
    assert (world.awaits, world.consumer.fed, world.bell.heard_count) == (0, [(1, b"\0")], 1)


def test_a_record_that_comes_before_the_word_is_seen_is_not_missed():
    """Whoever appends looks at the word after the end: it has seen none, so nobody rings."""
    world = World(end=0)

    def append():
        world.records.end = 1
        world.records.on_read = lambda: None

    world.records.on_read = append  # after the first look, before the word is written
    world.tail.start(0)
    assert world.consumer.fed == [(1, b"\0")]
    assert not world.awaits


def test_reads_nothing_after_the_end():
    """Rings and turns of the loop that come later change nothing."""
    world = World(end=4)
    world.tail.start(0)
    world.consumer.buffered_bytes = 0
    world.tail.look_soon()
    world.tail.stop()
    world.tail.stop()
    world.loop.run()
    world.tail.look()
    assert len(world.consumer.fed) == 1
    assert world.loop.readers == {}


@pytest.mark.parametrize(("chunk_bytes", "pause_s"), BUSY_PAUSES, ids=str)
def test_a_busy_log_is_read_in_larger_chunks(chunk_bytes, pause_s):
    """The receiver need not ring meanwhile; then the tail looks by itself."""
    world = World(end=2)
    world.records.record_bytes = chunk_bytes // 2
    world.tail.start(0)
    world.take()
    assert not world.awaits
    ((found_s, look),) = world.loop.later
    assert found_s == pause_s
    world.records.end = 4
    look()
    assert len(world.consumer.fed) == 2


def test_a_log_that_is_ahead_is_read_without_a_pause():
    """A backlog waits for nothing but its consumer."""
    world = World(end=4)
    world.records.record_bytes = CHUNK_BYTES // 2
    world.tail.start(0)
    world.take()
    assert world.loop.later == []
    assert len(world.consumer.fed) == 2


@pytest.mark.parametrize("later", [False, True])
def test_a_log_that_cannot_be_read_stops_the_consumer(later):
    """The next owner tries again; nothing is passed over."""
    world = World(end=2 if later else 0)
    error = LogUnavailableError("the disk")
    if later:
        world.tail.start(0)
        world.records.error = error
        world.take()
    else:
        world.records.error = error
        world.tail.start(0)
    assert world.consumer.failures == [error]
    assert world.loop.readers == {}
