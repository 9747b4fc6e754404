"""Covers: what an index may go by to find the expressions that an event can match.

A cover of an expression is a list of predicates of which every matching event satisfies at least
one. Dialects derive them when they compile; the index files each expression under one of
them, a condition that is necessary for a match.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from distributary.core.filter._dialect import Compiled, Cover, Predicate

_ALIKE: Final = frozenset({"specversion", "datacontenttype"})
"""Attributes that nearly all events share."""
_ALIKE_SELECTIVITY: Final = 1_000
_AFFIX_SELECTIVITY: Final = 4
_ONE_CHAR_SELECTIVITY: Final = 64
"""A prefix or suffix is taken to be met more often the shorter it is."""


def selectivity(cover: Cover) -> int:
    """How many events are taken to satisfy *cover*, in no particular unit: less is better.

    A guess from the texts alone, for a choice between covers that are all right: an exact text
    counts 1, a short prefix more, and so does what nearly all events share.
    """
    return sum(map(_selectivity, cover))


def _selectivity(predicate: Predicate) -> int:
    if predicate.attribute in _ALIKE:
        return _ALIKE_SELECTIVITY
    if predicate.how == "exact":
        return 1
    return _AFFIX_SELECTIVITY + _ONE_CHAR_SELECTIVITY // len(predicate.text)


def either(parts: Sequence[Compiled]) -> tuple[Cover, ...]:
    """The covers of "at least one of *parts* is true": one, of the best cover of each part.

    Empty where a part has none: what it matches is anybody's guess.
    """
    if not all(part.covers for part in parts):
        return ()
    joined = (predicate for part in parts for predicate in narrowest(part.covers))
    return (tuple(dict.fromkeys(joined)),)


def every(parts: Iterable[Compiled]) -> tuple[Cover, ...]:
    """The covers of "all of *parts* are true": those of each part."""
    return tuple(dict.fromkeys(cover for part in parts for cover in part.covers))


def narrowest(covers: Sequence[Cover]) -> Cover:
    """The cover that the fewest events are taken to satisfy; of equal ones the first."""
    return min(covers, key=selectivity)


def joined_reads(parts: Iterable[Compiled]) -> frozenset[str] | None:
    """Names of the attributes that any of *parts* looks at; None: any."""
    names: set[str] = set()
    for part in parts:
        if part.reads is None:
            return None
        names |= part.reads
    return frozenset(names)
