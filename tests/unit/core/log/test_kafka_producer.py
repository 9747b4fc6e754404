"""The producer of the log, with a client library that is scripted."""

import asyncio
from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.log.kafka import _client, _producer
from distributary.core.log.kafka._producer import POLL_S, PROBE_S, KafkaProducer

PLACE = KafkaPlace(servers=("kafka:9092",), prefix="x")


class RefusedError(Exception):
    """A ``KafkaException`` that ends a producer."""

    def __init__(self):
        text = "trouble"
        super().__init__(SimpleNamespace(name=lambda: text, str=lambda: text, fatal=lambda: True))


class Producer:
    """One that stores what it gets at its next poll, until it is ``ended``."""

    def __init__(self):
        self.due = []
        self.ended = False

    def produce(self, *given):
        if self.ended:
            raise RefusedError
        self.due.append(given[4])

    def poll(self, _wait_s):
        if self.ended:
            raise RefusedError
        for reported in self.due:
            reported(None, SimpleNamespace(offset=lambda: 7))
        self.due.clear()

    def purge(self):
        self.due.clear()

    def close(self):
        assert not self.due


@pytest.fixture
def library(monkeypatch):
    """Makes producers while it is ``whole``."""

    def make(_settings):
        if not made.whole:
            raise RefusedError
        made.producers.append(Producer())
        return made.producers[-1]

    made = SimpleNamespace(Producer=make, KafkaException=RefusedError, whole=True, producers=[])
    monkeypatch.setattr(_producer, "library", lambda: made)
    monkeypatch.setattr(_client, "library", lambda: made)
    return made


async def stored(producer):
    """The offset of a record that is appended now."""
    done = asyncio.get_running_loop().create_future()
    producer.submit(0, 1, b"x", done.set_result)
    return await asyncio.wait_for(done, 60)


def test_the_old_producer_stays_where_there_is_no_other(library):
    """A certificate that is being replaced, or no descriptor to spare: for that moment alone."""

    async def run():
        producer = KafkaProducer(PLACE, asyncio.get_running_loop())
        assert await stored(producer) == 7
        library.whole = False
        with pytest.raises(LogUnavailableError):
            producer.abandon()
        assert producer.open
        assert await stored(producer) == 7
        await producer.close()

    asyncio.run(run())


def test_another_producer_is_made_as_soon_as_it_can_be(library):
    """Until then every record is refused, with an error of the log."""

    async def run():
        producer = KafkaProducer(PLACE, asyncio.get_running_loop())
        assert await stored(producer) == 7
        library.whole = False
        library.producers[0].ended = True
        with pytest.raises(LogUnavailableError):
            await stored(producer)
        await asyncio.sleep(5 * POLL_S)  # one is tried, in vain
        assert not producer.open
        library.whole = True
        async with asyncio.timeout(60):
            while not producer.open:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(PROBE_S / 10)
        assert await stored(producer) == 7
        assert len(library.producers) == 2
        await producer.close()

    asyncio.run(run())
