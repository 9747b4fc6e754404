"""The dialect ``prefix``: attributes start with the given texts, case-sensitively.

Source:
    Subscriptions API, 3.2.4.1.1. A missing attribute is a non-match (decision 5); a value that is
    no string is compared by its canonical string (decision 6).
"""

from collections.abc import Callable
from typing import Any

from distributary.core.event import canonical
from distributary.core.filter import _comparison
from distributary.core.filter._dialect import Attributes, Compiled, Test
from distributary.core.filter._explanation import Explanation, Place

check = _comparison.check


def compiled(value: dict[str, str], _nested: Callable[[Any], Compiled]) -> Compiled:
    """Every attribute named starts with its text."""
    tests = [_startswith(name, text) for name, text in value.items()]
    return _comparison.compiled("prefix", value, tests)


def matches(
    value: dict[str, str],
    attributes: Attributes,
    _nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return all(
        name in attributes and canonical(attributes[name]).startswith(text)
        for name, text in value.items()
    )


def _startswith(name: str, text: str) -> Test:
    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            return value.startswith(text)
        return value is not None and canonical(value).startswith(text)

    return test


def explain(
    value: dict[str, str],
    attributes: Attributes,
    place: Place,
    _nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Name the first attribute that is missing or differs."""
    return _comparison.explain(
        value, attributes, place, str.startswith, ("begins with", "does not begin with")
    )
