"""JSON schemas of how a subscription's events are made and sent.

Config, sinks, settings and dead letter sinks. Proposals take what a client may write, realized
objects what is answered.
"""

from typing import Any, Final

from distributary.api import _patterns
from distributary.api._schema_parts import Schema, closed, ref
from distributary.api._settings_schemas import OWN_SETTINGS, PLACED_SETTINGS, REQUIRED_SETTINGS
from distributary.resource import SINK_PORTS, URI_CHARS_MAX
from distributary.resource import api_subscription as subscription

_DURATION_CHARS_MAX: Final = 64
"""That of ``policy.parse_duration_s``."""


def prefix_of(protocol: str) -> str:
    """What the names of a protocol's schemas begin with."""
    return protocol.capitalize()


def sink_schema(protocol: str) -> Schema:
    """``sink`` of a subscription with this protocol."""
    schemes = ", ".join(SINK_PORTS[protocol])
    several = " Several hosts, separated by commas." if protocol == "KAFKA" else ""
    return {
        "type": "string",
        "pattern": _patterns.sink_uri(protocol),
        "maxLength": URI_CHARS_MAX,
        "description": (
            f"Absolute URI with one of the schemes {schemes}, without user information and"
            f" fragment.{several}"
        ),
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


def _duration(default: str, text: str, seconds_max: float) -> Schema:
    return {
        "type": ["string", "number"],
        "pattern": _patterns.DURATION,
        "maxLength": _DURATION_CHARS_MAX,
        "minimum": 0,
        "maximum": seconds_max,
        "default": default,
        "description": f"{text} A duration such as PT30S, 30s or 30; answered as ISO 8601.",
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
    "backoffDelay": _duration("PT0.2S", "The first wait.", subscription.BACKOFF_S_MAX),
    "backoffMax": _duration("PT5M", "Ceiling of a wait.", subscription.BACKOFF_S_MAX),
    "timeout": _duration("PT30S", "Deadline of one attempt.", subscription.TIMEOUT_S_MAX),
}

_RATE_SCHEMA: Final[Schema] = {
    "type": "number",
    "exclusiveMinimum": 0,
    "maximum": subscription.RATE_PER_S_MAX,
    "description": "Most deliveries a second; absent: no limit.",
}

_CERTIFICATES_SCHEMA: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": subscription.CA_CERTS_CHARS_MAX,
    "pattern": "-----BEGIN CERTIFICATE-----",
    "description": "PEM of certificates that the sink is trusted by, besides the system's.",
}


def _format_schema(protocol: str, *, realized: bool) -> Schema:
    formats: list[str] = list(subscription.PROTOCOL_SETTINGS[protocol].formats)
    return {
        "enum": formats if realized else [*formats, "json"],
        "default": formats[0],
        "description": "Content mode of the CloudEvents binding (json: structured).",
    }


def settings_schema(protocol: str, *, realized: bool, dead_letter: Schema | None) -> Schema:
    """``protocolsettings`` of this protocol.

    Args:
        protocol: The delivery protocol.
        realized: As it is answered, with every default; else as a client writes it.
        dead_letter: What ``deadLetterSink`` may be; None inside a dead letter sink, which has none
            of its own.
    """
    delivery = {**_DELIVERY_PROPERTIES, "rateLimit": _RATE_SCHEMA}
    if dead_letter is not None:
        delivery["deadLetterSink"] = dead_letter
    if not realized:  # Knative's DeliverySpec has it here
        delivery["format"] = _format_schema(protocol, realized=False)
    own = OWN_SETTINGS[protocol]
    properties = {
        **own,
        "format": _format_schema(protocol, realized=realized),
        "cacerts": _CERTIFICATES_SCHEMA,
        "delivery": closed(delivery, required=_DELIVERY_PROPERTIES if realized else ())
        | {"description": "How often an event is sent, and how long is waited between."},
    }
    required = [*REQUIRED_SETTINGS.get(protocol, ())]
    if realized:
        required += [PLACED_SETTINGS[protocol]] if protocol in PLACED_SETTINGS else []
        required += [name for name, schema in own.items() if "default" in schema]
        required += ["format", "delivery"]
    return closed(properties, required=required)


SHORT_DEAD_LETTER: Final[Schema] = {
    "type": ["string", "object"],
    "description": (
        "Where an event goes that could not be delivered: a URI (same protocol and settings), or"
        " an object with sink, protocol and protocolsettings; see /openapi.json."
    ),
}
"""Dead letter sinks where their schema would be longer than all the others."""


def _dead_letter_sink(protocol: str, *, realized: bool) -> Schema:
    """A dead letter sink in a subscription with this protocol."""
    own = _dead_letter_object(protocol, realized=realized)
    if not realized:
        own["required"].remove("protocol")  # that of the subscription
    others = [each for each in subscription.PROTOCOLS if each != protocol]
    return {
        "description": (
            "Where an event goes that could not be delivered: a URI (same protocol and settings)"
            " or a sink with its own. It gets no credential. Absent: the server keeps it."
        ),
        "anyOf": [
            ref(f"{prefix_of(protocol)}Sink"),
            own,
            *(ref(_dead_letter_name(each, realized=realized)) for each in others),
        ],
    }


def _dead_letter_object(protocol: str, *, realized: bool) -> Schema:
    prefix = prefix_of(protocol)
    required = ["sink", "protocol"]
    if realized or protocol in REQUIRED_SETTINGS:
        required.append("protocolsettings")
    return closed(
        {
            "sink": ref(f"{prefix}Sink"),
            "protocol": {"const": protocol},
            "protocolsettings": ref(_dead_letter_name(protocol, realized=realized) + "Settings"),
        },
        required=required,
    )


def _dead_letter_name(protocol: str, *, realized: bool) -> str:
    return f"{'Realized' if realized else ''}{prefix_of(protocol)}DeadLetter"


def _schemas_of(protocol: str) -> dict[str, Schema]:
    prefix = prefix_of(protocol)
    schemas = {f"{prefix}Sink": sink_schema(protocol)}
    for realized in (False, True):
        letter = _dead_letter_name(protocol, realized=realized)
        schemas |= {
            letter.replace("DeadLetter", "Settings"): settings_schema(
                protocol,
                realized=realized,
                dead_letter=_dead_letter_sink(protocol, realized=realized),
            ),
            letter: _dead_letter_object(protocol, realized=realized),
            f"{letter}Settings": settings_schema(protocol, realized=realized, dead_letter=None),
        }
    return schemas


SINK_SCHEMAS: Final[dict[str, Schema]] = {
    name: schema
    for protocol in subscription.PROTOCOLS
    for name, schema in _schemas_of(protocol).items()
}
"""For each protocol ``<Prefix>Sink``, ``<Prefix>Settings``, ``<Prefix>DeadLetter``,
``<Prefix>DeadLetterSettings``, the three last as realized too (``Realized<Prefix>...``)."""
