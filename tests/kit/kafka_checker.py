"""A Kafka consumer that collects a topic during a test, independent of the client under test.

Called by ``tests/brokers/kafka``. Hides librdkafka's consumer and its thread.
"""

import importlib
import threading
from typing import Any, Final, Self

from distributary.core.event import Event
from distributary.protocols.kafka import binding

_LEAVE_S_MAX: Final = 60.0


class KafkaChecker:
    """A consumer of *topic* from its beginning; a context manager.

    Args:
        client: Connection settings of librdkafka.
        topic: An existing topic.
        partitions: Its count of partitions.
    """

    def __init__(self, client: dict[str, Any], topic: str, partitions: int = 1) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._events: list[Event] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def events(self) -> list[Event]:
        """What has come so far, in the order in which it was read."""
        return list(self._events)

    def _read(self) -> None:
        kafka = importlib.import_module("confluent_kafka")
        own = {"group.id": "witness", "enable.auto.commit": False, "fetch.wait.max.ms": 20}
        consumer = kafka.Consumer(self._client | own)
        numbers = range(self._partitions)
        consumer.assign([kafka.TopicPartition(self._topic, number, 0) for number in numbers])
        while not self._stop.is_set():
            record = consumer.poll(0.05)
            if record is not None and record.error() is None:
                self._events.append(binding.decode(record.headers() or [], record.value()))
        consumer.close()

    def __enter__(self) -> Self:
        """Begin to read."""
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Read no more."""
        self._stop.set()
        self._thread.join(_LEAVE_S_MAX)
