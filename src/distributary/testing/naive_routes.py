"""Events of the log and the routes that see them, by the plain words of their definitions.

Callers: checkers and simulations, which hold the compiled matcher and the readers against it.
"""

from collections.abc import Mapping
from typing import Any

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.filter import naive_matches
from distributary.core.flow import Logged, RecordKind, RouteRecord, decode_addressed

__all__ = ["matches", "published"]


def published(logged: Logged) -> tuple[str, list[Event]]:
    """Where the events of a record were published, and the events; those of timers were not."""
    if logged.kind == RecordKind.EVENTS:
        return "", event_record.decode(logged.body)
    if logged.kind in (RecordKind.ADDRESSED, RecordKind.CARRIED):
        address, _, events, _, _ = decode_addressed(logged.body)
        return address, events
    return "", []


def matches(route: RouteRecord, attributes: Mapping[str, Any]) -> bool:
    """Whether *route* matches an event with *attributes* that it may see."""
    return (
        (route.source is None or attributes["source"] == route.source)
        and (not route.types or attributes["type"] in route.types)
        and all(name in attributes for name in route.present)
        and naive_matches(route.filters, attributes)
    )
