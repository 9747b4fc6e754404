"""The dialect ``suffix``: attributes end with the given texts, case-sensitively.

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
    """Every attribute named ends with its text."""
    tests = [_endswith(name, text) for name, text in value.items()]
    return _comparison.compiled("suffix", value, tests)


def matches(
    value: dict[str, str],
    attributes: Attributes,
    _nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return all(
        name in attributes and canonical(attributes[name]).endswith(text)
        for name, text in value.items()
    )


def _endswith(name: str, text: str) -> Test:
    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            return value.endswith(text)
        return value is not None and canonical(value).endswith(text)

    return test


def explain(
    value: dict[str, str],
    attributes: Attributes,
    place: Place,
    _nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Name the first attribute that is missing or differs."""
    return _comparison.explain(
        value, attributes, place, str.endswith, ("ends with", "does not end with")
    )
