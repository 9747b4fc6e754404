"""JSON schemas of how a subscription's events are made and sent.

Config, sink, settings, credentials. Proposals take what a client may write, realized objects what
is answered.
"""

from typing import Any, Final

from distributary.api import _patterns
from distributary.api._schema_parts import Schema, closed, ref
from distributary.resource import SECRET_MEMBERS, URI_CHARS_MAX, CredentialType
from distributary.resource import api_subscription as subscription

_DURATION_CHARS_MAX: Final = 64
"""That of ``policy.parse_duration_s``."""

SINK_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": _patterns.HTTP_URI,
    "maxLength": URI_CHARS_MAX,
    "description": "Absolute http or https URI, without user information and fragment.",
}


def _with_patterns(schema: Any) -> Any:
    """*schema* with a pattern for each ``format: date-time``, which not all validators know.

    Those that do disagree about leap seconds, which the code takes.
    """
    if isinstance(schema, list):
        return [_with_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_patterns(value) for name, value in schema.items()}
    if found.get("format") == "date-time":
        del found["format"]
        found["pattern"] = _patterns.TIME
    return found


CONFIG_SCHEMA: Final[Schema] = closed(_with_patterns(subscription.CONFIG_KEYS)) | {
    "dependentRequired": {"data": ["interval"], "type": ["interval"]},
    "description": "How events come to be for this subscription, and when it ends by itself.",
}


def _duration(default: str, text: str) -> Schema:
    return {
        "type": "string",
        "pattern": _patterns.DURATION,
        "maxLength": _DURATION_CHARS_MAX,
        "default": default,
        "description": f"{text} ISO 8601 duration.",
    }


_DELIVERY_PROPERTIES: Final[Schema] = {
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
}

_RATE_SCHEMA: Final[Schema] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": subscription.RATE_PER_S_MAX,
    "description": "Most deliveries a second; absent: no limit.",
}

_HEADERS_SCHEMA: Final[Schema] = {
    "type": "object",
    "propertyNames": {
        "pattern": _patterns.HTTP_NAME,
        "not": {"pattern": _patterns.any_case_of(subscription.OWN_HEADERS, or_beginning="ce-")},
    },
    "additionalProperties": {"type": "string", "pattern": _patterns.FIELD_VALUE},
    "maxProperties": subscription.HEADERS_MAX,
    "default": {},
    "description": (
        f"Custom header fields, at most {subscription.HEADERS_BYTES_MAX} bytes together."
        " They are shown to whoever can read the subscription."
    ),
}


def _format_schema(*, realized: bool) -> Schema:
    return {
        "enum": ["binary", "structured"] if realized else ["binary", "structured", "json"],
        "default": "binary",
        "description": "Content mode of the CloudEvents HTTP binding (json: structured).",
    }


def http_settings_schema(
    *, realized: bool, sink: Schema = SINK_SCHEMA, dead_letter_allowed: bool = True
) -> Schema:
    """``protocolsettings`` of HTTP.

    Args:
        realized: As it is answered, with every default; else as a client writes it.
        sink: What stands where a sink may: its schema, or a reference to it.
        dead_letter_allowed: False inside a dead letter sink, which has none of its own.
    """
    delivery = {**_DELIVERY_PROPERTIES, "rateLimit": _RATE_SCHEMA}
    if dead_letter_allowed:
        delivery["deadLetterSink"] = _dead_letter_sink(realized=realized, sink=sink)
    if not realized:  # Knative's DeliverySpec has it here
        delivery["format"] = _format_schema(realized=False)
    properties = {
        "headers": _HEADERS_SCHEMA,
        "method": {"enum": list(subscription.HTTP_METHODS), "default": "POST"},
        "format": _format_schema(realized=realized),
        "delivery": closed(delivery, required=_DELIVERY_PROPERTIES if realized else ())
        | {"description": "How often an event is sent, and how long is waited between."},
    }
    return closed(properties, required=properties if realized else ())


def _dead_letter_sink(*, realized: bool, sink: Schema) -> Schema:
    properties = {
        "sink": sink,
        "protocol": {"enum": list(subscription.PROTOCOLS_SUPPORTED)},
        "protocolsettings": http_settings_schema(realized=realized, dead_letter_allowed=False),
    }
    return {
        "description": (
            "Where an event goes that could not be delivered: a URI (same protocol and settings)"
            " or a sink with its own. It gets no credential. Absent: the server keeps it."
        ),
        "anyOf": [sink, closed(properties, required=properties if realized else ("sink",))],
    }


_TOKEN_SCHEMA: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": subscription.TOKEN_CHARS_MAX,
    "pattern": "^[!-~](?:[ -~]*[!-~])?$",
}

_CREDENTIAL_PROPERTIES: Final[dict[str, Schema]] = {
    "identifier": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.IDENTIFIER_BYTES_MAX,
        "pattern": "^[^:\\u0000-\\u001f\\u007f-\\u009f]+$",
        "description": "Account name.",
    },
    "secret": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.SECRET_BYTES_MAX,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
        "description": "Password.",
    },
    "accessToken": _TOKEN_SCHEMA,
    "accessTokenType": {
        "type": "string",
        "minLength": 1,
        "maxLength": subscription.TOKEN_TYPE_CHARS_MAX,
        "pattern": _patterns.HTTP_NAME,
        "examples": ["Bearer"],
    },
    "accessTokenExpiresUtc": {
        "type": "string",
        "pattern": _patterns.TIME,
        "description": "From then on no request leaves with the token (RFC 3339).",
    },
    "refreshToken": _TOKEN_SCHEMA,
    "refreshTokenEndpoint": ref("Sink") | {"description": "Trades it; https, or on this machine."},
}


def proposed_credential_schema(*, kept: bool) -> Schema:
    """``sinkCredential`` as a client writes it, in either spelling of each member.

    Args:
        kept: All secrets may be left out where they are stored already (decision 10).
    """
    kinds = [_proposed(type_, bare=False) for type_ in subscription.CREDENTIAL_SHAPE]
    if kept:
        kinds += [_proposed(type_, bare=True) for type_ in subscription.CREDENTIAL_SHAPE]
    return {
        "description": "Authorizes deliveries at the subscription's own sink.",
        "anyOf": kinds,
    }


def _proposed(type_: CredentialType, *, bare: bool) -> Schema:
    """A credential of this type; *bare*: without its secrets, which are stored."""
    properties: dict[str, Schema] = {"credentialType": {"const": type_}}
    required = ["credentialType"]
    for name, is_required in subscription.CREDENTIAL_SHAPE[type_].items():
        secret = name in SECRET_MEMBERS[type_]
        if secret and bare:
            continue
        properties[name] = _CREDENTIAL_PROPERTIES[name] | ({"writeOnly": True} if secret else {})
        if is_required and (not bare or name == "identifier"):
            required.append(name)
    spelled = {
        spelling: schema
        for name, schema in properties.items()
        for spelling in dict.fromkeys((name, name.lower()))
    }
    twice = [name for name in properties if name != name.lower()]
    schema = closed(spelled, required=[name for name in required if name not in twice])
    schema["allOf"] = [
        {"oneOf": [{"required": [name]}, {"required": [name.lower()]}]}
        if name in required
        else {"not": {"required": [name, name.lower()]}}
        for name in twice
    ]
    return schema


def shown_credential_schema() -> Schema:
    """``sinkCredential`` as it is answered: no secrets, in the names of the reference."""
    shown = {
        name: _CREDENTIAL_PROPERTIES[name]
        for type_, shape in subscription.CREDENTIAL_SHAPE.items()
        for name in shape
        if name not in SECRET_MEMBERS[type_]
    }
    kinds: Schema = {"enum": list(subscription.CREDENTIAL_SHAPE)}
    return closed({"credentialType": kinds} | shown, required=("credentialType",)) | {
        "description": "What may be shown of the credential; its secrets never are."
    }
