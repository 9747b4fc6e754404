"""``protocolsettings`` of HTTP: ``headers`` and ``method``.

Source:
    Subscriptions API 3.2.2.1.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary.resource._faults import Faults, member, one_of
from distributary.resource._uri import SinkUri
from distributary.resource.api_subscription import _defaults
from distributary.resource.api_subscription._maps import bounded_map
from distributary.resource.api_subscription._shape import HTTP_METHODS, HttpSettings

NAMES: Final = ("headers", "method")

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


def realize(
    faults: Faults, path: str, written: Mapping[str, Any], _sink: SinkUri | None
) -> dict[str, Any]:
    """See ``_protocols.ProtocolSettings``."""
    return {
        "headers": _headers(faults, f"{path}.headers", written.get("headers", {})),
        "method": _method(faults, f"{path}.method", written.get("method", _defaults.METHOD)),
    }


def restore(realized: Mapping[str, Any]) -> HttpSettings:
    """See ``_protocols.ProtocolSettings``."""
    return HttpSettings(realized["method"], tuple(realized["headers"].items()))


def _method(faults: Faults, path: str, value: object) -> str:
    if not isinstance(value, str):
        faults.wrong_type(path, "a string", value)
    elif value not in HTTP_METHODS:
        hint = f"; did you mean {value.upper()}?" if value.upper() in HTTP_METHODS else ""
        faults.add(path, "value", f"expected one of {one_of(HTTP_METHODS)}{hint}")
    return str(value)


def _headers(faults: Faults, path: str, value: object) -> dict[str, str]:
    headers = bounded_map(faults, path, value, "headers")
    if headers is None:
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
