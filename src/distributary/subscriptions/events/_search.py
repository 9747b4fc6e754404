"""Searches all partitions of the log, the newest events first, within a bound of work."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from distributary.core.errors import EventError
from distributary.core.flow import AddressedEvents, Logged, Position, events_of
from distributary.core.log.finder import Budget, Finder, Question, SearchedLog, needle
from distributary.core.log.taken import OnceLimits, named
from distributary.subscriptions.events._cursor import Below, read_cursor, write_cursor
from distributary.subscriptions.events._query import EventPage, EventQuery, FoundEvent

LOOKED_RECORDS_MAX: Final = 20_000
"""Records that one request reads: a tenth of a second. The cursor goes on behind them."""
LOOKED_BYTES_MAX: Final = 64 * 1024 * 1024
"""The same for their bytes: a segment."""


class Scope:
    """Which events somebody may see: those of their namespace's addresses, and of its timers.

    Args:
        paths: Path by address.
        has_route: Whether the route with a uid is of the namespace.
        timers: Whether events of timers are asked for too.
    """

    def __init__(
        self, paths: Mapping[str, str], has_route: Callable[[str], bool], *, timers: bool
    ) -> None:
        self._paths = paths
        self._has_route = has_route
        self._timers = timers
        self._known: dict[str, bool] = {}

    def holds(self, events: AddressedEvents) -> bool:
        """Whether the events of a record are in the scope."""
        route = events.route
        if not route:
            return events.address in self._paths
        if not self._timers:
            return False
        if route not in self._known:
            self._known[route] = self._has_route(route)
        return self._known[route]

    def found(self, partition: int, logged: Logged, events: AddressedEvents) -> list[FoundEvent]:
        """The events of a record in the scope."""
        path = None if events.route else self._paths[events.address]
        return [
            FoundEvent(
                Position(partition, logged.offset, index),
                logged.time_ms,
                events.address,
                path,
                events.route,
                event,
            )
            for index, event in enumerate(events.events)
        ]


class _Side:
    """The search in one partition."""

    def __init__(
        self, finder: Finder, below: Below | None, scope: Scope, asked: EventQuery
    ) -> None:
        self.finder = finder
        self.hits: deque[FoundEvent] = deque()
        self._below = below
        self._scope = scope
        self._attributes = asked.attributes

    def step(self, budget: Budget) -> None:
        """Look at more records."""
        for logged in self.finder.step(budget):
            events = decoded(logged)
            assert events is not None
            each = self._scope.found(self.finder.partition, logged, events)
            self.hits.extend(hit for hit in reversed(each) if self._fits(hit))

    def _fits(self, hit: FoundEvent) -> bool:
        if self._below is not None and hit.position[1:] >= self._below:
            return False
        return fits(hit.event.text, self._attributes)

    @property
    def newest_ms(self) -> float | None:
        """No event that is left is younger than this; None: none is left."""
        if self.hits:
            return self.hits[0].time_ms
        if self.finder.done:
            return None
        return float("inf") if self.finder.newest_ms is None else self.finder.newest_ms

    @property
    def left(self) -> Below:
        """Where the next search goes on."""
        if self.hits:
            _, offset, index = self.hits[0].position
            return Below(offset, index + 1)
        before = Below(self.finder.before, 0)
        return before if self._below is None else min(before, self._below)


def search(log: SearchedLog, asked: EventQuery, scope: Scope) -> EventPage:
    """Find events; blocks for a tenth of a second at most, where no disk stands still.

    Args:
        log: The log.
        asked: Which events.
        scope: Who may see what.

    Raises:
        ResourceError: The cursor is invalid.
        LogUnavailableError: The log cannot be read.
    """
    places = None if asked.cursor is None else read_cursor(asked.cursor)
    budget = Budget(LOOKED_RECORDS_MAX, LOOKED_BYTES_MAX)
    sides: list[_Side] = []
    try:
        for partition in range(log.partitions):
            if places is None or partition in places:
                below = None if places is None else places[partition]
                sides.append(_side(log, partition, asked, scope, below))
        items = _merged(sides, budget, asked.limit)
        left = [side for side in sides if side.newest_ms is not None]
        if not left:
            return EventPage(items, None, None)
        bounds = [bound for side in left if (bound := side.newest_ms) is not None]
        looked_ms = max(bounds)
        cursor = write_cursor({side.finder.partition: side.left for side in left})
        return EventPage(items, cursor, None if looked_ms == float("inf") else int(looked_ms))
    finally:
        for side in sides:
            side.finder.close()


def earlier_of(log: SearchedLog, found: FoundEvent, limits: OnceLimits) -> Position | None:
    """The event that *found* repeats, so that readers pass it over; None: it repeats none.

    As ``core.log.repeats`` decides, but for records between the two: where a clock of a broker was
    set back there, owners may have delivered what this calls a repeat. Blocks as ``search`` does,
    and finds no repeat where the work for it is more.

    Args:
        log: The log.
        found: The event of a record of one.
        limits: Bounds of the window.

    Raises:
        LogUnavailableError: The log cannot be read.
    """
    partition, offset, _ = found.position
    mine = named(found.event)

    def wanted(logged: Logged) -> bool:
        events = decoded(logged)
        return (
            events is not None
            and not events.route
            and events.address == found.address
            and any(named(event) == mine for event in events.events)
        )

    needles = tuple(each for text in mine if (each := needle(text)))
    since = max(0, offset - limits.count_max)
    finder = Finder(log, partition, Question(mine[1], needles, wanted), before=offset, since=since)
    budget = Budget(LOOKED_RECORDS_MAX, LOOKED_BYTES_MAX)
    try:
        while not finder.done and not budget.spent:
            for earlier in finder.step(budget):
                young = found.time_ms - earlier.time_ms <= limits.age_max_s * 1000
                return Position(partition, earlier.offset, 0) if young else None
    finally:
        finder.close()
    return None


def _merged(sides: Sequence[_Side], budget: Budget, limit: int) -> list[FoundEvent]:
    """At most *limit* events, the newest first, as far as *budget* reaches."""
    items: list[FoundEvent] = []
    while len(items) < limit:
        bounds = [(side.newest_ms, bool(side.hits), side) for side in sides]
        left = [bound for bound in bounds if bound[0] is not None]
        if not left:
            break
        # Of equal times one that was found comes first: others would be looked for in vain.
        _, there, side = max(left, key=lambda bound: (bound[0], bound[1]))
        if there:
            items.append(side.hits.popleft())
        elif budget.spent:
            break
        else:
            side.step(budget)
    return items


def _side(
    log: SearchedLog, partition: int, asked: EventQuery, scope: Scope, below: Below | None
) -> _Side:
    reader = log.open(partition)
    try:
        since = 0 if asked.since_ms is None else reader.offset_at(asked.since_ms)
        before = None if asked.until_ms is None else reader.offset_at(asked.until_ms)
    finally:
        reader.close()
    if below is not None:
        reached = below.offset + 1 if below.number else below.offset
        before = reached if before is None else min(reached, before)
    attributes = asked.attributes

    def wanted(logged: Logged) -> bool:
        events = decoded(logged)
        if events is None or not scope.holds(events):
            return False
        return any(fits(event.text, attributes) for event in events.events)

    needles = tuple(found for value in attributes.values() if (found := needle(value)))
    question = Question(asked.id, needles, wanted)
    finder = Finder(log, partition, question, before=before, since=since)
    return _Side(finder, below, scope, asked)


def decoded(logged: Logged) -> AddressedEvents | None:
    """The events of a record; None: it has none, or cannot be read by this version."""
    try:
        return events_of(logged)
    except EventError:
        return None


def fits(text: Callable[[str], str | None], attributes: Mapping[str, str]) -> bool:
    """Whether an event, whose attributes *text* returns, has all of *attributes*."""
    return all(text(name) == value for name, value in attributes.items())
