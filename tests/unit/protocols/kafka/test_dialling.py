"""Why there is no connection to a cluster."""

import asyncio

import confluent_kafka
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
