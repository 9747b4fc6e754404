"""What retention knows of a registered reader: a streaming query with a name says how far it is.

It is a wish, not a promise: retention holds records for a reader for so long, and so many.
"""

import re
from typing import Final

import msgspec

READERS_MAX: Final = 100
"""Most readers that retention looks at: the first by name."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""What a reader may be called: it is a file name."""


NEVER_MS: Final = 1 << 62
"""Time of a note of which not even that is known: it is not forgotten."""


class ReaderNote(msgspec.Struct, frozen=True):
    """How far a reader is.

    Attributes:
        positions: Partition -> offset of the first record that it has not done with. One that is
            not here was added since: nothing of it has been read.
        at_ms: When it said so, wall clock, milliseconds.
    """

    positions: dict[int, int]
    at_ms: int


class UnreadNote(ReaderNote, frozen=True):
    """A note that is there and cannot be read: its reader may have read nothing.

    Attributes:
        reason: Why, for people.
    """

    reason: str = ""
