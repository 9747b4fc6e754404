"""AMQP 1.0."""

from distributary.protocols.amqp.engine import AVAILABLE
from distributary.protocols.amqp.reading import READING
from distributary.resource import Protocol

__all__ = ["PROTOCOLS"]

PROTOCOLS = (
    Protocol(
        name="AMQP",
        title="AMQP 1.0",
        sink="distributary.protocols.amqp.sink:make",
        answers="distributary.protocols.amqp.answers:RULES",
        reading=READING,
        absent=None if AVAILABLE else "needs the extra distributary[amqp], which is not installed",
    ),
)
