"""What the tests of Kafka share: topics, destinations, a transport, a reader."""

import asyncio
import contextlib
import itertools
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import Credential
from distributary.core.event import Event
from distributary.core.policy import Answer
from distributary.net import AddressRule, Connector, SystemResolver
from distributary.protocols.kafka import sink as transport
from distributary.protocols.kafka.settings import KafkaSettings
from kit.servers import PASSWORD, USER

CREDENTIAL = Credential("PLAIN", identifier=USER, secret=PASSWORD)
READER = {"group.id": "reader", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
_numbers = itertools.count()


class Record(NamedTuple):
    """One record of a topic, as a consumer of another library sees it."""

    headers: list[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None
    partition: int


class Lab:
    """A broker, a topic of its own, and what it takes to deliver there and look what has come.

    Attributes:
        kafka: The broker.
        topic: One partition; takes records of 2 MiB.
    """

    def __init__(self, kafka, connector: Connector) -> None:
        self.kafka = kafka
        self.topic = f"topic-{next(_numbers)}"
        self._connector = connector
        kafka.create_topic(self.topic, max_message_bytes=str(2 * 1024 * 1024))

    def destination(
        self,
        topicname=None,
        *,
        uri=None,
        port=None,
        credential=CREDENTIAL,
        ca_certs=None,
        mode="binary",
        **settings,
    ) -> Destination:
        """A destination at the broker; settings by their names."""
        topicname = topicname or self.topic
        return Destination(
            uri or f"kafka://127.0.0.1:{port or self.kafka.port}/{topicname}",
            protocol="KAFKA",
            credential=credential,
            ca_certs=ca_certs,
            format=mode,
            settings=KafkaSettings(topicname, **settings),
        )

    @contextlib.asynccontextmanager
    async def opened(self):
        """A transport."""
        made = transport.make(self._connector, SystemClock(), asyncio.get_running_loop())
        try:
            yield made
        finally:
            await made.close()

    def deliver(self, target: Destination, *events: Event, timeout_s: float = 30.0) -> list[Answer]:
        """Send events with a transport of its own; the answers in their order."""

        async def run():
            async with self.opened() as made:
                return await self.send(made, target, *events, timeout_s=timeout_s)

        return asyncio.run(run())

    @staticmethod
    async def send(
        made, target: Destination, *events: Event, timeout_s: float = 30.0
    ) -> list[Answer]:
        """The answers to *events*, all sent at once."""
        loop = asyncio.get_running_loop()
        answers = [loop.create_future() for _ in events]
        for event, answer in zip(events, answers, strict=True):
            made.send(event, target, timeout_s, answer.set_result)
        return list(await asyncio.gather(*answers))

    def records(self, name: str) -> list[Record]:
        """Every record of a topic, as another client reads it."""
        consumer = Consumer(self.kafka.client() | READER)
        try:
            partitions = consumer.list_topics(name, timeout=60).topics[name].partitions
            return [record for number in partitions for record in _read(consumer, name, number)]
        finally:
            consumer.close()

    @staticmethod
    def event(data=b'{"n": 1}', **attributes) -> Event:
        """A valid event, with more attributes."""
        required = {"specversion": "1.0", "id": "1", "source": "/test", "type": "com.example.test"}
        return Event(required | {"datacontenttype": "application/json"} | attributes, data)


def _read(consumer: Consumer, name: str, number: int) -> list[Record]:
    place = TopicPartition(name, number, 0)
    end = consumer.get_watermark_offsets(place, timeout=60)[1]
    consumer.assign([place])
    found, count = [], 0
    while count < end:
        record = consumer.poll(60)
        assert record is not None
        assert record.error() is None
        count = record.offset() + 1
        found.append(Record(record.headers() or [], record.key(), record.value(), number))
    return found


@pytest.fixture
def connector() -> Connector:
    """Dials this machine, and nothing that is not allowed."""
    return Connector(AddressRule(loopback_allowed=True), SystemResolver())


@pytest.fixture
def lab(kafka, connector) -> Lab:
    """A broker and a topic of its own."""
    return Lab(kafka, connector)
