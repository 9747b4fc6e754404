"""Reads options of Spark's reads and writes: text, with names in any case; faults are collected."""

from collections.abc import Callable, Mapping
from typing import TypeVar

_T = TypeVar("_T")


class OptionReader:
    """The options that somebody gave.

    Args:
        options: As Spark passes them.
        known: The names that there are, in lower case.
        unknown: Says of another name what is wrong with it.

    Attributes:
        given: Name in lower case -> text.
        faults: What is wrong, for people.
    """

    def __init__(
        self, options: Mapping[str, str], known: frozenset[str], unknown: Callable[[str], str]
    ) -> None:
        self.given = {name.lower(): text for name, text in options.items()}
        self.faults = [unknown(name) for name in options if name.lower() not in known]

    def read(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        """The value of the option *name*; *default* where there is none, or *parse* refuses it."""
        text = self.given.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            self.faults.append(f"{name}: {error}")
            return default
