"""``protocolsettings`` of an HTTP delivery: checked, and realized with every default."""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._faults import Faults, member, one_of
from distributary.resource._rules import Rules
from distributary.resource._uri import check_http_sink
from distributary.resource.api_subscription import _defaults
from distributary.resource.api_subscription._credentials import (
    CREDENTIAL_MEMBERS,
    refuse_credentials,
)
from distributary.resource.api_subscription._delivery import realize_delivery
from distributary.resource.api_subscription._shape import (
    HTTP_METHODS,
    PROTOCOLS,
    PROTOCOLS_SUPPORTED,
)

HEADERS_MAX: Final = 100
"""Custom header fields. Common servers refuse a request with more than 100."""

HEADERS_BYTES_MAX: Final = 8 * 1024
"""All custom header fields together, names and values; common servers allow 8 KiB for all."""

HTTP_SETTINGS: Final = ("headers", "method", "format", "delivery")

_FORMATS: Final = {"binary": "binary", "structured": "structured", "json": "structured"}
"""Accepted names of content modes; ``json`` is Knative's name for structured."""

_DEAD_LETTER_MEMBERS: Final = ("sink", "protocol", "protocolsettings")

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_FIELD_VALUE = re.compile(r"([\x21-\x7e]([\t\x20-\x7e]*[\x21-\x7e])?)?")

OWN_HEADERS: Final = frozenset(
    {
        # Hop by hop, or the framing of the message (RFC 9110, 7.6.1; RFC 9112, 6): the client
        # that sends writes them, and a second copy is how requests are smuggled.
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        # The event's own.
        "content-type",
        "content-encoding",
    }
)
"""Header names, in lower case, that a delivery writes itself; and all that begin with ``ce-``."""


def realize_settings(
    faults: Faults, path: str, value: object, rules: Rules, *, dead_letter_allowed: bool = True
) -> dict[str, Any]:
    """The settings with every default; only of use while *faults* stays as it was.

    Args:
        faults: Takes what is wrong.
        path: Where *value* stands.
        value: What the client wrote, ``{}`` where it wrote nothing.
        rules: What to check against.
        dead_letter_allowed: False inside a dead letter sink: letters stop there.
    """
    settings = faults.object_at(path, value)
    if settings is None:
        return {}
    faults.unknown_members(path, settings, HTTP_SETTINGS)
    wanted = settings.get("delivery", {})
    delivery = realize_delivery(faults, f"{path}.delivery", wanted, rules.duration_s)
    if isinstance(wanted, dict) and "deadLetterSink" in wanted:
        where = f"{path}.delivery.deadLetterSink"
        if dead_letter_allowed:
            target = _dead_letter(faults, where, wanted["deadLetterSink"], rules)
            delivery["deadLetterSink"] = target
        else:
            faults.add(where, "nested", "a dead letter sink has no dead letter sink of its own")
    return {
        "headers": _headers(faults, f"{path}.headers", settings.get("headers", {})),
        "method": _method(faults, f"{path}.method", settings.get("method", _defaults.METHOD)),
        "format": _format(faults, path, settings),
        "delivery": delivery,
    }


def check_protocol(faults: Faults, path: str, value: object) -> str | None:
    """*value* where events can be sent by that protocol; else None, and a fault."""
    if value in PROTOCOLS_SUPPORTED:
        return str(value)
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value in PROTOCOLS:
        known = one_of(PROTOCOLS_SUPPORTED)
        message = f"delivery by {value} is not supported yet; supported: {known}"
        faults.add(path, "unsupported", message)
    else:
        hint = f"; did you mean {value.upper()}?" if value.upper() in PROTOCOLS else ""
        faults.add(path, "unknown", f"expected one of {one_of(PROTOCOLS)}{hint}")
    return None


def _dead_letter(faults: Faults, path: str, value: object, rules: Rules) -> object:
    if isinstance(value, str):
        return check_http_sink(faults, path, value, rules.sinks)
    if not isinstance(value, dict):
        faults.wrong_type(path, "a URI or an object with a sink", value)
        return None
    refuse_credentials(faults, path, value)
    faults.unknown_members(path, value, (*_DEAD_LETTER_MEMBERS, *CREDENTIAL_MEMBERS))
    sink = None
    if "sink" in value:
        sink = check_http_sink(faults, f"{path}.sink", value["sink"], rules.sinks)
    else:
        faults.add(f"{path}.sink", "missing", "a dead letter sink has a sink")
    # Only HTTP subscriptions exist, so the protocol of the subscription is HTTP.
    protocol = check_protocol(faults, f"{path}.protocol", value.get("protocol", "HTTP"))
    wanted = value.get("protocolsettings", {})
    where = f"{path}.protocolsettings"
    settings = realize_settings(faults, where, wanted, rules, dead_letter_allowed=False)
    return {"sink": sink, "protocol": protocol, "protocolsettings": settings}


def _method(faults: Faults, path: str, value: object) -> str:
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value not in HTTP_METHODS:
        hint = f"; did you mean {value.upper()}?" if value.upper() in HTTP_METHODS else ""
        faults.add(path, "value", f"expected one of {one_of(HTTP_METHODS)}{hint}")
    return str(value)


def _format(faults: Faults, path: str, settings: Mapping[str, Any]) -> str:
    """The content mode; read from ``delivery`` too, where Knative's DeliverySpec has it."""
    found = {}
    delivery = settings.get("delivery")
    for where, holder in ((path, settings), (f"{path}.delivery", delivery)):
        if not isinstance(holder, Mapping) or "format" not in holder:
            continue
        value = holder["format"]
        if isinstance(value, str) and value in _FORMATS:
            found[where] = _FORMATS[value]
        elif isinstance(value, str):
            faults.add(f"{where}.format", "value", f"expected one of {one_of(_FORMATS)}")
        else:
            faults.wrong_type(f"{where}.format", "a string", value)
    if len(set(found.values())) > 1:
        faults.add(f"{path}.delivery.format", "conflict", f"differs from {path}.format")
    return next(iter(found.values()), _defaults.FORMAT)


def _headers(faults: Faults, path: str, value: object) -> dict[str, str]:
    headers = faults.object_at(path, value)
    if headers is None:
        return {}
    if len(headers) > HEADERS_MAX:
        faults.add(path, "too-many", f"at most {HEADERS_MAX} headers")
        return {}
    if sum(len(n) + len(v) for n, v in headers.items() if isinstance(v, str)) > HEADERS_BYTES_MAX:
        faults.add(path, "too-long", f"at most {HEADERS_BYTES_MAX} bytes of headers")
        return {}
    seen: set[str] = set()
    for name, text in headers.items():
        where = member(path, name)
        _check_header(faults, where, name, text)
        if name.lower() in seen:
            faults.add(where, "duplicate", "header names differ in more than their case")
        seen.add(name.lower())
    return dict(headers)


def _check_header(faults: Faults, path: str, name: str, value: object) -> None:
    """Notes what is wrong with one header; no message repeats its value (it may be a token)."""
    lower = name.lower()
    if not _TOKEN.fullmatch(name):
        faults.add(path, "value", "a header name is a token of RFC 9110, without spaces or colons")
    elif lower in OWN_HEADERS or lower.startswith("ce-"):
        faults.add(path, "reserved", "this header is written by the delivery itself")
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif not _FIELD_VALUE.fullmatch(value):
        faults.add(
            path,
            "value",
            "a header value is printable ASCII without line breaks, and neither begins nor ends"
            " with a space",
        )
