"""Arithmetic of 32-bit integers, with None for overflow and division by zero.

Source:
    CESQL 1.0, 3.4.1 and 3.4.2, which leave results beyond 32 bits open; they are math errors
    here, with the zero value.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Final

from distributary.cesql._types import INTEGER_MAX, INTEGER_MIN

Arithmetic = Callable[[int, int], int | None]


def add(x: int, y: int) -> int | None:
    """Returns the sum; None on overflow."""
    return _fitting(x + y)


def subtract(x: int, y: int) -> int | None:
    """Returns the difference; None on overflow."""
    return _fitting(x - y)


def multiply(x: int, y: int) -> int | None:
    """Returns the product; None on overflow."""
    return _fitting(x * y)


def divide(x: int, y: int) -> int | None:
    """Returns the quotient, rounded towards 0; None for a divisor of 0 and on overflow."""
    if y == 0:
        return None
    quotient = abs(x) // abs(y)
    return _fitting(quotient if (x < 0) == (y < 0) else -quotient)


def remainder(x: int, y: int) -> int | None:
    """Returns the remainder of ``divide``, with the sign of *x*; None for a divisor of 0."""
    if y == 0:
        return None
    return abs(x) % abs(y) if x >= 0 else -(abs(x) % abs(y))


def negative(x: int) -> int | None:
    """Returns the negated number; None on overflow."""
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
"""Implementations by operator."""

ORDER: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Implementations by operator, on Integers alone."""
