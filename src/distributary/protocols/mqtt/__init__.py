"""MQTT 3.1.1 and MQTT 5."""

from distributary.protocols.mqtt.reading import READING
from distributary.resource import Protocol

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        name="MQTT3",
        title="MQTT 3.1.1",
        sink="distributary.protocols.mqtt.sink:make",
        answers="distributary.protocols.mqtt.answers:RULES_3",
        reading=READING,
    ),
    Protocol(
        name="MQTT5",
        title="MQTT 5",
        sink="distributary.protocols.mqtt.sink:make",
        answers="distributary.protocols.mqtt.answers:RULES_5",
        reading=READING,
    ),
)
