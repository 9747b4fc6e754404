"""No queue behind a receiver is full of the events of one tenant: partition, link, cluster."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from tests.unit.server.ingest.conftest import Client, event
from tests.unit.server.processes.receiver.test_forward import Committer, Stage

from distributary.core.cluster import KafkaPlace
from distributary.core.log import GroupCommitter
from distributary.core.log.kafka import _producer
from distributary.core.log.kafka.appends import KafkaAppends
from distributary.server.ingest import IngestSettings, partition_of
from distributary.server.processes.receiver._appends import LogAppends
from distributary.testing.memory_log import MemoryLog
from distributary.testing.virtual import VirtualClock

PATHS = {f"namespaces/{name}/events": f"@{name}" for name in ("shop", "till")}
MEBIBYTE = 1024 * 1024
KEY = next(key for key in "abcdef" if partition_of(key, 2) == 1)
LARGE = b'"' + b"x" * (MEBIBYTE - 2) + b'"'

pytestmark = pytest.mark.slow  # tens of megabytes wait


class Receiver:
    """A receiver as it is by default, alone on its machine, before *appends*."""

    def __init__(self, appends, receivers=1):
        most = IngestSettings().held_bytes_max // receivers
        self.first = Client(settings=IngestSettings(held_bytes_max=most))
        self.context = self.first.context
        self.context.appends = appends
        self.context.learn(PATHS)
        self.most = most

    def publish(self, namespace, body=LARGE):
        """One event of one key, from a connection of its own."""
        client = Client(context=self.context)
        sent = event(body, b"ce-partitionkey: %s\r\n" % KEY.encode())
        path = b"/namespaces/%s/events" % namespace
        client.connection.data_received(sent.replace(b"/events", path, 1))
        return client

    def fill(self):
        """One tenant publishes until it is refused; returns its clients."""
        clients = [self.publish(b"shop")]
        while not (answers := clients[-1].answers()):
            clients.append(self.publish(b"shop"))
        assert [answer.status for answer in answers] == [503]
        assert "namespace shop" in answers[0].problem["detail"]
        assert self.context.counters.held_bytes >= self.most // 2
        return clients[:-1]

    def assert_all_is_well(self, clients):
        """Each of *clients* is acknowledged, and nothing is left."""
        answers = [client.answers() for client in clients]
        assert [[one.status for one in found] for found in answers] == [[202]] * len(clients)
        assert self.context.counters.held_bytes == 0
        assert {share.bytes for share in self.context.bodies.by_address.values()} == {0}


class GatedLog(MemoryLog):
    """A disk that stands still."""

    def __init__(self):
        super().__init__(VirtualClock())
        self.gate = threading.Event()

    def append(self, entries):
        self.gate.wait()
        return super().append(entries)


def test_the_queue_of_a_partition_has_room_for_others():
    """Though all that a tenant may have waits for one partition, whose disk stands still."""

    async def scenario():
        log = GatedLog()
        committer = GroupCommitter(log, asyncio.get_running_loop(), clock=VirtualClock())
        receiver = Receiver(LogAppends({0: committer}, 1, {}))
        clients = receiver.fill()
        clients += [receiver.publish(b"till") for _ in range(8)]
        assert receiver.publish(b"shop", b"{}").answers()[0].status == 503
        log.gate.set()
        await committer.close()
        receiver.assert_all_is_well(clients)

    asyncio.run(scenario())


def test_the_way_to_another_receiver_has_room_for_others():
    """Though all that a tenant may have waits for a partition of that one."""

    async def scenario():
        stage = Stage()
        receiver = Receiver(LogAppends({0: Committer()}, 2, {1: stage.link}), receivers=4)
        clients = receiver.fill()
        clients += [receiver.publish(b"till") for _ in range(4)]
        await stage.pass_on()
        stage.committer.settle()
        await stage.pass_on()
        receiver.assert_all_is_well(clients)

    asyncio.run(scenario())


class Cluster:
    """A producer whose cluster acknowledges nothing until it is told to."""

    def __init__(self, _settings):
        self.waiting = []
        self.answers = False

    def produce(self, _topic, _value, _key, _partition, told, *_more):
        self.waiting.append(told)

    def poll(self, _wait_s):
        if self.answers:
            waiting, self.waiting = self.waiting, []
            for offset, told in enumerate(waiting):
                told(None, SimpleNamespace(offset=lambda offset=offset: offset))
        return 0

    def purge(self):
        assert not self.waiting

    def close(self):
        pass


def test_the_way_to_the_cluster_has_room_for_others(monkeypatch):
    """Though no broker acknowledges anything."""
    made = []
    library = SimpleNamespace(
        Producer=lambda given: made.append(Cluster(given)) or made[-1], KafkaException=OSError
    )
    monkeypatch.setattr(_producer, "library", lambda: library)

    async def scenario():
        place = KafkaPlace(servers=("kafka:9092",), prefix="x")
        appends = KafkaAppends(place, 2, asyncio.get_running_loop())
        receiver = Receiver(appends)
        clients = receiver.fill()
        clients += [receiver.publish(b"till") for _ in range(8)]
        made[0].answers = True
        await appends.close()
        receiver.assert_all_is_well(clients)

    asyncio.run(scenario())
