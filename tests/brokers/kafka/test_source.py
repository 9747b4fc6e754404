"""Reading a topic as a member of a group, from a real broker."""

import asyncio
import contextlib

import pytest
from confluent_kafka import Producer

from distributary.core.clock import SystemClock
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.source import Settlement, SourceSpec
from distributary.protocols.kafka import source as consumers
from kit.servers import PASSWORD, USER

pytestmark = pytest.mark.slow

CREDENTIAL = Credential("PLAIN", identifier=USER, secret=PASSWORD)


@pytest.fixture
def topic(lab):
    """A topic of its own."""
    return lab.topic


@pytest.fixture
def spec(kafka, topic):
    """Makes the specification of a source that reads the topic."""

    def make(*, name=topic, place=topic, credential=CREDENTIAL, **options):
        uri = f"kafka://127.0.0.1:{kafka.port}"
        return SourceSpec(name, "KAFKA", uri, place, options=options, credential=credential)

    return make


@pytest.fixture
def write(kafka):
    """Writes records to a topic with the bare client: (headers, value)."""

    def run(name, *records):
        producer = Producer(kafka.client())
        for headers, value in records:
            producer.produce(name, value, headers=headers, partition=0)
        assert producer.flush(60) == 0

    return run


def an_event(number: int) -> tuple[list[tuple[str, str]], bytes]:
    """A record in binary mode."""
    names = {"specversion": "1.0", "id": f"{number}", "source": "/s", "type": "t"}
    return [(f"ce_{name}", value) for name, value in names.items()], b"%d" % number


class Taken:
    """Takes messages, and settles them as it is told."""

    def __init__(self, settle=lambda _message: Settlement.TAKEN) -> None:
        self.messages = []
        self._settle = settle
        self._more = asyncio.Event()

    def __call__(self, message) -> None:
        self.messages.append(message)
        settlement = self._settle(message)
        if settlement is not None:
            message.settle(settlement)
        self._more.set()

    @property
    def ids(self) -> list[int]:
        """Of the events so far."""
        return [int(each.event.attributes["id"]) for each in self.messages if each.event]

    async def count(self, count: int) -> None:
        """Wait for so many messages."""
        async with asyncio.timeout(60):
            while len(self.messages) < count:
                self._more.clear()
                await self._more.wait()


@pytest.fixture
def reading(connector):
    """Runs a consumer, as a context manager; ends it as a server does that stops."""

    @contextlib.asynccontextmanager
    async def run(spec, taken, unsettled_max=100):
        consumer = consumers.make(spec, connector, SystemClock())
        task = asyncio.create_task(consumer.run(taken, unsettled_max))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return run


def test_events_of_both_modes_are_taken_in_order(spec, write, reading, topic):
    """What is no event is handed over with the reason, and where it was."""
    body = b'{"specversion":"1.0","id":"2","source":"/s","type":"t","data":{"a":1}}'
    structured = ([("content-type", "application/cloudevents+json")], body)
    write(topic, an_event(1), structured, ([], b"hello"), ([("ce_id", None)], None), an_event(3))

    async def run():
        taken = Taken()
        async with reading(spec(), taken):
            await taken.count(5)
        return taken

    taken = asyncio.run(run())
    assert taken.ids == [1, 2, 3]
    assert [each.where for each in taken.messages] == [f"{topic}[0]@{n}" for n in range(5)]
    assert taken.messages[0].event.data == b"1"
    assert [each.fault is None for each in taken.messages] == [True, True, False, False, True]


def test_what_is_settled_is_not_given_again(spec, write, reading, topic):
    """A refused message is passed over as well."""
    write(topic, an_event(1), ([], b"no event"), an_event(2))

    async def run():
        first = Taken(lambda each: Settlement.TAKEN if each.event else Settlement.REFUSED)
        async with reading(spec(), first):
            await first.count(3)
        write(topic, an_event(3))
        second = Taken()
        async with reading(spec(), second):
            await second.count(1)
        return first.ids, second.ids

    assert asyncio.run(run()) == ([1, 2], [3])


def test_what_is_not_settled_is_given_again_with_what_follows(spec, write, reading, topic):
    """Offsets are committed up to the first message that nobody has."""
    write(topic, *map(an_event, range(6)))

    async def run():
        first = Taken(lambda each: None if each.event.data == b"2" else Settlement.TAKEN)
        async with reading(spec(), first):
            await first.count(6)
        second = Taken()
        async with reading(spec(), second):
            await second.count(4)
        return second.ids

    assert asyncio.run(run()) == [2, 3, 4, 5]


def test_no_more_is_taken_than_may_be_unsettled(spec, write, reading, topic, monkeypatch):
    """Also after a while, when the client was told to pause; room is used at once."""
    monkeypatch.setattr(consumers, "FULL_S", 0.2)
    write(topic, *map(an_event, range(50)))

    async def run():
        taken = Taken(lambda _message: None)
        async with reading(spec(), taken, unsettled_max=10):
            await taken.count(10)
            await asyncio.sleep(0.6)
            assert len(taken.messages) == 10
            for count in range(20, 60, 10):
                for message in taken.messages[count - 20 : count - 10]:
                    message.settle(Settlement.TAKEN)
                await taken.count(count)
            assert len(taken.messages) == 50
        return taken.ids

    assert asyncio.run(run()) == list(range(50))


def test_two_members_share_a_topic(kafka, spec, reading, until, monkeypatch):
    """A partition that goes to another member is committed first: nothing settled comes again."""
    monkeypatch.setattr(consumers, "HEARTBEAT_MS", 200)
    kafka.create_topic("shared", partitions=2)

    def produce(numbers):
        producer = Producer(kafka.client())
        for number in numbers:
            headers, value = an_event(number)
            producer.produce("shared", value, headers=headers, partition=number % 2)
        assert producer.flush(60) == 0

    async def run():
        one, two = Taken(), Taken()
        place = spec(name="shared", place="shared")
        async with reading(place, one):
            produce(range(10))
            await one.count(10)
            async with reading(place, two):
                numbers = iter(range(10, 200))
                async with asyncio.timeout(60):
                    while not two.messages:
                        produce([next(numbers), next(numbers)])
                        await asyncio.sleep(0.2)
                sent = next(numbers)
                await until(lambda: len(one.messages) + len(two.messages) >= sent)
                await asyncio.sleep(0.5)  # what came twice would come now
        return one.ids, two.ids, sent

    first, second, sent = asyncio.run(run())
    assert first[:10] != second[:10]
    assert sorted(first + second) == list(range(sent))


def test_a_group_that_is_new_begins_where_it_is_told(spec, write, reading, topic):
    """At the end of the topic, if that is what the option says."""
    write(topic, *map(an_event, range(3)))

    async def run():
        early, late = Taken(), Taken()
        async with (
            reading(spec(name="early"), early),
            reading(spec(group="late", offsetreset="latest"), late),
        ):
            await early.count(3)
            number = 3
            async with asyncio.timeout(60):
                while not late.messages:  # its group is being formed
                    write(topic, an_event(number))
                    number += 1
                    await asyncio.sleep(0.2)
        return early.ids[:3], min(late.ids)

    first, least = asyncio.run(run())
    assert first == [0, 1, 2]
    assert least >= 3


def test_a_group_that_began_at_the_end_goes_on_from_there(spec, write, reading, topic):
    """What it had in hand when it ended without settling anything is read again."""

    async def run():
        place = spec(group="tail", offsetreset="latest")
        first, second = Taken(lambda _message: None), Taken()
        async with reading(place, first):
            number = 0
            async with asyncio.timeout(60):
                while not first.messages:  # its group is being formed
                    write(topic, an_event(number))
                    number += 1
                    await asyncio.sleep(0.2)
        async with reading(place, second):
            await second.count(1)
        return first.ids[0], second.ids[0]

    held, again = asyncio.run(run())
    assert again == held


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"credential": Credential("PLAIN", identifier=USER, secret="wrong")}, "refused"),
        ({"place": "nowhere"}, "refused"),
    ],
    ids=["password", "topic"],
)
def test_what_cannot_be_read_is_told(spec, reading, change, reason):
    """The framework shows it, and tries again."""

    async def run():
        async with reading(spec(**change), Taken()) as task:
            with pytest.raises(TransportError) as caught:
                await asyncio.wait_for(task, 60)
        return caught.value

    error = asyncio.run(run())
    assert error.reason == reason
    assert "wrong" not in str(error)
