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
"""Methods that carry a body to a resource. GET and DELETE give a body no meaning, and the
others are not requests to hand something over (RFC 9110, section 9.3)."""

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
"""Setting -> its schema, in the order of realized objects."""


@dataclass(frozen=True, slots=True)
class HttpSettings(SinkSettings):
    """How an event is sent by HTTP.

    Attributes:
        method: ``POST``, ``PUT`` or ``PATCH``.
        headers: Custom header fields, in the order of the subscription. May hold credentials,
            so they are left out of the ``repr``.
    """

    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @property
    def place(self) -> None:
        """The URI names the whole sink."""

    @property
    def lines(self) -> tuple[tuple[bytes, bytes], ...]:
        """Returns *headers* as they are sent."""
        return tuple((name.encode(), value.encode("latin-1")) for name, value in self.headers)


_DEFAULTS: Final = HttpSettings()


def settings_of(destination: Destination) -> HttpSettings:
    """Returns the settings of *destination*; sinks of Knative's kinds have the defaults."""
    settings = destination.settings or _DEFAULTS
    assert isinstance(settings, HttpSettings)
    return settings


def restore(realized: Mapping[str, Any]) -> HttpSettings:
    """See ``_protocols.ProtocolSettings``."""
    return HttpSettings(realized["method"], tuple(realized["headers"].items()))
