"""Positions of registered readers, by which retention knows what they have not read yet.

A streaming query with a name writes a file, ``readers/NAME.json``, after each of its micro-batches.
It is a wish, not a promise: retention holds records for a reader for so long, and so many.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.files import write_atomically

READERS_MAX: Final = 100
"""Most readers that retention looks at: the first by name."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
"""What a reader may be called: it is a file name."""
_SUFFIX: Final = ".json"


class ReaderNote(msgspec.Struct, frozen=True):
    """How far a reader is.

    Attributes:
        positions: Partition -> offset of the first record that it has not done with.
        at_ms: When it said so, wall clock, milliseconds.
    """

    positions: dict[int, int]
    at_ms: int


def write_reader(folder: Path, name: str, positions: Mapping[int, int], now_ms: int) -> None:
    """Note how far the reader *name* is.

    Args:
        folder: ``DataDir.readers``.
        name: One that ``NAME`` matches.
        positions: See ``ReaderNote``.
        now_ms: Wall clock, milliseconds.

    Raises:
        OSError: It cannot be written.
    """
    assert NAME.fullmatch(name)
    folder.mkdir(mode=0o750, exist_ok=True)
    content = msgspec.json.encode(ReaderNote(dict(positions), now_ms))
    write_atomically(folder / f"{name}{_SUFFIX}", content, mode=0o640, contended=True)


def read_readers(folder: Path) -> dict[str, ReaderNote]:
    """Returns the readers by name; what is no note is left out."""
    found = {}
    try:
        paths = sorted(folder.glob(f"*{_SUFFIX}"))[:READERS_MAX]
    except OSError:
        return {}
    for path in paths:
        name = path.name.removesuffix(_SUFFIX)
        if NAME.fullmatch(name):
            try:
                found[name] = msgspec.json.decode(path.read_bytes(), type=ReaderNote)
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
                continue
    return found


def forget_reader(folder: Path, name: str) -> None:
    """Delete the note of the reader *name*, if there is one.

    Raises:
        OSError: It cannot be deleted.
    """
    (folder / f"{name}{_SUFFIX}").unlink(missing_ok=True)
