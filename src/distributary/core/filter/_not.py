"""The dialect ``not``: the nested expression is false.

Source:
    Subscriptions API, 3.2.4.1.1. So ``not`` of a comparison with a missing attribute is true
    (decision 5, missing attributes).
"""

from collections.abc import Callable, Mapping
from typing import Any

from distributary.core.filter._dialect import Attributes, Checker, Compiled, Part, Test
from distributary.core.filter._explanation import Explanation, Place


def check(value: object, checker: Checker, path: str) -> None:
    """Report every fault of the one nested expression."""
    if checker.count(path):
        checker.expression(value, path)


def compiled(value: Any, nested: Callable[[Any], Compiled]) -> Compiled:
    """Compile the negation; it has no covers."""
    inner = nested(value)
    return Compiled(
        _inverse(inner.test),
        inner.comparisons_max,
        reads=inner.reads,
        conjuncts=_inverses(inner.disjuncts),
        disjuncts=_inverses(inner.conjuncts),
    )


def _inverses(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    return tuple(Part(_inverse(part.test), part.reads) for part in parts)


def _inverse(test: Test) -> Test:
    return lambda attributes: not test(attributes)


def matches(
    value: Mapping[str, Any],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide without compiling."""
    return not nested(value, attributes)


def explain(
    value: Mapping[str, Any],
    attributes: Attributes,
    place: Place,
    nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Name the nested expression, which decides."""
    part = nested(value, attributes, place.path)
    reason = f"its part is {str(part.verdict).lower()}"
    return Explanation(place.dialect, place.path, not part.verdict, reason, (part,), (part,))
