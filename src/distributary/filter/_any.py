"""The dialect ``any``: at least one nested expression is true.

Source:
    Subscriptions API, 3.2.4.1.1. An earlier revision told the order of evaluation; the result is
    the same in any order (decision 8).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.filter import _nested
from distributary.filter._dialect import Attributes, Compiled
from distributary.filter._join import any_of

check = _nested.check


def compiled(value: Sequence[Any], nested: Callable[[Any], Compiled]) -> Compiled:
    """At least one expression of the array is true; required is what each of them requires."""
    parts = [nested(expression) for expression in value]
    shared = set(parts[0].required.items()).intersection(
        *(part.required.items() for part in parts[1:])
    )
    return Compiled(
        any_of([part.test for part in parts]),
        sum(part.comparisons_max for part in parts),
        dict(shared),
    )


def matches(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return any(nested(expression, attributes) for expression in value)
