"""Whatever is in the topic, readers give the records that are ours, and report the others."""

import asyncio
import random
import struct

import confluent_kafka
import pytest

from distributary.core.flow import RecordKind
from distributary.core.log import iter_frames
from distributary.core.log.kafka import KafkaRecords, KafkaTail, MemorySnapshots, topic_of
from distributary.core.log.kafka._value import PREFIX_BYTES, encode
from kit.taker import Taker

pytestmark = pytest.mark.slow

ANSWER_S = 30
GOOD = [encode(RecordKind.EVENTS, b"event %d" % number) for number in range(60)]


def _nasty(randomly):
    """Values that are no records: somebody else's, torn, changed, and lies about their kind."""
    good = encode(RecordKind.EVENTS, b"an event that something happens to")
    for _ in range(150):
        place = randomly.randrange(len(good))
        yield good[:place]
        yield good[:place] + bytes([good[place] ^ 1 << randomly.randrange(8)]) + good[place + 1 :]
        yield randomly.randbytes(randomly.randrange(60))
    yield None
    yield b"{}"
    yield struct.pack("<II", 0x01D7, 0)
    yield good + b"."
    yield encode(RecordKind.ROUTE, b"")[:PREFIX_BYTES] + b"{}"


def _produce(place, kafka, values):
    """Write *values*, in several forms of batches; some of them in transactions."""
    base = {**kafka.client(), "linger.ms": 5}
    plain = confluent_kafka.Producer(base)
    packed = confluent_kafka.Producer(base | {"compression.type": "gzip"})
    sure = confluent_kafka.Producer(base | {"transactional.id": topic_of(place)})
    sure.init_transactions(ANSWER_S)
    for number, some in enumerate(values[at : at + 25] for at in range(0, len(values), 25)):
        producer = (plain, packed, sure)[number % 3]
        if producer is sure:
            sure.begin_transaction()
        for value in some:
            producer.produce(topic_of(place), value, partition=0, headers=[("x", b"\xff")])
        if producer is sure:
            sure.commit_transaction(ANSWER_S)
        assert producer.flush(ANSWER_S) == 0


async def _tailed(place, count):
    taker = Taker()
    taker.tail = KafkaTail(place, 0, taker, asyncio.get_running_loop())
    taker.tail.start(0)
    while len(taker.records) < count:
        assert taker.errors == []
        taker.take()
        await asyncio.sleep(0.01)
    taker.tail.stop()
    return taker.records


def test_foreign_and_torn_records_are_reported_and_passed_over(new_place, kafka_cluster):
    """Between them every record of ours is read, by each way of reading; none crashes."""
    place = new_place()
    randomly = random.Random(5)
    values = GOOD + list(_nasty(randomly))
    randomly.shuffle(values)
    _produce(place, kafka_cluster, values)
    good = [value[PREFIX_BYTES:] for value in values if value in GOOD]
    records = KafkaRecords(place, 0, MemorySnapshots())
    end = records.durable_end()
    assert end > len(values)  # the ends of transactions take offsets
    found = list(records.read(0, end))
    assert [each.body for each in found] == good
    assert {each.from_offset for each in records.damages()}.isdisjoint(r.offset for r in found)
    assert len(records.damages()) == len(values) - len(good)
    assert list(records.kinds(0, end, RecordKind.EVENTS)) == found
    at, chunks = 0, []
    while at < end:
        chunk, following = records.read_chunk(at, 40)
        assert following > at
        chunks += iter_frames(chunk)
        at = following
    assert chunks == found
    records.close()
    assert asyncio.run(asyncio.wait_for(_tailed(place, len(good)), 60)) == found
