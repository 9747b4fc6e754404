"""Brokers are killed while events are published: nothing acknowledged is lost, and all goes on."""

import asyncio
import time

import pytest

from distributary.core.flow import Received
from distributary.core.log.kafka import (
    KafkaAppends,
    KafkaRecords,
    MemorySnapshots,
    prepare_topics,
    topic_of,
)
from distributary.core.log.keys import partition_of

pytestmark = [pytest.mark.slow, pytest.mark.crash]

PARTITIONS = 3
PAUSE_S = 0.004
"""Between two events."""
EACH = 10
"""Events that each partition must acknowledge, for publishing to go on."""
GOES_ON_S_MAX = 40.0
"""Longest wait for an acknowledgement on a busy machine; a few seconds are usual."""


class Publisher:
    """Publishes an event every few milliseconds, each with a body of its own."""

    def __init__(self, place):
        loop = asyncio.get_running_loop()
        self.reports = []
        self._appends = KafkaAppends(place, PARTITIONS, loop, self.reports.append)
        self.acknowledged = set()
        self.refused = []
        self.longest_s = 0.0
        self._number = 0
        self._loop = loop
        self._task = loop.create_task(self._publish())

    async def _publish(self):
        while True:
            self._number += 1
            body, begun_s = b"%d" % self._number, self._loop.time()
            key = body.decode() if self._number % 2 else None

            def done(error, body=body, begun_s=begun_s):
                assert body not in self.acknowledged
                self.longest_s = max(self.longest_s, self._loop.time() - begun_s)
                if error is None:
                    self.acknowledged.add(body)
                else:
                    self.refused.append(error)

            self._appends.submit(Received(body, 1, key), done)
            await asyncio.sleep(PAUSE_S)

    async def goes_on(self):
        """Wait until events that are published from now on are acknowledged, in all partitions."""
        since = self._number
        deadline_s = self._loop.time() + GOES_ON_S_MAX
        while min(self._by_partition(since)) < EACH:
            assert self._loop.time() < deadline_s, self.reports
            await asyncio.sleep(0.02)

    def _by_partition(self, since):
        """How many events with a key, published later than *since*, each partition has."""
        counts = [0] * PARTITIONS
        for body in self.acknowledged:
            if int(body) > since and int(body) % 2:
                counts[partition_of(body.decode(), PARTITIONS)] += 1
        return counts

    async def end(self):
        self._task.cancel()
        await self._appends.close()


async def _survive(cluster, place, node):
    """Kill *node* while events are published, and have it back."""
    publisher = Publisher(place)
    await publisher.goes_on()
    begun_s = time.monotonic()
    await asyncio.to_thread(node.kill)
    await publisher.goes_on()
    print(f"it goes on after {time.monotonic() - begun_s:.1f} s, {publisher.longest_s:.1f} s")
    await asyncio.to_thread(node.start)
    await asyncio.to_thread(cluster.wait_whole, topic_of(place))
    await publisher.goes_on()
    await publisher.end()
    return publisher


def _stored(place):
    bodies = []
    for partition in range(PARTITIONS):
        records = KafkaRecords(place, partition, MemorySnapshots())
        found = list(records.read(0, records.durable_end()))
        assert [each.offset for each in found] == list(range(records.durable_end()))
        bodies += [each.body for each in found]
        records.close()
    return bodies


@pytest.mark.parametrize("victim", ["controller", pytest.param("leader", marks=pytest.mark.soak)])
def test_no_acknowledged_event_is_lost_with_a_broker_or_the_controller(
    new_place, kafka_cluster, victim
):
    """Each is in the log once, whoever led its partition when; offsets have no holes."""
    place = new_place(partitions=0)
    prepare_topics(place, PARTITIONS)
    topic = topic_of(place)
    leaders = {kafka_cluster.leader(topic, number) for number in range(PARTITIONS)}
    controller = kafka_cluster.controller()
    node = controller if victim == "controller" else next(iter(leaders - {controller}))
    publisher = asyncio.run(_survive(kafka_cluster, place, node))
    stored = _stored(place)
    assert len(stored) == len(set(stored))
    assert publisher.acknowledged <= set(stored)
    assert publisher.refused == []
