"""Evaluates a filter's JSON without compiling, with the reason of every verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

from distributary.core.filter._dialect import Attributes
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._paths import member
from distributary.core.filter._registry import REGISTRY


def explain(
    filters: Sequence[Mapping[str, Any]], attributes: Attributes, path: str = "$.filters"
) -> Explanation:
    """Explain the verdict of *filters* on an event with *attributes*.

    The verdict is that of ``naive_matches``. Every expression is evaluated, even those that cannot
    change the verdict, so that all of them can be shown. For people; slow.

    Args:
        filters: A ``filters`` array in which ``check`` found no fault.
        attributes: The event's context attributes.
        path: JSON path of *filters*: the root of the paths in the explanation.
    """
    if not filters:
        return Explanation("all", path, verdict=True, reason="no filters: every event passes")
    return REGISTRY["all"].explain(filters, attributes, Place("all", path), _expression)


def _expression(expression: Mapping[str, Any], attributes: Attributes, path: str) -> Explanation:
    ((name, value),) = expression.items()
    place = Place(name, member(path, name))
    return REGISTRY[name].explain(value, attributes, place, _expression)
