"""Covers: the predicates under which an index files an expression.

A cover of an expression is a list of predicates of which every matching event satisfies at least
one. Dialects derive covers when they compile; the index files each expression under one of them.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from distributary.core.filter._dialect import Compiled, Cover, Predicate

_ALIKE: Final = frozenset({"specversion", "datacontenttype"})
"""Attributes that have the same value in nearly all events."""
_ALIKE_SELECTIVITY: Final = 1_000
_AFFIX_SELECTIVITY: Final = 4
_ONE_CHAR_SELECTIVITY: Final = 64
"""Divided by the length of a prefix or suffix: shorter ones match more events."""


def selectivity(cover: Cover) -> int:
    """Estimate how many events satisfy *cover*, in no particular unit: less is better.

    A guess from the texts alone, to choose between valid covers: an exact text counts 1, a short
    prefix more, and so does a value that nearly all events share.
    """
    return sum(map(_selectivity, cover))


def _selectivity(predicate: Predicate) -> int:
    if predicate.attribute in _ALIKE:
        return _ALIKE_SELECTIVITY
    if predicate.how == "exact":
        return 1
    return _AFFIX_SELECTIVITY + _ONE_CHAR_SELECTIVITY // len(predicate.text)


def either(parts: Sequence[Compiled]) -> tuple[Cover, ...]:
    """Return the covers of "at least one of *parts* is true": one, of the best cover of each part.

    Empty if a part has none: then the matching events are not known.
    """
    if not all(part.covers for part in parts):
        return ()
    joined = (predicate for part in parts for predicate in narrowest(part.covers))
    return (tuple(dict.fromkeys(joined)),)


def every(parts: Iterable[Compiled]) -> tuple[Cover, ...]:
    """Return the covers of "all of *parts* are true": those of each part."""
    return tuple(dict.fromkeys(cover for part in parts for cover in part.covers))


def narrowest(covers: Sequence[Cover]) -> Cover:
    """Return the cover with the fewest expected events; of equal ones the first."""
    return min(covers, key=selectivity)


def joined_reads(parts: Iterable[Compiled]) -> frozenset[str] | None:
    """Return the names of the attributes that any of *parts* reads; None: any."""
    names: set[str] = set()
    for part in parts:
        if part.reads is None:
            return None
        names |= part.reads
    return frozenset(names)
