"""Readers of a log on Kafka, with a client library that is scripted."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.flow import RecordKind
from distributary.core.log.frame import iter_frames
from distributary.core.log.kafka import KafkaRecords, KafkaTail, MemorySnapshots, _fetcher
from distributary.core.log.kafka import records as records_module
from distributary.core.log.kafka import tail as tail_module
from distributary.core.log.kafka._value import encode
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

    def __init__(self, offset=0, trouble=None, by=b"", value=b""):
        self._offset = offset
        self._trouble = trouble
        self._by = by
        self._value = value

    def error(self):
        return self._trouble

    def offset(self):
        return self._offset

    def headers(self):
        return [("by", self._by)]

    def value(self):
        return self._value

    def timestamp(self):
        return 1, 1_000


class Consumer:
    """One that brings what it was given."""

    unmet = False
    end = 10

    def __init__(self, _settings):
        self.messages = []
        self.closed = 0
        self.asked = 0

    def assign(self, _places):
        pass

    def unassign(self):
        pass

    def get_watermark_offsets(self, _place, timeout=0.0, *, cached=False):
        assert not self.closed
        assert cached or timeout > 0
        self.asked += not cached
        if self.unmet:
            raise RuntimeError(self.unmet)
        return 0, self.end

    def poll(self, _wait_s):
        return self.messages.pop(0) if self.messages else None

    def close(self):
        self.closed += 1


def _made(monkeypatch, kind):
    made = []

    def make(settings):
        made.append(kind(settings))
        return made[-1]

    library = SimpleNamespace(
        Consumer=make, KafkaException=RuntimeError, TopicPartition=lambda *named: named
    )
    monkeypatch.setattr(_fetcher, "library", lambda: library)
    return made


@pytest.fixture
def consumers(monkeypatch):
    """The consumers that were made."""
    return _made(monkeypatch, Consumer)


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


class Cluster(Consumer):
    """One of a log of ten records, the first of which is damaged.

    As librdkafka's, it goes on after what it has brought, though an error came with it; and not at
    all after an error that says that there is no such record.

    Attributes:
        away: Errors that come before all else, each with whether it goes on after it.
    """

    def __init__(self, settings):
        super().__init__(settings)
        self.away = []
        self._at = None

    def assign(self, places):
        ((_, _, self._at),) = places

    def unassign(self):
        self._at = None

    def poll(self, _wait_s):
        return None

    def consume(self, count, _wait_s):
        if self._at is None:
            return []
        found = []
        if self.away:
            name, goes_on = self.away.pop(0)
            found.append(Message(trouble=Trouble(name)))
            if not goes_on:
                self._at = None
                return found
        for offset in range(self._at, min(10, self._at + count)):
            value = b"" if offset == 0 else encode(RecordKind.EVENTS, b"%d" % offset)
            found.append(Message(offset, value=value))
            self._at = offset + 1
        return found


@pytest.fixture
def clusters(monkeypatch):
    """The consumers that were made, of a log of ten records; each look at the clock is a second."""
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _s: None)
    monkeypatch.setattr(_fetcher, "time", clock)
    monkeypatch.setattr(records_module, "time", clock)
    return _made(monkeypatch, Cluster)


def _offsets(chunk):
    return [each.offset for each in iter_frames(chunk)]


@pytest.mark.parametrize("at", [0, 3])
def test_a_read_that_was_forbidden_begins_anew(clusters, at):
    """What came with the error is read again: its records are neither passed over nor doubled."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    clusters[0].away = [("TOPIC_AUTHORIZATION_FAILED", True)]
    with pytest.raises(LogUnavailableError, match="TOPIC_AUTHORIZATION_FAILED"):
        records.read_chunk(at, 10_000)
    chunk, after = records.read_chunk(at, 10_000)
    assert (_offsets(chunk), after) == (list(range(max(at, 1), 10)), 10)


def test_a_read_whose_leader_is_away_begins_anew(clusters):
    """The client has ceased to fetch: who comes again where it stood must have it begin."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    assert records.durable_end() == 10
    (cluster,) = clusters
    cluster.away, cluster.unmet = [("_AUTO_OFFSET_RESET", False)], Trouble("_TIMED_OUT")
    with pytest.raises(LogUnavailableError, match="_TIMED_OUT"):
        records.read_chunk(3, 10_000)
    cluster.unmet = False
    chunk, after = records.read_chunk(3, 10_000)
    assert (_offsets(chunk), after) == (list(range(3, 10)), 10)


def test_a_read_beyond_a_log_that_has_lost_records_begins_anew(clusters):
    """They may be back: the replica that was in sync may lead again."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    assert records.durable_end() == 10
    (cluster,) = clusters
    cluster.away, cluster.end = [("_AUTO_OFFSET_RESET", False)], 2
    with pytest.raises(LogUnavailableError, match="unclean election"):
        records.read_chunk(3, 10_000)
    cluster.end = 10
    chunk, after = records.read_chunk(3, 10_000)
    assert (_offsets(chunk), after) == (list(range(3, 10)), 10)


def test_a_read_that_took_too_long_begins_anew(clusters):
    """Whatever held up the fetches: a retry does not wait for them as well."""
    records = KafkaRecords(PLACE, 0, MemorySnapshots())
    assert records.durable_end() == 10
    (cluster,) = clusters
    cluster.away = [("_TRANSPORT", False)]
    with pytest.raises(LogUnavailableError, match="_TRANSPORT"):
        records.read_chunk(3, 10_000)
    chunk, after = records.read_chunk(3, 10_000)
    assert (_offsets(chunk), after) == (list(range(3, 10)), 10)


def test_a_tail_reads_nothing_more_after_an_error(clusters):
    """The next owner's tail seeks: no record is fed beyond the one that could not be read."""
    loop = asyncio.new_event_loop()
    failed, fed = [], []
    taker = SimpleNamespace(
        buffered_bytes=0,
        feed=lambda after, chunk: fed.append((after, _offsets(chunk))),
        fail=failed.append,
    )
    tail = KafkaTail(PLACE, 0, taker, loop)
    clusters[0].away = [("TOPIC_AUTHORIZATION_FAILED", True)]
    tail.start(3)
    tail.look()
    tail.look_soon()
    loop.run_until_complete(asyncio.sleep(0))
    assert len(failed) == 1
    again = KafkaTail(PLACE, 0, taker, loop)
    again.start(3)
    again.stop()
    loop.close()
    assert fed == [(10, list(range(3, 10)))]


class Silent(Cluster):
    """One whose leader tells where the log ends, and brings nothing."""

    def consume(self, count, _wait_s):
        del count
        return []


@pytest.mark.parametrize(
    ("at", "unmet", "others", "fails"),
    [
        (3, False, True, True),
        (3, Trouble("_TRANSPORT"), True, True),
        (3, Trouble("_TRANSPORT"), False, False),
        (10, False, True, False),
    ],
    ids=["records-do-not-come", "cut-off-alone", "the-log-is-away", "nothing-to-read"],
)
def test_a_tail_that_alone_gets_nothing_says_so(monkeypatch, at, unmet, others, fails):
    """Another machine can read the partition; where none can, what was read is delivered on."""
    for name in ("SURE_S", "DOUBT_S_MAX", "AWAKE_S"):
        monkeypatch.setattr(tail_module, name, 0.0)
    monkeypatch.setattr(_fetcher, "ANSWER_S_MAX", 0.0)
    (made := _made(monkeypatch, Silent)).clear()
    loop = asyncio.new_event_loop()
    failed, asked = [], []

    def reach():
        asked.append(True)
        return others

    taker = SimpleNamespace(buffered_bytes=0, fail=failed.append)
    tail = KafkaTail(PLACE, 0, taker, loop, others_reach=reach)
    made[0].unmet = unmet

    async def wait():
        tail.start(at)
        async with asyncio.timeout(60.0):
            while not failed and len(asked) < 3 and made[0].asked < 5:  # noqa: ASYNC110 - a thread
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.01)

    loop.run_until_complete(wait())
    tail.stop()
    loop.close()
    assert bool(failed) == fails


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
