"""Buckets of the index: the routes filed under one predicate."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from distributary.core.event import Event
from distributary.core.route._batches import Budget, RouteBatch
from distributary.core.route._route import Hits, NewRoute, Route

SIMPLE_ROUTES_MAX: Final = 4
"""Up to this many routes under one predicate are tested one by one: memos would cost more."""
SIMPLE_COMPARISONS_MAX: Final = 8
"""A route whose test may take more comparisons is never tested alone."""


class LargeBucket:
    """Many routes under one predicate: those that need no test, and batches of those that do."""

    __slots__ = ("_batched", "_batches", "_budget", "_plain")

    def __init__(self, few: Iterable[Route], budget: Budget) -> None:
        self._budget = budget
        self._plain: dict[int, Route] = {route.order: route for route in few}
        self._batches: list[RouteBatch] = []
        self._batched: dict[int, tuple[RouteBatch, int]] = {}

    def put(self, new_route: NewRoute) -> None:
        """Add a route."""
        order = new_route.route.order
        if all(part.reads is None for part in new_route.conjuncts):
            self._plain[order] = new_route.route
            return
        batch = next((batch for batch in self._batches if not batch.full), None)
        if batch is None:
            batch = RouteBatch(self._budget)
            self._batches.append(batch)
        self._batched[order] = batch, batch.put(new_route)

    def remove(self, route: Route) -> None:
        """Remove *route*, which is here."""
        if self._plain.pop(route.order, None) is None:
            batch, bit = self._batched.pop(route.order)
            batch.remove(bit)
            if not len(batch):
                self._batches.remove(batch)

    def __len__(self) -> int:
        return len(self._plain) + len(self._batched)

    @property
    def decided(self) -> bool:
        """As the function ``decided``."""
        return not self._batched and all(route.test is None for route in self._plain.values())

    def collect(self, event: Event, hits: Hits) -> None:
        """Add to *hits* the routes here that match *event*."""
        for route in self._plain.values():
            if route.test is None or route.test(event.attributes):
                hits[route.order] = route.uid
        for batch in self._batches:
            batch.collect(event.attributes, hits)


Bucket: TypeAlias = Route | tuple[Route, ...] | LargeBucket
"""The routes under one predicate: one, as is usual, a few, or many."""


def with_route(bucket: Bucket | None, new_route: NewRoute, budget: Budget) -> Bucket:
    """Return *bucket* with *new_route*."""
    if not isinstance(bucket, LargeBucket):
        few = _few(bucket)
        if len(few) < SIMPLE_ROUTES_MAX and new_route.comparisons_max <= SIMPLE_COMPARISONS_MAX:
            return (*few, new_route.route) if few else new_route.route
        bucket = LargeBucket(few, budget)
    bucket.put(new_route)
    return bucket


def without_route(bucket: Bucket, route: Route) -> Bucket | None:
    """Return *bucket* without *route*, which is in it; None: the bucket is empty."""
    if isinstance(bucket, LargeBucket):
        bucket.remove(route)
        return bucket if len(bucket) else None
    left = tuple([one for one in _few(bucket) if one is not route])
    return left if len(left) > 1 else next(iter(left), None)


def count(bucket: Bucket | None) -> int:
    """Return the number of routes in *bucket*."""
    return len(bucket) if isinstance(bucket, LargeBucket) else len(_few(bucket))


def decided(bucket: Bucket) -> bool:
    """Whether the predicate alone decides about all routes in *bucket*: none needs a test."""
    if isinstance(bucket, LargeBucket):
        return bucket.decided
    return all(route.test is None for route in _few(bucket))


def _few(bucket: Route | tuple[Route, ...] | None) -> tuple[Route, ...]:
    if bucket is None:
        return ()
    return (bucket,) if isinstance(bucket, Route) else bucket
