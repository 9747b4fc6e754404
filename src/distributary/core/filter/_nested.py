"""What ``all`` and ``any`` share: an array of at least one filter expression."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributary.core.filter._dialect import Attributes, Checker
from distributary.core.filter._explanation import Explanation, Place


def check(value: object, checker: Checker, path: str) -> None:
    """Report every fault of an array of filter expressions, and of each expression in it."""
    if not isinstance(value, list | tuple):
        checker.fault(path, "type", "expected an array of filter expressions")
        return
    if not value:
        checker.fault(path, "empty", "expected at least one filter expression")
    for index, expression in enumerate(value):
        at = f"{path}[{index}]"
        if not checker.count(at):
            return
        checker.expression(expression, at)


def explained(
    value: Sequence[Mapping[str, Any]],
    attributes: Attributes,
    place: Place,
    nested: Callable[[Any, Attributes, str], Explanation],
) -> tuple[Explanation, ...]:
    """Every expression of the array, explained."""
    return tuple(
        nested(expression, attributes, f"{place.path}[{index}]")
        for index, expression in enumerate(value)
    )
