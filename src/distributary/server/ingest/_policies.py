"""Checks events by the filters of policies."""

import functools
from collections.abc import Sequence

import msgspec

from distributary.access import PolicyRecord
from distributary.core import filter as filter_room
from distributary.core.errors import EventError, Fault
from distributary.core.event import Event

FILTERS_KEPT_MAX = 256
"""Compiled filters that are kept: one for each policy with filters, of those in use."""


class PolicyError(EventError):
    """Events that no policy lets their sender send; all of the request are refused."""

    code = "forbidden"


def check_policies(events: Sequence[Event], policies: Sequence[PolicyRecord]) -> None:
    """Check that each of *events* passes one of *policies*; no policy: all do.

    Raises:
        PolicyError: With each event that does not, by its index.
    """
    if not policies:
        return
    filters = [_compiled(msgspec.json.encode(policy.filters)) for policy in policies]
    names = ", ".join(policy.name for policy in policies)
    message = f"the filters of no EventPolicy that lets you send pass it ({names})"
    faults = [
        Fault("$" if len(events) == 1 else f"$[{index}]", "policy", message)
        for index, event in enumerate(events)
        if not any(each.matches(event.attributes) for each in filters)
    ]
    if faults:
        raise PolicyError(faults)


@functools.lru_cache(FILTERS_KEPT_MAX)
def _compiled(filters: bytes) -> filter_room.Filter:
    return filter_room.compile(msgspec.json.decode(filters))
