"""Subscriptions whose sink says that it is gone (410): nothing is sent until somebody resumes.

What waits then waits as a lag, one row for all of it; the attempts that were under way wait as
rows. That a route is parked is durable, so a restart does not try again.
"""

from collections.abc import Callable

from distributary.core.engine._ledger import Ledger
from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.surroundings import Surroundings
from distributary.core.flow import Leg, Task
from distributary.core.outcome import Failure, ParkedRow
from distributary.core.policy import Answer, Reply

GONE = 410
"""The sink is gone and says so (RFC 9110, section 15.5.11)."""


def waits_for_resume(route: str) -> str:
    """Where rows and lags wait whose route is parked: no URI of a sink is like it."""
    return f"resume of {route}"


class Parking:
    """The parked routes of a partition.

    Args:
        around: Ports of the owner.
        ledger: Makes it durable.
        wake: Takes the name for which what waits may go on.
        take_back: Called with a route and its lane: what is queued there is not to be sent.
    """

    def __init__(
        self,
        around: Surroundings,
        ledger: Ledger,
        *,
        wake: Callable[[str], None],
        take_back: Callable[[str, str], None],
    ) -> None:
        self._around = around
        self._ledger = ledger
        self._wake = wake
        self._take_back = take_back
        self._seen_seq = 0
        self.parked: dict[str, ParkedRow] = {}
        """By route."""
        around.meter.add("parked_total", 0)

    def load(self) -> None:
        """Those that the last owner left."""
        self.parked = {row.route: row for row in self._around.store.parked()}

    @staticmethod
    def is_gone(task: Task, answer: Answer, target: RouteTarget) -> bool:
        """True where this answer parks the route of *task*."""
        return (
            target.parks
            and task.leg is Leg.EVENT
            and isinstance(answer, Reply)
            and answer.status == GONE
        )

    def park(self, route: str, target: RouteTarget, failure: Failure) -> None:
        """Send nothing to *route* from now on."""
        if route in self.parked:
            return
        now_ms = self._around.clock.wall_ms()
        row = ParkedRow(
            route, target.revision, self._seen_seq, now_ms, failure.reason, failure.dest
        )
        self.parked[route] = row
        self._ledger.put_parked(route, row)
        self._around.meter.add("parked_total")
        fields: dict[str, object] = {"route": route, "sink": failure.dest}
        self._around.warn("subscription-parked", fields | {"reason": failure.reason})
        self._take_back(route, target.sink.lane)

    def look(self) -> None:
        """Let those go on whose owner has asked for it, or has changed the subscription."""
        resumed = set()
        for demand in self._around.targets.demands(self._seen_seq):
            self._seen_seq = demand.seq
            if demand.kind == "resume":
                row = self.parked.get(demand.route)
                if row is not None and demand.seq > row.demand_seq:
                    resumed.add(row.route)
        for route, row in self.parked.items():
            target = self._around.targets.get(route)
            if target is not None and target.revision > row.revision:
                resumed.add(route)
        for route in resumed:
            self._resume(route)

    def _resume(self, route: str) -> None:
        del self.parked[route]
        self._ledger.put_parked(route, None)
        self._around.report("subscription-resumed", {"route": route})
        self._wake(waits_for_resume(route))

    def route_deleted(self, route: str) -> None:
        """Nobody resumes it any more."""
        if self.parked.pop(route, None) is not None:
            self._ledger.put_parked(route, None)
            self._wake(waits_for_resume(route))
