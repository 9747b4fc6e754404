"""Readers of a log on Kafka, with a client library that is scripted."""

import asyncio
from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import RecordKind
from distributary.core.log.kafka import KafkaRecords, KafkaTail, MemorySnapshots, _fetcher
from distributary.core.log.kafka import records as records_module
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

PLACE = KafkaPlace(servers=("kafka:9092",), prefix="x")


class Trouble:
    """A ``KafkaError``."""

    def __init__(self, name):
        self._name = name

    def name(self):
        return self._name

    def str(self):
        return f"trouble: {self._name}"

    def fatal(self):
        return False


class Message:
    """A record, or an error in its place."""

    def __init__(self, offset=0, trouble=None, by=b""):
        self._offset = offset
        self._trouble = trouble
        self._by = by

    def error(self):
        return self._trouble

    def offset(self):
        return self._offset

    def headers(self):
        return [("by", self._by)]


class Consumer:
    """One that brings what it was given."""

    unmet = False

    def __init__(self, _settings):
        self.messages = []
        self.closed = 0
        self.asked = 0

    def assign(self, _places):
        pass

    def get_watermark_offsets(self, _place, timeout=0.0, *, cached=False):
        assert not self.closed
        assert cached or timeout > 0
        self.asked += not cached
        if self.unmet:
            raise RuntimeError
        return 0, 10

    def poll(self, _wait_s):
        return self.messages.pop(0) if self.messages else None

    def close(self):
        self.closed += 1


@pytest.fixture
def consumers(monkeypatch):
    """The consumers that were made."""
    made = []

    def make(settings):
        made.append(Consumer(settings))
        return made[-1]

    library = SimpleNamespace(
        Consumer=make, KafkaException=RuntimeError, TopicPartition=lambda *named: named
    )
    monkeypatch.setattr(_fetcher, "library", lambda: library)
    return made


def test_who_published_is_told_after_trouble_that_passes(consumers):
    """A broker that is away for a moment does not make the publisher unknown."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    consumers[0].messages = [Message(trouble=Trouble("_TRANSPORT")), Message(4, by=b"alice")]
    assert records.publisher(4) == "alice"


def test_a_publisher_that_cannot_be_read_is_no_nobody(consumers):
    """It is an error, which who asks is told."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    consumers[0].messages = [Message(trouble=Trouble("TOPIC_AUTHORIZATION_FAILED"))]
    with pytest.raises(LogUnavailableError, match="TOPIC_AUTHORIZATION_FAILED"):
        records.publisher(4)


def test_a_record_that_is_gone_has_no_publisher(consumers):
    """Another one stands first."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    consumers[0].messages = [Message(7, by=b"alice")]
    assert records.publisher(4) is None


def test_a_tail_that_never_started_ends_its_connections(consumers):
    """Once, however often it is stopped; and it begins no more."""
    loop = asyncio.new_event_loop()
    tail = KafkaTail(PLACE, 0, SimpleNamespace(buffered_bytes=0), loop)
    assert tail.end() == 10
    tail.stop()
    tail.stop()
    tail.start(3)
    assert tail.end() == 10  # as an owner asks that waits for attempts under way
    assert [each.closed for each in consumers] == [1]
    loop.close()


@pytest.mark.parametrize("unmet", [False, True])
def test_a_tail_meets_the_leader_before_it_reads(consumers, monkeypatch, unmet):
    """Else its first records come up to a second late; where there is no leader, it reads on."""
    monkeypatch.setattr(Consumer, "unmet", unmet)
    loop = asyncio.new_event_loop()
    tail = KafkaTail(PLACE, 0, SimpleNamespace(buffered_bytes=0), loop)
    assert [each.asked for each in consumers] == [1]
    tail.stop()
    loop.close()


class Fetched:
    """What is fetched of a log, some records at a time; record 100 is damaged."""

    def __init__(self, log):
        self._log = log
        self._at = 0

    def watermarks(self):
        return _fetcher.Watermarks(0, self._log.durable_end())

    def seek(self, offset):
        self._at = offset

    def gather(self, _bytes_max, _kind):
        if self._at == 100:
            self._at += 1
        chunk, self._at = self._log.read_chunk(self._at, 1_000)
        return chunk, self._at

    def rest(self):
        pass


def test_a_reader_goes_on_in_a_chunk_that_has_the_record_alone(monkeypatch):
    """One that begins later has it not, though the record before was the last one that was read."""
    log = MemoryLog(VirtualClock())
    for _ in range(150):
        log.append([(RecordKind.EVENTS, b"x" * 20)])
    monkeypatch.setattr(records_module, "Fetcher", lambda *_given, **_more: Fetched(log))
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    found = [[each.offset for each in records.read(at, at + 1)] for at in (19, 100, 20)]
    assert found == [[19], [], [20]]
