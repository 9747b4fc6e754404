"""The built-in functions.

Source:
    CESQL 1.0, 3.5.1 and 3.5.2, and the casts by name (``INT``, ``BOOL``, ``STRING``) that its
    text and its test kit use. ``IS_INT`` and ``IS_BOOL`` come from the drafts before it.
"""

from typing import Final

from distributary.cesql._errors import ErrorKind
from distributary.cesql._functions import RESULT_CHARS_MAX, CallFailure, Function, Functions
from distributary.cesql._types import (
    INTEGER_MAX,
    INTEGER_MIN,
    Type,
    Value,
    to_boolean,
    to_integer,
)

_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Characters with the property White_Space; ``str.strip`` removes some control characters too."""


def _length(x: str) -> int:
    return len(x)


def _concat(*parts: str) -> str | CallFailure:
    return _joined("", parts)


def _concat_ws(delimiter: str, *parts: str) -> str | CallFailure:
    return _joined(delimiter, parts)


def _joined(delimiter: str, parts: tuple[str, ...]) -> str | CallFailure:
    # counted before it is built, so that no text beyond the limit ever exists
    length = sum(map(len, parts)) + len(delimiter) * max(0, len(parts) - 1)
    if length > RESULT_CHARS_MAX:
        return _failed("", f"the text would be longer than {RESULT_CHARS_MAX} characters")
    return delimiter.join(parts)


def _trim(x: str) -> str:
    return x.strip(_WHITE_SPACE)


def _left(x: str, count: int) -> str | CallFailure:
    return x[:count] if count >= 0 else _failed(x, "LEFT of fewer than 0 characters")


def _right(x: str, count: int) -> str | CallFailure:
    if count < 0:
        return _failed(x, "RIGHT of fewer than 0 characters")
    return x[max(0, len(x) - count) :]


def _substring(x: str, position: int, length: int = INTEGER_MAX) -> str | CallFailure:
    if not -len(x) <= position <= len(x):
        return _failed("", f"there is no character {position} in a text of {len(x)}")
    if length < 0:
        return _failed("", "SUBSTRING of fewer than 0 characters")
    if position == 0:
        return ""
    start = position - 1 if position > 0 else len(x) + position
    return x[start : start + length]


def _absolute(x: int) -> int | CallFailure:
    if x == INTEGER_MIN:
        return CallFailure(ErrorKind.MATH, INTEGER_MAX, f"ABS of {x} does not fit in 32 bits")
    return abs(x)


def _failed(value: str, message: str) -> CallFailure:
    return CallFailure(ErrorKind.FUNCTION_EVALUATION, value, message)


def _same(x: Value) -> Value:
    return x


def _is_integer(x: Value) -> bool:
    return to_integer(x) is not None


def _is_boolean(x: Value) -> bool:
    return to_boolean(x) is not None


_S, _I, _B = Type.STRING, Type.INTEGER, Type.BOOLEAN

BUILT_IN: Final = Functions(
    [
        Function("LENGTH", (_S,), _I, _length),
        Function("CONCAT", (), _S, _concat, variadic=_S),
        Function("CONCAT_WS", (_S,), _S, _concat_ws, variadic=_S),
        Function("LOWER", (_S,), _S, str.lower),
        Function("UPPER", (_S,), _S, str.upper),
        Function("TRIM", (_S,), _S, _trim),
        Function("LEFT", (_S, _I), _S, _left),
        Function("RIGHT", (_S, _I), _S, _right),
        Function("SUBSTRING", (_S, _I), _S, _substring),
        Function("SUBSTRING", (_S, _I, _I), _S, _substring),
        Function("ABS", (_I,), _I, _absolute),
        # the cast of the argument does the work
        Function("INT", (_I,), _I, _same),
        Function("BOOL", (_B,), _B, _same),
        Function("STRING", (_S,), _S, _same),
        Function("IS_INT", (Type.ANY,), _B, _is_integer),
        Function("IS_BOOL", (Type.ANY,), _B, _is_boolean),
    ]
)
"""The built-in functions; ``BUILT_IN.having(...)`` adds user-defined ones."""
