"""The hop limit of events (decision 17, hop limit): passes through Brokers and Channels. Pure.

Caller: ``_protocol``, for each publishing request.
"""

import re
from collections.abc import Sequence
from typing import Final

from distributary.core.errors import Fault
from distributary.core.event import AttributeValue, Event
from distributary.core.flow import TTL_ATTRIBUTE, TTL_DEFAULT

# Possessive (``*+``), so without backtracking: a publisher chooses the text, up to 64 KiB.
_INTEGER: Final = re.compile(r"(-?)(?=[0-9])0*+([0-9]*+)")
_DIGITS_MAX: Final = len(str(TTL_DEFAULT))  # a longer number is above it, whatever it is


def take_ttls(events: list[Event]) -> list[int] | None:
    """Remove the attribute from *events*, in place in the list.

    Returns:
        The hops left to each event after this one, at most ``TTL_DEFAULT``; 0 or less: the limit
        is reached, reject it. None where no event has the attribute, so that all have
        ``TTL_DEFAULT``: that costs a look-up for each event.
    """
    for event in events:
        if TTL_ATTRIBUTE in event.attributes:
            break
    else:
        return None
    ttls = [_left(event.attributes.get(TTL_ATTRIBUTE)) for event in events]
    events[:] = [_without_ttl(event) for event in events]
    return ttls


def used_up(ttls: Sequence[int], fields: Sequence[tuple[bytes, bytes]]) -> tuple[Fault, ...]:
    """Returns a fault for each event that has reached its hop limit.

    Args:
        ttls: The result of ``take_ttls``.
        fields: Header fields of the request, which determine how faults name places.
    """
    return tuple(
        Fault(_path(index, fields), "hop-limit", "no pass through a Broker or Channel is left")
        for index, ttl in enumerate(ttls)
        if ttl <= 0
    )


def _left(value: AttributeValue | None) -> int:
    """The hops left; the default where *value* is no integer."""
    if value is None or isinstance(value, bool):
        return TTL_DEFAULT
    if isinstance(value, int):
        return min(value - 1, TTL_DEFAULT)
    found = _INTEGER.fullmatch(value)
    if found is None:
        return TTL_DEFAULT
    sign, digits = found.groups()
    if sign:
        return 0
    return TTL_DEFAULT if len(digits) > _DIGITS_MAX else min(int(digits or 0) - 1, TTL_DEFAULT)


def _without_ttl(event: Event) -> Event:
    if TTL_ATTRIBUTE not in event.attributes:
        return event
    kept = {name: value for name, value in event.attributes.items() if name != TTL_ATTRIBUTE}
    return Event(kept, event.data)


def _path(index: int, fields: Sequence[tuple[bytes, bytes]]) -> str:
    """Path of the attribute in the request, as the decoders name places."""
    content_type = dict(fields).get(b"content-type", b"").lower()
    if content_type.startswith(b"application/cloudevents-batch"):
        return f"$[{index}].{TTL_ATTRIBUTE}"
    if content_type.startswith(b"application/cloudevents"):
        return f"$.{TTL_ATTRIBUTE}"
    return f"ce-{TTL_ATTRIBUTE}"
