"""What the tests of the log on Kafka share: topics of a cluster of three, and a log over one."""

import asyncio
import itertools
import os

import pytest

from distributary.core.clock import SystemClock
from distributary.core.cluster import KafkaPlace
from distributary.core.log.kafka import KafkaRecords, KafkaRetention, MemorySnapshots, topic_of
from distributary.core.log.kafka._producer import KafkaProducer

_numbers = itertools.count()


@pytest.fixture
def new_place(kafka_cluster):
    """Returns a new place, whose topic is made unless ``partitions`` is 0."""

    def make(partitions=1, replicas=3, **config):
        prefix = f"log-{os.getpid()}-{next(_numbers)}"
        place = KafkaPlace(servers=kafka_cluster.servers, prefix=prefix)
        if partitions:
            kafka_cluster.create_topic(topic_of(place), partitions, replicas, **config)
        return place

    return make


class KafkaLog:
    """Appender and reader of one partition as one object, with a clock for its records."""

    def __init__(self, place, clock, cluster):
        self._place = place
        self._clock = clock
        self._cluster = cluster
        self._snapshots = MemorySnapshots()
        self._loop = asyncio.new_event_loop()
        self._newest_ms = 0
        self._producer = KafkaProducer(place, self._loop)
        self._open()

    def _open(self):
        self._records = KafkaRecords(self._place, 0, self._snapshots)

    def __getattr__(self, name):
        return getattr(self._records, name)

    def prepare(self):
        """Nothing to do."""

    def append(self, entries):
        self._newest_ms = max(self._newest_ms, self._clock.wall_ms())

        async def appended():
            waiting = []
            for kind, body in entries:
                done = self._loop.create_future()
                self._producer.submit(0, kind, body, done.set_result, time_ms=self._newest_ms)
                waiting.append(done)
            return await asyncio.gather(*waiting)

        offsets = self._loop.run_until_complete(appended())
        assert offsets == list(range(offsets[0], offsets[0] + len(entries)))
        return offsets[0]

    def retain(self, keep_from_offset, snapshot_at_cut):
        retention = KafkaRetention(
            self._place, self._snapshots, bytes_max=0, age_max_s=0.0, now_ms=SystemClock().wall_ms
        )
        try:
            retention.retain(
                0, lambda: keep_from_offset, lambda _records, cut: (cut, snapshot_at_cut(cut))
            )
        finally:
            retention.close()

    def damage(self, offset):
        """Change a byte of the record's body where its leader keeps it."""
        frame, _ = self._records.read_chunk(offset, 1)
        body = frame[36:]
        topic = topic_of(self._place)
        folder = self._cluster.leader(topic, 0).log_folder(topic, 0)
        for path in folder.glob("*.log"):
            place = path.read_bytes().find(body)
            if place >= 0:
                with path.open("r+b") as file:
                    file.seek(place)
                    file.write(bytes([body[0] ^ 0xFF]))

    def reopen(self):
        self._records.close()
        self._open()

    def close(self):
        self._records.close()
        self._loop.run_until_complete(self._producer.close())
        self._loop.close()


@pytest.fixture
def make_log(new_place, kafka_cluster):
    """Makes an empty log whose records have the time of a clock."""

    def make(clock):
        # The clock of a test stands in the past, and the broker would delete what is a week old.
        config = {"message_timestamp_type": "CreateTime", "retention_ms": "-1"}
        return KafkaLog(new_place(replicas=1, **config), clock, kafka_cluster)

    return make
