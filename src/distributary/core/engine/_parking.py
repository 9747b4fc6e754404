"""Halts routes: those whose sink responded 410 (Gone), and those that people paused or disabled.

A backfill covers the waiting matches with one row; matches whose attempt was in flight wait as
rows of their own. A *parked* route is a durable row here: a restart does not try again before it
is resumed or updated. A *paused* one is known from its resource (``Targets.halted``), and its dead
letters wait too.
"""

from distributary.core.engine.ports import RouteTarget
from distributary.core.engine.state import PartitionState
from distributary.core.engine.tallies import ENDED_MAX
from distributary.core.flow import Stage, Task
from distributary.core.outcome.dead_letter import Failure
from distributary.core.outcome.rows import ParkedRow
from distributary.core.policy import Answer, Reply

GONE = 410
"""Status 410 (RFC 9110, section 15.5.11)."""


def waits_for_resume(route: str) -> str:
    """Queue name on which rows and backfills of a parked route wait; never a valid sink URI."""
    return f"resume of {route}"


def is_gone(task: Task, answer: Answer, target: RouteTarget) -> bool:
    """True where this answer parks the route of *task*."""
    return (
        target.parks
        and task.stage is Stage.PRIMARY
        and isinstance(answer, Reply)
        and answer.status == GONE
    )


class Parking:
    """The halted routes of a partition: parked and paused ones.

    Args:
        state: Of the partition.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._effects = state.effects
        self._parked = state.parked
        self._halted = state.halted
        self._deleted: dict[str, None] = {}
        self._seen_seq = 0
        state.meter.add("parked_total", 0)

    def park(self, route: str, target: RouteTarget, failure: Failure) -> bool:
        """Park *route*: nothing is sent from now on. False if it already is."""
        if route in self._parked:
            return False
        row = ParkedRow(
            route,
            target.revision,
            self._seen_seq,
            self._state.now_ms,
            failure.reason,
            failure.dest,
        )
        self._parked[route] = row
        self._halted.add(route)
        self._effects.put_parked(route, row)
        self._state.meter.add("parked_total")
        fields: dict[str, object] = {"route": route, "sink": failure.dest}
        self._effects.warn("subscription-parked", fields | {"reason": failure.reason})
        return True

    def look(self) -> list[str]:
        """Resume routes on demand, or because their subscription has changed.

        Returns:
            The resumed routes.
        """
        resumed: dict[str, None] = {}
        for demand in self._state.targets.demands(self._seen_seq):
            self._seen_seq = demand.seq
            if demand.kind == "resume":
                row = self._parked.get(demand.route)
                if row is not None and demand.seq > row.demand_seq:
                    resumed[row.route] = None
        for route, row in self._parked.items():
            target = self._state.targets.get(route)
            if target is not None and target.revision > row.revision:
                resumed[route] = None
        for route in resumed:
            self.end(route)
            self._effects.report("subscription-resumed", {"route": route})
        return list(resumed)

    def end(self, route: str) -> bool:
        """Unpark *route*; False if it was not parked."""
        if self._parked.pop(route, None) is None:
            return False
        if route not in self._state.paused:
            self._halted.discard(route)
        self._effects.put_parked(route, None)
        return True

    def delete(self, route: str) -> bool:
        """Forget *route*, which is deleted; False if nothing of it was held.

        Its resource may go on to say that it is paused.
        """
        was_halted = route in self._halted
        self._deleted[route] = None
        if len(self._deleted) > ENDED_MAX:
            del self._deleted[next(iter(self._deleted))]
        self.end(route)
        self._halted.discard(route)
        return was_halted

    def follow(self) -> tuple[list[str], list[str]]:
        """Take over which routes are paused or disabled.

        Returns:
            The routes that are newly paused, and those that are not any more.
        """
        before, now = self._state.paused, self._state.targets.halted()
        if now is before:
            return [], []
        begun, ended = sorted(now - before), sorted(before - now)
        self._state.paused = now
        # A pause may be learned of after the record that deletes its route: nothing would end it.
        begun = [route for route in begun if route not in self._deleted]
        self._halted.update(begun)
        for route in ended:
            if route not in self._parked:
                self._halted.discard(route)
        return begun, ended
