"""Tracks routes whose deliveries are failing, for status and logs.

A route is reported from its third failed attempt without a delivery, or from its first final
failure, until a delivery succeeds: what failed for good is not sent again, so time heals nothing.
A delivery that succeeds while nothing fails costs one truth test.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from distributary.core.deliver.transport import BLOCKED
from distributary.core.outcome.rows import FailingRoute
from distributary.core.outcome.tallies import FAILURES_MIN
from distributary.core.policy import Decision, Verdict
from distributary.core.shown import shown_uri

BREAKER_OPEN: Final = "breaker-open"
"""Reason for a destination whose breaker is open."""
ROUTES_MAX: Final = 1_000
"""Most routes of the file of failing routes: some 300 KB. Those that failed last come first."""
TROUBLES_MAX: Final = 100_000
"""Most routes whose failures are remembered, some 30 MB: as many as there may be. The one with the
oldest last failure is evicted first."""


class _Trouble:
    """Failures of one route since its last delivery."""

    __slots__ = ("count", "dest", "final", "last_ms", "reason", "since_ms")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = self.last_ms = since_ms
        self.count = 0
        self.reason = ""
        self.dest = ""
        self.final = False


class Failing:
    """The failing routes of one partition. Times are wall clock, milliseconds."""

    def __init__(self) -> None:
        self._troubles: OrderedDict[str, _Trouble] = OrderedDict()
        self.troubles: Collection[str] = self._troubles
        """Routes of which an attempt has failed since their last delivery."""
        self._touched: set[str] = set()

    @property
    def any(self) -> bool:
        """Whether an attempt of any route has failed since its last delivery."""
        return bool(self._troubles)

    def load(self, rows: Iterable[FailingRoute]) -> None:
        """Continue with the rows of the last owner."""
        for row in rows:
            trouble = self._troubles[row.route] = _Trouble(row.since_ms)
            trouble.last_ms, trouble.count = row.last_ms, row.count
            trouble.reason, trouble.dest = row.reason, shown_uri(row.dest)
            trouble.final = True  # Otherwise it would not have been reported with fewer attempts.
            self._touched.add(row.route)

    def failed(self, route: str, verdict: Verdict, dest: str, now_ms: int) -> None:
        """An attempt of *route* at *dest* has failed."""
        trouble = self._note(route, verdict.reason, dest, now_ms)
        trouble.count += 1
        if verdict.decision is Decision.DEAD_LETTER:
            trouble.final = True

    def refused(self, route: str, dest: str, now_ms: int, reason: str = BREAKER_OPEN) -> bool:
        """Note that nothing of *route* is sent to *dest*, by default because its breaker is open.

        Returns:
            False if that was already known.
        """
        trouble = self._troubles.get(route)
        known = "" if trouble is None else trouble.reason
        if reason == BREAKER_OPEN and known == BLOCKED:
            reason = known  # the cause of the open breaker is more specific
        trouble = self._note(route, reason, dest, now_ms)
        trouble.count = max(trouble.count, FAILURES_MIN)  # as many attempts as open a breaker
        return known != reason

    def _note(self, route: str, reason: str, dest: str, now_ms: int) -> _Trouble:
        trouble = self._troubles.get(route)
        if trouble is None:
            if len(self._troubles) >= TROUBLES_MAX:
                self._touched.add(self._troubles.popitem(last=False)[0])
            trouble = self._troubles[route] = _Trouble(now_ms)
        else:
            self._troubles.move_to_end(route)
        trouble.last_ms = now_ms
        trouble.reason = reason
        trouble.dest = shown_uri(dest)
        self._touched.add(route)
        return trouble

    def delivered(self, route: str) -> None:
        """A delivery of *route* has succeeded, or the route is deleted."""
        if self._troubles.pop(route, None) is not None:
            self._touched.add(route)

    def take_touched(self) -> set[str]:
        """Remove and return the routes whose failures have changed since the last call."""
        touched, self._touched = self._touched, set()
        return touched

    def reported(self, route: str) -> FailingRoute | None:
        """The failures of *route* to report; None: there are none."""
        trouble = self._troubles.get(route)
        if trouble is None or not (trouble.final or trouble.count >= FAILURES_MIN):
            return None
        return FailingRoute(
            route=route,
            since_ms=trouble.since_ms,
            last_ms=trouble.last_ms,
            count=trouble.count,
            reason=trouble.reason,
            dest=trouble.dest,
        )

    def rows(self) -> list[FailingRoute]:
        """The routes to report: at most ``ROUTES_MAX``, those that failed last."""
        newest = list(islice(reversed(self._troubles), ROUTES_MAX))
        rows = (self.reported(route) for route in reversed(newest))
        return [row for row in rows if row is not None]
