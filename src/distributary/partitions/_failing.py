"""Routes whose deliveries fail now: noted as attempts are settled, told in a file.

``knative`` reads the file and shows it in the conditions of Triggers and Subscriptions. A delivery
that succeeds while nothing fails costs a truth test.
"""

from collections import OrderedDict
from typing import Final

from distributary.core.deliver import BLOCKED
from distributary.core.engine.ports import BREAKER_OPEN
from distributary.core.errors import StoreError
from distributary.core.outcome import FailingRoute, read_failing, write_failing
from distributary.core.policy import Decision, Verdict
from distributary.core.shown import shown_uri
from distributary.partitions.context import PartitionContext

FAILURES_MIN: Final = 3
"""So many failed attempts in a row are told: one or two are a restart of the sink."""
FINAL_S: Final = 60.0
"""A single final failure is told for so long, unless a delivery follows."""
ROUTES_MAX: Final = 1_000
"""Routes that are told: some 300 KB. The one whose last failure is oldest goes first."""
TOLD_EVERY_S: Final = 1.0
"""The file is written this often at most."""


class _Trouble:
    """What failed of one route since its last delivery."""

    __slots__ = ("count", "dest", "final_s", "last_ms", "reason", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = self.last_ms = since_ms
        self.count = 0
        self.reason = ""
        self.dest = ""
        self.final_s = float("-inf")


class Failing:
    """The routes of one partition that fail.

    Args:
        context: Ports of the owner.
    """

    def __init__(self, context: PartitionContext) -> None:
        self._context = context
        self._clock = context.clock
        self._path = context.failing_path
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()
        self._told: list[FailingRoute] = []
        self._told_s = float("-inf")
        self._telling = False
        for row in read_failing(self._path):
            trouble = self._troubles[row.route] = _Trouble(row.since_ms)
            trouble.last_ms, trouble.count = row.last_ms, row.count
            trouble.reason, trouble.dest = row.reason, shown_uri(row.dest)
            self._told.append(row)

    @property
    def any(self) -> bool:
        """Whether an attempt of any route has failed since its last delivery."""
        return bool(self._troubles)

    def failed(self, route: str, verdict: Verdict, dest: str) -> None:
        """An attempt of *route* at *dest* has failed."""
        trouble = self._note(route, verdict.reason, dest)
        trouble.count += 1
        if verdict.decision is Decision.DEAD_LETTER:
            trouble.final_s = self._clock.monotonic_s()

    def refused(self, route: str, dest: str, reason: str = BREAKER_OPEN) -> bool:
        """Nothing of *route* is sent to *dest* now, by default since its breaker is open.

        Returns:
            False where that was known already.
        """
        trouble = self._troubles.get(route)
        known = "" if trouble is None else trouble.reason
        if reason == BREAKER_OPEN and known == BLOCKED:
            reason = known  # what has opened the breaker says more
        trouble = self._note(route, reason, dest)
        trouble.count = max(trouble.count, FAILURES_MIN)  # as many attempts as open a breaker
        return known != reason

    def _note(self, route: str, reason: str, dest: str) -> _Trouble:
        now_ms = self._clock.wall_ms()
        trouble = self._troubles.get(route)
        if trouble is None:
            if len(self._troubles) >= ROUTES_MAX:
                self._troubles.popitem(last=False)
            trouble = self._troubles[route] = _Trouble(now_ms)
        else:
            self._troubles.move_to_end(route)
        trouble.last_ms = now_ms
        trouble.reason = reason
        trouble.dest = shown_uri(dest)
        return trouble

    def delivered(self, route: str) -> None:
        """A delivery of *route* has succeeded, or the route is deleted."""
        self._troubles.pop(route, None)

    def tick(self) -> None:
        """Tell what has changed, beside the loop."""
        now_s = self._clock.monotonic_s()
        if self._telling or now_s - self._told_s < TOLD_EVERY_S:
            return
        if not self._troubles and not self._told:
            return
        self._told_s = now_s
        rows = self._rows(now_s)
        if rows == self._told:
            return
        self._telling = True
        self._told = rows
        self._context.aside.run(lambda: write_failing(self._path, rows), self._written)

    def _rows(self, now_s: float) -> list[FailingRoute]:
        return [
            FailingRoute(
                route=route,
                since_ms=trouble.since_ms,
                last_ms=trouble.last_ms,
                count=trouble.count,
                reason=trouble.reason,
                dest=trouble.dest,
            )
            for route, trouble in self._troubles.items()
            if trouble.count >= FAILURES_MIN or now_s - trouble.final_s < FINAL_S
        ]

    def _written(self, error: StoreError | None) -> None:
        self._telling = False
        if error is not None:
            self._told = []  # It is told again; a full disk must not stop deliveries.
            self._context.report("failing-not-told", {"error": str(error)})
