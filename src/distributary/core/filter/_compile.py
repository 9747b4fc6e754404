"""Compiles a ``filters`` array into one closure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from distributary.core.errors import ResourceError
from distributary.core.filter._check import check
from distributary.core.filter._dialect import Compiled, Cover, Part, Test
from distributary.core.filter._registry import REGISTRY


@dataclass(frozen=True, slots=True, eq=False)
class Filter:
    """A compiled ``filters`` array. Immutable; pickled as its JSON and recompiled on loading.

    Attributes:
        matches: Call it with an event's attributes: True if every expression holds. Pure and
            never raises. (A closure in a slot: no method call in between.)
        comparisons_max: How many comparisons one event costs at most.
        covers: Possible index keys: every matching event satisfies at least one predicate of each
            cover. Empty: none is known.
        decided: There is one cover, and every event that satisfies it matches.
        reads: Names of the attributes it reads, for memoising; None: any.
        conjuncts: Its parts, at least one; it matches where all of them hold.
        json: The array it was compiled from.
    """

    matches: Test
    comparisons_max: int
    covers: tuple[Cover, ...]
    decided: bool
    reads: frozenset[str] | None
    conjuncts: tuple[Part, ...]
    json: bytes

    def __reduce__(self) -> tuple[Any, ...]:
        return _of_json, (self.json,)


def compile(filters: Sequence[Mapping[str, Any]]) -> Filter:  # noqa: A001 - read as filter.compile
    """Compile *filters*; an empty array passes everything.

    Raises:
        ResourceError: There are faults (all of them are named, as by ``check``). A filter that
            cannot be understood never means "pass everything".
    """
    faults = check(filters)
    if faults:
        raise ResourceError(faults)
    # a non-empty array of filters means what ``all`` means
    whole = REGISTRY["all"].compiled(filters, _expression)
    json = msgspec.json.encode(filters)
    return Filter(
        whole.test,
        whole.comparisons_max,
        whole.covers,
        whole.decided,
        whole.reads,
        # never empty, so that callers need no check
        whole.conjuncts or (whole.whole,),
        json,
    )


def _expression(expression: Mapping[str, Any]) -> Compiled:
    ((name, value),) = expression.items()
    return REGISTRY[name].compiled(value, _expression)


def _of_json(json: bytes) -> Filter:
    return compile(msgspec.json.decode(json))
