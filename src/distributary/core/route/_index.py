"""The indexed matcher: finds an event's routes without testing the others."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from distributary.core import filter as filters
from distributary.core.event import BinaryEvent, Event, canonical
from distributary.core.flow import RouteRecord
from distributary.core.route._attribute_index import AttributeIndex
from distributary.core.route._batches import Budget
from distributary.core.route._buckets import (
    Bucket,
    LargeBucket,
    count,
    decided,
    with_route,
    without_route,
)
from distributary.core.route._route import Hits, NewRoute, Route

_ALWAYS_PRESENT: Final = frozenset(("specversion", "id", "source", "type"))
"""Every event has these attributes: a test for their presence is void."""
_PRESENT_SELECTIVITY: Final = 128
"""Selectivity of a cover that needs an attribute present: worse than a prefix of one character,
better than a value that nearly all events share."""
_ASKED_MAX: Final = 4
"""Up to this many attributes are asked for one by one; to parse them all costs as much as to find
five."""
KNOWN_MAX: Final = 4_096
"""Most values of an attribute whose routes are remembered; some 2 MB. Sources and types of events
are far fewer; an attribute with more values is no longer remembered until a route changes."""
KNOWN_BYTES_MAX: Final = 256
"""Longer values are not remembered."""
KNOWN_ROUTES_MAX: Final = 16
"""Nor are values with more routes: to find them is not what such an event costs."""


class IndexMatcher:
    """A matcher whose cost depends on the matches, not on the number of routes.

    A route is filed under one *cover*: predicates of which every matching event satisfies at least
    one, derived from its ``types``, its ``source`` or its filters. An event looks up the predicates
    that it satisfies: exact ones by hash, prefixes and suffixes by the hash of each length. The
    routes found are tested for what the cover left open, if anything. Routes without a cover are
    candidates for every event; they, like many routes under one predicate, are tested in batches,
    with cached results for repeated values.

    Where one attribute alone decides about all routes, as the type of an event mostly does, the
    routes of its values are remembered.

    It agrees with ``WalkMatcher``, as the property tests check. ``docs/design/matching.md`` draws
    it.

    Args:
        budget: Bounds the cached values, shared with other matchers; None: a new one.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._routes: dict[str, Route] = {}
        self._created = 0
        self._budget = Budget() if budget is None else budget
        self._indexes: dict[str, AttributeIndex] = {}
        self._coverless = LargeBucket((), self._budget)
        self._sole: str | None = None  # the attribute of all covers
        self._known: dict[bytes | None, tuple[str, ...]] = {}  # by its value

    def put(self, record: RouteRecord) -> None:
        assert record.op == "put"
        conditions = list(_conditions(record))
        old = self._routes.get(record.uid)
        if old is None:
            order = self._created
            self._created += 1
        else:
            order = old.order
            self._take_out(old)
        new_route = _new_route(order, record.uid, conditions, self._narrowest(conditions))
        self._put_in(new_route)
        self._routes[record.uid] = new_route.route
        self._forget()

    def remove(self, uid: str) -> None:
        route = self._routes.pop(uid, None)
        if route is not None:
            self._take_out(route)
            self._forget()

    def _forget(self) -> None:
        """Forget the routes of values: the routes have changed."""
        self._known.clear()
        sole = len(self._indexes) == 1 and not len(self._coverless)
        self._sole = next(iter(self._indexes)) if sole else None

    def match(self, event: Event) -> tuple[str, ...]:
        sole = self._sole
        if sole is None or type(event) is not BinaryEvent:
            return self._match(event)
        value = event.written(sole)
        known = self._known.get(value)
        return self._learn(event, value) if known is None else known

    def _learn(self, event: BinaryEvent, value: bytes | None) -> tuple[str, ...]:
        """Match *event*; remember its routes if its *value* of the sole attribute decides alone."""
        found = self._match(event)
        if len(value or b"") > KNOWN_BYTES_MAX or len(found) > KNOWN_ROUTES_MAX:
            return found
        assert self._sole is not None
        met: list[Bucket] = []
        text = event.text(self._sole)
        if text is not None:
            self._indexes[self._sole].find(text, met)
        if not all(map(decided, met)):
            return found
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
            self._sole = None
        else:
            self._known[value] = found
        return found

    def _match(self, event: Event) -> tuple[str, ...]:
        met: list[Bucket] = []
        indexes = self._indexes
        if len(indexes) <= _ASKED_MAX and type(event) is BinaryEvent:
            for name, index in indexes.items():
                text = event.text(name)
                if text is not None:
                    index.find(text, met)
        else:
            for name, value in event.attributes.items():
                found = indexes.get(name)
                if found is not None:
                    found.find(value if isinstance(value, str) else canonical(value), met)
        hits: Hits = {}
        _collect(met, event, hits)
        if self._coverless:
            self._coverless.collect(event, hits)
        if len(hits) > 1:
            return tuple([hits[order] for order in sorted(hits)])
        return tuple(hits.values())

    def another(self) -> "IndexMatcher":
        return IndexMatcher(self._budget)

    def __len__(self) -> int:
        return len(self._routes)

    def _put_in(self, new_route: NewRoute) -> None:
        if not new_route.route.cover:
            self._coverless.put(new_route)
        for predicate in new_route.route.cover:
            index = self._indexes.get(predicate.attribute)
            if index is None:
                index = self._indexes[predicate.attribute] = AttributeIndex()
            index.put(predicate, with_route(index.get(predicate), new_route, self._budget))

    def _take_out(self, route: Route) -> None:
        if not route.cover:
            self._coverless.remove(route)
        for predicate in route.cover:
            index = self._indexes[predicate.attribute]
            bucket = index.get(predicate)
            assert bucket is not None
            left = without_route(bucket, route)
            if left is not None:
                index.put(predicate, left)
                continue
            index.remove(predicate)
            if not index:
                # or attributes that no route needs any more would stay for ever
                del self._indexes[predicate.attribute]

    def _narrowest(self, conditions: Sequence["_Condition"]) -> filters.Cover:
        """Return the cover with the fewest expected events, the first of equal ones, or none."""
        covers = (cover for condition in conditions for cover in condition.covers)
        return min(covers, key=lambda cover: sum(map(self._price, cover)), default=())

    def _price(self, predicate: filters.Predicate) -> int:
        """Return the cost of filing a route under *predicate*, in no particular unit.

        Values that many routes want are frequent in events: so the routes already filed there are a
        better estimate than any guess, and the condition that sets a route apart is chosen.
        """
        index = self._indexes.get(predicate.attribute)
        bucket = None if index is None else index.get(predicate)
        standing = count(bucket)
        selectivity = filters.selectivity((predicate,)) if predicate.text else _PRESENT_SELECTIVITY
        return selectivity * (1 + standing)


def _collect(met: list[Bucket], event: Event, hits: Hits) -> None:
    """Add to *hits* the routes in *met* that match *event*."""
    for bucket in met:
        if isinstance(bucket, Route):
            test = bucket.test
            if test is None or test(event.attributes):
                hits[bucket.order] = bucket.uid
        elif isinstance(bucket, tuple):
            for route in bucket:
                test = route.test
                if test is None or test(event.attributes):
                    hits[route.order] = route.uid
        else:
            bucket.collect(event, hits)


class _Condition(NamedTuple):
    """One condition of a route; all of them must hold.

    Attributes:
        comparisons_max: How many comparisons it costs at most.
        covers: Possible index keys.
        conjuncts: Its parts, which must all hold.
    """

    comparisons_max: int
    covers: tuple[filters.Cover, ...]
    conjuncts: tuple[filters.Part, ...]


def _conditions(record: RouteRecord) -> Iterator[_Condition]:
    if record.types:
        yield _one_of("type", record.types)
    if record.source is not None:
        yield _one_of("source", (record.source,))
    for name in record.present:
        if name not in _ALWAYS_PRESENT:
            yield _present(name)
    if record.filters:
        found = filters.compile(record.filters)
        yield _Condition(found.comparisons_max, found.covers, found.conjuncts)


def _one_of(name: str, texts: tuple[str, ...]) -> _Condition:
    each = frozenset(texts)
    cover = tuple(filters.Predicate("exact", name, text) for text in dict.fromkeys(texts))

    def test(attributes: filters.Attributes) -> bool:
        return attributes.get(name) in each

    return _Condition(1, (cover,), (filters.Part(test, frozenset((name,)), cover),))


def _present(name: str) -> _Condition:
    cover = (filters.Predicate("prefix", name, ""),)

    def test(attributes: filters.Attributes) -> bool:
        return name in attributes

    return _Condition(1, (cover,), (filters.Part(test, frozenset((name,)), cover),))


def _new_route(
    order: int, uid: str, conditions: Sequence[_Condition], cover: filters.Cover
) -> NewRoute:
    """Make the route for *cover*, with the tests that the cover does not decide."""
    comparisons_max, parts = 0, []
    for condition in conditions:
        left = [part for part in condition.conjuncts if not cover or part.decided_by != cover]
        comparisons_max += condition.comparisons_max if left else 0
        parts += left
    test = filters.all_of([part.test for part in parts]) if parts else None
    return NewRoute(Route(order, uid, cover, test), comparisons_max, parts)
