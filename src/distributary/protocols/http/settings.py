"""``protocolsettings`` of HTTP: ``headers`` and ``method``.

Source:
    Subscriptions API 3.2.2.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from distributary.core.deliver import Destination
from distributary.core.deliver.broker_settings import SinkSettings
from distributary.resource import Faults, Schema, bounded_map, member, patterns

FIELD_VALUE: Final = "^(?:[!-~](?:[\\t -~]*[!-~])?)?$"
"""A header value: printable ASCII that neither begins nor ends with a space."""

HTTP_METHODS: Final = ("POST", "PUT", "PATCH")
"""Methods that send a body to a resource. A body of GET or DELETE has no meaning, and the other
methods do not transfer a representation (RFC 9110, section 9.3)."""

OWN_HEADERS: Final = frozenset(
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
        """*headers* as bytes to send."""
        return tuple((name.encode(), value.encode("latin-1")) for name, value in self.headers)


_DEFAULTS: Final = HttpSettings()


def settings_of(destination: Destination) -> HttpSettings:
    """The settings of *destination*; sinks of Knative's kinds have the defaults."""
    settings = destination.settings or _DEFAULTS
    assert isinstance(settings, HttpSettings)
    return settings


def restore(realized: Mapping[str, Any]) -> HttpSettings:
    """The settings of a realized ``protocolsettings`` object."""
    return HttpSettings(realized["method"], tuple(realized["headers"].items()))
