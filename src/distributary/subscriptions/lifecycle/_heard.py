"""What the watcher of deliveries tells, as transitions to be published. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from distributary.core.shown import shown_uri
from distributary.resource.times import format_time
from distributary.subscriptions import status
from distributary.subscriptions.store import lifecycle_rows as rows


def heard(transitions: Iterable[status.Transition]) -> Iterator[rows.Transition]:
    """Those of *transitions* that no change of the store tells of: failing and recovered.

    What failed already when this process began is told again, with the same id: an earlier process
    may have ended before it was told.
    """
    for one in transitions:
        members: dict[str, Any] = {
            "since": format_time(one.since_ms),
            "count": one.tally.failing_count,
        }
        if one.sink:
            members["sink"] = shown_uri(one.sink)
        if one.kind is status.TransitionKind.FAILING:
            members["reason"] = one.reason
            yield rows.Transition(one.route, rows.FAILING, one.since_ms, members)
        elif one.kind is status.TransitionKind.RECOVERED:
            at_ms = max(one.tally.success_ms, one.since_ms)
            yield rows.Transition(one.route, rows.RECOVERED, at_ms, members, one.since_ms)
