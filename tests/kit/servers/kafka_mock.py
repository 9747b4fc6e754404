"""The mock cluster in librdkafka: Kafka's protocol without a Kafka, in this process.

For machines that cannot have the real one: what a producer and a consumer do there is their real
code, but there are no logins, no TLS and no refusals, and nothing is kept.
"""

import importlib
from typing import Any, Final, Self

_ANSWER_S_MAX: Final = 60.0


class KafkaMock:
    """One broker of a mock cluster; a context manager.

    Attributes:
        port: Plain listener; nobody has to log in.
    """

    port: int

    def __init__(self) -> None:
        self._host: Any = None

    def client(self) -> dict[str, Any]:
        """What librdkafka must know to be let in."""
        return {"bootstrap.servers": f"127.0.0.1:{self.port}", "log_level": 0}

    def create_topic(self, name: str) -> None:
        """Make a topic; it has four partitions."""
        self._host.list_topics(name, timeout=_ANSWER_S_MAX)  # the mock makes what it is asked for

    def topics(self) -> set[str]:
        """Names of the topics that were made."""
        return set(self._host.list_topics(timeout=_ANSWER_S_MAX).topics)

    def __enter__(self) -> Self:
        """Start it."""
        kafka = importlib.import_module("confluent_kafka")
        self._host = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        (broker,) = self._host.list_topics(timeout=_ANSWER_S_MAX).brokers.values()
        self.port = broker.port
        return self

    def __exit__(self, *_exception: object) -> None:
        """End it: it goes with the client that holds it."""
        self._host = None
