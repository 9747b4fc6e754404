"""Ends of partitions, asked of a cluster whose brokers learn one after the other."""

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, admin

from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogUnavailableError
from distributary.core.log.kafka import KafkaEnds, ends


@pytest.fixture
def ask(monkeypatch):
    """Asks a cluster that refuses with each of *codes* first."""
    monkeypatch.setattr(ends, "_AGAIN_S", 0.0)

    def made(*codes):
        left = list(codes)

        class Admin:
            def __init__(self, _settings):
                """Nobody is dialled."""

            def list_offsets(self, asked, **_timeout):
                def result():
                    if left:
                        raise KafkaException(KafkaError(left.pop(0)))
                    return SimpleNamespace(offset=7)

                return dict.fromkeys(asked, SimpleNamespace(result=result))

        monkeypatch.setattr(admin, "AdminClient", Admin)
        return KafkaEnds(KafkaPlace(servers=("nowhere.invalid:1",), prefix="p")).read(2)

    return made


def test_a_broker_that_learns_late_is_asked_again(ask):
    """Of a topic made a moment ago, or of another leader."""
    assert ask(KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.NOT_LEADER_FOR_PARTITION) == [7, 7]


def test_a_refusal_that_waiting_does_not_cure_is_told_at_once(ask):
    """A right that is missing is not waited for."""
    with pytest.raises(LogUnavailableError, match="TOPIC_AUTHORIZATION_FAILED"):
        ask(KafkaError.TOPIC_AUTHORIZATION_FAILED)
