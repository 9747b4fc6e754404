"""The dialect ``all``: every nested expression is true.

Source:
    Subscriptions API, 3.2.4.1.1. An earlier revision told the order of evaluation; the result is
    the same in any order (decision 8).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.filter import _nested
from distributary.filter._dialect import Attributes, Compiled
from distributary.filter._join import all_of

check = _nested.check


def compiled(value: Sequence[Any], nested: Callable[[Any], Compiled]) -> Compiled:
    """Every expression of the array is true; what any of them requires, all of them do."""
    parts = [nested(expression) for expression in value]
    required: dict[str, str] = {}
    for part in parts:
        # two that contradict one another: no event matches, so keeping either is right
        required.update(part.required)
    return Compiled(
        all_of([part.test for part in parts]),
        sum(part.comparisons_max for part in parts),
        required,
    )


def matches(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return all(nested(expression, attributes) for expression in value)
