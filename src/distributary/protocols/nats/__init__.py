"""NATS, with and without JetStream."""

from distributary.protocols.nats.reading import READING
from distributary.resource import Protocol

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        name="NATS",
        title="NATS",
        sink="distributary.protocols.nats.sink:make",
        answers="distributary.protocols.nats.answers:RULES",
        reading=READING,
    ),
)
