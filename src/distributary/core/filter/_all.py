"""The dialect ``all``: every nested expression is true.

Source:
    Subscriptions API, 3.2.4.1.1. An earlier revision told the order of evaluation; the result is
    the same in any order (decision 8).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.core.filter import _nested
from distributary.core.filter._cover import every, joined_reads
from distributary.core.filter._dialect import Attributes, Compiled
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._join import all_of

check = _nested.check


def compiled(value: Sequence[Any], nested: Callable[[Any], Compiled]) -> Compiled:
    """Every expression of the array is true; what covers any of them covers all of them."""
    parts = [nested(expression) for expression in value]
    if len(parts) == 1:
        return parts[0]
    return Compiled(
        all_of([part.test for part in parts]),
        sum(part.comparisons_max for part in parts),
        every(parts),
        reads=joined_reads(parts),
        conjuncts=tuple(one for part in parts for one in part.conjuncts or (part.whole,)),
    )


def matches(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return all(nested(expression, attributes) for expression in value)


def explain(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    place: Place,
    nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """The first expression that is false decides; where none is, all of them do."""
    parts = _nested.explained(value, attributes, place, nested)
    against = next((part for part in parts if not part.verdict), None)
    if against is None:
        return Explanation(place.dialect, place.path, True, "every part is true", parts, parts)
    reason = "a part is false"
    return Explanation(place.dialect, place.path, False, reason, parts, (against,))
