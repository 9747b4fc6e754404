"""``protocolsettings`` of Apache Kafka.

Source:
    Subscriptions API 3.2.2.4; decision 19 (topic in the path) and 27 (settings of brokers): the
    topic is in the settings, in the path of the sink URI, or the same in both; without an extractor
    records have no key.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from distributary.core import event
from distributary.core.deliver.broker_settings import BrokerSettings
from distributary.core.protocol import Scheme
from distributary.resource import Schema, patterns

HOSTS_MAX: Final = 16
"""Hosts of one URI: each is resolved before every connection. One that answers is enough, since it
lists the brokers of its cluster; three are usual."""

SCHEMES: Final = {
    "kafka": Scheme(9092, with_tls="kafka+ssl", path="place"),
    "kafka+ssl": Scheme(9093, tls=True, path="place"),
}

TOPIC_CHARS_MAX: Final = 249
"""Longest name of a Kafka topic: Kafka's own limit."""

TOPIC: Final = "^(?:[A-Za-z0-9_-]|\\.[A-Za-z0-9_-]|\\.\\.[A-Za-z0-9._-])[A-Za-z0-9._-]*$"
"""The name of a Kafka topic, neither . nor .."""

CLIENT_ID_CHARS_MAX: Final = 249
"""Longest ``clientid``: the same as for a topic, since brokers key metrics and quotas by it."""

SETTINGS: Final[dict[str, Schema]] = {
    "topicname": {
        "type": "string",
        "minLength": 1,
        "maxLength": TOPIC_CHARS_MAX,
        "pattern": TOPIC,
        "description": (
            "The topic. Required where the path of the sink does not name it; where both do,"
            " they are the same."
        ),
        "x-expected": (
            "the name of a Kafka topic has letters, digits, full stops, _ and - alone, and is"
            " neither . nor .."
        ),
    },
    "partitionkeyextractor": {
        "type": "string",
        "minLength": 1,
        "maxLength": event.NAME_CHARS_MAX,
        "pattern": patterns.ATTRIBUTE_NAME,
        "not": {"enum": sorted(event.RESERVED_NAMES)},
        "description": (
            "The CloudEvents attribute whose value is the key of a record (such as partitionkey);"
            " absent: records have no key."
        ),
        "x-expected": "expected the name of a CloudEvents attribute: lower-case letters and digits",
    },
    "clientid": {
        "type": "string",
        "minLength": 1,
        "maxLength": CLIENT_ID_CHARS_MAX,
        "pattern": "^[!-~](?:[ -~]*[!-~])?$",
        "default": "distributary",
        "description": "Name of this client at the cluster.",
        "x-expected": "a client id is printable ASCII, and neither begins nor ends with a space",
    },
    "acks": {
        "enum": ["all", "-1", "1", "0"],
        "default": "all",
        "description": (
            "Who has a record before it counts as delivered: all replicas in sync (-1: the same),"
            " the leader (1), or nobody (0: without acknowledgement, so that events can be lost)."
        ),
        "x-same": {"-1": "all"},
    },
}
"""Setting -> its schema, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class KafkaSettings(BrokerSettings):
    """Protocol settings of Apache Kafka.

    Attributes:
        topicname: The topic, from the setting or the path of the sink URI (decision 19, topic in
            the path).
        partitionkeyextractor: The CloudEvents attribute whose value is the key of a record; None:
            records have no key (decision 27, settings of brokers).
        clientid: Name of this client at the cluster; None: ``distributary``.
        acks: ``all``, ``1`` or ``0``. 0 has no acknowledgement and gives up at-least-once.
    """

    topicname: str
    partitionkeyextractor: str | None = None
    clientid: str | None = None
    acks: Literal["all", "1", "0"] = "all"

    @property
    def place(self) -> str:
        """The topic, which identifies a sink at the cluster."""
        return self.topicname


def restore(realized: Mapping[str, Any]) -> KafkaSettings:
    """See ``core.protocol.Protocol``."""
    return KafkaSettings(
        topicname=realized["topicname"],
        partitionkeyextractor=realized.get("partitionkeyextractor"),
        clientid=realized["clientid"],
        acks=realized["acks"],
    )
