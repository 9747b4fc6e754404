"""JSON schemas of what the API takes and gives, drawn from the limits that are checked."""

from typing import Any, Final

from distributary.errors import CATALOGUE
from distributary.resource import URI_CHARS_MAX
from distributary.resource import api_subscription as subscription

Schema = dict[str, Any]


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _duration(default: str, text: str) -> Schema:
    return {"type": "string", "default": default, "description": f"{text} ISO 8601 duration."}


SINK_SCHEMA: Final[Schema] = {
    "type": "string",
    "format": "uri",
    "maxLength": URI_CHARS_MAX,
    "description": "Absolute http or https URI, without user information and fragment.",
}

DELIVERY_SCHEMA: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "description": "How often an event is sent, and how long is waited between.",
    "properties": {
        "retry": {
            "type": "integer",
            "minimum": 0,
            "maximum": subscription.RETRY_MAX,
            "default": 10,
            "description": "Retries after the first attempt.",
        },
        "backoffPolicy": {
            "enum": list(subscription.BACKOFF_POLICIES),
            "default": "exponential",
            "description": "Waits stay the same, or double.",
        },
        "backoffDelay": _duration("PT0.2S", "The first wait."),
        "backoffMax": _duration("PT5M", "Ceiling of a wait."),
        "timeout": _duration("PT30S", "Deadline of one attempt."),
        "rateLimit": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": subscription.RATE_PER_S_MAX,
            "description": "Most deliveries a second; absent: no limit.",
        },
        "deadLetterSink": {
            "description": (
                "Where an event goes that could not be delivered: a URI (same protocol and"
                " settings) or a sink with its own. Absent: it is kept by the server."
            ),
            "anyOf": [
                SINK_SCHEMA,
                {
                    "type": "object",
                    "required": ["sink"],
                    "properties": {
                        "sink": SINK_SCHEMA,
                        "protocol": {"enum": list(subscription.PROTOCOLS_SUPPORTED)},
                        "protocolsettings": {"type": "object"},
                    },
                },
            ],
        },
    },
}

HTTP_SETTINGS_SCHEMA: Final[Schema] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "maxProperties": subscription.HEADERS_MAX,
            "default": {},
            "description": (
                f"Custom header fields, at most {subscription.HEADERS_BYTES_MAX} bytes together."
                " They are shown to whoever can read the subscription."
            ),
        },
        "method": {"enum": list(subscription.HTTP_METHODS), "default": "POST"},
        "format": {
            "enum": ["binary", "structured"],
            "default": "binary",
            "description": "Content mode of the CloudEvents HTTP binding (json: structured).",
        },
        "delivery": DELIVERY_SCHEMA,
    },
}

_FILTER_SCHEMA: Final[Schema] = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 1,
    "description": "One dialect and what it says: exact, prefix, suffix, all, any, not.",
    "examples": [{"prefix": {"type": "com.example."}}],
}

_PROPOSAL_MEMBERS: Final[Schema] = {
    "source": {"type": "string", "description": "Exact match on the event's source."},
    "types": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": subscription.TYPE_CHARS_MAX},
        "minItems": 1,
        "maxItems": subscription.TYPES_MAX,
        "description": "The event's type is one of these.",
    },
    "config": {"type": "object", "maxProperties": len(subscription.CONFIG_KEYS)},
    "filters": {
        "type": "array",
        "items": _ref("Filter"),
        "default": [],
        "description": "All of them must hold; none: every event passes.",
    },
    "sink": SINK_SCHEMA,
    "protocol": {"enum": list(subscription.PROTOCOLS_SUPPORTED)},
    "protocolsettings": _ref("HttpSettings"),
}

_FAULT_SCHEMA: Final[Schema] = {
    "type": "object",
    "required": ["path", "code", "message"],
    "properties": {
        "path": {"type": "string", "description": "JSON path, header or parameter."},
        "code": {"type": "string"},
        "message": {"type": "string"},
    },
}

SCHEMAS: Final[dict[str, Schema]] = {
    "Filter": _FILTER_SCHEMA,
    "HttpSettings": HTTP_SETTINGS_SCHEMA,
    "SubscriptionProposal": {
        "type": "object",
        "required": ["sink", "protocol"],
        "properties": {
            "id": {"description": "Ignored on create; on update absent or as in the path."},
            **_PROPOSAL_MEMBERS,
            "filter": {
                "type": "object",
                "deprecated": True,
                "description": "One filter, as earlier revisions of the specification wrote it.",
            },
        },
        "additionalProperties": False,
        "examples": [
            {
                "sink": "https://example.com/event-processor",
                "protocol": "HTTP",
                "filters": [{"prefix": {"type": "com.example."}}],
            }
        ],
    },
    "Subscription": {
        "type": "object",
        "required": ["id", "filters", "sink", "protocol", "protocolsettings"],
        "properties": {"id": {"type": "string"}, **_PROPOSAL_MEMBERS},
    },
    "Problem": {
        "type": "object",
        "description": "RFC 9457 problem details.",
        "required": ["type", "title", "status", "code", "detail", "faults"],
        "properties": {
            "type": {"type": "string", "format": "uri-reference"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "code": {"enum": sorted(CATALOGUE)},
            "detail": {"type": "string"},
            "faults": {"type": "array", "items": _FAULT_SCHEMA},
        },
    },
}
"""``components/schemas`` of the API description."""
