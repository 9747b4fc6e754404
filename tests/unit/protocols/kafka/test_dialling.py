"""Why there is no connection to a cluster, and what a client learns of it."""

import asyncio
import json

import confluent_kafka
import pytest
from confluent_kafka import KafkaError

from distributary.protocols.kafka.sink import _client


class Refused:
    """A client of the library whose handshakes fail, one after the other."""

    def __init__(self, settings):
        self.tell = settings["error_cb"]

    def list_topics(self, _topic, **_timeout):
        raise confluent_kafka.KafkaException(KafkaError(KafkaError._TRANSPORT))

    def poll(self, _timeout):
        for code in (KafkaError._SSL, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN):
            self.tell(KafkaError(code))

    def close(self):
        """Nothing is held."""


def test_what_went_wrong_first_is_told_however_often_it_goes_wrong_again(monkeypatch):
    """A handshake that fails ends the connection, and so does the next one."""
    monkeypatch.setattr(confluent_kafka, "Producer", Refused)

    async def run():
        client = _client.KafkaClient("Producer", {}, None)
        return await client.connect("t", asyncio.get_running_loop())

    assert asyncio.run(run()).reason == "tls"


@pytest.mark.parametrize(
    "client_id", ["plain", 'my "id"', "back\\slash", 'x", "brokers": {"a": {"nodeid": 7}}, "y": "']
)
def test_brokers_are_known_whatever_we_are_called(client_id):
    """The library does not escape the client id, which may have any printable ASCII."""
    client = _client.KafkaClient("Producer", {"client.id": client_id}, None)
    broker = {"nodename": "new.example:9092", "state": "UP"}
    brokers = json.dumps({"brokers": {"new.example:9092/1": broker}}).removeprefix("{")
    client._learn(f'{{ "name": "{client_id}#producer-12", "client_id": "{client_id}", {brokers}')

    assert client._news == {("new.example", 9092)}
    assert not client._told
