"""Counts what became of each route's matches, and tells which tallies have changed.

A delivery costs one look-up by its route and three sums; what a route has waiting and under way is
looked at once a second, and not counted with each match.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final

from distributary.core.engine.failing import Failing
from distributary.core.outcome.tallies import Tally

TAKEN_MAX: Final = 5_000
"""Most tallies handed over at once: some 5 ms of the loop. The others follow with the next."""

ENDED_MAX: Final = 100_000
"""Most deleted routes that are remembered: their last matches end within minutes."""


class _Touched(dict[str, Tally]):
    """The tallies that have changed; that of another route is looked for and becomes one of them.

    So each delivery finds its tally by one look-up.
    """

    def __init__(self, of: Callable[[str], Tally]) -> None:
        super().__init__()
        self._of = of

    def __missing__(self, route: str) -> Tally:
        return self._of(route)


class Tallies:
    """The tallies of the routes of one partition that this owner has met.

    Args:
        stored: Returns what the last owner stored of a route; None: nothing.
        exists: Whether a route is not deleted.

    Attributes:
        by_route: By the uid of the route.
        changing: The same, of the routes whose tallies have changed since they were handed over;
            ``changing[route]`` is ``of(route)``, in a tenth of the time.
    """

    def __init__(
        self, stored: Callable[[str], Tally | None], exists: Callable[[str], bool]
    ) -> None:
        self._stored = stored
        self._exists = exists
        self.by_route: dict[str, Tally] = {}
        self.changing: dict[str, Tally] = _Touched(self._find)
        self._gone: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        self._flying: Mapping[str, int] = {}
        self._waiting: set[str] = set()
        self._backfilling: set[str] = set()
        self._parked: set[str] = set()

    def of(self, route: str) -> Tally:
        """The tally of *route*, which changes now."""
        return self.changing[route]

    def _find(self, route: str) -> Tally:
        tally = self.by_route.get(route)
        if tally is None:
            if route in self._ended or not self._exists(route):
                return Tally()  # what is left of a deleted route has none
            tally = self._stored(route) or Tally()
            self.by_route[route] = tally
        self.changing[route] = tally  # handed over with the next ones
        return tally

    def load(self, standing: Mapping[str, Tally]) -> None:
        """Go on with what the last owner left of routes that were not at rest."""
        for route, tally in standing.items():
            self.by_route[route] = tally
        self._flying = {route: each.in_flight for route, each in standing.items()}
        self._waiting = {route for route, each in standing.items() if each.waiting}
        self._backfilling = {route for route, each in standing.items() if each.backfilling}
        self._parked = {route for route, each in standing.items() if each.parked}

    def forget(self, route: str) -> None:
        """Forget the deleted *route*."""
        self.by_route.pop(route, None)
        self.changing.pop(route, None)
        self._gone[route] = self._ended[route] = None
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]
        for routes in (self._waiting, self._backfilling, self._parked):
            routes.discard(route)

    # -- once a second -------------------------------------------------------------------------

    def note_flying(self, flying: Mapping[str, int]) -> None:
        """Note the attempts under way by route."""
        before, self._flying = self._flying, flying
        for route in before.keys() | flying.keys():
            count = flying.get(route, 0)
            if count != before.get(route, 0) and self._known(route):
                self.of(route).in_flight = count

    def note_waiting(self, changed: Iterable[str], rows: Mapping[str, int]) -> None:
        """Note the rows of the routes in *changed*, by route."""
        for route in {*changed, *self._waiting}:
            count = rows.get(route, 0)
            if self._known(route):
                tally = self.by_route.get(route)
                if count != (0 if tally is None else tally.waiting):
                    self.of(route).waiting = count
        self._waiting.clear()

    def note_backfilling(self, routes: Iterable[str]) -> None:
        """Note the routes with a backfill."""
        now = set(routes)
        before, self._backfilling = self._backfilling, now
        for route in before ^ now:
            if self._known(route):
                self.of(route).backfilling = route in now

    def note_parked(self, routes: Iterable[str]) -> None:
        """Note the parked routes."""
        now = set(routes)
        before, self._parked = self._parked, now
        for route in before ^ now:
            if self._known(route):
                self.of(route).parked = route in now

    def note_failing(self, failing: Failing) -> None:
        """Note the failures of routes whose failures have changed."""
        for route in failing.take_touched():
            if not self._known(route):
                continue
            row = failing.reported(route)
            if row is None and route not in self.by_route:
                continue
            tally = self.of(route)
            if row is None:
                tally.failing_since_ms = tally.failing_last_ms = tally.failing_count = 0
                tally.failing_reason = ""
                continue
            tally.failing_since_ms, tally.failing_last_ms = row.since_ms, row.last_ms
            tally.failing_count, tally.failing_reason = row.count, row.reason

    def _known(self, route: str) -> bool:
        """Whether *route* is not deleted: what is left of a deleted one has no tally."""
        return route not in self._ended

    def take(self) -> tuple[dict[str, Tally], list[str]]:
        """Remove and return changed tallies, and the routes deleted since the last call."""
        changing = self.changing
        if len(changing) > TAKEN_MAX:
            first = list(islice(changing, TAKEN_MAX))
            taken = {route: changing.pop(route) for route in first}
        else:
            taken = dict(changing)
            changing.clear()
        gone, self._gone = list(self._gone), {}
        return taken, gone

    def put_back(self, taken: Mapping[str, Tally], gone: Iterable[str]) -> None:
        """Hand these over again: they could not be stored."""
        for route in taken:
            tally = self.by_route.get(route)
            if tally is not None:
                self.changing[route] = tally
        self._gone.update(dict.fromkeys(gone))
