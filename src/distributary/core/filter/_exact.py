"""The dialect ``exact``: attributes equal the given texts, case-sensitively.

Source:
    Subscriptions API, 3.2.4.1.1. A missing attribute is a non-match (decision 5); a value that is
    no string is compared by its canonical string (decision 6).
"""

import operator
import re
from collections.abc import Callable
from typing import Any

from distributary.core.event import canonical
from distributary.core.filter import _comparison
from distributary.core.filter._dialect import Attributes, Compiled, Test
from distributary.core.filter._explanation import Explanation, Place

check = _comparison.check

_CANONICAL_OF_OTHERS = re.compile(r"true|false|-?[0-9]+")
"""The texts that can be the canonical string of a Boolean or an Integer."""


def compiled(value: dict[str, str], _nested: Callable[[Any], Compiled]) -> Compiled:
    """Every attribute named equals its text."""
    tests = [_equals(name, text) for name, text in value.items()]
    return _comparison.compiled("exact", value, tests)


def matches(
    value: dict[str, str],
    attributes: Attributes,
    _nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide the plain way."""
    return all(
        name in attributes and canonical(attributes[name]) == text for name, text in value.items()
    )


def _equals(name: str, text: str) -> Test:
    if not _CANONICAL_OF_OTHERS.fullmatch(text):
        # only a string can equal this text, so no value needs its canonical string
        return lambda attributes: attributes.get(name) == text

    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return value == text or (
            value is not None and not isinstance(value, str) and canonical(value) == text
        )

    return test


def explain(
    value: dict[str, str],
    attributes: Attributes,
    place: Place,
    _nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Name the first attribute that is missing or differs."""
    return _comparison.explain(value, attributes, place, operator.eq, ("is", "is not"))
