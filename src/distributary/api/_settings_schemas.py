"""JSON schemas of the ``protocolsettings`` that each delivery protocol has alone.

Drawn from the limits that are checked. What has no default and is not required may be absent from
a realized object too.
"""

from typing import Final

from distributary.api import _patterns
from distributary.api._schema_parts import Schema
from distributary.event import NAME_CHARS_MAX, RESERVED_NAMES
from distributary.resource import (
    AMQP_ADDRESS_BYTES_MAX,
    KAFKA_TOPIC_CHARS_MAX,
    MQTT_TOPIC_BYTES_MAX,
    NATS_RESERVED,
    NATS_SUBJECT_BYTES_MAX,
)
from distributary.resource import api_subscription as subscription

_RESERVED_SUBJECTS: Final = "|".join(NATS_RESERVED).replace("$", r"\$")

_SHOWN: Final = (
    "They are shown to whoever can read the subscription, but for"
    " [secret ones](../how-to/sink-credentials.md#headers-and-properties)."
)

_HEADERS_SCHEMA: Final[Schema] = {
    "type": "object",
    "propertyNames": {
        "pattern": _patterns.HTTP_NAME,
        "not": {"pattern": _patterns.any_case_of(subscription.OWN_HEADERS, or_beginning="ce-")},
    },
    "additionalProperties": {"type": "string", "pattern": _patterns.FIELD_VALUE},
    "maxProperties": subscription.ENTRIES_MAX,
    "default": {},
    "description": (
        f"Custom header fields, at most {subscription.ENTRIES_BYTES_MAX} bytes together. {_SHOWN}"
    ),
}


_MQTT_3: Final[dict[str, Schema]] = {
    "topicname": {
        "type": "string",
        "minLength": 1,
        "maxLength": MQTT_TOPIC_BYTES_MAX,
        "pattern": _patterns.MQTT_TOPIC,
        "not": {"pattern": "^\\$SYS(?:/|$)"},
        "description": "The topic to publish to, without wildcards.",
    },
    "qos": {
        "type": "integer",
        "minimum": 0,
        "maximum": subscription.QOS_MAX,
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

_MQTT_5: Final[dict[str, Schema]] = {
    **_MQTT_3,
    "expiry": {
        "type": "integer",
        "minimum": 0,
        "maximum": subscription.EXPIRY_S_MAX,
        "description": "Seconds after which the broker may drop a message; absent: never.",
    },
    "userproperties": {
        "type": "object",
        "propertyNames": {
            "minLength": 1,
            "pattern": _patterns.MQTT_TEXT,
            "not": {"enum": list(subscription.OWN_PROPERTIES)},
        },
        "additionalProperties": {"type": "string", "pattern": _patterns.MQTT_TEXT},
        "maxProperties": subscription.ENTRIES_MAX,
        "default": {},
        "description": (
            f"User properties, at most {subscription.ENTRIES_BYTES_MAX} bytes together. Where an"
            f" event has an attribute of the same name, that one is sent. {_SHOWN}"
        ),
    },
}

_AMQP: Final[dict[str, Schema]] = {
    "address": {
        "type": "string",
        "minLength": 1,
        "maxLength": AMQP_ADDRESS_BYTES_MAX,
        "pattern": _patterns.PLAIN_TEXT,
        "description": (
            "The target node. Required where the path of the sink does not name it; where both"
            " do, they are the same."
        ),
    },
    "linkname": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.LINK_NAME_BYTES_MAX,
        "pattern": _patterns.PLAIN_TEXT,
        "description": "Name of the link; absent: a random one.",
    },
    "sendersettlementmode": {
        "enum": list(subscription.SETTLEMENT_MODES),
        "default": "unsettled",
        "description": "settled: without acknowledgement, so that events can be lost.",
    },
    "linkproperties": {
        "type": "object",
        "propertyNames": {"pattern": f"^{subscription.PROPERTY_NAME}$"},
        "additionalProperties": {"type": ["string", "number", "boolean"]},
        "maxProperties": subscription.ENTRIES_MAX,
        "default": {},
        "description": (
            f"Properties of the link, at most {subscription.ENTRIES_BYTES_MAX} bytes together."
            f" {_SHOWN}"
        ),
    },
}

_KAFKA: Final[dict[str, Schema]] = {
    "topicname": {
        "type": "string",
        "minLength": 1,
        "maxLength": KAFKA_TOPIC_CHARS_MAX,
        "pattern": _patterns.KAFKA_TOPIC,
        "description": (
            "The topic. Required where the path of the sink does not name it; where both do,"
            " they are the same."
        ),
    },
    "partitionkeyextractor": {
        "type": "string",
        "pattern": _patterns.ATTRIBUTE_NAME,
        "maxLength": NAME_CHARS_MAX,
        "not": {"enum": sorted(RESERVED_NAMES)},
        "description": (
            "The CloudEvents attribute whose value is the key of a record (such as partitionkey);"
            " absent: records have no key."
        ),
    },
    "clientid": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.CLIENT_ID_CHARS_MAX,
        "pattern": f"^{subscription.CLIENT_ID}$",
        "default": "distributary",
        "description": "Name of this client at the cluster.",
    },
    "acks": {
        "enum": list(subscription.ACKS),
        "default": "all",
        "description": (
            "Who has a record before it counts as delivered: all replicas in sync (-1: the same),"
            " the leader (1), or nobody (0: without acknowledgement, so that events can be lost)."
        ),
    },
}

_NATS: Final[dict[str, Schema]] = {
    "subject": {
        "type": "string",
        "minLength": 1,
        "maxLength": NATS_SUBJECT_BYTES_MAX,
        "pattern": _patterns.NATS_SUBJECT,
        "not": {"pattern": f"^(?:{_RESERVED_SUBJECTS})(?:\\.|$)"},
        "description": "The subject to publish to, without wildcards.",
    },
    "jetstream": {
        "type": "boolean",
        "description": (
            "true: only a stream's acknowledgement counts; false: core publish, without"
            " acknowledgement, so that events can be lost; absent: by JetStream where a stream"
            " holds the subject, by core publish where none does."
        ),
    },
}

OWN_SETTINGS: Final[dict[str, dict[str, Schema]]] = {
    "HTTP": {
        "headers": _HEADERS_SCHEMA,
        "method": {"enum": list(subscription.HTTP_METHODS), "default": "POST"},
    },
    "MQTT3": _MQTT_3,
    "MQTT5": _MQTT_5,
    "AMQP": _AMQP,
    "KAFKA": _KAFKA,
    "NATS": _NATS,
}
"""Delivery protocol -> setting -> the schema of its value, with the default where there is one."""

REQUIRED_SETTINGS: Final[dict[str, tuple[str, ...]]] = {
    "MQTT3": ("topicname",),
    "MQTT5": ("topicname",),
    "NATS": ("subject",),
}
"""Delivery protocol -> settings that it cannot do without."""

PLACED_SETTINGS: Final[dict[str, str]] = {"AMQP": "address", "KAFKA": "topicname"}
"""Delivery protocol -> the setting that the path of a sink can stand for; realized objects have it
in any case."""
