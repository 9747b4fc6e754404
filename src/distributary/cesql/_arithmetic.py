"""Arithmetic of 32-bit integers: None instead of a result that there is not.

Source:
    CESQL 1.0, 3.4.1 and 3.4.2. The text is silent about results beyond 32 bits; they are math
    errors here, with the zero value.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Final

from distributary.cesql._types import INTEGER_MAX, INTEGER_MIN

Arithmetic = Callable[[int, int], int | None]


def add(x: int, y: int) -> int | None:
    """The sum; None where it does not fit."""
    return _fitting(x + y)


def subtract(x: int, y: int) -> int | None:
    """The difference; None where it does not fit."""
    return _fitting(x - y)


def multiply(x: int, y: int) -> int | None:
    """The product; None where it does not fit."""
    return _fitting(x * y)


def divide(x: int, y: int) -> int | None:
    """The quotient, rounded towards 0; None for a divisor of 0 and where it does not fit."""
    if y == 0:
        return None
    quotient = abs(x) // abs(y)
    return _fitting(quotient if (x < 0) == (y < 0) else -quotient)


def remainder(x: int, y: int) -> int | None:
    """The remainder of ``divide``, with the sign of *x*; None for a divisor of 0."""
    if y == 0:
        return None
    return abs(x) % abs(y) if x >= 0 else -(abs(x) % abs(y))


def negative(x: int) -> int | None:
    """The number with the other sign; None where it does not fit."""
    return _fitting(-x)


def _fitting(number: int) -> int | None:
    return number if INTEGER_MIN <= number <= INTEGER_MAX else None


ARITHMETIC: Final[Mapping[str, Arithmetic]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}
"""Operator -> what it does."""

ORDER: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Operator -> what it does, on Integers alone."""
