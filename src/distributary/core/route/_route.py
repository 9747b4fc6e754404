"""A route as the index holds it."""

import sys
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from distributary.core import filter as filters


class _Found:
    """What is read of a route that an event meets: first in memory, where it begins."""

    __slots__ = ("order", "test", "uid")

    order: int
    test: filters.Test | None
    uid: str


class Route(_Found):
    """A route as the index holds it: small, since there may be 100,000.

    Attributes:
        order: Its place in the order of creation.
        uid: Which route.
        test: What is left to decide once an event satisfies the cover; None: nothing.
    """

    __slots__ = ("_attribute", "_how", "_text")

    def __init__(
        self, order: int, uid: str, cover: filters.Cover, test: filters.Test | None
    ) -> None:
        self.order = order
        self.uid = uid
        self.test = test
        # Nearly all covers are one predicate; as a tuple in a tuple it is 100 bytes more.
        self._text: str | filters.Cover = cover
        if len(cover) == 1:
            self._how, attribute, self._text = cover[0]
            self._attribute = sys.intern(attribute)

    @property
    def cover(self) -> filters.Cover:
        """The predicates behind which it stands; none: it is among those that every event meets."""
        text = self._text
        if isinstance(text, str):
            return (filters.Predicate(self._how, self._attribute, text),)
        return text


class NewRoute(NamedTuple):
    """A route on its way into the index, with what is known of its test and not kept with it.

    Attributes:
        route: The route.
        comparisons_max: How many comparisons its test costs at most.
        conjuncts: The parts of its test; it matches where all of them hold.
    """

    route: Route
    comparisons_max: int
    conjuncts: Sequence[filters.Part]


Hits: TypeAlias = dict[int, str]
"""Uids of the routes that match, by order of creation; so it does not matter that a route with
several predicates may be met twice."""
