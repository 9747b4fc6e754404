"""What this server can do, at ``GET /``: the discovery of 3.2.5 (decision 4)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from distributary import __version__
from distributary import filter as filter_room
from distributary.api._schemas import HTTP_SETTINGS_SCHEMA
from distributary.resource.api_subscription import CONFIG_KEYS, PROTOCOLS_SUPPORTED

EVENT_TYPES_MAX: Final = 1000
"""Event types that the description names; senders choose them, so there may be any number."""

_SETTINGS: Final = {"HTTP": HTTP_SETTINGS_SCHEMA}


def _no_event_types() -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Description:
    """What the description says beyond what the code knows by itself.

    Attributes:
        event_types: The event types that were seen, in no order.
    """

    event_types: Callable[[], Iterable[str]] = _no_event_types


def describe(description: Description) -> dict[str, Any]:
    """The service description, a JSON object."""
    return {
        "name": "distributary",
        "version": __version__,
        "description": "CloudEvents subscription manager and event router",
        "specification": "CloudEvents Subscriptions API 0.1-wip",
        "links": {
            "publish": "/events",
            "subscriptions": "/subscriptions",
            "openapi": "/openapi.json",
            "docs": "/docs",
            "health": "/healthz",
            "readiness": "/readyz",
            "metrics": "/metrics",
        },
        "operations": ["create", "retrieve", "query", "update", "delete"],
        "protocols": {name: {"settings": _SETTINGS[name]} for name in PROTOCOLS_SUPPORTED},
        "dialects": list(filter_room.DIALECTS),
        "subscriptionconfig": {key: {} for key in CONFIG_KEYS},
        "credentialtypes": [],
        "eventtypes": sorted(description.event_types())[:EVENT_TYPES_MAX],
    }
