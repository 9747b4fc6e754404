"""Long lists of values in statements, in parts: a database allows a statement so many parameters.

Called by the tables of outcomes, in both dialects.
"""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar

_Item = TypeVar("_Item")

NAMES_MAX: Final = 500
"""Values that one statement names: SQLite allows at least 999 parameters, PostgreSQL 65,535."""


def slices(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield *items* in order, at most ``NAMES_MAX`` at a time."""
    for first in range(0, len(items), NAMES_MAX):
        yield items[first : first + NAMES_MAX]
