"""Events are found in the log on Kafka, with who published them."""

import asyncio
import threading

import pytest
from structlog.testing import capture_logs

from distributary.core.event import Event, record
from distributary.core.flow import Position, Received, RecordKind
from distributary.core.log.finder import Budget, Finder, Question, read_one
from distributary.core.log.indexed import Index
from distributary.core.log.kafka import (
    KafkaAppends,
    KafkaEnds,
    KafkaRecords,
    KafkaSearchedLog,
    MemorySnapshots,
)
from distributary.core.log.offset_indexer import OffsetIndexer
from distributary.datadir import DataDir
from distributary.server.processes.index_process import IndexStart, run

pytestmark = pytest.mark.slow

COUNT = 200


def _text(number):
    return b"an event with id-%d" % number


def _event(number, size=100):
    attributes = {"specversion": "1.0", "id": f"id-{number}", "source": "/s", "type": "t"}
    return record.encode([Event(attributes, b"x" * size)])


async def _publish(place, body_of=_text):
    loop = asyncio.get_running_loop()
    appends = KafkaAppends(place, 2, loop)
    waiting = []
    for number in range(COUNT):
        by = ("", "ann", "bob@example.com")[number % 3]
        done = loop.create_future()
        appends.submit(
            Received(body_of(number), RecordKind.EVENTS, str(number), by=by), done.set_result
        )
        waiting.append(done)
    assert await asyncio.gather(*waiting) == [None] * COUNT
    await appends.close()


def _sought(log, partition, number, budget=None):
    needle = b"id-%d" % number
    question = Question(needle.decode(), (needle,), lambda logged: needle in logged.body)
    finder = Finder(log, partition, question)
    budget = budget or Budget(10_000, 1 << 24)
    found = []
    while not finder.done:
        found += finder.step(budget)
    finder.close()
    return found


def test_events_are_found_with_their_publishers(new_place):
    """A search reads through both partitions; an event is read again by its position."""
    place = new_place(partitions=2)
    asyncio.run(_publish(place))
    log = KafkaSearchedLog(place, 2, MemorySnapshots())
    for number, by in ((199, "ann"), (104, "bob@example.com"), (150, None)):
        hits = [(p, each) for p in range(log.partitions) for each in _sought(log, p, number)]
        ((partition, logged),) = hits
        assert log.publisher(Position(partition, logged.offset, 0)) == by
        lent = log.open(partition)
        assert read_one(lent, logged.offset) == logged
        assert read_one(lent, 10_000) is None
        assert lent.offset_at(logged.time_ms) <= logged.offset
        lent.close()
    assert log.publisher(Position(0, 10_000, 0)) is None
    log.close()


def test_the_index_of_a_node_leads_to_the_record(new_place, tmp_path):
    """A search reads candidates alone, by their offsets; files of another topic are not asked."""
    place = new_place(partitions=2)
    asyncio.run(_publish(place, _event))
    ends = KafkaEnds(place)
    identity = ends.identity()
    assert identity == ends.identity() != KafkaEnds(new_place()).identity()
    assert ends.count() == 2
    for number in range(2):
        records = KafkaRecords(place, number, MemorySnapshots())
        folder = tmp_path / identity / str(number)
        indexer = OffsetIndexer(records, folder, piece_bytes=1_000, segment_records=16)
        while indexer.turn(0):
            pass
        indexer.close()
    log = KafkaSearchedLog(
        place, 2, MemorySnapshots(), lambda topic, number: tmp_path / topic / str(number)
    )
    for number in (3, 104, 180):
        budget = Budget(1_000, 1 << 24)
        (found,) = [each for p in range(2) for each in _sought(log, p, number, budget)]
        assert b"id-%d" % number in found.body
        assert 1_000 - budget.records < COUNT // 2  # stretches, the candidate, and the newest few
    log.close()


class _Looks(threading.Event):
    """Is set after so many waits."""

    def __init__(self, count):
        super().__init__()
        self._left = count

    def wait(self, timeout=None):
        self._left -= 1
        if self._left <= 0:
            self.set()
        return super().wait(min(timeout, 0.05))


def test_the_index_process_of_a_node_follows_the_topic(new_place, tmp_path):
    """All partitions; what is there of another topic, which had its name, is deleted."""
    place = new_place(partitions=2)
    paths = DataDir(tmp_path)
    stale = paths.topic_index("0" * 32, 0)
    stale.mkdir(parents=True)
    asyncio.run(_publish(place, lambda number: _event(number, 4_000)))
    start = IndexStart(data_dir=str(tmp_path), partitions=0, age_max_s=1e9, log_level="info")
    with capture_logs() as lines:
        run(start, _Looks(20), place)
    assert lines == []
    identity = KafkaEnds(place).identity()
    assert [path.name for path in paths.index_folder.iterdir()] == [identity]
    for number in range(2):
        (head, *_) = Index(paths.topic_index(identity, number)).pieces()
        assert head.piece.first == 0
