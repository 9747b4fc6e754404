"""The dialect ``any``: at least one nested expression is true.

Source:
    Subscriptions API, 3.2.4.1.1. An earlier revision told the order of evaluation; the result is
    the same in any order (decision 8).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.core.filter import _nested
from distributary.core.filter._cover import either, joined_reads
from distributary.core.filter._dialect import Attributes, Compiled
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._join import any_of

check = _nested.check


def compiled(value: Sequence[Any], nested: Callable[[Any], Compiled]) -> Compiled:
    """At least one expression of the array is true; a cover of each of them, joined, covers it."""
    parts = [nested(expression) for expression in value]
    if len(parts) == 1:
        return parts[0]
    return Compiled(
        any_of([part.test for part in parts]),
        sum(part.comparisons_max for part in parts),
        either(parts),
        decided=all(part.decided for part in parts),
        reads=joined_reads(parts),
        disjuncts=tuple(one for part in parts for one in part.disjuncts or (part.whole,)),
    )


def matches(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return any(nested(expression, attributes) for expression in value)


def explain(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    place: Place,
    nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """The first expression that is true decides; where none is, all of them do."""
    parts = _nested.explained(value, attributes, place, nested)
    favour = next((part for part in parts if part.verdict), None)
    if favour is None:
        return Explanation(place.dialect, place.path, False, "no part is true", parts, parts)
    reason = "a part is true"
    return Explanation(place.dialect, place.path, True, reason, parts, (favour,))
