"""What the tests of Kafka share: topics, destinations, a transport, a reader."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable
from typing import NamedTuple

import pytest

from distributary.clock import SystemClock
from distributary.deliver import AddressRule, Connector, Destination, SystemResolver
from distributary.deliver.transports import kafka as transport
from distributary.event import Event
from distributary.policy import Answer, DeliveryPolicy
from distributary.resource import Credential, KafkaSettings
from distributary.testing.servers import PASSWORD, USER

CREDENTIAL = Credential("PLAIN", identifier=USER, secret=PASSWORD)
READER = {"group.id": "reader", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
_numbers = itertools.count()


class Record(NamedTuple):
    """One record of a topic, as a consumer of another library sees it."""

    headers: list[tuple[str, bytes | None]]
    key: bytes | None
    value: bytes | None
    partition: int


@pytest.fixture
def topic(kafka):
    """A topic of its own, with one partition, that takes records of 2 MiB."""
    name = f"topic-{next(_numbers)}"
    kafka.create_topic(name, max_message_bytes=str(2 * 1024 * 1024))
    return name


@pytest.fixture
def connector():
    """Dials this machine, and nothing that is not allowed."""
    return Connector(AddressRule(loopback_allowed=True), SystemResolver())


@pytest.fixture
def destination(kafka, topic) -> Callable[..., Destination]:
    """Makes a destination at the broker; settings by their names."""

    def make(
        topicname=topic,
        *,
        uri=None,
        port=None,
        credential=CREDENTIAL,
        ca_certs=None,
        mode="binary",
        timeout_s=30.0,
        **settings,
    ):
        return Destination(
            uri or f"kafka://127.0.0.1:{port or kafka.port}/{topicname}",
            protocol="KAFKA",
            credential=credential,
            ca_certs=ca_certs,
            format=mode,
            policy=DeliveryPolicy(timeout_s=timeout_s),
            settings=KafkaSettings(topicname, **settings),
        )

    return make


@pytest.fixture
def opened(connector):
    """A transport, as a context manager."""

    @contextlib.asynccontextmanager
    async def open_transport():
        made = transport.make(connector, SystemClock(), asyncio.get_running_loop())
        try:
            yield made
        finally:
            await made.close()

    return open_transport


@pytest.fixture
def deliver(opened):
    """Sends events with a transport of its own; the answers in their order."""

    def send(target: Destination, *events: Event, timeout_s: float = 10.0) -> list[Answer]:
        async def run():
            async with opened() as made:
                return await sent(made, target, *events, timeout_s=timeout_s)

        return asyncio.run(run())

    return send


async def sent(made, target: Destination, *events: Event, timeout_s: float = 10.0) -> list[Answer]:
    """The answers to *events*, all sent at once."""
    loop = asyncio.get_running_loop()
    answers = [loop.create_future() for _ in events]
    for event, answer in zip(events, answers, strict=True):
        made.send(event, target, timeout_s, answer.set_result)
    return list(await asyncio.gather(*answers))


@pytest.fixture
def send():
    """``sent``, for tests that have a loop of their own."""
    return sent


@pytest.fixture
def records(kafka):
    """Reads a topic from its beginning to its end."""

    def read(name: str) -> list[Record]:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(kafka.client() | READER)
        found = []
        try:
            numbers = consumer.list_topics(name, timeout=10).topics[name].partitions
            for number in numbers:
                place = TopicPartition(name, number, 0)
                end = consumer.get_watermark_offsets(place, timeout=10)[1]
                consumer.assign([place])
                count = 0
                while count < end:
                    record = consumer.poll(10)
                    assert record is not None
                    assert record.error() is None
                    count = record.offset() + 1
                    found.append(
                        Record(record.headers() or [], record.key(), record.value(), number)
                    )
        finally:
            consumer.close()
        return found

    return read


@pytest.fixture
def make_event():
    """Makes a valid event, with more attributes."""

    def make(data=b'{"n": 1}', **attributes):
        return Event(
            {
                "specversion": "1.0",
                "id": "1",
                "source": "/test",
                "type": "com.example.test",
                "datacontenttype": "application/json",
                **attributes,
            },
            data,
        )

    return make
