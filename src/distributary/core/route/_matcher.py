"""The port of a matcher, and the plain one that tests one route after the other."""

from typing import Protocol

from distributary.core import filter as filters
from distributary.core.event import Event
from distributary.core.flow import RouteRecord


class Matcher(Protocol):
    """A set of routes that says which of them an event matches.

    It does not look at where an event was published: the routes of one address are one set.

    Pure: no I/O, no clock. Not safe for use by two threads at once.
    """

    def put(self, record: RouteRecord) -> None:
        """Add the route, or replace the one with its uid, which then keeps its place in the order.

        Raises:
            ResourceError: Its filters cannot be compiled; nothing has changed.
        """

    def remove(self, uid: str) -> None:
        """Remove the route; nothing happens where there is none."""

    def match(self, event: Event) -> tuple[str, ...]:
        """Uids of the routes that match, in the order in which the routes were created.

        The event is a valid one: ``type`` and ``source`` are strings.
        """

    def another(self) -> "Matcher":
        """A matcher without routes that shares what this one may keep in memory."""

    def __len__(self) -> int:
        """How many routes there are."""


class WalkMatcher:
    """A matcher that tests one route after the other: for one route, and as an oracle in tests.

    It says the same as ``filter.naive_matches`` for every route, which the property tests hold.
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
        """See ``Matcher.another``; it keeps nothing that would be shared."""
        return WalkMatcher()

    def __len__(self) -> int:
        return len(self._tests)


class BlindMatcher:
    """A matcher that matches nothing: where a table's records alone are wanted, as for a snapshot.

    It compiles no filter, which is nearly all that 100,000 routes cost.
    """

    def __init__(self) -> None:
        self._uids: set[str] = set()

    def put(self, record: RouteRecord) -> None:
        """See ``Matcher.put``; but filters are not looked at."""
        self._uids.add(record.uid)

    def remove(self, uid: str) -> None:
        self._uids.discard(uid)

    def match(self, _event: Event) -> tuple[str, ...]:
        """Always empty."""
        return ()

    def another(self) -> "BlindMatcher":
        """See ``Matcher.another``; it keeps nothing that would be shared."""
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
