"""The dialect ``not``: the nested expression is false.

Source:
    Subscriptions API, 3.2.4.1.1. So ``not`` of a comparison with a missing attribute is true
    (decision 5).
"""

from collections.abc import Callable, Mapping
from typing import Any

from distributary.filter._dialect import NOTHING_REQUIRED, Attributes, Checker, Compiled


def check(value: object, checker: Checker, path: str) -> None:
    """Report every fault of the one nested expression."""
    if checker.count(path):
        checker.expression(value, path)


def compiled(value: Any, nested: Callable[[Any], Compiled]) -> Compiled:
    """The nested expression is false; nothing is known of what matches then."""
    inner = nested(value)
    test = inner.test
    return Compiled(
        lambda attributes: not test(attributes), inner.comparisons_max, NOTHING_REQUIRED
    )


def matches(
    value: Mapping[str, Any],
    attributes: Attributes,
    nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return not nested(value, attributes)
