"""CPU of an event of a log that stands still and is drained: embedded, and over Kafka.

All events are in the log before the owners read: they are stopped meanwhile. Over Kafka this
process writes the events as receivers do, since it has to be quick: a lease is renewed every 2 s,
and lapses after 5. Where it did, routes lag, which is told, and costs more. So events come in
parts, each of which is drained before the next. One subscription that matches all; brokers and
PostgreSQL run beside the second form, and are shown apart. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/shared_drain.py [events [partitions ...]]``;
0 partitions: the embedded form, with two. Beside each form stands the CPU of a bare client, where
there are as many of them as owners: on two cores eight processes cost each other more than two do.
"""

import collections
import contextlib
import sys
import time

import confluent_kafka
import psutil

import _exchange
import shared_form
from _load import BODY
from _rig import Rig, each_us
from distributary.core.event import binary
from distributary.core.flow import RecordKind
from distributary.core.log.kafka._value import encode

BATCH = 80
"""Events in a batch of the topic: as a receiver sends them at 20,000/s."""
PART = 100_000
"""Events that wait at a time: three brokers on two cores take them in some 2 s."""
WARM = 5_000
QUIET_S = 0.03
"""CPU seconds in ``LOOK_S`` below which the index has caught up."""
LOOK_S = 2.5
BARE_S = 4.0


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    numbers = [int(word) for word in sys.argv[2:]] or [0, 1, 2, 4, 8]
    with contextlib.ExitStack() as stack:
        kafka, postgres, flags = shared_form.servers(stack)
        beside = [*kafka.nodes.values(), postgres]
        for number in numbers:
            before = topics(kafka)
            with Rig(*(flags(number) if number else ["--partitions", "2"])) as rig:
                (topic,) = topics(kafka) - before or {""}
                part = min(count, PART)
                values = [*event_values(part)] if number else []
                write = Filling(kafka, topic, number, values) if number else None
                measure(rig, number, [part] * (count // part), write, beside)
            bare_us = _exchange.crowd_us(number or 2, BARE_S)
            print(f"  a bare client: {bare_us:.1f} us an exchange", flush=True)


def measure(rig, number, parts, write, beside):
    """Print what a drain costs each process, an event."""
    sink = rig.sink()
    rig.server.subscribe(sink.url)
    rig.load("closed", connections=16, count=WARM)
    sink.wait_for(WARM)
    spent = collections.Counter()
    for part in parts:
        rig.settle()
        sink.reset()
        with rig.stopped_pipeline():
            began_s = time.monotonic()
            if write is None:
                rig.load("closed", connections=64, count=part)
            else:
                write()
            stopped_s = time.monotonic() - began_s
            others = [cpu_s(each) for each in beside]
            used = rig.meter()
        seen = sink.wait_for(part)
        cost = used()
        others = [cpu_s(each) - was for each, was in zip(beside, others, strict=True)]
        cost["index"] = caught_up(used) if number else cost.get("index", 0.0)
        took_s = (seen["last_ns"] - seen["first_ns"]) / 1e9
        print(
            f"{number} partitions, {part:,} drained in {took_s:.1f} s after {stopped_s:.1f} s",
            flush=True,
        )
        spent.update(cost, brokers=sum(others[:-1]), database=others[-1])
    each = each_us(spent, sum(parts))
    brokers, database = each.pop("brokers"), each.pop("database")
    shared_form.show("drain", each)
    print(f"  beside: brokers {brokers:.0f} us, PostgreSQL {database:.0f} us", flush=True)


def topics(kafka):
    """Names of the logs of the cluster."""
    names = kafka.admin().list_topics(timeout=10).topics
    return {name for name in names if name.endswith(".events")}


def caught_up(used):
    """CPU seconds of the index, once it has all."""
    before = used()["index"]
    while True:
        time.sleep(LOOK_S)
        now = used()["index"]
        if now - before < QUIET_S:
            return now
        before = now


def event_values(count):
    """Values of events in the topic, each with an id of its own."""
    for number in range(count):
        lines = (
            b"ce-id: %d\r\n" % number,
            b"ce-source: /sensors/tn-1234567\r\n",
            b"ce-type: com.example.reading\r\n",
            b"ce-subject: abc\r\n",
            b"ce-sentns: %d\r\n" % time.monotonic_ns(),
            b"content-type: application/json\r\n",
        )
        yield encode(RecordKind.EVENTS, binary.encode(lines, BODY))


class Filling:
    """Writes *values* to *topic* when it is called: ``BATCH`` to each partition in turn."""

    def __init__(self, kafka, topic, partitions, values):
        self._topic, self._partitions, self._values = topic, partitions, values
        settings = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": BATCH,
            "queue.buffering.max.messages": 2 * len(values),
            "queue.buffering.max.kbytes": 2_000_000,
        }
        self._producer = confluent_kafka.Producer(kafka.client() | settings)

    def __call__(self):
        for number, value in enumerate(self._values):
            partition = number // BATCH % self._partitions
            self._producer.produce(self._topic, value, partition=partition)
        assert not self._producer.flush(60)


def cpu_s(server):
    """CPU seconds of a server of the kit and of all that it started."""
    first = psutil.Process(server.pid)
    total = 0.0
    for each in (first, *first.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = each.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


if __name__ == "__main__":
    main()
