"""What ``exact``, ``prefix`` and ``suffix`` share: an object of attribute names and texts."""

import re
from typing import Final

from distributary.filter._dialect import Checker
from distributary.filter._paths import member, shown

TEXT_CHARS_MAX: Final = 8_192
"""The longest name of an attribute, and the longest text to compare one with. The receiver takes
no longer header, so what is longer is a mistake; and 100,000 such routes would be a problem of
memory."""

_ATTRIBUTE_NAME = re.compile(r"[a-z0-9]+")
"""CloudEvents 1.0, "Naming Conventions": lower-case letters and digits."""


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
    elif any("\ud800" <= char <= "\udfff" for char in text):
        # no event can carry one, and it could not be written to the log
        checker.fault(path, "unicode", "a surrogate stands alone: not a Unicode text")
