"""MQTT 3.1.1 and MQTT 5."""

from distributary.core.protocol import Protocol, Scheme, SettingFlag
from distributary.protocols.mqtt import settings
from distributary.protocols.mqtt.reading import READING

_SCHEMES = {
    "mqtt": Scheme(1883, with_tls="mqtts"),
    "mqtts": Scheme(8883, tls=True),
    "ws": Scheme(80, with_tls="wss", path="request"),
    "wss": Scheme(443, tls=True, path="request"),
}

_FLAGS = {"--topic": SettingFlag("topicname", "Topic to publish to")}

PROTOCOLS = (
    Protocol(
        name="MQTT3",
        title="MQTT 3.1.1",
        schemes=_SCHEMES,
        sink="distributary.protocols.mqtt.sink:make",
        answers="distributary.protocols.mqtt.answers:RULES_3",
        settings=settings.SETTINGS_3,
        restore=settings.restore,
        required=("topicname",),
        flags=_FLAGS,
        formats=("structured",),  # there is no place for attributes beside the data
        reading=READING,
    ),
    Protocol(
        name="MQTT5",
        title="MQTT 5",
        schemes=_SCHEMES,
        sink="distributary.protocols.mqtt.sink:make",
        answers="distributary.protocols.mqtt.answers:RULES_5",
        settings=settings.SETTINGS_5,
        restore=settings.restore,
        required=("topicname",),
        flags=_FLAGS,
        masked="userproperties",
        example={
            "sink": "mqtts://broker.example.com",
            "protocol": "MQTT5",
            "protocolsettings": {"topicname": "events/orders"},
        },
        reading=READING,
    ),
)
