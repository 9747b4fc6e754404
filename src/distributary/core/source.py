"""The port that every protocol's consumer implements, and the settings of a source."""

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.deliver.credential import Credential
from distributary.core.errors import EventError
from distributary.core.event import Event


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """One source as the operator configured it, checked.

    Attributes:
        name: DNS label, unique in the server. Also the default of what identifies us at the
            broker: consumer group, durable consumer, client id.
        protocol: One of the delivery protocols but HTTP.
        uri: The broker; schemes and hosts as for sinks of the protocol.
        place: What is read: a topic (KAFKA), a topic filter (MQTT), a subject with wildcards
            (NATS), an address (AMQP).
        to: Path where the events are published: ``/events``, or that of a Broker or Channel.
        options: Specific to the protocol, checked: ``qos`` (MQTT), ``group`` and ``offsetreset``
            (KAFKA), ``durable`` and ``stream`` (NATS).
        credential: Credential for the broker.
        ca_certs: PEM of certificates to trust for the broker, besides the system's.
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
    """How a message is settled."""

    TAKEN = "taken"
    """The log has its event: the broker may forget the message."""
    REFUSED = "refused"
    """It is no event, or one that the receiver rejects for good: the broker must not redeliver it,
    and moves it to its dead letter place, if it has one."""


@dataclass(slots=True)
class Message:
    """One message of a broker.

    Attributes:
        event: Its event; None: it is no event.
        fault: Why it is none; None if it is one.
        where: The message at its broker, for people (``orders[3]@1023``); never its content.
        settle: Settles it. Called at most once, on the loop, while the ``run`` that delivered the
            message lasts. Not called: the broker redelivers the message once the run has ended.
            Must not raise.
    """

    event: Event | None
    fault: EventError | None
    where: str
    settle: Callable[[Settlement], None]


class Consumer(Protocol):
    """Reads one place at one broker, for one ``SourceSpec``, on one event loop."""

    async def run(self, take: Callable[[Message], None], unsettled_max: int) -> None:
        """Connect and read until cancelled or disconnected.

        The broker may forget a message only once it is settled (where its protocol has
        acknowledgements at all). The broker redelivers what is unsettled when this ends: to the
        next ``run``, or to another server.

        Args:
            take: Accepts each message, in the broker's order; must not raise.
            unsettled_max: Most unsettled messages; reading pauses beyond.

        Raises:
            TransportError: The connection was refused or has ended; the caller pauses and runs
                it again.
        """
