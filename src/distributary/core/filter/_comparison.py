"""The dialects ``exact``, ``prefix`` and ``suffix``: attributes and texts, case-sensitively.

Source:
    Subscriptions API, 3.2.4.1.1. A missing attribute is a non-match (decision 5, missing
    attributes); a value that is no string is compared by its canonical string (decision 6,
    canonical strings).
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from distributary.core.event import canonical
from distributary.core.filter._dialect import Attributes, Checker, Compiled, Part, Predicate, Test
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._join import all_of
from distributary.core.filter._paths import member, shown

TEXT_CHARS_MAX: Final = 8_192
"""Most characters of an attribute name, and of a text to compare with. Nobody means a longer one;
and 100,000 such routes would need too much memory."""

_TOLD_COUNT_MAX: Final = 3
"""Most comparisons named in the reason of a match: a reason is one line."""

_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
"""CloudEvents 1.0, "Naming Conventions": lower-case letters and digits."""

_SURROGATE = re.compile("[\ud800-\udfff]")

_CANONICAL_OF_OTHERS = re.compile(r"true|false|-?[0-9]+")
"""The texts that can be the canonical string of a Boolean or an Integer."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison dialect: an object of attribute names and texts; see ``Dialect``.

    Attributes:
        how: Its name.
        holds: Whether an attribute's canonical string (first) agrees with a text (second).
        test: Makes the test of an attribute (first) by a text (second).
        words: Words between name and text: if it holds, and if it does not.
    """

    how: Literal["exact", "prefix", "suffix"]
    holds: Callable[[str, str], bool]
    test: Callable[[str, str], Test]
    words: tuple[str, str]

    def check(self, value: object, checker: Checker, path: str) -> None:
        """Report every fault of an object of attribute names and the texts to compare with."""
        if not isinstance(value, dict):
            checker.fault(path, "type", "expected an object of attribute names and texts")
            return
        if not value:
            checker.fault(path, "empty", "expected at least one attribute to compare")
        for name, text in value.items():
            at = member(path, name)
            if not checker.count(at):
                return
            _check_name(name, checker, at)
            _check_text(text, checker, at)

    def compiled(self, value: dict[str, str], _nested: Callable[[Any], Compiled]) -> Compiled:
        """True if every named attribute agrees with its text; each member is a cover."""
        tests = [self.test(name, text) for name, text in value.items()]
        covers = tuple((Predicate(self.how, name, text),) for name, text in value.items())
        parts = (
            Part(test, frozenset((name,)), cover)
            for name, test, cover in zip(value, tests, covers, strict=True)
        )
        return Compiled(
            all_of(tests),
            len(tests),
            covers,
            decided=len(covers) == 1,
            reads=frozenset(value),
            conjuncts=tuple(parts) if len(covers) > 1 else (),
        )

    def matches(
        self,
        value: dict[str, str],
        attributes: Attributes,
        _nested: Callable[[Any, Attributes], bool],
    ) -> bool:
        """Decide without compiling."""
        return all(
            name in attributes and self.holds(canonical(attributes[name]), text)
            for name, text in value.items()
        )

    def explain(
        self,
        value: dict[str, str],
        attributes: Attributes,
        place: Place,
        _nested: Callable[[Any, Attributes, str], Explanation],
    ) -> Explanation:
        """Name the first attribute that is missing or fails; else the comparisons that hold."""
        for name, text in value.items():
            at = member(place.path, name)
            if name not in attributes:
                reason = f"{name} is missing"
                return Explanation(place.dialect, at, verdict=False, reason=reason)
            found = canonical(attributes[name])
            if not self.holds(found, text):
                reason = f"{name} is {shown(found)}: it {self.words[1]} {shown(text)}"
                return Explanation(place.dialect, at, verdict=False, reason=reason)
        told = [f"{name} {self.words[0]} {shown(text)}" for name, text in value.items()]
        if len(told) > _TOLD_COUNT_MAX:
            told[_TOLD_COUNT_MAX:] = [f"{len(told) - _TOLD_COUNT_MAX} more"]
        path = member(place.path, next(iter(value))) if len(value) == 1 else place.path
        return Explanation(place.dialect, path, verdict=True, reason=" and ".join(told))


def _check_name(name: object, checker: Checker, path: str) -> None:
    if name == "":
        checker.fault(path, "empty", "an attribute name cannot be empty")
    elif not isinstance(name, str) or not _ATTRIBUTE_NAME.fullmatch(name):
        message = f"{shown(name)} is no attribute name: lower-case letters a-z and digits only"
        checker.fault(path, "attribute-name", message)
    elif len(name) > TEXT_CHARS_MAX:
        checker.fault(path, "too-long", f"expected a name of at most {TEXT_CHARS_MAX} characters")


def _check_text(text: object, checker: Checker, path: str) -> None:
    if not isinstance(text, str):
        checker.fault(path, "type", "expected a string to compare the attribute with")
    elif not text:
        checker.fault(path, "empty", "the string to compare with cannot be empty")
    elif len(text) > TEXT_CHARS_MAX:
        checker.fault(path, "too-long", f"expected at most {TEXT_CHARS_MAX} characters")
    elif not text.isascii() and _SURROGATE.search(text):
        # no event can carry one, and it could not be written to the log
        checker.fault(path, "unicode", "a surrogate stands alone: not a Unicode text")


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


def _startswith(name: str, text: str) -> Test:
    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            return value.startswith(text)
        return value is not None and canonical(value).startswith(text)

    return test


def _endswith(name: str, text: str) -> Test:
    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            return value.endswith(text)
        return value is not None and canonical(value).endswith(text)

    return test


EXACT: Final = Comparison("exact", operator.eq, _equals, ("is", "is not"))
PREFIX: Final = Comparison(
    "prefix", str.startswith, _startswith, ("begins with", "does not begin with")
)
SUFFIX: Final = Comparison("suffix", str.endswith, _endswith, ("ends with", "does not end with"))
