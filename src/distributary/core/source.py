"""The port that every protocol's consumer implements, and what a source is told."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.deliver.credential import Credential
from distributary.core.errors import EventError
from distributary.core.event import Event


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source, as the operator configured it; checked.

    Attributes:
        name: DNS label, unique in the server. Also what the broker knows us by where nothing
            else is said: consumer group, durable consumer, client id.
        protocol: One of the delivery protocols but HTTP.
        uri: The broker; schemes and hosts as for sinks of the protocol.
        place: What is read: a topic (KAFKA), a topic filter (MQTT), a subject with wildcards
            (NATS), an address (AMQP).
        to: Path of the receiver that the events are published at: ``/events``, or that of a Broker
            or Channel.
        options: Of the protocol alone, checked: ``qos`` (MQTT), ``group`` and ``offsetreset``
            (KAFKA), ``durable`` and ``stream`` (NATS).
        credential: Logs in at the broker.
        ca_certs: PEM of certificates that the broker is trusted by, besides the system's.
    """

    name: str
    protocol: str
    uri: str
    place: str
    to: str = "/events"
    options: Mapping[str, str | int] = field(default_factory=dict)
    credential: Credential | None = field(default=None, repr=False)
    ca_certs: str | None = field(default=None, repr=False)


class Settlement(enum.Enum):
    """What became of a message."""

    TAKEN = "taken"
    """The log has its event: the broker may forget it."""
    REFUSED = "refused"
    """It is no event, or one that the receiver refuses for good: the broker must not give it
    again, and puts it where it keeps such messages, where it has such a place."""


@dataclass(slots=True)
class Message:
    """One message of a broker.

    Attributes:
        event: What it holds; None: it is no event.
        fault: Why it is none; None where it is one.
        where: The message at its broker, for people (``orders[3]@1023``); never its content.
        settle: What became of it. Called at most once, on the loop, while the ``run`` that gave
            the message goes on. Not called: nobody has it, and the broker gives it again once the
            run has ended. Must not raise.
    """

    event: Event | None
    fault: EventError | None
    where: str
    settle: Callable[[Settlement], None]


class Consumer(Protocol):
    """Reads one place at one broker. Made for one ``SourceSpec``; runs on one event loop."""

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        """Connect and read until cancelled or disconnected.

        The broker learns that a message is done with only when it is settled (where its protocol
        has acknowledgements at all). What is unsettled when this ends the broker gives again:
        to the next ``run``, or to another server.

        Args:
            take: Takes each message, in the broker's order; must not raise.
            unsettled_max: Most messages taken and not settled; reading pauses beyond.

        Raises:
            TransportError: The connection was refused or has ended; the caller pauses and runs
                it again.
        """
