"""What can be shown without a Kafka: deliveries and a source at librdkafka's mock cluster."""

import asyncio
import contextlib
import itertools
import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.policy import delivered
from distributary.core.source import Settlement, SourceSpec
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.protocols.kafka import sink as transport
from distributary.protocols.kafka import source as consumers
from distributary.protocols.kafka.settings import KafkaSettings
from distributary.testing import check_transport
from distributary.testing.check_transport import Behaviour, an_event
from kit.kafka_checker import KafkaChecker
from kit.ports import free_port
from kit.servers.kafka_mock import KafkaMock

pytestmark = pytest.mark.slow

PARTITIONS = 4
"""Of every topic of a mock cluster."""

CHECKS = tuple(
    check
    for check in check_transport.CHECKS
    if check.__module__.rpartition(".")[2] in {"_delivery", "_end"}
    or check.__name__ == "tells_of_a_refused_connection"
)
"""Those that want no broker that says no, falls silent or goes away."""

_numbers = itertools.count()


@pytest.fixture(scope="module")
def mock():
    """One for all."""
    with KafkaMock() as started:
        yield started


def a_transport():
    """For loopback."""
    connector = Connector(AddressRule(loopback_allowed=True), SystemResolver())
    return transport.make(connector, SystemClock(), asyncio.get_running_loop())


class Rig:
    """A topic of the mock cluster, and a consumer that reads it."""

    formats = ("binary", "structured")
    ordered = False  # records without a key go to any of the partitions
    acknowledged = True

    def __init__(self, mock) -> None:
        self._mock = mock
        self._topic = f"mock-{next(_numbers)}"
        self._away = free_port()
        self._checker = KafkaChecker(mock.client(), self._topic, PARTITIONS)
        self.transport = a_transport()

    def destination(self, behaviour, format="binary"):
        """It takes everything; nobody is there beside it."""
        port = {Behaviour.ACCEPT: self._mock.port, Behaviour.REFUSE: self._away}.get(behaviour)
        if port is None:
            return None
        settings = KafkaSettings(self._topic)
        uri = f"kafka://127.0.0.1:{port}"
        return Destination(uri, protocol="KAFKA", format=format, settings=settings)

    def arrived(self):
        """What the consumer has read so far."""
        return self._checker.events()

    @contextlib.asynccontextmanager
    async def opened(self):
        """Topic and reader, and their end."""
        await asyncio.to_thread(self._mock.create_topic, self._topic)
        with self._checker:
            try:
                yield self
            finally:
                await self.transport.close()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_contract(mock, check):
    """The checks of the suite that this cluster can be asked."""
    asyncio.run(check(lambda: Rig(mock).opened()))


def test_a_topic_is_never_made_by_writing_to_it(mock):
    """This cluster makes a topic for whoever does not say that it must not, as Kafka does."""
    topic = f"mock-{next(_numbers)}"

    async def deliver():
        way = a_transport()
        answer = asyncio.get_running_loop().create_future()
        uri = f"kafka://127.0.0.1:{mock.port}"
        to = Destination(uri, protocol="KAFKA", settings=KafkaSettings(topic))
        way.send(an_event(), to, 30.0, answer.set_result)
        try:
            return await answer
        finally:
            await way.close()

    assert asyncio.run(deliver()).code == "UNKNOWN_TOPIC_OR_PART"
    assert topic not in mock.topics()


def test_a_source_reads_what_was_delivered(mock):
    """There and back, in both modes; what is settled is not given again."""
    topic = f"mock-{next(_numbers)}"
    mock.create_topic(topic)
    events = [an_event(number) for number in range(20)]
    uri = f"kafka://127.0.0.1:{mock.port}"

    async def deliver():
        loop = asyncio.get_running_loop()
        way = a_transport()
        answers = []
        for number, event in enumerate(events):
            mode = "structured" if number % 2 else "binary"
            settings = KafkaSettings(topic, partitionkeyextractor="id")
            to = Destination(uri, protocol="KAFKA", format=mode, settings=settings)
            answers.append(loop.create_future())
            way.send(event, to, 30.0, answers[-1].set_result)
        assert all(map(delivered, await asyncio.gather(*answers)))
        await way.close()

    async def read():
        connector = Connector(AddressRule(loopback_allowed=True), SystemResolver())
        spec = SourceSpec("mock", "KAFKA", uri, topic)
        found = []
        whole = asyncio.Event()

        def take(message):
            found.append(message.event)
            message.settle(Settlement.TAKEN)
            if len(found) >= len(events):
                whole.set()

        running = asyncio.create_task(
            consumers.make(spec, connector, SystemClock()).run(take, unsettled_max=8)
        )
        async with asyncio.timeout(60.0):
            await whole.wait()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return found

    asyncio.run(deliver())
    found = asyncio.run(read())
    assert sorted(found, key=lambda event: event.attributes["id"]) == sorted(
        events, key=lambda event: event.attributes["id"]
    )


def test_a_group_that_begins_at_the_end_misses_nothing_while_nobody_reads(mock):
    """Also of partitions that had no record while it read: where it begins is committed."""
    topic = f"mock-{next(_numbers)}"
    mock.create_topic(topic)
    options = {"offsetreset": "latest"}
    spec = SourceSpec("tail", "KAFKA", f"kafka://127.0.0.1:{mock.port}", topic, options=options)
    seen = Consumer(mock.client() | {"group.id": "tail"})
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]

    def write(number):
        producer = Producer(mock.client())
        headers = [("ce_specversion", "1.0"), ("ce_id", f"{number}"), ("ce_source", "/s")]
        for partition in range(PARTITIONS):
            producer.produce(topic, b"", headers=[*headers, ("ce_type", "t")], partition=partition)
        assert producer.flush(60) == 0

    def wait(until):
        deadline_s = time.monotonic() + 60.0
        while not until():
            assert time.monotonic() < deadline_s
            time.sleep(0.1)

    async def read(until):
        connector = Connector(AddressRule(loopback_allowed=True), SystemResolver())
        taken = []
        consumer = consumers.make(spec, connector, SystemClock())
        running = asyncio.create_task(consumer.run(taken.append, unsettled_max=8))
        await asyncio.to_thread(wait, lambda: until(taken))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return sorted(each.where for each in taken)

    def begun(_taken):
        return all(each.offset == 1 for each in seen.committed(places, timeout=60))

    write(0)
    assert asyncio.run(read(begun)) == []
    write(1)
    found = asyncio.run(read(lambda taken: len(taken) >= PARTITIONS))
    assert found == [f"{topic}[{number}]@1" for number in range(PARTITIONS)]
    seen.close()
