"""What ``exact``, ``prefix`` and ``suffix`` share: an object of attribute names and texts."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

from distributary.core.event import canonical
from distributary.core.filter._dialect import Attributes, Checker, Compiled, Part, Predicate, Test
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._join import all_of
from distributary.core.filter._paths import member, shown

TEXT_CHARS_MAX: Final = 8_192
"""The longest name of an attribute, and the longest text to compare one with. The receiver takes
no longer header, so what is longer is a mistake; and 100,000 such routes would be a problem of
memory."""

_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
"""CloudEvents 1.0, "Naming Conventions": lower-case letters and digits."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def check(value: object, checker: Checker, path: str) -> None:
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


def compiled(
    how: Literal["exact", "prefix", "suffix"], value: Mapping[str, str], tests: Sequence[Test]
) -> Compiled:
    """All of *tests*, which stand for the members of *value*; each member is a cover."""
    covers = tuple((Predicate(how, name, text),) for name, text in value.items())
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


_TOLD_COUNT_MAX: Final = 3
"""Comparisons that hold are told up to here: a reason is one line."""


def explain(
    value: dict[str, str],
    attributes: Attributes,
    place: Place,
    holds: Callable[[str, str], bool],
    words: tuple[str, str],
) -> Explanation:
    """Name the first attribute that is missing or fails; or what holds.

    Args:
        value: Attribute names and texts.
        attributes: The event's.
        place: Where *value* stands.
        holds: Whether an attribute's canonical string, before, agrees with a text, after.
        words: Between the name and the text: where it holds, and where it does not.
    """
    for name, text in value.items():
        at = member(place.path, name)
        if name not in attributes:
            reason = f"{name} is missing"
            return Explanation(place.dialect, at, verdict=False, reason=reason)
        found = canonical(attributes[name])
        if not holds(found, text):
            reason = f"{name} is {shown(found)}: it {words[1]} {shown(text)}"
            return Explanation(place.dialect, at, verdict=False, reason=reason)
    told = [f"{name} {words[0]} {shown(text)}" for name, text in value.items()]
    if len(told) > _TOLD_COUNT_MAX:
        told[_TOLD_COUNT_MAX:] = [f"{len(told) - _TOLD_COUNT_MAX} more"]
    path = member(place.path, next(iter(value))) if len(value) == 1 else place.path
    return Explanation(place.dialect, path, verdict=True, reason=" and ".join(told))
