"""Routes whose deliveries fail now: noted as attempts are settled, told to people.

A delivery that succeeds while nothing fails costs a truth test.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from distributary.core.deliver.transport import BLOCKED
from distributary.core.outcome.rows import FailingRoute
from distributary.core.policy import Decision, Verdict
from distributary.core.shown import shown_uri

BREAKER_OPEN: Final = "breaker-open"
"""Why nothing is sent to a destination whose breaker is open."""
FAILURES_MIN: Final = 3
"""So many failed attempts in a row are told: one or two are a restart of the sink."""
FINAL_S: Final = 60.0
"""A single final failure is told for so long, unless a delivery follows."""
ROUTES_MAX: Final = 1_000
"""Routes that are told: some 300 KB. The one whose last failure is oldest goes first."""


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
    """The routes of one partition that fail. Times are of the input, as in ``PartitionState``."""

    def __init__(self) -> None:
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()

    def load(self, rows: Iterable[FailingRoute]) -> None:
        """Go on with what the last owner told."""
        for row in rows:
            trouble = self._troubles[row.route] = _Trouble(row.since_ms)
            trouble.last_ms, trouble.count = row.last_ms, row.count
            trouble.reason, trouble.dest = row.reason, shown_uri(row.dest)

    @property
    def any(self) -> bool:
        """Whether an attempt of any route has failed since its last delivery."""
        return bool(self._troubles)

    def failed(self, route: str, verdict: Verdict, dest: str, now_s: float, now_ms: int) -> None:
        """An attempt of *route* at *dest* has failed."""
        trouble = self._note(route, verdict.reason, dest, now_ms)
        trouble.count += 1
        if verdict.decision is Decision.DEAD_LETTER:
            trouble.final_s = now_s

    def refused(self, route: str, dest: str, now_ms: int, reason: str = BREAKER_OPEN) -> bool:
        """Nothing of *route* is sent to *dest* now, by default since its breaker is open.

        Returns:
            False where that was known already.
        """
        trouble = self._troubles.get(route)
        known = "" if trouble is None else trouble.reason
        if reason == BREAKER_OPEN and known == BLOCKED:
            reason = known  # what has opened the breaker says more
        trouble = self._note(route, reason, dest, now_ms)
        trouble.count = max(trouble.count, FAILURES_MIN)  # as many attempts as open a breaker
        return known != reason

    def _note(self, route: str, reason: str, dest: str, now_ms: int) -> _Trouble:
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

    def rows(self, now_s: float) -> list[FailingRoute]:
        """What is to be told at *now_s*."""
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
