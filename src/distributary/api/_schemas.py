"""JSON schemas of what the API takes and gives, drawn from the limits that are checked."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.api import _patterns
from distributary.api._filter_schemas import FILTER_SCHEMAS
from distributary.api._schema_parts import Schema, closed, ref
from distributary.api._sink_schemas import (
    CONFIG_SCHEMA,
    SINK_SCHEMA,
    http_settings_schema,
    proposed_credential_schema,
    shown_credential_schema,
)
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
    "missing": "a secret that is left out although none is stored",
    "nested": "a dead letter sink of a dead letter sink",
    "not-boolean": "a CloudEvents SQL expression that is never true or false",
    "syntax": "a text that is no CloudEvents SQL",
    "time": "a day that the month does not have",
    "too-deep": "filters that nest too deep",
    "too-long": "header fields that are too long together; secrets counted in bytes",
    "too-many": "filter expressions that are too many together",
    "type": "a whole number that is written with a fraction (10.0)",
    "unicode": "a text that is no Unicode",
    "unknown-function": "a CloudEvents SQL function that this server does not have",
    "uri": "a URI with more than its pattern shows: a long host name, http where https is needed",
    "value": "a wait that is too long or shorter than another, a time that has passed",
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

_PROTOCOL_SCHEMA: Final[Schema] = {
    "enum": list(subscription.PROTOCOLS_SUPPORTED),
    "description": "The protocol of deliveries; its case counts.",
}


def _proposal(*, kept: bool) -> Schema:
    """A subscription as a client writes it.

    Args:
        kept: Its credential may leave out what is stored already: an update's.
    """
    credential = ref("KeptSinkCredential" if kept else "SinkCredential")
    schema = closed(
        {
            "id": {"description": "Ignored on create; on update absent or as in the path."},
            "source": _SOURCE_SCHEMA,
            "types": _TYPES_SCHEMA,
            "config": ref("Config"),
            "filters": _FILTERS_SCHEMA,
            "filter": ref("EarlierFilter"),
            "sink": ref("Sink"),
            **dict.fromkeys(subscription.CREDENTIAL_MEMBERS, credential),
            "protocol": _PROTOCOL_SCHEMA,
            "protocolsettings": ref("HttpSettings"),
        },
        required=("sink", "protocol"),
    )
    schema["allOf"] = [
        {"not": {"required": ["filter", "filters"]}},
        {"not": {"required": list(subscription.CREDENTIAL_MEMBERS)}},
    ]
    schema["examples"] = [
        {
            "sink": "https://example.com/event-processor",
            "protocol": "HTTP",
            "filters": [{"prefix": {"type": "com.example."}}],
        }
    ]
    return schema


_REALIZED_SCHEMA: Final = closed(
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
        "sink": ref("Sink"),
        subscription.CREDENTIAL_MEMBERS[0]: shown_credential_schema(),
        "protocol": _PROTOCOL_SCHEMA,
        "protocolsettings": ref("RealizedHttpSettings"),
    },
    required=("id", "filters", "sink", "protocol", "protocolsettings"),
)

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
    "Sink": SINK_SCHEMA,
    "Config": CONFIG_SCHEMA,
    "HttpSettings": http_settings_schema(realized=False, sink=ref("Sink")),
    "RealizedHttpSettings": http_settings_schema(realized=True, sink=ref("Sink")),
    "SinkCredential": proposed_credential_schema(kept=False),
    "KeptSinkCredential": proposed_credential_schema(kept=True),
    "SubscriptionProposal": _proposal(kept=False),
    "SubscriptionReplacement": _proposal(kept=True),
    "Subscription": _REALIZED_SCHEMA,
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
