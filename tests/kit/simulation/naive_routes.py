"""A naive matcher of routes: the oracle of the compiled matcher and the readers.

Callers: checkers and simulations.
"""

from collections.abc import Mapping
from typing import Any

from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.filter import naive_matches
from distributary.core.flow import Logged, RecordKind, RouteRecord, decode_addressed

__all__ = ["matches", "published"]


def published(logged: Logged) -> tuple[str, list[Event]]:
    """Returns the address of a record's events, and the events; none for timer events."""
    if logged.kind == RecordKind.EVENTS:
        return "", event_record.decode(logged.body)
    if logged.kind in (RecordKind.ADDRESSED, RecordKind.CARRIED):
        address, _, events, _, _ = decode_addressed(logged.body)
        return address, events
    return "", []


def matches(route: RouteRecord, attributes: Mapping[str, Any]) -> bool:
    """Whether *route* matches an event of its address with *attributes*."""
    return (
        (route.source is None or attributes["source"] == route.source)
        and (not route.types or attributes["type"] in route.types)
        and all(name in attributes for name in route.present)
        and naive_matches(route.filters, attributes)
    )
