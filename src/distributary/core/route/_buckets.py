"""What stands behind one predicate of the index: a few routes, or many."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from distributary.core import filter as filters
from distributary.core.route._banks import Bank, Budget
from distributary.core.route._route import Arrival, Hits, Route

SIMPLE_ROUTES_MAX: Final = 4
"""So many routes behind one predicate are simply tested: to look into memos costs more."""
SIMPLE_COMPARISONS_MAX: Final = 8
"""A route whose test may take more comparisons than this is never simply tested."""


class Crowd:
    """Many routes behind one predicate: those that need no test, and banks of those that do."""

    __slots__ = ("_banked", "_banks", "_budget", "_plain")

    def __init__(self, few: Iterable[Route], budget: Budget) -> None:
        self._budget = budget
        self._plain: dict[int, Route] = {route.order: route for route in few}
        self._banks: list[Bank] = []
        self._banked: dict[int, tuple[Bank, int]] = {}

    def put(self, arrival: Arrival) -> None:
        """Add a route."""
        order = arrival.route.order
        if all(part.reads is None for part in arrival.conjuncts):
            self._plain[order] = arrival.route
            return
        bank = next((bank for bank in self._banks if not bank.full), None)
        if bank is None:
            bank = Bank(self._budget)
            self._banks.append(bank)
        self._banked[order] = bank, bank.put(arrival)

    def remove(self, route: Route) -> None:
        """Take *route*, which is here, out."""
        if self._plain.pop(route.order, None) is None:
            bank, bit = self._banked.pop(route.order)
            bank.remove(bit)
            if not len(bank):
                self._banks.remove(bank)

    def __len__(self) -> int:
        return len(self._plain) + len(self._banked)

    def collect(self, attributes: filters.Attributes, hits: Hits) -> None:
        """Add to *hits* the routes here that match an event with *attributes*."""
        for route in self._plain.values():
            if route.test is None or route.test(attributes):
                hits[route.order] = route.uid
        for bank in self._banks:
            bank.collect(attributes, hits)


Bucket: TypeAlias = Route | tuple[Route, ...] | Crowd
"""The routes behind one predicate: one, as is usual, a few, or many."""


def with_route(bucket: Bucket | None, arrival: Arrival, budget: Budget) -> Bucket:
    """*bucket* and one route more."""
    if not isinstance(bucket, Crowd):
        few = _few(bucket)
        if len(few) < SIMPLE_ROUTES_MAX and arrival.comparisons_max <= SIMPLE_COMPARISONS_MAX:
            return (*few, arrival.route) if few else arrival.route
        bucket = Crowd(few, budget)
    bucket.put(arrival)
    return bucket


def without_route(bucket: Bucket, route: Route) -> Bucket | None:
    """*bucket* without *route*, which is in it; None: that was all."""
    if isinstance(bucket, Crowd):
        bucket.remove(route)
        return bucket if len(bucket) else None
    left = tuple([one for one in _few(bucket) if one is not route])
    return left if len(left) > 1 else next(iter(left), None)


def count(bucket: Bucket | None) -> int:
    """How many routes *bucket* is."""
    return len(bucket) if isinstance(bucket, Crowd) else len(_few(bucket))


def _few(bucket: Route | tuple[Route, ...] | None) -> tuple[Route, ...]:
    if bucket is None:
        return ()
    return (bucket,) if isinstance(bucket, Route) else bucket
