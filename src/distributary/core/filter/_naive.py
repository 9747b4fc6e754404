"""Evaluates a filter's JSON without compiling: slow, obvious, the oracle of the compiled form."""

from collections.abc import Iterable, Mapping
from typing import Any

from distributary.core.filter._dialect import Attributes
from distributary.core.filter._registry import REGISTRY


def naive_matches(filters: Iterable[Mapping[str, Any]], attributes: Attributes) -> bool:
    """Whether an event with *attributes* passes *filters*, without compiling them.

    For tests, and for one event at a command line; the hot path uses ``compile``.

    Args:
        filters: A ``filters`` array in which ``check`` found no fault.
        attributes: The event's context attributes.
    """
    return all(_expression(expression, attributes) for expression in filters)


def _expression(expression: Mapping[str, Any], attributes: Attributes) -> bool:
    ((name, value),) = expression.items()
    return REGISTRY[name].matches(value, attributes, _expression)
