"""CPU of an event of 1 KB at a Kafka broker and at its clients: appended, and read.

The client is the library that the log of several machines uses, without our own work around it; one
broker of this machine, acknowledged by all its replicas (itself), an idempotent producer. A
broker that follows costs about what a reader does. Run:
``PYTHONPATH=src:benchmarks:tests python benchmarks/shared_log.py [events]``.
"""

import os
import sys
import time

import confluent_kafka
import psutil

import _kit  # noqa: F401 - for the imports of kit
from kit.servers.kafka import Kafka

EVENT_BYTES = 1_140
"""An event of 1 KB with its attributes, as the log holds it."""
ROUNDS = 3


def own_s():
    """CPU of this process, all threads."""
    times = os.times()
    return times.user + times.system


def broker_s():
    """CPU of the broker: the one Java below this process."""
    (java,) = (child for child in psutil.Process().children() if "java" in child.name())
    times = java.cpu_times()
    return times.user + times.system


def append(kafka, topic, count, pending_max):
    """Append *count* events with at most *pending_max* not yet acknowledged."""
    settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 0}
    producer = confluent_kafka.Producer(kafka.client() | settings)
    value, pending = bytes(EVENT_BYTES), 0

    def done(error, _message):
        nonlocal pending
        assert error is None, error
        pending -= 1

    for _ in range(count):
        while pending >= pending_max:
            producer.poll(0.1)
        pending += 1
        producer.produce(topic, value, partition=0, on_delivery=done)
        producer.poll(0)
    producer.flush()


def read(kafka, topic, count):
    """Read *count* events from the begin."""
    consumer = confluent_kafka.Consumer(kafka.client() | {"group.id": "none"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    taken = 0
    while taken < count:
        taken += len(consumer.consume(500, 1.0))
    consumer.close()


def measured(name, count, work):
    """Run *work* and print what an event costs."""
    best = None
    for _ in range(ROUNDS):
        client, broker, began = own_s(), broker_s(), time.perf_counter()
        work()
        took = time.perf_counter() - began
        cost = ((own_s() - client) / count * 1e6, (broker_s() - broker) / count * 1e6)
        best = (*cost, count / took) if best is None or sum(cost) < sum(best[:2]) else best
    print(f"{name}: client {best[0]:.1f} us, broker {best[1]:.1f} us, {best[2]:,.0f}/s", flush=True)


def disk_bytes(kafka, topic):
    """What the topic's segments hold on disk."""
    folder = next(kafka.folder.rglob(f"{topic}-0"))
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def main():
    """Prints a line for each load."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with Kafka() as kafka:
        for pending in (1, 30, 1_000):
            topic, some = f"pending{pending}", count if pending > 1 else count // 20
            kafka.create_topic(topic)
            append(kafka, topic, 2_000, pending)  # the broker's Java compiles meanwhile
            measured(
                f"append, {pending} under way",
                some,
                lambda topic=topic, some=some, pending=pending: append(kafka, topic, some, pending),
            )
            written = 2_000 + ROUNDS * some
            print(f"  {disk_bytes(kafka, topic) / written:.0f} bytes an event on disk")
            measured("  read", written, lambda topic=topic, n=written: read(kafka, topic, n))


if __name__ == "__main__":
    main()
