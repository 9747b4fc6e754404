"""The thread that reads Kafka, over a consumer that does as it is told."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition

from distributary.core.errors import TransportError
from distributary.protocols.kafka import source as kafka


class Clock:
    """Stands: nothing is committed but at the end."""

    def monotonic_s(self):
        return 0.0


class Consumer:
    """Calls *on_poll* for each poll, which returns a record or raises."""

    def __init__(self, on_poll):
        self.on_poll = on_poll
        self.polled = threading.Event()
        self.callbacks = {}
        self.calls = []

    def subscribe(self, topics, **callbacks):
        self.calls.append(("subscribe", topics))
        self.callbacks = callbacks

    def poll(self, _wait_s):
        self.polled.set()
        return self.on_poll(self)

    def incremental_assign(self, partitions):
        self.calls.append(("assign", partitions))

    def assignment(self):
        return ["old"]

    def commit(self, offsets, asynchronous):
        """As the real one."""

    def pause(self, partitions):
        self.calls.append(("pause", partitions))


class Client:
    """Stands for the client: knows whether it was forgotten."""

    def __init__(self, consumer):
        self.handle = consumer
        self.forgotten = threading.Event()
        self.ended = None

    def forget(self, ended=None):
        self.forgotten.set()
        self.ended = ended

    def end(self):
        return None


def record(offset):
    """An empty record."""
    return SimpleNamespace(
        error=lambda: None,
        partition=lambda: 0,
        offset=lambda: offset,
        headers=lambda: None,
        value=lambda: None,
    )


def read(client, scenario, unsettled_max=10, **how):
    """Run *scenario* with a reading and what it has taken."""

    async def whole():
        taken = []
        reading = kafka._Reading(client, "t", taken.append, unsettled_max, Clock(), **how)
        try:
            return await scenario(reading, taken)
        finally:
            await reading.stop()

    return asyncio.run(whole())


@pytest.mark.parametrize("bug", [ValueError("x"), RuntimeError("x"), UnicodeError("x")])
def test_whatever_the_client_raises_ends_the_run(bug):
    """A thread that ends without a word would leave a source that reads nothing for ever."""

    def fail(_consumer):
        raise bug

    client = Client(Consumer(fail))

    async def scenario(reading, _taken):
        with pytest.raises(TransportError) as error:
            await reading.ended
        return error.value.reason

    assert read(client, scenario) == "protocol"
    assert client.forgotten.is_set()


def test_the_client_is_not_closed_while_the_thread_is_inside(monkeypatch):
    """A goodbye that takes too long is left to the thread: closing under it crashes the process."""
    monkeypatch.setattr(kafka, "GOODBYE_S", 0.01)
    go_on = threading.Event()
    consumer = Consumer(lambda _: go_on.wait(10) and None)
    client = Client(consumer)

    async def scenario(reading, _taken):
        await asyncio.to_thread(consumer.polled.wait, 10)
        await reading.stop()
        assert not client.forgotten.is_set()
        go_on.set()
        await reading._gone.wait()
        assert client.forgotten.is_set()

    read(client, scenario)


def test_a_stop_waits_until_the_group_was_told():
    """The process may end next, and nobody would tell it: its partitions would stand still."""
    client = Client(Consumer(lambda _: None))

    async def scenario(reading, _taken):
        reading.ended.cancel()  # as whoever awaits it, and is cancelled
        stopping = asyncio.ensure_future(reading.stop())
        await asyncio.to_thread(client.forgotten.wait, 10)
        done, _ = await asyncio.wait([stopping], timeout=0.05)
        assert not done
        threading.Thread(target=client.ended).start()
        await stopping

    read(client, scenario)


def test_a_run_that_fails_does_not_wait_for_the_group():
    """It may be out of reach; the next run need not wait."""
    consumer = Consumer(lambda _: None)
    client = Client(consumer)

    async def scenario(reading, _taken):
        reading._end(TransportError("reset", "gone"))
        await reading._gone.wait()
        assert client.ended is None

    read(client, scenario)


def test_partitions_that_come_while_it_is_paused_are_paused(monkeypatch):
    """Else they would bring more than may be unsettled, one with each poll."""
    monkeypatch.setattr(kafka, "FULL_S", 0.0)
    monkeypatch.setattr(kafka, "POLL_S", 0.0)
    done = threading.Event()
    steps = iter([record(1)])

    def on_poll(consumer):
        found = next(steps, None)
        if found is None and ("pause", ["old"]) in consumer.calls and not done.is_set():
            consumer.callbacks["on_assign"](consumer, ["new"])
            done.set()
        return found

    consumer = Consumer(on_poll)

    async def scenario(_reading, _taken):
        await asyncio.to_thread(done.wait, 10)

    read(Client(consumer), scenario, unsettled_max=1)
    assert consumer.calls[-2:] == [("assign", ["new"]), ("pause", ["new"])], consumer.calls


class Group(Consumer):
    """Of partition 0 it has the commit 7, of partition 1 none; partition 1 ends at 5."""

    def __init__(self, end=(0, 5), fault=None):
        super().__init__(lambda consumer: consumer.callbacks["on_assign"](consumer, self.places))
        self.places = [TopicPartition("t", number) for number in (0, 1)]
        self._end = end
        self._fault = fault

    def committed(self, partitions, timeout):
        assert timeout > 0
        return [
            TopicPartition("t", each.partition, 7 - 1008 * each.partition) for each in partitions
        ]

    def get_watermark_offsets(self, partition, timeout):
        assert partition.partition == 1
        assert timeout > 0
        return self._end

    def commit(self, offsets, asynchronous):
        assert not asynchronous
        self.calls.append(("commit", [(each.partition, each.offset) for each in offsets]))
        return [SimpleNamespace(error=self._fault) for _ in offsets]


def test_where_a_group_begins_at_the_end_is_committed_before_it_reads():
    """Also of a partition without a record; one with a commit goes on from there."""
    consumer = Group()

    async def scenario(_reading, _taken):
        await asyncio.to_thread(consumer.polled.wait, 10)

    read(Client(consumer), scenario, from_end=True)
    _, committed, (assigned, places) = consumer.calls[:3]
    assert committed == ("commit", [(1, 5)])
    assert assigned == "assign"
    assert [(each.partition, each.offset) for each in places] == [(0, 7), (1, 5)]


def test_a_group_that_begins_at_the_beginning_asks_for_nothing():
    """Without a commit it begins there again, and passes over nothing."""
    consumer = Group()

    async def scenario(_reading, _taken):
        await asyncio.to_thread(consumer.polled.wait, 10)

    read(Client(consumer), scenario)
    assert consumer.calls[1] == ("assign", consumer.places)


@pytest.mark.parametrize(
    "consumer",
    [Group(end=None), Group(fault=KafkaError(KafkaError.NOT_COORDINATOR))],
    ids=["no answer", "no commit"],
)
def test_a_group_whose_begin_cannot_be_committed_does_not_read(consumer):
    """The run ends, and is tried again: it would pass over what comes meanwhile."""

    async def scenario(reading, _taken):
        with pytest.raises(TransportError):
            await asyncio.wait_for(reading.ended, 10)

    read(Client(consumer), scenario, from_end=True)
    assert "assign" not in [name for name, _ in consumer.calls]
