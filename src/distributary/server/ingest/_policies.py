"""Checks events by the filters of policies."""

import functools
from collections.abc import Iterable, Sequence

import msgspec

from distributary.access import PolicyRecord
from distributary.core import filter as filter_room
from distributary.core.errors import EventError, Fault
from distributary.core.event import Event

FILTERS_KEPT_MAX = 256
"""Compiled filters that are kept: one for each policy with filters, of those in use."""


NAMES_SHOWN_MAX = 5
"""Policies that a refusal names: it is read by people, and a namespace may have many."""


FAULTS_LISTED = "The faults are listed."


class PolicyError(EventError):
    """Events that no policy lets their sender send; all of the request are refused.

    Args:
        faults: One for each event that may not be sent.
        policies: Names of the policies that name the sender.
    """

    code = "forbidden"

    def __init__(self, faults: Iterable[Fault], policies: Iterable[str] = ()) -> None:
        super().__init__(faults)
        self.policies = tuple(policies)


def detail_of(error: EventError) -> str:
    """What a response says of *error* as a whole; its policies stand here, not with each event."""
    names = error.policies if isinstance(error, PolicyError) else ()
    if not names:
        return FAULTS_LISTED
    more = len(names) - NAMES_SHOWN_MAX
    told = ", ".join(names[:NAMES_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"The faults are listed; the EventPolicies that let you send are {told}."


def check_policies(events: Sequence[Event], policies: Sequence[PolicyRecord]) -> None:
    """Check that each of *events* passes one of *policies*; no policy: all do.

    Raises:
        PolicyError: With each event that does not, by its index.
    """
    if not policies:
        return
    filters = [_compiled(msgspec.json.encode(policy.filters)) for policy in policies]
    message = "the filters of no EventPolicy that lets you send pass it"
    faults = [
        Fault("$" if len(events) == 1 else f"$[{index}]", "policy", message)
        for index, event in enumerate(events)
        if not any(each.matches(event.attributes) for each in filters)
    ]
    if faults:
        raise PolicyError(faults, (policy.name for policy in policies))


@functools.lru_cache(FILTERS_KEPT_MAX)
def _compiled(filters: bytes) -> filter_room.Filter:
    return filter_room.compile(msgspec.json.decode(filters))
