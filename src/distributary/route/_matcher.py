"""The port of a matcher, and the one that walks over compiled closures."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from distributary import filter as filters
from distributary.event import AttributeValue, Event
from distributary.flow import RouteRecord


class Matcher(Protocol):
    """A set of routes that says which of them an event matches.

    Pure: no I/O, no clock. Not safe for use by two threads at once.
    """

    def put(self, record: RouteRecord) -> None:
        """Add the route, or replace the one with its uid, which then keeps its place in the order.

        Raises:
            ResourceError: Its filters cannot be compiled; nothing has changed.
        """
        ...

    def remove(self, uid: str) -> None:
        """Remove the route; nothing happens where there is none."""
        ...

    def match(self, event: Event) -> tuple[str, ...]:
        """Uids of the routes that match, in the order in which the routes were created.

        The event is a valid one: ``type`` and ``source`` are strings.
        """
        ...

    def record(self, uid: str) -> RouteRecord | None:
        """The record that put the route there; None: there is no such route."""
        ...

    def records(self) -> Iterable[RouteRecord]:
        """All routes, in the order in which they were created; for snapshots."""
        ...

    def __len__(self) -> int:
        """How many routes there are."""
        ...


_Entry = tuple[int, str, filters.Test]
"""Place in the order of creation, uid, test (a plain tuple: it is read for every candidate)."""

_Group = dict[str, _Entry]
"""Routes by uid that are tested together."""

_Index = dict[AttributeValue | None, _Group]
"""Groups by the value of one attribute. The keys are strings; the type is what events hold."""


_REST: Final = ""
"""The one key of the index of all routes that no other index holds."""


class _Route(NamedTuple):
    """A route, and where it stands so that it can leave."""

    record: RouteRecord
    entry: _Entry
    groups: tuple[tuple[_Index, str], ...]


class WalkMatcher:
    """A matcher that tests one route after the other, but only those that can match.

    Each route stands in the groups of the event types that it asks for (by ``types``, or by a
    filter that requires one type), else in the group of its source, else among the rest. An event
    walks over the group of its type, the group of its source and the rest. So routes that ask for
    other types cost nothing, and the rest cost one closure each.

    It says the same as ``filter.naive_matches`` for every route, which the property tests hold.
    """

    def __init__(self) -> None:
        self._routes: dict[str, _Route] = {}
        self._by_type: _Index = {}
        self._by_source: _Index = {}
        self._rest: _Index = {_REST: {}}
        self._created = 0

    def put(self, record: RouteRecord) -> None:
        """See ``Matcher.put``."""
        assert record.op == "put"
        compiled = filters.compile(record.filters)
        old = self._routes.get(record.uid)
        if old is None:
            order = self._created
            self._created += 1
        else:
            order = old.entry[0]
            self._leave_groups(old)
        route = _Route(
            record,
            (order, record.uid, _route_test(record, compiled)),
            self._groups(record, compiled),
        )
        for index, key in route.groups:
            index.setdefault(key, {})[record.uid] = route.entry
        self._routes[record.uid] = route

    def remove(self, uid: str) -> None:
        """See ``Matcher.remove``."""
        route = self._routes.pop(uid, None)
        if route is not None:
            self._leave_groups(route)

    def match(self, event: Event) -> tuple[str, ...]:
        """See ``Matcher.match``."""
        attributes = event.attributes
        hits = [entry for entry in self._rest[_REST].values() if entry[2](attributes)]
        group = self._by_type.get(attributes.get("type"))
        if group is not None:
            hits += [entry for entry in group.values() if entry[2](attributes)]
        group = self._by_source.get(attributes.get("source"))
        if group is not None:
            hits += [entry for entry in group.values() if entry[2](attributes)]
        if len(hits) > 1:
            hits.sort()  # by creation: orders differ, so nothing behind them is compared
        return tuple([uid for _, uid, _ in hits])

    def record(self, uid: str) -> RouteRecord | None:
        """See ``Matcher.record``."""
        route = self._routes.get(uid)
        return None if route is None else route.record

    def records(self) -> Iterator[RouteRecord]:
        """See ``Matcher.records``."""
        return (route.record for route in self._routes.values())

    def __len__(self) -> int:
        return len(self._routes)

    def _groups(
        self, record: RouteRecord, compiled: filters.Filter
    ) -> tuple[tuple[_Index, str], ...]:
        """The groups that together meet every event which the route can match, each event once."""
        if record.types:
            return tuple((self._by_type, name) for name in dict.fromkeys(record.types))
        if "type" in compiled.required:
            return ((self._by_type, compiled.required["type"]),)
        source = compiled.required.get("source") if record.source is None else record.source
        if source is not None:
            return ((self._by_source, source),)
        return ((self._rest, _REST),)

    def _leave_groups(self, route: _Route) -> None:
        for index, key in route.groups:
            group = index[key]
            del group[route.record.uid]
            if not group and index is not self._rest:
                del index[key]  # or types that nobody asks for any more would stay for ever


def _route_test(record: RouteRecord, compiled: filters.Filter) -> filters.Test:
    """The whole test of a route but for ``types``, which the groups have answered."""
    source = record.source
    passes = compiled.matches
    if source is None:
        return passes
    if not record.filters:
        return lambda attributes: attributes.get("source") == source
    return lambda attributes: attributes.get("source") == source and passes(attributes)
