"""Apache Kafka."""

from distributary.core.protocol import Protocol, SettingFlag
from distributary.protocols.kafka import settings
from distributary.protocols.kafka.reading import READING

PROTOCOLS = (
    Protocol(
        name="KAFKA",
        title="Kafka",
        schemes=settings.SCHEMES,
        hosts_max=settings.HOSTS_MAX,
        place_path=rf"(?:/[A-Za-z0-9._-]{{0,{settings.TOPIC_CHARS_MAX}}})?",
        dials_itself=True,
        sink="distributary.protocols.kafka.sink:make",
        answers="distributary.protocols.kafka.answers:RULES",
        settings=settings.SETTINGS,
        restore=settings.restore,
        placed="topicname",
        example={
            "sink": "kafka://k1.example.com,k2.example.com/orders",
            "protocol": "KAFKA",
        },
        flags={"--topic": SettingFlag("topicname", "Topic to publish to")},
        reading=READING,
    ),
)
