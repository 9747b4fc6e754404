"""Apache Kafka."""

from distributary.protocols.kafka.reading import READING
from distributary.resource import Protocol

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        name="KAFKA",
        title="Kafka",
        sink="distributary.protocols.kafka.sink:make",
        answers="distributary.protocols.kafka.answers:RULES",
        reading=READING,
    ),
)
