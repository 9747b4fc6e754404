"""The way of one event: what matched it and what did not, every attempt, and what became of it."""

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple, Protocol

from distributary.core.flow import TOLD, Position, RouteRecord
from distributary.history.attempts import EventRow
from distributary.subscriptions.events._query import FoundEvent
from distributary.subscriptions.events._why import Reason, effort_of, passes, why_not
from distributary.subscriptions.store.demands import RouteName
from distributary.subscriptions.store.event_rows import RouteTimes
from distributary.subscriptions.store.store import Store

MATCHES_MAX: Final = 500
"""Routes that are told of one event, those that matched first. A Broker may have 100,000."""
LOOKED_ROUTES_MAX: Final = 2_000
"""Routes whose filters are evaluated: some 10 ms, and another 10 to explain those that are told."""
LOOKED_EFFORT_MAX: Final = 20_000
"""Expressions that are evaluated, and characters of CloudEvents SQL that are parsed: some 4 us
each."""


MADE_LATER: Final = Reason("$", "it was made after the event came")
AT_ANOTHER_BROKER: Final = Reason("$.config.broker", "it listens at another Broker or Channel")
OF_ANOTHER_TIMER: Final = Reason("$.config.interval", "the timer of another subscription made it")


class Routes(Protocol):
    """The routes of all resources, as they are now."""

    def follow(self) -> None:
        """Read changes now that the next question would read; no question depends on it.

        Raises:
            DistributaryError: They cannot be read now.
        """

    def at(self, address: str, most: int) -> Iterable[RouteRecord]:
        """The newest record of each route that listens at *address*, the first *most* of them.

        Raises:
            DistributaryError: They cannot be read now.
        """

    def one(self, uid: str) -> RouteRecord | None:
        """The newest record of the route with this uid; None: there is none."""


class Match(NamedTuple):
    """One route, and an event.

    Attributes:
        uid: Of the route.
        name: Owner of the route, as far as it is known.
        revision: The newest one that took part; of a route that did not match, its newest one.
        matched: Whether the event is for the route: the history has it, or else its newest filters
            say so.
        why: Why not.
        changed: Its filters may have changed since the event was accepted.
        rows: The attempts and outcomes, in their order.
        ended: It has had its outcome, which is not recorded, or not any more.
        deleted: The owner of the route was deleted, or has ended: the history alone knows of it.
    """

    uid: str
    name: RouteName | None
    revision: int | None
    matched: bool
    why: Sequence[Reason]
    changed: bool
    rows: Sequence[EventRow]
    ended: bool = False
    deleted: bool = False

    @property
    def outcome(self) -> EventRow | None:
        """The newest row with an outcome; None: there is none yet."""
        ends = [row for row in self.rows if row.outcome is not None]
        return ends[-1] if ends else None


class EventWay(NamedTuple):
    """The way of an event.

    Attributes:
        found: The event.
        by: Who published it; None: unknown.
        matches: Routes, those that matched first.
        more: Whether there are more routes than were looked at.
        attempts: Which attempts have rows: ``all``, ``failures``, ``none``, or ``elsewhere``.
        repeats: Position of an earlier record of the same event, which is why this one was
            delivered to nobody; None: it is no repeat.
    """

    found: FoundEvent
    by: str | None
    matches: Sequence[Match]
    more: bool
    attempts: str
    repeats: Position | None = None


def matches_of(
    found: FoundEvent,
    rows: Sequence[EventRow],
    routes: Routes,
    store: Store,
    only: str | None = None,
    *,
    waits: AbstractSet[str] | None = None,
) -> tuple[list[Match], bool]:
    """The routes at the address of *found*, and whether there are more of them.

    Args:
        found: The event.
        rows: Of the history.
        routes: The routes as they are now.
        store: Names and times of their resources.
        only: Uid of the one route that is asked about, wherever it listens; None: all.
        waits: Routes for which the event still waited before *rows* were read; None: not known.

    Raises:
        DistributaryError: Routes or names cannot be read now.
    """
    by_route: dict[str, list[EventRow]] = {}
    for row in rows:
        if only is None or row.uid == only:
            by_route.setdefault(row.uid, []).append(row)
    matched = [_matched(uid, each) for uid, each in by_route.items()]
    others: list[tuple[RouteRecord, bool, list[Reason]]] = []
    more, spent = False, 0
    for record in _records(found, routes, LOOKED_ROUTES_MAX + len(by_route) + 1, only):
        if record.uid in by_route:
            continue
        effort = effort_of(record.filters)
        spent += sum(effort)
        if len(others) >= LOOKED_ROUTES_MAX or spent > LOOKED_EFFORT_MAX:
            more = True
            break
        why = [] if only is None else _elsewhere(record, found)
        # What tells of a route passes its filters.
        matches = not why and (found.address == TOLD or passes(record, found.event))
        # What was parsed is explained at once, before it is forgotten; the rest if it is told.
        if effort.sql_chars and not matches and not why:
            why = why_not(record, found.event)
        others.append((record, matches, why))
    others.sort(key=lambda each: not each[1])  # those that match first
    room = max(MATCHES_MAX - len(matched), 0)
    # Looked up in parts: a database takes a bounded number of names at once.
    times = store.route_times([record.uid for record, _, _ in others[:room]])
    for record, matches, why in others[:room]:
        born = times.get(record.uid)
        late = born is not None and _is_late(record, born, found.time_ms)
        if late and only is None:
            continue  # made later: it never saw the event
        in_words = why if matches or why else why_not(record, found.event)
        reasons = [MADE_LATER] if late else in_words
        matched.append(_unmatched(record, reasons, born, found.time_ms))
    names = store.route_names([match.uid for match in matched[:MATCHES_MAX]])
    told = [
        match._replace(
            name=names.get(match.uid, match.name),
            ended=match.matched
            and match.outcome is None
            and waits is not None
            and match.uid not in waits,
            deleted=match.uid not in names,
        )
        for match in matched
    ]
    return told[:MATCHES_MAX], more or len(others) > room or len(matched) > MATCHES_MAX


def _records(
    found: FoundEvent, routes: Routes, most: int, only: str | None
) -> Iterable[RouteRecord]:
    wanted = only or found.route
    if not wanted:
        return routes.at(found.address, most)
    record = routes.one(wanted)
    return () if record is None else (record,)


def _elsewhere(record: RouteRecord, found: FoundEvent) -> list[Reason]:
    """Why an event is for no filter of *record*; empty: its filters decide."""
    if found.route:
        return [] if record.uid == found.route else [OF_ANOTHER_TIMER]
    return [] if record.address == found.address else [AT_ANOTHER_BROKER]


def _is_late(record: RouteRecord, born: RouteTimes, time_ms: int) -> bool:
    """Whether no event of *time_ms* is known to be for a route: neither live nor where it began."""
    # Only the record of the first revision says where the route began: a ``start`` that came with a
    # replace counts for nothing. Where it was replaced, only the history shows older events.
    return time_ms < born.created_ms and (record.begin_ms is None or time_ms < record.begin_ms)


def _matched(uid: str, rows: Sequence[EventRow]) -> Match:
    last = rows[-1]
    name = None
    if last.subscription is not None and last.namespace is not None:
        name = RouteName("subscription", last.subscription, last.namespace)
    return Match(uid, name, last.revision, True, (), False, rows)


def _unmatched(
    record: RouteRecord, why: Sequence[Reason], born: RouteTimes | None, time_ms: int
) -> Match:
    changed = born is not None and born.changed_ms is not None and born.changed_ms > time_ms
    return Match(record.uid, None, record.revision, not why, why, changed, ())
