"""Faults to plant in what owners on several machines share; see ``planted_faults``."""

from typing import Final, NamedTuple


class Fault(NamedTuple):
    """A fault to plant.

    Attributes:
        name: Its effect, for people.
        room: Folder of the tests to run first, at any depth.
        old: A text that occurs once in the package.
        new: Its replacement.
    """

    name: str
    room: str
    old: str
    new: str


OWNERS: Final = (
    Fault(
        "a former owner writes: its generation is not compared",
        "simulation",
        "if self._owner != database.owner or number != database.number:",
        "if number != database.number:",
    ),
    Fault(
        "an owner goes on making attempts in the last second of its lease",
        "simulation",
        "self._slow_after(_HELD)",
        "self._slow_after(self._drain_s)",
    ),
    Fault(
        "an owner does not count its flushes",
        "simulation",
        "self._number += 1\n        self._frame_count",
        "self._frame_count",
    ),
    Fault(
        "a flush that the database did not take is taken for made",
        "simulation",
        "            except StoreAwayError:\n                if self._ended.is_set()",
        "            except StoreAwayError:\n                return None\n"
        "                if self._ended.is_set()",
    ),
)
