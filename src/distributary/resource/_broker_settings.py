"""How a sink is spoken to: the realized ``protocolsettings`` of each protocol.

Called by ``api_subscription`` (makes them from a subscription) and by the transports (read them).
Hides nothing; they are plain values, hashable, and part of a ``Destination``.

Source:
    CloudEvents Subscriptions API 0.1-wip, 3.2.2; decisions 19, 27 and 28.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Scalar: TypeAlias = str | int | bool | float
"""What a link property may be."""


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """How an event is sent by HTTP.

    Attributes:
        method: ``POST``, ``PUT`` or ``PATCH``.
        headers: Custom header fields, in the order of the subscription. May hold credentials,
            so they are left out of the ``repr``.
    """

    method: str
    headers: tuple[tuple[str, str], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """MQTT 3.1.1 and MQTT 5.

    Attributes:
        topicname: Where to publish; no wildcards.
        qos: 0, 1 or 2. 0 has no acknowledgement and gives up at-least-once (decision 28).
        retain: Whether the broker keeps the message as the last of its topic.
        expiry: Seconds after which the broker may drop the message; MQTT 5 alone. None: never.
        userproperties: Sent as user properties beside the event's own; MQTT 5 alone. May hold
            secrets, so they are left out of the ``repr``.
    """

    topicname: str
    qos: int = 1
    retain: bool = False
    expiry: int | None = None
    userproperties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """What tells one sink at the broker from another."""
        return self.topicname


@dataclass(frozen=True, slots=True)
class AmqpSettings:
    """AMQP 1.0.

    Attributes:
        address: Target node of the link: the setting, or what the path of the sink URI names.
        linkname: Name of the link; None: a random one.
        settled: ``sendersettlementmode: settled``: sent without acknowledgement, which gives up
            at-least-once (decision 28). False: ``unsettled``.
        linkproperties: Properties of the link. May hold secrets, so left out of the ``repr``.
    """

    address: str
    linkname: str | None = None
    settled: bool = False
    linkproperties: tuple[tuple[str, Scalar], ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """What tells one sink at the broker from another."""
        return self.address


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Apache Kafka.

    Attributes:
        topicname: The topic: the setting, or what the path of the sink URI names (decision 19).
        partitionkeyextractor: The CloudEvents attribute whose value is the key of a record; None:
            records have no key (decision 27).
        clientid: Name of this client at the cluster; None: ``distributary``.
        acks: ``all``, ``1`` or ``0``. 0 has no acknowledgement and gives up at-least-once.
    """

    topicname: str
    partitionkeyextractor: str | None = None
    clientid: str | None = None
    acks: Literal["all", "1", "0"] = "all"

    @property
    def place(self) -> str:
        """What tells one sink at the broker from another."""
        return self.topicname


@dataclass(frozen=True, slots=True)
class NatsSettings:
    """NATS.

    Attributes:
        subject: Where to publish; no wildcards.
        jetstream: True: only an acknowledgement of a stream counts; where no stream holds the
            subject the event is not delivered. None: by JetStream where a stream holds the
            subject, by core publish where none does (decision 27). False: core publish.
    """

    subject: str
    jetstream: bool | None = None

    @property
    def place(self) -> str:
        """What tells one sink at the broker from another."""
        return self.subject


BrokerSettings: TypeAlias = MqttSettings | AmqpSettings | KafkaSettings | NatsSettings
"""Settings of any delivery protocol beside HTTP."""

SINK_PORTS: dict[str, dict[str, int]] = {
    "HTTP": {"http": 80, "https": 443},
    "MQTT3": {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443},
    "MQTT5": {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443},
    "AMQP": {"amqp": 5672, "amqps": 5671, "ws": 80, "wss": 443},
    "KAFKA": {"kafka": 9092, "kafka+ssl": 9093},
    "NATS": {"nats": 4222, "tls": 4222, "ws": 80, "wss": 443},
}
"""Delivery protocol -> scheme of a sink URI -> its port where the URI names none."""

TLS_SCHEMES = frozenset({"https", "mqtts", "wss", "amqps", "kafka+ssl", "tls"})
"""Schemes whose connections begin with, or are refused without, a TLS handshake."""
