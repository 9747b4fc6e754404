"""``protocolsettings`` of HTTP: ``headers`` and ``method``.

Source:
    Subscriptions API 3.2.2.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.core.deliver import Destination
from distributary.core.deliver.broker_settings import SinkSettings
from distributary.core.deliver.signing import SIGNATURE_HEADERS, SIGNATURE_SCHEMES
from distributary.resource import Faults, Schema, bounded_map, closed, member, patterns

FIELD_VALUE: Final = "^(?:[!-~](?:[\\t -~]*[!-~])?)?$"
"""A header value: printable ASCII that neither begins nor ends with a space."""

HTTP_METHODS: Final = ("POST", "PUT", "PATCH")
"""Methods that send a body to a resource. A body of GET or DELETE has no meaning, and the other
methods do not transfer a representation (RFC 9110, section 9.3)."""

SENDER_HEADERS: Final = frozenset(
    {
        *SIGNATURE_HEADERS,
        # Who asks for consent, and who delivers by it (HTTP 1.1 Web Hooks for Event Delivery, 4).
        "webhook-request-origin",
        "webhook-request-callback",
        "webhook-request-rate",
        # The namespace of the object that delivers (Knative Eventing).
        "kn-namespace",
    }
)
"""Header names, in lower case, by which a sink knows who sends. A subscriber must not choose their
values: a sink that trusts this server would take the delivery for what it is not."""

OWN_HEADERS: Final = SENDER_HEADERS | frozenset(
    {
        # Hop by hop, or framing (RFC 9110, 7.6.1; RFC 9112, 6): the HTTP client writes them, and
        # duplicates allow request smuggling.
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
"""Reserved header names, in lower case, which each delivery sets; so are all ``ce-`` names."""


def _differ(faults: Faults, path: str, headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name in headers:
        if name.lower() in seen:
            message = "header names differ in more than their case"
            faults.add(member(path, name), "duplicate", message)
        seen.add(name.lower())
    return headers


def _scheme_alone(_faults: Faults, _path: str, signature: dict[str, Any]) -> dict[str, Any]:
    """Drop what the server writes: a client may send back what it read."""
    return {"scheme": signature["scheme"]}


_SCHEME: Final[Schema] = {
    "enum": list(SIGNATURE_SCHEMES),
    "description": "v1: HMAC-SHA256 with a shared secret; v1a: ed25519 with a public key.",
}
_MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}

_SIGNATURE: Final[dict[str, Schema]] = {
    "scheme": _SCHEME,
    "keys": {
        "type": "array",
        "readOnly": True,
        "items": closed(
            {
                "scheme": _SCHEME,
                "created": _MOMENT,
                "until": _MOMENT | {"description": "It signs until then; absent: the newest."},
                "publickey": {
                    "type": "string",
                    "maxLength": 64,
                    "description": "Of v1a: whpk_ and Base64.",
                },
            }
        ),
        "description": "The keys that sign, the newest first; ignored in a request.",
    },
}


SETTINGS: Final[dict[str, Schema]] = {
    "headers": bounded_map(
        "Custom header fields.",
        names={
            "pattern": patterns.HTTP_NAME,
            "not": {
                "pattern": patterns.any_case_of(OWN_HEADERS, or_beginning="ce-"),
                "x-expected": "this header is written by the delivery itself",
            },
            "x-codes": {"not": "reserved"},
            "x-expected": "a header name is a token of RFC 9110, without spaces or colons",
        },
        values={
            "type": "string",
            "pattern": FIELD_VALUE,
            "x-expected": (
                "a header value is printable ASCII without line breaks, and neither begins nor"
                " ends with a space"
            ),
        },
        **{"x-rule": _differ},
    ),
    "method": {
        "enum": list(HTTP_METHODS),
        "default": "POST",
        "description": "The request method.",
    },
    "signature": closed(_SIGNATURE, required=["scheme"])
    | {
        "description": "Signs each delivery (Standard Webhooks 1.0). The server makes the key.",
        "x-rule": _scheme_alone,
        "x-sink-alone": True,
        "x-realized": closed(
            _SIGNATURE
            | {
                "secret": {
                    "type": "string",
                    "readOnly": True,
                    "description": (
                        "Of v1: whsec_ and Base64, only in the answer to the request that made it."
                    ),
                }
            },
            required=["scheme", "keys"],
        ),
    },
}
"""Schemas of the settings, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class HttpSettings(SinkSettings):
    """HTTP settings of a sink: method and custom header fields.

    Attributes:
        method: ``POST``, ``PUT`` or ``PATCH``.
        headers: Custom header fields, in the order of the subscription. Left out of the ``repr``,
            since they may hold credentials.
    """

    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def place(self) -> None:
        """None: the URI alone identifies the sink."""

    @property
    def lines(self) -> tuple[tuple[bytes, bytes], ...]:
        """*headers* as bytes to send, but for those by which a sink knows who sends.

        Such names are refused; a subscription that an earlier version stored may hold them.
        """
        return tuple(
            (name.encode(), value.encode("latin-1"))
            for name, value in self.headers
            if name.lower() not in SENDER_HEADERS
        )


_DEFAULTS: Final = HttpSettings()


def settings_of(destination: Destination) -> HttpSettings:
    """The settings of *destination*; sinks of Knative's kinds have the defaults."""
    settings = destination.settings or _DEFAULTS
    assert isinstance(settings, HttpSettings)
    return settings


def restore(realized: Mapping[str, Any]) -> HttpSettings:
    """The settings of a realized ``protocolsettings`` object."""
    return HttpSettings(realized["method"], tuple(realized["headers"].items()))
