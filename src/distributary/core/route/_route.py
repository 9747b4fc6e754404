"""A route in the index."""

import sys
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from distributary.core import filter as filters


class _Found:
    """The fields that matching reads, at the start of the object in memory."""

    __slots__ = ("order", "test", "uid")

    order: int
    test: filters.Test | None
    uid: str


class Route(_Found):
    """A route in the index: small, since there may be 100,000.

    Attributes:
        order: Its place in the order of creation.
        uid: Which route.
        test: What remains to be tested once an event satisfies the cover; None: nothing.
    """

    __slots__ = ("_attribute", "_how", "_text")

    def __init__(
        self, order: int, uid: str, cover: filters.Cover, test: filters.Test | None
    ) -> None:
        self.order = order
        self.uid = uid
        self.test = test
        # Nearly all covers are one predicate; a tuple in a tuple costs 100 bytes more.
        self._text: str | filters.Cover = cover
        if len(cover) == 1:
            self._how, attribute, self._text = cover[0]
            self._attribute = sys.intern(attribute)

    @property
    def cover(self) -> filters.Cover:
        """The predicates under which it is filed; none: it is a candidate for every event."""
        text = self._text
        if isinstance(text, str):
            return (filters.Predicate(self._how, self._attribute, text),)
        return text


class NewRoute(NamedTuple):
    """A route to be indexed, with facts about its test that are not kept.

    Attributes:
        route: The route.
        comparisons_max: How many comparisons its test costs at most.
        conjuncts: The parts of its test; it matches where all of them hold.
    """

    route: Route
    comparisons_max: int
    conjuncts: Sequence[filters.Part]


Hits: TypeAlias = dict[int, str]
"""Uids of the matching routes by order of creation; a dict, since an event may reach a route by
several predicates."""
