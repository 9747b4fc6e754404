"""Cursors of searches, and positions, as text."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from distributary.core.errors import Fault, NotFoundError, ResourceError
from distributary.core.flow import Position

_CURSOR: Final = re.compile(
    r"[0-9]{1,4}-[0-9]{1,19}-[0-9]{1,6}(~[0-9]{1,4}-[0-9]{1,19}-[0-9]{1,6})*"
)
_POSITION: Final = re.compile(r"([0-9]{1,4})-([0-9]{1,19})-([0-9]{1,6})")
CURSOR_CHARS_MAX: Final = 100_000
"""More than the longest of 10,000 partitions' that fits a request line."""


class Below(NamedTuple):
    """Where a search of one partition goes on: with events below this place.

    Attributes:
        offset: Of a record.
        number: Events of that record with a lower index are below it too.
    """

    offset: int
    number: int


def write_cursor(places: Mapping[int, Below]) -> str:
    """The cursor by which a search goes on at *places*, by partition."""
    return "~".join(f"{partition}-{place[0]}-{place[1]}" for partition, place in places.items())


def read_cursor(text: str) -> dict[int, Below]:
    """Where to go on, by partition; the others have been looked through.

    Raises:
        ResourceError: *text* was not made by ``write_cursor``.
    """
    if len(text) > CURSOR_CHARS_MAX or not _CURSOR.fullmatch(text):
        message = "this cursor did not come from a Link header of this server"
        raise ResourceError([Fault("cursor", "value", message)])
    found = {}
    for place in text.split("~"):
        partition, offset, number = map(int, place.split("-"))
        found[partition] = Below(offset, number)
    return found


def position_text(position: Position) -> str:
    """*position* as people see it: ``0-4711-0``."""
    return "-".join(map(str, position))


def read_position(text: str) -> Position:
    """The position of ``position_text``.

    Raises:
        NotFoundError: *text* is none.
    """
    found = _POSITION.fullmatch(text)
    if found is None:
        raise NotFoundError(
            "a position is partition-offset-index, such as 0-4711-0: the list of events has them"
        )
    return Position(*map(int, found.groups()))
