"""JSON schemas of what the API takes and gives, drawn from the limits that are checked."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.api import _patterns
from distributary.api._credential_schemas import (
    proposed_credential_schema,
    shown_credential_schema,
)
from distributary.api._filter_schemas import FILTER_SCHEMAS
from distributary.api._schema_parts import Schema, closed, ref
from distributary.api._settings_schemas import REQUIRED_SETTINGS
from distributary.api._sink_schemas import CONFIG_SCHEMA, SINK_SCHEMAS, prefix_of
from distributary.errors import CATALOGUE
from distributary.resource import URI_CHARS_MAX
from distributary.resource import api_subscription as subscription

BEYOND_SCHEMAS: Final[Mapping[str, str]] = {
    "blocked-address": "an address that the operator does not allow",
    "character": "a type or source that an event cannot have, where a timer makes events of it",
    "conflict": "members that contradict one another",
    "duplicate": "header names that differ in their case alone",
    "duration": "a duration of more than ten years",
    "immutable": "an id in the body of an update that is not the path's",
    "missing": (
        "a secret that is left out although none is stored; an address or topic that neither the"
        " settings nor the path of the sink names"
    ),
    "nested": "a dead letter sink of a dead letter sink",
    "not-applicable": "certificates for a sink whose scheme has no TLS",
    "not-boolean": "a CloudEvents SQL expression that is never true or false",
    "syntax": "a text that is no CloudEvents SQL",
    "time": "a day that the month does not have",
    "too-deep": "filters that nest too deep",
    "text": "a path that is no UTF-8",
    "too-long": "a map of settings that is too long together; a text counted in bytes",
    "too-many": "filter expressions that are too many together",
    "type": "a whole number that is written with a fraction (10.0)",
    "unicode": "a text that is no Unicode",
    "unsupported": "a delivery protocol that this server was installed without",
    "unknown-function": "a CloudEvents SQL function that this server does not have",
    "uri": "a URI with more than its pattern shows: a long host name, http where https is needed",
    "value": (
        "a wait that is too long or shorter than another, a time that has passed, certificates"
        " that are none, a path that names no place, an identifier with a colon for HTTP"
    ),
}
"""Code of a fault -> what it means for a body that satisfies the schema all the same: what only
the server can tell. A test holds every other fault against the schemas."""

_SOURCE_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": _patterns.REFERENCE,
    "minLength": 1,
    "maxLength": URI_CHARS_MAX,
    "description": "Exact match on the event's source.",
}

_TYPES_SCHEMA: Final[Schema] = {
    "type": "array",
    "items": {"type": "string", "minLength": 1, "maxLength": subscription.TYPE_CHARS_MAX},
    "minItems": 1,
    "maxItems": subscription.TYPES_MAX,
    "description": "The event's type is one of these.",
}

_FILTERS_SCHEMA: Final[Schema] = {
    "type": "array",
    "items": ref("Filter"),
    "default": [],
    "description": "All of them must hold; none: every event passes.",
}


def _proposal(protocol: str, *, kept: bool) -> Schema:
    """A subscription with this protocol, as a client writes it.

    Args:
        protocol: The delivery protocol.
        kept: Its credential may leave out what is stored already: an update's.
    """
    prefix = prefix_of(protocol)
    required = ["sink", "protocol"]
    if protocol in REQUIRED_SETTINGS:
        required.append("protocolsettings")
    schema = closed(
        {
            "id": {"description": "Ignored on create; on update absent or as in the path."},
            "source": _SOURCE_SCHEMA,
            "types": _TYPES_SCHEMA,
            "config": ref("Config"),
            "filters": _FILTERS_SCHEMA,
            "filter": ref("EarlierFilter"),
            "sink": ref(f"{prefix}Sink"),
            **dict.fromkeys(
                subscription.CREDENTIAL_MEMBERS,
                ref("KeptSinkCredential" if kept else "SinkCredential"),
            ),
            "protocol": _protocol_schema(protocol),
            "protocolsettings": ref(f"{prefix}Settings"),
        },
        required=required,
    )
    schema["allOf"] = [
        {"not": {"required": ["filter", "filters"]}},
        {"not": {"required": list(subscription.CREDENTIAL_MEMBERS)}},
    ]
    return schema


def _realized(protocol: str) -> Schema:
    prefix = prefix_of(protocol)
    return closed(
        {
            "id": {
                "type": "string",
                "pattern": "^[A-Za-z0-9._-]{1,128}$",
                "readOnly": True,
                "description": "Given by the server, or the client's own (PUT). Never changes.",
            },
            "source": _SOURCE_SCHEMA,
            "types": _TYPES_SCHEMA,
            "config": ref("Config"),
            "filters": _FILTERS_SCHEMA,
            "sink": ref(f"{prefix}Sink"),
            subscription.CREDENTIAL_MEMBERS[0]: ref("ShownSinkCredential"),
            "protocol": _protocol_schema(protocol),
            "protocolsettings": ref(f"Realized{prefix}Settings"),
        },
        required=("id", "filters", "sink", "protocol", "protocolsettings"),
    )


def _protocol_schema(protocol: str) -> Schema:
    return {"const": protocol, "description": "The protocol of deliveries; its case counts."}


def _of_each(name: str, **more: Any) -> Schema:
    """What differs with the protocol: one of the schemas ``<Prefix><name>``."""
    names = {each: f"{prefix_of(each)}{name}" for each in subscription.PROTOCOLS}
    mapping = {each: ref(name)["$ref"] for each, name in names.items()}
    return {
        "type": "object",
        "anyOf": [ref(each) for each in names.values()],
        "discriminator": {"propertyName": "protocol", "mapping": mapping},
        **more,
    }


_EXAMPLES: Final = [
    {
        "sink": "https://example.com/event-processor",
        "protocol": "HTTP",
        "filters": [{"prefix": {"type": "com.example."}}],
    },
    {
        "sink": "mqtts://broker.example.com",
        "protocol": "MQTT5",
        "protocolsettings": {"topicname": "events/orders"},
    },
    {"sink": "kafka://k1.example.com,k2.example.com/orders", "protocol": "KAFKA"},
]

_PROBLEM_SCHEMA: Final = closed(
    {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"enum": sorted(CATALOGUE), "description": "Stable; for programs."},
        "detail": {"type": "string"},
        "faults": {
            "type": "array",
            "description": "Everything that is wrong, each thing with its place.",
            "items": closed(
                {
                    "path": {"type": "string", "description": "JSON path, header or parameter."},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                },
                required=("path", "code", "message"),
            ),
        },
    },
    required=("type", "title", "status", "code", "detail", "faults"),
) | {"description": "RFC 9457 problem details."}

SCHEMAS: Final[dict[str, Schema]] = {
    **FILTER_SCHEMAS,
    **SINK_SCHEMAS,
    "Config": CONFIG_SCHEMA,
    "SinkCredential": proposed_credential_schema(kept=False),
    "KeptSinkCredential": proposed_credential_schema(kept=True),
    "ShownSinkCredential": shown_credential_schema(),
    **{
        f"{prefix_of(each)}{name}": schema
        for each in subscription.PROTOCOLS
        for name, schema in (
            ("SubscriptionProposal", _proposal(each, kept=False)),
            ("SubscriptionReplacement", _proposal(each, kept=True)),
            ("Subscription", _realized(each)),
        )
    },
    "SubscriptionProposal": _of_each("SubscriptionProposal", examples=_EXAMPLES),
    "SubscriptionReplacement": _of_each("SubscriptionReplacement", examples=_EXAMPLES),
    "Subscription": _of_each("Subscription"),
    "Problem": _PROBLEM_SCHEMA,
}
"""``components/schemas`` of the API description, those of subscriptions and problems."""


def standalone(name: str, schemas: Mapping[str, Any] = SCHEMAS) -> Schema:
    """The schema *name* as a JSON schema by itself (draft 2020-12), for validators."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": f"#/components/schemas/{name}",
        "components": {"schemas": dict(schemas)},
    }
