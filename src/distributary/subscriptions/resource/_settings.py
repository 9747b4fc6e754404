"""``protocolsettings``: members common to all protocols, and the dead letter sink's settings.

Called by ``_parse``. Each protocol's folder describes its other settings.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from distributary.core.protocol import protocols
from distributary.resource.delivery import realize_delivery
from distributary.resource.faults import Faults, member, one_of
from distributary.resource.rules import ResourceRules
from distributary.resource.schema import Schema, checked, closed, with_defaults
from distributary.resource.uri import SinkUri, check_reference, check_sink
from distributary.subscriptions.resource._certificates import CERTIFICATES
from distributary.subscriptions.resource._client_certificates import (
    CLIENT_CERTIFICATES,
    check_expiry,
)
from distributary.subscriptions.resource._credentials import (
    CREDENTIAL_MEMBERS,
    refuse_credentials,
)
from distributary.subscriptions.resource._secret_settings import CLIENT_CERTIFICATE

SHARED_SETTINGS: Final = ("format", "cacerts", CLIENT_CERTIFICATE, "delivery")
"""Members of ``protocolsettings`` common to all protocols."""

_DEAD_LETTER_MEMBERS: Final = ("sink", "protocol", "protocolsettings")


def format_of(protocol: str) -> Schema:
    """The schema of the content mode; ``json`` is Knative's name for structured."""
    formats = protocols()[protocol].formats
    return {
        "enum": [*formats, "json"],
        "default": formats[0],
        "description": "Content mode of the CloudEvents binding (json: structured).",
        "x-same": {"json": "structured"},
    }


def check_protocol(faults: Faults, path: str, value: object, rules: ResourceRules) -> str | None:
    """*value* where it is a usable protocol; else None, and a fault."""
    if isinstance(value, str) and value in rules.protocols_absent:
        faults.add(path, "unsupported", rules.protocols_absent[value])
        return None
    schema: Schema = {"enum": list(protocols()), "x-codes": {"enum": "unknown"}}
    found: str | None = checked(faults, path, schema, value)
    return found


def realize_target(
    faults: Faults,
    path: str,
    holder: Mapping[str, Any],
    protocol: str | None,
    rules: ResourceRules,
    *,
    dead_letter_allowed: bool = True,
) -> tuple[object, dict[str, Any]]:
    """``sink`` and ``protocolsettings`` of a subscription or of a dead letter sink.

    Args:
        faults: Receives what is wrong.
        path: Of *holder*.
        holder: The object that has both.
        protocol: The protocol; None where it is faulty: then neither sink nor settings can be
            checked in detail.
        rules: To validate by.
        dead_letter_allowed: False inside a dead letter sink: dead letters stop there.

    Returns:
        The URI and the settings with every default; valid only if no fault was added.
    """
    sink: SinkUri | None = None
    if "sink" not in holder:
        faults.add(f"{path}.sink", "missing", "a sink is required")
    elif protocol is None:
        check_reference(faults, f"{path}.sink", holder["sink"])
    else:
        sink = _sink(faults, f"{path}.sink", holder["sink"], protocol, rules)
    where = f"{path}.protocolsettings"
    written = faults.object_at(where, holder.get("protocolsettings", {}))
    if protocol is None or written is None:
        return None, {}
    settings = _realize(faults, where, written, protocol, sink, whole=dead_letter_allowed)
    settings |= _trust(faults, where, written, sink, rules)
    wanted = written.get("delivery", {})
    settings["delivery"] = delivery = realize_delivery(faults, f"{where}.delivery", wanted)
    if isinstance(wanted, dict) and "deadLetterSink" in wanted:
        inner = f"{where}.delivery.deadLetterSink"
        if dead_letter_allowed:
            target = _dead_letter(faults, inner, wanted["deadLetterSink"], protocol, rules)
            delivery["deadLetterSink"] = target
        else:
            faults.add(inner, "nested", "a dead letter sink has no dead letter sink of its own")
    credentials = holder if dead_letter_allowed else {}
    if sink is not None and sends_credential(credentials, settings):
        _check_cleartext(faults, f"{path}.sink", sink, rules)
    return None if sink is None else sink.text, settings


def sends_credential(holder: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    """Whether a subscription or dead letter sink with these *settings* sends a credential."""
    headers = settings.get("headers")
    named = isinstance(headers, dict) and any(name.lower() == "authorization" for name in headers)
    return named or any(name in holder for name in CREDENTIAL_MEMBERS)


def _check_cleartext(faults: Faults, path: str, sink: SinkUri, rules: ResourceRules) -> None:
    if rules.sinks.own_allowed and rules.sinks.own.takes_events(sink.text):
        return  # it is dialled at this machine
    refusal = rules.sinks.cleartext_refusal(sink.text)
    if refusal is not None:
        faults.add(path, "cleartext", refusal)


def _sink(
    faults: Faults, path: str, value: object, protocol: str, rules: ResourceRules
) -> SinkUri | None:
    """The URI, whose path must agree with the setting that it replaces; None, and a fault."""
    sink = check_sink(faults, path, value, protocol, rules.sinks)
    if sink is None or sink.place is None:
        return sink
    row = protocols()[protocol]
    assert row.placed is not None
    named = checked(faults, path, row.settings[row.placed], sink.place)
    return None if named is None else sink


def _realize(
    faults: Faults,
    path: str,
    written: Mapping[str, Any],
    protocol: str,
    sink: SinkUri | None,
    *,
    whole: bool,
) -> dict[str, Any]:
    row = protocols()[protocol]
    _check_names(faults, path, written, protocol, whole=whole)
    in_path = {row.placed: sink.place} if row.placed and sink is not None and sink.place else {}
    own = with_defaults(row.settings, in_path | dict(written))
    schema = closed(row.settings, required=row.required)
    realized: dict[str, Any] = checked(faults, path, schema, own)
    if row.placed is not None and sink is not None:
        _check_placed(faults, f"{path}.{row.placed}", realized.get(row.placed, ""), sink)
    realized["format"] = _format(faults, path, written, protocol)
    return realized


def _trust(
    faults: Faults,
    path: str,
    written: Mapping[str, Any],
    sink: SinkUri | None,
    rules: ResourceRules,
) -> dict[str, Any]:
    """Certificates, of the sink's authorities and of this server."""
    realized: dict[str, Any] = {}
    if "cacerts" in written:
        realized["cacerts"] = checked(faults, f"{path}.cacerts", CERTIFICATES, written["cacerts"])
    if CLIENT_CERTIFICATE in written:
        where, count_before = f"{path}.{CLIENT_CERTIFICATE}", len(faults.found)
        pair = checked(faults, where, CLIENT_CERTIFICATES, written[CLIENT_CERTIFICATE])
        realized[CLIENT_CERTIFICATE] = pair
        if len(faults.found) == count_before:
            check_expiry(faults, where, pair, rules.wall_ms())
    for name in ("cacerts", CLIENT_CERTIFICATE):
        if name in written and sink is not None and not sink.tls_possible:
            message = f"there is no TLS with the scheme {sink.scheme}"
            faults.add(f"{path}.{name}", "not-applicable", message)
    return realized


def _check_placed(faults: Faults, path: str, place: str | None, sink: SinkUri) -> None:
    """Check that the settings and the path of *sink* name one *place* between them.

    Args:
        faults: Receives a missing place, or a contradiction.
        path: Of the setting.
        place: None where it is faulty itself; empty where it is absent.
        sink: The valid URI of the sink.
    """
    if place == "":
        message = "required where the path of the sink does not name it"
        faults.add(path, "missing", message)
    elif place is not None and not sink.agrees_with(place):
        faults.add(path, "conflict", "differs from what the path of the sink names")


def _check_names(
    faults: Faults, path: str, written: Mapping[str, Any], protocol: str, *, whole: bool
) -> None:
    """Note members that this protocol lacks; another protocol's get a message of their own.

    Args:
        faults: Receives them.
        path: Of *written*.
        written: The settings.
        protocol: Theirs.
        whole: They are a sink's; False: a dead letter sink's, which has fewer.
    """
    settings = protocols()[protocol].settings.items()
    own = [name for name, schema in settings if whole or "x-sink-alone" not in schema]
    known = (*own, *SHARED_SETTINGS)
    unknown = {}
    for name, value in written.items():
        others = [each for each, row in protocols().items() if name in row.settings]
        if name in known or not others:
            unknown[name] = value
        else:
            message = f"does not apply to {protocol}: a setting of {one_of(others)}"
            if protocol in others:
                message = "does not apply to a dead letter sink"
            faults.add(member(path, name), "not-applicable", message)
    faults.unknown_members(path, unknown, known)


def _dead_letter(
    faults: Faults, path: str, value: object, protocol: str, rules: ResourceRules
) -> object:
    if isinstance(value, str):  # the same protocol and settings
        sink = _sink(faults, path, value, protocol, rules)
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
    """The content mode; also read from ``delivery``, where Knative's DeliverySpec has it."""
    schema = format_of(protocol)
    found = [
        checked(faults, f"{where}.format", schema, value)
        for where, value in _formats_in(path, written)
    ]
    good = [each for each in found if each is not None]
    if len(set(good)) > 1:
        faults.add(f"{path}.delivery.format", "conflict", f"differs from {path}.format")
    return str(good[0] if good else schema["default"])


def _formats_in(path: str, written: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for where, holder in ((path, written), (f"{path}.delivery", written.get("delivery"))):
        if isinstance(holder, Mapping) and "format" in holder:
            yield where, holder["format"]
