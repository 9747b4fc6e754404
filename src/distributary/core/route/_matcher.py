"""The matcher port, and the plain matcher that tests one route after the other."""

from typing import Protocol

from distributary.core import filter as filters
from distributary.core.event import Event
from distributary.core.flow import RouteRecord


class Matcher(Protocol):
    """A set of routes; finds those that match an event.

    It ignores where an event was published: the routes of one address are one set.

    Pure: no I/O, no clock. Not safe for use by two threads at once.
    """

    def put(self, record: RouteRecord) -> None:
        """Add the route, or replace the one with its uid, which then keeps its place in the order.

        Raises:
            ResourceError: Its filters cannot be compiled; nothing has changed.
        """

    def remove(self, uid: str) -> None:
        """Remove the route; no error if there is none."""

    def match(self, event: Event) -> tuple[str, ...]:
        """Return the uids of the matching routes, in the order of their creation.

        The event is a valid one: ``type`` and ``source`` are strings.
        """

    def another(self) -> "Matcher":
        """Return an empty matcher that shares this one's caches."""

    def __len__(self) -> int:
        """Return the number of routes."""


class WalkMatcher:
    """Tests one route after the other: for one route, and as an oracle in tests.

    It agrees with ``filter.naive_matches`` for every route, as the property tests check.
    """

    def __init__(self) -> None:
        self._tests: dict[str, filters.Test] = {}

    def put(self, record: RouteRecord) -> None:
        assert record.op == "put"
        self._tests[record.uid] = _route_test(record)

    def remove(self, uid: str) -> None:
        self._tests.pop(uid, None)

    def match(self, event: Event) -> tuple[str, ...]:
        attributes = event.attributes
        return tuple([uid for uid, test in self._tests.items() if test(attributes)])

    def another(self) -> "WalkMatcher":
        """As ``Matcher.another``; it has no caches to share."""
        return WalkMatcher()

    def __len__(self) -> int:
        return len(self._tests)


class BlindMatcher:
    """A matcher that matches nothing: for tables whose records are wanted, as for a snapshot.

    It compiles no filter, which is nearly all of the cost of 100,000 routes.
    """

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def put(self, record: RouteRecord) -> None:
        """As ``Matcher.put``, but ignores filters."""
        self._uids.add(record.uid)

    def remove(self, uid: str) -> None:
        self._uids.discard(uid)

    def match(self, _event: Event) -> tuple[str, ...]:
        """Always empty."""
        return ()

    def another(self) -> "BlindMatcher":
        """As ``Matcher.another``; it has no caches to share."""
        return BlindMatcher()

    def __len__(self) -> int:
        return len(self._uids)


def _route_test(record: RouteRecord) -> filters.Test:
    passes = filters.compile(record.filters).matches
    source, types = record.source, frozenset(record.types)
    present = frozenset(record.present)

    def test(attributes: filters.Attributes) -> bool:
        return (
            (source is None or attributes.get("source") == source)
            and (not types or attributes.get("type") in types)
            and (not present or present <= attributes.keys())
            and passes(attributes)
        )

    return test
