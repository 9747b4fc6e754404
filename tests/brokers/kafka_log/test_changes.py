"""No partition misses a change of the routes, and no event comes twice."""

import asyncio
import os
import random

import pytest

from distributary.core.errors import LogError
from distributary.core.flow import RecordKind
from distributary.core.log.kafka import KafkaRecords, KafkaRoutes, MemorySnapshots
from distributary.core.log.kafka import routes as module
from distributary.core.log.kafka._producer import KafkaProducer

pytestmark = pytest.mark.slow

PARTITIONS = 3


def body(number, size=20):
    """Change *number*, which cannot be compressed."""
    return b"%08d" % number + os.urandom(size)


def numbers(place):
    """Of the changes in each partition, as they stand there."""
    found = []
    for partition in range(PARTITIONS):
        records = KafkaRecords(place, partition, MemorySnapshots())
        kept = records.kinds(0, records.durable_end(), RecordKind.ROUTE)
        found.append([int(each.body[:8]) for each in kept])
        records.close()
    return found


def gaps(sequence):
    """Changes that came after a later one."""
    newest, missed = 0, []
    for number in sequence:
        missed += range(newest + 1, number)
        newest = max(newest, number)
    return missed


def test_a_change_that_is_refused_lets_no_later_one_pass(new_place):
    """The broker refuses the large one, and would take the next: its repeat would come too late."""
    place = new_place(PARTITIONS, max_message_bytes="1100000")

    async def run():
        routes = KafkaRoutes(place, PARTITIONS, asyncio.get_running_loop())
        await routes.append_routes([body(1)])
        with pytest.raises(LogError):
            await routes.append_routes([body(2), body(3, 1_500_000), body(4), body(5)])
        refused = numbers(place)
        await routes.append_routes([body(2), body(3), body(4), body(5)])
        await routes.close()
        return refused

    refused = asyncio.run(run())
    assert not {4, 5} & {number for each in refused for number in each}
    for each in numbers(place):
        assert gaps(each) == []
        assert each[-4:] == [2, 3, 4, 5]


def test_a_change_whose_append_is_given_up_may_be_stored_and_misses_no_place(
    new_place, monkeypatch
):
    """Some are stored all the same, some twice; a record never stands behind a gap."""
    place = new_place(PARTITIONS)
    chance = random.Random(7)
    given_up = 0

    async def run():
        nonlocal given_up
        routes = KafkaRoutes(place, PARTITIONS, asyncio.get_running_loop())
        await routes.append_routes([body(1)])
        following = 2
        while following <= 40:
            some = range(following, following + chance.randrange(1, 20))
            patience_s = chance.choice([15.0, 0.02, 0.05]) if given_up else 0.002
            monkeypatch.setattr(module, "CHANGE_S_MAX", patience_s)
            try:
                await routes.append_routes([body(number, 50_000) for number in some])
            except LogError:
                given_up += 1
            else:
                following = some[-1] + 1
        await routes.close()

    asyncio.run(run())
    assert given_up
    for each in numbers(place):
        assert gaps(each) == []
        assert each[-1] >= 40


def test_an_append_that_its_caller_leaves_is_given_up(new_place):
    """What is on its way then is no first part of the next append."""
    place = new_place(PARTITIONS)

    async def run():
        routes = KafkaRoutes(place, PARTITIONS, asyncio.get_running_loop())
        leaving = asyncio.ensure_future(routes.append_routes([body(1), body(2)]))
        await asyncio.sleep(0)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        await routes.append_routes([body(1), body(2), body(3)])
        await routes.close()

    asyncio.run(run())
    for each in numbers(place):
        assert gaps(each) == []
        assert each[-3:] == [1, 2, 3]


@pytest.mark.parametrize(
    "kind", [RecordKind.EVENTS, RecordKind.TIMER_EVENT], ids=lambda one: one.name
)
def test_an_event_that_is_given_up_is_stored_once_or_never(new_place, kind):
    """What was acknowledged is there, and nothing is there twice."""
    place = new_place()
    chance = random.Random(11)
    acknowledged = []

    async def run():
        producer = KafkaProducer(place, asyncio.get_running_loop())
        for begin in range(0, 1_000, 100):
            for number in range(begin, begin + 100):

                def told(result, number=number):
                    if not isinstance(result, LogError):
                        acknowledged.append((result, number))

                producer.submit(0, kind, body(number, 2_000), told)
            await asyncio.sleep(chance.random() / 50)
            producer.abandon()
        await producer.close()

    asyncio.run(run())
    records = KafkaRecords(place, 0, MemorySnapshots())
    kept = records.kinds(0, records.durable_end(), kind)
    stored = [(each.offset, int(each.body[:8])) for each in kept]
    records.close()
    assert set(acknowledged) <= set(stored)
    assert len({number for _, number in stored}) == len(stored)
    assert len(acknowledged) < 1_000
