"""Checks events by the filters of policies."""

from collections.abc import Iterable, Sequence

from distributary.access import PolicyRecord
from distributary.core.errors import EventError, Fault
from distributary.core.event import Event

CHARS_COMPARED = 64
"""Characters of attributes that cost as much as a comparison where a filter searches them."""

WORK_MAX = 4_000_000
"""Most comparisons of one request, with those for the characters searched: 0.3 to 1 s, in which
the receiver does nothing else. A batch of 1,000 events with 200 characters each fits filters of
1,000 comparisons."""

NAMES_SHOWN_MAX = 5
"""Policies that a refusal names: it is read by people, and a namespace may have many."""


FAULTS_LISTED = "The faults are listed."


class FilterWorkError(EventError):
    """Too many events in one request for the filters of policies; fewer of them can be sent."""

    code = "content-too-large"


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
        FilterWorkError: The filters would cost too much; none was looked at.
        PolicyError: With each event that does not, by its index.
    """
    if not policies:
        return
    filters = [policy.passing for policy in policies]
    _check_work(events, sum(each.comparisons_max for each in filters))
    message = "the filters of no EventPolicy that lets you send pass it"
    faults = [
        Fault("$" if len(events) == 1 else f"$[{index}]", "policy", message)
        for index, event in enumerate(events)
        if not any(each.matches(event.attributes) for each in filters)
    ]
    if faults:
        raise PolicyError(faults, (policy.name for policy in policies))


def _check_work(events: Sequence[Event], comparisons: int) -> None:
    # A single event is always judged: a sender can halve whatever was refused.
    if len(events) == 1:
        return
    texts = (each for event in events for each in event.attributes.values())
    chars = sum(len(each) for each in texts if isinstance(each, str))
    if comparisons * (len(events) + chars // CHARS_COMPARED) > WORK_MAX:
        message = (
            f"{len(events)} events with {chars} characters in attributes are too many in one "
            f"request where the filters of EventPolicies make {comparisons} comparisons; send fewer"
        )
        raise FilterWorkError([Fault("$", "too-many", message)])
