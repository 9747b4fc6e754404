"""Sending to a topic, with a client library that is scripted."""

from types import SimpleNamespace

import pytest

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.log.kafka import _sending
from distributary.core.log.kafka.recalled_topic import RecalledSender
from distributary.core.log.recalled import RecalledName, RecalledWriter

PLACE = KafkaPlace(servers=("kafka:9092",), prefix="x")
NAME = RecalledName(0, 3)


class RefusedError(Exception):
    """A ``KafkaException``, of a ``KafkaError`` with this name."""

    def __init__(self, name):
        super().__init__(_error(name))


def _error(name):
    return SimpleNamespace(name=lambda: name, str=lambda: f"trouble: {name}")


class Producer:
    """One that answers as it is told: *raised* are errors of its calls, *reported* of reports."""

    def __init__(self, raised=(), reported=None):
        self.raised = list(raised)
        self.reported = reported
        self.taken = 0

    def produce(self, *given):
        if self.raised:
            raise self.raised.pop(0)
        self.taken += 1
        given[4](self.reported and _error(self.reported), None)

    def poll(self, _wait_s):
        return 0

    flush = poll


@pytest.fixture
def send(monkeypatch, tmp_path):
    """Sends a recalled file by a producer."""
    writer = RecalledWriter(tmp_path, NAME)
    writer.finish()

    def send(producer):
        library = SimpleNamespace(Producer=lambda _settings: producer, KafkaException=RefusedError)
        monkeypatch.setattr(_sending, "library", lambda: library)
        RecalledSender(PLACE).send(0, tmp_path, NAME)

    return send


def test_a_full_queue_is_waited_for(send):
    """The message comes all the same."""
    producer = Producer([BufferError(), BufferError()])
    send(producer)
    assert producer.taken == 1


@pytest.mark.parametrize(
    "producer",
    [
        pytest.param(Producer([RefusedError("TOPIC_AUTHORIZATION_FAILED")]), id="at-once"),
        pytest.param(Producer(reported="TOPIC_AUTHORIZATION_FAILED"), id="later"),
    ],
)
def test_what_the_client_refuses_is_an_error_of_the_log(send, producer):
    """It names the topic, and what is wrong with it."""
    with pytest.raises(LogUnavailableError, match=r"x\.recalled.*TOPIC_AUTHORIZATION_FAILED"):
        send(producer)
