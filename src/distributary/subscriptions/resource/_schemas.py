"""The schemas of a subscription: as a client writes it, and as responses show it.

Composed of the schemas that ``parse`` checks with; each ``<Prefix>...`` belongs to one delivery
protocol. ``Filter`` and ``EarlierFilter`` are references, defined where the dialects are known.
"""

import functools
from collections.abc import Mapping
from typing import Any, Final

from distributary.core.deliver.credential import SECRET_MEMBERS, CredentialType
from distributary.core.protocol import protocols
from distributary.resource import patterns
from distributary.resource.delivery import DELIVERY
from distributary.resource.schema import Schema, closed, ref
from distributary.resource.uri import URI_CHARS_MAX, why_no_reference
from distributary.subscriptions.resource._certificates import CERTIFICATES
from distributary.subscriptions.resource._client_certificates import CLIENT_CERTIFICATES
from distributary.subscriptions.resource._config import CONFIG
from distributary.subscriptions.resource._credentials import (
    CREDENTIAL_MEMBERS,
    CREDENTIAL_PROPERTIES,
    CREDENTIAL_SHAPE,
    REFERENCE_SHAPE,
)
from distributary.subscriptions.resource._secret_settings import CLIENT_CERTIFICATE
from distributary.subscriptions.resource._settings import format_of
from distributary.subscriptions.resource._signature import ROTATION

TYPES_MAX: Final = 1000
"""Most types of one subscription; beyond that use a prefix filter."""

TYPE_CHARS_MAX: Final = 1024
"""Longest event type in ``types``, characters."""

SELECTION: Final[dict[str, Schema]] = {
    "source": {
        "type": "string",
        "pattern": patterns.REFERENCE,
        "minLength": 1,
        "maxLength": URI_CHARS_MAX,
        "description": "Exact match on the event's source.",
        "x-codes": {"pattern": "uri"},
        "x-expected": why_no_reference,
    },
    "types": {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": TYPE_CHARS_MAX},
        "minItems": 1,
        "maxItems": TYPES_MAX,
        "description": "The event's type is one of these.",
    },
}
"""Members that select events by an attribute."""

_FILTERS: Final[Schema] = {
    "type": "array",
    "items": ref("Filter"),
    "default": [],
    "description": "All of them must match; none: every event passes.",
}


def _prefix_of(protocol: str) -> str:
    return protocol.capitalize()


def _sink(protocol: str) -> Schema:
    row = protocols()[protocol]
    schemes = ", ".join(row.schemes)
    several = " Several hosts, separated by commas." if row.hosts_max > 1 else ""
    return {
        "type": "string",
        "pattern": patterns.sink_uri(protocol),
        "maxLength": URI_CHARS_MAX,
        "description": (
            f"Absolute URI with one of the schemes {schemes}, without user information and"
            f" fragment.{several}"
        ),
    }


# -- settings and dead letter sinks ------------------------------------------------------------


def settings_schema(protocol: str, *, realized: bool, dead_letter: Schema | None) -> Schema:
    """``protocolsettings`` of *protocol*.

    Args:
        protocol: The delivery protocol.
        realized: As in responses, with every default; else as a client writes it.
        dead_letter: Schema of ``deadLetterSink``; None inside a dead letter sink, which has none
            itself.
    """
    row = protocols()[protocol]
    format_ = format_of(protocol)
    delivery = dict(DELIVERY)
    if dead_letter is not None:
        delivery["deadLetterSink"] = dead_letter
    required = list(row.required)
    if realized:
        format_ |= {"enum": list(row.formats)}
        required += [row.placed] if row.placed else []
        required += [name for name, schema in row.settings.items() if "default" in schema]
        required += ["format", "delivery"]
    else:  # Knative's DeliverySpec has it in ``delivery``
        delivery["format"] = format_
    always = [name for name in DELIVERY if realized and "default" in DELIVERY[name]]
    own = {
        name: schema.get("x-realized", schema) if realized else schema
        for name, schema in row.settings.items()
        if dead_letter is not None or "x-sink-alone" not in schema
    }
    properties = {
        **own,
        "format": format_,
        "cacerts": CERTIFICATES,
        CLIENT_CERTIFICATE: CLIENT_CERTIFICATES,
        "delivery": closed(delivery, required=always)
        | {"description": "Retries, waits between them, and the rate."},
    }
    return closed(properties, required=required)


SHORT_DEAD_LETTER: Final[Schema] = {
    "type": ["string", "object"],
    "description": (
        "Destination of undeliverable events: a URI (same protocol and settings), or"
        " an object with sink, protocol and protocolsettings; see /openapi.json."
    ),
}
"""Dead letter sinks in short form, where their schema would be longer than all the others."""


def _dead_letter_sink(protocol: str, *, realized: bool) -> Schema:
    """A dead letter sink in a subscription with this protocol."""
    own = _dead_letter_object(protocol, realized=realized)
    if not realized:
        own["required"].remove("protocol")  # defaults to the subscription's
    others = [each for each in protocols() if each != protocol]
    return {
        "description": (
            "Destination of undeliverable events: a URI (same protocol and settings)"
            " or a sink with its own. It gets no credential. Absent: the server keeps them."
        ),
        "anyOf": [
            ref(f"{_prefix_of(protocol)}Sink"),
            own,
            *(ref(_dead_letter_name(each, realized=realized)) for each in others),
        ],
    }


def _dead_letter_object(protocol: str, *, realized: bool) -> Schema:
    required = ["sink", "protocol"]
    if realized or protocols()[protocol].required:
        required.append("protocolsettings")
    return closed(
        {
            "sink": ref(f"{_prefix_of(protocol)}Sink"),
            "protocol": {"const": protocol},
            "protocolsettings": ref(_dead_letter_name(protocol, realized=realized) + "Settings"),
        },
        required=required,
    )


def _dead_letter_name(protocol: str, *, realized: bool) -> str:
    return f"{'Realized' if realized else ''}{_prefix_of(protocol)}DeadLetter"


# -- credentials -------------------------------------------------------------------------------


def _credential(*, kept: bool) -> Schema:
    """``sinkCredential`` as a client writes it, in either spelling of each member.

    Args:
        kept: Allows omitting all secrets, where they are stored (decision 10, credentials).
    """
    kinds = [_kind(type_, shape) for type_, shape in CREDENTIAL_SHAPE.items()]
    kinds += [_kind(type_, shape) for type_, shape in REFERENCE_SHAPE.items()]
    if kept:
        kinds += [_kind(type_, shape, bare=True) for type_, shape in CREDENTIAL_SHAPE.items()]
    return {
        "description": "Authorizes deliveries at the subscription's own sink.",
        "anyOf": kinds,
    }


def _kind(type_: CredentialType, shape: dict[str, bool], *, bare: bool = False) -> Schema:
    """A credential of this type; *bare*: without its secrets, which are stored."""
    properties: dict[str, Schema] = {"credentialType": {"const": type_}}
    required = ["credentialType"]
    for name, is_required in shape.items():
        secret = name in SECRET_MEMBERS[type_]
        if secret and bare:
            continue
        properties[name] = CREDENTIAL_PROPERTIES[name] | ({"writeOnly": True} if secret else {})
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


def _shown_credential() -> Schema:
    """``sinkCredential`` in responses: no secrets, in the names of the reference."""
    shown = {
        name: CREDENTIAL_PROPERTIES[name]
        for shapes in (CREDENTIAL_SHAPE, REFERENCE_SHAPE)
        for type_, shape in shapes.items()
        for name in shape
        if name not in SECRET_MEMBERS[type_]
    }
    kinds: Schema = {"enum": list(CREDENTIAL_SHAPE)}
    return closed({"credentialType": kinds} | shown, required=("credentialType",)) | {
        "description": "The credential without its secrets."
    }


# -- the whole ---------------------------------------------------------------------------------


def _proposal(protocol: str, *, kept: bool) -> Schema:
    """A subscription with this protocol, as a client writes it.

    Args:
        protocol: The delivery protocol.
        kept: For updates: its credential may omit what is stored.
    """
    required = ["sink", "protocol"]
    if protocols()[protocol].required:
        required.append("protocolsettings")
    credential = ref("KeptSinkCredential" if kept else "SinkCredential")
    properties = {
        "id": {"description": "Ignored on create; on update absent or as in the path."},
        "status": {"description": "Ignored: the server says how a subscription stands."},
        **SELECTION,
        "config": ref("Config"),
        "filters": _FILTERS,
        "filter": ref("EarlierFilter"),
        "sink": ref(f"{_prefix_of(protocol)}Sink"),
        **dict.fromkeys(CREDENTIAL_MEMBERS, credential),
        "protocol": _protocol(protocol),
        "protocolsettings": ref(f"{_prefix_of(protocol)}Settings"),
    }
    return closed(properties, required=required) | {
        "allOf": [
            {"not": {"required": ["filter", "filters"]}},
            {"not": {"required": list(CREDENTIAL_MEMBERS)}},
        ]
    }


def _realized(protocol: str) -> Schema:
    return closed(
        {
            "id": {
                "type": "string",
                "pattern": "^[A-Za-z0-9._-]{1,128}$",
                "readOnly": True,
                "description": "Assigned by the server, or by the client (PUT). Never changes.",
            },
            **SELECTION,
            "config": ref("Config"),
            "filters": _FILTERS,
            "sink": ref(f"{_prefix_of(protocol)}Sink"),
            CREDENTIAL_MEMBERS[0]: ref("ShownSinkCredential"),
            "protocol": _protocol(protocol),
            "protocolsettings": ref(f"Realized{_prefix_of(protocol)}Settings"),
            "status": {
                "type": "object",
                "readOnly": True,
                "description": "How it stands; where it is read over HTTP.",
            },
        },
        required=("id", "filters", "sink", "protocol", "protocolsettings"),
    )


def _protocol(protocol: str) -> Schema:
    return {"const": protocol, "description": "The protocol of deliveries; case-sensitive."}


def _schemas_of(protocol: str) -> dict[str, Schema]:
    prefix = _prefix_of(protocol)
    schemas = {
        f"{prefix}Sink": _sink(protocol),
        f"{prefix}SubscriptionProposal": _proposal(protocol, kept=False),
        f"{prefix}SubscriptionReplacement": _proposal(protocol, kept=True),
        f"{prefix}Subscription": _realized(protocol),
    }
    for realized in (False, True):
        letter = _dead_letter_name(protocol, realized=realized)
        letter_sink = _dead_letter_sink(protocol, realized=realized)
        schemas |= {
            letter.replace("DeadLetter", "Settings"): settings_schema(
                protocol, realized=realized, dead_letter=letter_sink
            ),
            letter: _dead_letter_object(protocol, realized=realized),
            f"{letter}Settings": settings_schema(protocol, realized=realized, dead_letter=None),
        }
    return schemas


def _of_each(name: str, **more: Any) -> Schema:
    """A reference to ``<Prefix><name>`` of any protocol."""
    names = {each: f"{_prefix_of(each)}{name}" for each in protocols()}
    mapping = {each: ref(name)["$ref"] for each, name in names.items()}
    return {
        "type": "object",
        "anyOf": [ref(each) for each in names.values()],
        "discriminator": {"propertyName": "protocol", "mapping": mapping},
        **more,
    }


@functools.cache
def schemas() -> Mapping[str, Schema]:
    """Schemas of subscriptions by name: those of ``components/schemas`` that are used."""
    examples = [each.example for each in protocols().values() if each.example is not None]
    return {
        **{name: schema for each in protocols() for name, schema in _schemas_of(each).items()},
        "Config": CONFIG,
        "SinkCredential": _credential(kept=False),
        "KeptSinkCredential": _credential(kept=True),
        "ShownSinkCredential": _shown_credential(),
        "SubscriptionProposal": _of_each("SubscriptionProposal", examples=examples),
        "SubscriptionReplacement": _of_each("SubscriptionReplacement", examples=examples),
        "Subscription": _of_each("Subscription"),
        "SignatureRotation": ROTATION,
    }


@functools.cache
def members() -> tuple[str, ...]:
    """Members of a proposal, the same for every protocol."""
    return tuple(schemas()["HttpSubscriptionProposal"]["properties"])
