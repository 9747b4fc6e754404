"""The three primitive types, and the casts between them.

Source:
    CESQL 1.0, 3.1 and 3.7.
"""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TypeAlias

Value: TypeAlias = str | int | bool
"""A String, an Integer (32 bits) or a Boolean."""

INTEGER_MIN: Final = -(2**31)
"""Least Integer: 32 bits with a sign (CESQL 1.0, Integer)."""
INTEGER_MAX: Final = 2**31 - 1
"""Greatest Integer, likewise."""

_INTEGER_TEXT: Final = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]{0,10}+)")
"""Ten digits hold every 32-bit integer; more would only cost time. Possessive (``*+``), so without
backtracking: very many zeros before a letter would cost ten milliseconds."""
_SHOWN_CHARS: Final = 40


class Type(StrEnum):
    """A type of a value, a parameter or a result; ``ANY`` for a parameter that is never cast."""

    STRING = "String"
    INTEGER = "Integer"
    BOOLEAN = "Boolean"
    ANY = "Any"


ZERO: Final[Mapping[Type, Value]] = {
    Type.STRING: "",
    Type.INTEGER: 0,
    Type.BOOLEAN: False,
    # a result of unknown type counts as Boolean (3.2)
    Type.ANY: False,
}
"""Zero value that an operator or a function returns with an error, unless specified otherwise."""


def type_of(value: Value) -> Type:
    """Returns the type of *value*."""
    if isinstance(value, str):
        return Type.STRING
    return Type.BOOLEAN if isinstance(value, bool) else Type.INTEGER


def to_string(value: Value) -> str:
    """Casts *value* to String, which never fails."""
    if isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def to_integer(value: Value) -> int | None:
    """Casts *value* to Integer; None where that fails."""
    if isinstance(value, str):
        found = _INTEGER_TEXT.fullmatch(value)
        if found is None:
            return None
        number = int(found[1] + (found[2] or "0"))
        return number if INTEGER_MIN <= number <= INTEGER_MAX else None
    return int(value)


def to_boolean(value: Value) -> bool | None:
    """Casts *value* to Boolean; None where that fails."""
    if isinstance(value, str):
        # no longer text can be one of the two, and lowering a long one costs time
        word = value.lower() if len(value) <= len("false") else ""
        return True if word == "true" else False if word == "false" else None
    return value != 0


def cast_to(value: Value, target: Type) -> Value | None:
    """Casts *value* to *target*; None where that fails."""
    if target is Type.STRING:
        return to_string(value)
    if target is Type.INTEGER:
        return to_integer(value)
    if target is Type.BOOLEAN:
        return to_boolean(value)
    return value


def shown(value: Value) -> str:
    """Formats *value* for a message: quoted, escaped, truncated."""
    if not isinstance(value, str):
        return to_string(value)
    cut = value if len(value) <= _SHOWN_CHARS else value[:_SHOWN_CHARS] + "..."
    return json.dumps(cut)
