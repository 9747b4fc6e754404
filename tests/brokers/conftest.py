"""Real brokers for the tests here: started once in a run, when the first test asks for them."""

from distributary.testing.servers.fixtures import (
    artemis,
    authority,
    kafka,
    mosquitto,
    nats_server,
    rabbitmq,
)

__all__ = ["artemis", "authority", "kafka", "mosquitto", "nats_server", "rabbitmq"]
