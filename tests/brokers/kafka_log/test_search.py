"""Events are found in the log on Kafka, with who published them."""

import asyncio

import pytest

from distributary.core.flow import Position, Received
from distributary.core.log.finder import Budget, Finder, Question, read_one
from distributary.core.log.kafka import KafkaAppends, KafkaSearchedLog, MemorySnapshots

pytestmark = pytest.mark.slow

COUNT = 200


async def _publish(place):
    loop = asyncio.get_running_loop()
    appends = KafkaAppends(place, 2, loop)
    waiting = []
    for number in range(COUNT):
        body = b"an event with id-%d" % number
        by = ("", "ann", "bob@example.com")[number % 3]
        done = loop.create_future()
        appends.submit(Received(body, 1, str(number), by=by), done.set_result)
        waiting.append(done)
    assert await asyncio.gather(*waiting) == [None] * COUNT
    await appends.close()


def _sought(log, partition, number):
    needle = b"id-%d" % number
    question = Question(needle.decode(), (needle,), lambda logged: needle in logged.body)
    finder = Finder(log, partition, question)
    budget = Budget(10_000, 1 << 24)
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
