"""``protocolsettings`` of MQTT 3 and MQTT 5.

Source:
    Subscriptions API 3.2.2.2; decision 27 (settings of brokers): ``expiry`` and
    ``userproperties`` are MQTT 5's alone. MQTT 5, section 1.5.4: no NUL in a text; control
    characters and non-characters may be refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.core.deliver.broker_settings import BrokerSettings
from distributary.resource import Schema, bounded_map

TOPIC_BYTES_MAX: Final = 65_535
"""Longest MQTT topic in UTF-8: the limit of its two bytes of length (MQTT 5, section 1.5.4)."""

_BEYOND_PLANES: Final = "".join(
    chr(plane + last) for plane in range(0x10000, 0x110000, 0x10000) for last in (0xFFFE, 0xFFFF)
)
_NO_TEXT: Final = f"\\u0000-\\u001f\\u007f-\\u009f\\ufdd0-\\ufdef\\ufffe\\uffff{_BEYOND_PLANES}"

TEXT: Final = f"^[^{_NO_TEXT}]*$"
"""Text that brokers accept: no control characters, no non-characters."""

TOPIC: Final = f"^[^{_NO_TEXT}+#]+$"
"""A topic to publish to: no wildcards."""

QOS_MAX: Final = 2
"""Highest quality of service: exactly once, between the broker and us."""

EXPIRY_S_MAX: Final = 0xFFFF_FFFF
"""Longest ``expiry``, seconds: the limit of the property's four bytes."""

OWN_PROPERTIES: Final = (
    "specversion",
    "id",
    "source",
    "type",
    "datacontenttype",
    "dataschema",
    "subject",
    "time",
)
"""User properties that a delivery writes itself: the attributes of CloudEvents 1.0."""

_TEXT: Final[Schema] = {
    "pattern": TEXT,
    "x-expected": "a text of MQTT has no control characters and no non-characters",
}

SETTINGS_3: Final[dict[str, Schema]] = {
    "topicname": {
        "type": "string",
        "minLength": 1,
        "maxLength": TOPIC_BYTES_MAX,
        "pattern": TOPIC,
        "not": {
            "pattern": "^\\$SYS(?:/|$)",
            "x-expected": "the topics under $SYS are the broker's own",
        },
        "description": "The topic to publish to, without wildcards.",
        "x-utf8": True,
        "x-expected": (
            "a message is published to one topic: no wildcards (+ and #), control characters or"
            " non-characters in its name"
        ),
    },
    "qos": {
        "type": "integer",
        "minimum": 0,
        "maximum": QOS_MAX,
        "default": 1,
        "description": (
            "0: at most once, without acknowledgement, so that events can be lost; 1: at least"
            " once; 2: exactly once between this server and the broker."
        ),
    },
    "retain": {
        "type": "boolean",
        "default": False,
        "description": "The broker keeps the last message for later subscribers.",
    },
}

SETTINGS_5: Final[dict[str, Schema]] = {
    **SETTINGS_3,
    "expiry": {
        "type": "integer",
        "minimum": 0,
        "maximum": EXPIRY_S_MAX,
        "description": "Seconds after which the broker may drop a message; absent: never.",
    },
    "userproperties": bounded_map(
        "User properties. Where an event has an attribute of the same name, that one is sent.",
        names={
            **_TEXT,
            "minLength": 1,
            "not": {
                "enum": list(OWN_PROPERTIES),
                "x-expected": "this property is an attribute of the event: the delivery writes it",
            },
            "x-codes": {"not": "reserved"},
        },
        values={**_TEXT, "type": "string"},
    ),
}
"""Setting -> its schema, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class MqttSettings(BrokerSettings):
    """Protocol settings of MQTT 3.1.1 and MQTT 5.

    Attributes:
        topicname: Topic to publish to; no wildcards.
        qos: 0, 1 or 2. 0 has no acknowledgement and gives up at-least-once (decision 28,
            delivered means acknowledged).
        retain: Whether the broker keeps the message as the last of its topic.
        expiry: Seconds after which the broker may drop the message; MQTT 5 only. None: never.
        userproperties: Sent as user properties beside the event's own; MQTT 5 only. May hold
            secrets, so they are left out of the ``repr``.
    """

    topicname: str
    qos: int = 1
    retain: bool = False
    expiry: int | None = None
    userproperties: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def place(self) -> str:
        """The topic, which identifies a sink at the broker."""
        return self.topicname


def restore(realized: Mapping[str, Any]) -> MqttSettings:
    """See ``core.protocol.Protocol``."""
    return MqttSettings(
        topicname=realized["topicname"],
        qos=realized["qos"],
        retain=realized["retain"],
        expiry=realized.get("expiry"),
        userproperties=tuple(realized.get("userproperties", {}).items()),
    )
