"""``protocolsettings``: what every protocol has, and the dead letter sink with its own.

Called by ``_parse``. What a protocol has alone is in ``_settings_<protocol>``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from distributary.resource._faults import Faults, member, one_of
from distributary.resource._rules import Rules
from distributary.resource._uri import SinkUri, check_reference, check_sink
from distributary.resource.api_subscription._certificates import realize_certificates
from distributary.resource.api_subscription._credentials import (
    CREDENTIAL_MEMBERS,
    refuse_credentials,
)
from distributary.resource.api_subscription._delivery import realize_delivery
from distributary.resource.api_subscription._protocols import PROTOCOL_SETTINGS, SHARED_SETTINGS
from distributary.resource.api_subscription._shape import PROTOCOLS

FORMATS: Final = {"binary": "binary", "structured": "structured", "json": "structured"}
"""Accepted names of content modes; ``json`` is Knative's name for structured."""

_DEAD_LETTER_MEMBERS: Final = ("sink", "protocol", "protocolsettings")


def check_protocol(faults: Faults, path: str, value: object, rules: Rules) -> str | None:
    """*value* where events can be sent by that protocol; else None, and a fault."""
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value in rules.protocols_absent:
        faults.add(path, "unsupported", rules.protocols_absent[value])
    elif value in PROTOCOLS:
        return value
    else:
        hint = f"; did you mean {value.upper()}?" if value.upper() in PROTOCOLS else ""
        faults.add(path, "unknown", f"expected one of {one_of(PROTOCOLS)}{hint}")
    return None


def realize_target(
    faults: Faults,
    path: str,
    holder: Mapping[str, Any],
    protocol: str | None,
    rules: Rules,
    *,
    dead_letter_allowed: bool = True,
) -> tuple[object, dict[str, Any]]:
    """``sink`` and ``protocolsettings`` of a subscription or of a dead letter sink.

    Args:
        faults: Takes what is wrong.
        path: Where *holder* stands.
        holder: The object that both stand in.
        protocol: The protocol; None where it is faulty: it decides which sinks and settings fit,
            so that little can be said of them.
        rules: What to check against.
        dead_letter_allowed: False inside a dead letter sink: letters stop there.

    Returns:
        The URI and the settings with every default; only of use while *faults* stays as it was.
    """
    sink: SinkUri | None = None
    if "sink" not in holder:
        faults.add(f"{path}.sink", "missing", "a sink is required")
    elif protocol is None:
        check_reference(faults, f"{path}.sink", holder["sink"])
    else:
        sink = check_sink(faults, f"{path}.sink", holder["sink"], protocol, rules.sinks)
    where = f"{path}.protocolsettings"
    written = faults.object_at(where, holder.get("protocolsettings", {}))
    if protocol is None or written is None:
        return None, {}
    settings = _realize(faults, where, written, protocol, sink)
    wanted = written.get("delivery", {})
    delivery = realize_delivery(
        faults, f"{where}.delivery", wanted, rules.duration_s, iso_alone=False
    )
    settings["delivery"] = delivery
    if isinstance(wanted, dict) and "deadLetterSink" in wanted:
        inner = f"{where}.delivery.deadLetterSink"
        if dead_letter_allowed:
            target = _dead_letter(faults, inner, wanted["deadLetterSink"], protocol, rules)
            delivery["deadLetterSink"] = target
        else:
            faults.add(inner, "nested", "a dead letter sink has no dead letter sink of its own")
    return None if sink is None else sink.text, settings


def _realize(
    faults: Faults, path: str, written: Mapping[str, Any], protocol: str, sink: SinkUri | None
) -> dict[str, Any]:
    own = PROTOCOL_SETTINGS[protocol]
    _check_names(faults, path, written, protocol)
    realized = own.realize(faults, path, written, sink)
    realized["format"] = _format(faults, path, written, protocol)
    if "cacerts" in written:
        realized["cacerts"] = realize_certificates(faults, f"{path}.cacerts", written["cacerts"])
        if sink is not None and not sink.tls_possible:
            message = f"there is no TLS with the scheme {sink.scheme}"
            faults.add(f"{path}.cacerts", "not-applicable", message)
    return realized


def _check_names(faults: Faults, path: str, written: Mapping[str, Any], protocol: str) -> None:
    """Note members that this protocol does not have; another's are told from misspelt ones."""
    known = (*PROTOCOL_SETTINGS[protocol].names, *SHARED_SETTINGS)
    unknown = {}
    for name, value in written.items():
        others = [each for each, row in PROTOCOL_SETTINGS.items() if name in row.names]
        if name in known or not others:
            unknown[name] = value
        else:
            message = f"does not apply to {protocol}: a setting of {one_of(others)}"
            faults.add(member(path, name), "not-applicable", message)
    faults.unknown_members(path, unknown, known)


def _dead_letter(faults: Faults, path: str, value: object, protocol: str, rules: Rules) -> object:
    if isinstance(value, str):  # the same protocol and settings
        sink = check_sink(faults, path, value, protocol, rules.sinks)
        return None if sink is None else sink.text
    if not isinstance(value, dict):
        faults.wrong_type(path, "a URI or an object with a sink", value)
        return None
    refuse_credentials(faults, path, value)
    faults.unknown_members(path, value, (*_DEAD_LETTER_MEMBERS, *CREDENTIAL_MEMBERS))
    own = check_protocol(faults, f"{path}.protocol", value.get("protocol", protocol), rules)
    uri, settings = realize_target(faults, path, value, own, rules, dead_letter_allowed=False)
    return {"sink": uri, "protocol": own, "protocolsettings": settings}


def _format(faults: Faults, path: str, written: Mapping[str, Any], protocol: str) -> str:
    """The content mode; read from ``delivery`` too, where Knative's DeliverySpec has it."""
    formats = PROTOCOL_SETTINGS[protocol].formats
    found = {}
    for where, value in _formats_in(path, written):
        if not isinstance(value, str):
            faults.wrong_type(f"{where}.format", "a string", value)
        elif value not in FORMATS:
            faults.add(f"{where}.format", "value", f"expected one of {one_of(FORMATS)}")
        elif FORMATS[value] not in formats:
            message = f"the binding of {protocol} has no {value} mode, only {one_of(formats)}"
            faults.add(f"{where}.format", "value", message)
        else:
            found[where] = FORMATS[value]
    if len(set(found.values())) > 1:
        faults.add(f"{path}.delivery.format", "conflict", f"differs from {path}.format")
    return next(iter(found.values()), formats[0])


def _formats_in(path: str, written: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for where, holder in ((path, written), (f"{path}.delivery", written.get("delivery"))):
        if isinstance(holder, Mapping) and "format" in holder:
            yield where, holder["format"]
