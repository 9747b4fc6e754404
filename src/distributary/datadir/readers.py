"""Positions of registered readers of a log in a data directory: a file ``readers/NAME.json`` each.

A streaming query with a name writes it after each of its micro-batches.
"""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from distributary.core.files import write_atomically
from distributary.core.log.reader_notes import NAME, READERS_MAX, ReaderNote, UnreadNote

_SUFFIX: Final = ".json"


class ReaderFiles:
    """The notes of all readers of a data directory. Blocking.

    Args:
        folder: ``DataDir.readers``.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, name: str, positions: Mapping[int, int], now_ms: int) -> None:
        """Note how far the reader *name* is.

        Args:
            name: One that ``NAME`` matches.
            positions: See ``ReaderNote``.
            now_ms: Wall clock, milliseconds.

        Raises:
            OSError: It cannot be written.
        """
        self._folder.mkdir(mode=0o750, exist_ok=True)
        content = msgspec.json.encode(ReaderNote(dict(positions), now_ms))
        write_atomically(self._path(name), content, mode=0o640, contended=True)

    def read(self) -> dict[str, ReaderNote]:
        """Returns the readers by name; what is no note is an ``UnreadNote``.

        Raises:
            OSError: It is not known which readers there are.
        """
        found: dict[str, ReaderNote] = {}
        try:
            files = sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return {}
        names = [each.removesuffix(_SUFFIX) for each in files if each.endswith(_SUFFIX)]
        for name in names[:READERS_MAX]:
            if NAME.fullmatch(name):
                with contextlib.suppress(FileNotFoundError):  # it has just been deleted
                    found[name] = self._note(name)
        return found

    def _note(self, name: str) -> ReaderNote:
        path = self._path(name)
        try:
            return msgspec.json.decode(path.read_bytes(), type=ReaderNote)
        except FileNotFoundError:
            raise
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            return UnreadNote({}, path.stat().st_mtime_ns // 1_000_000, str(error))

    def forget(self, name: str) -> None:
        """Delete the note of the reader *name*, if there is one.

        Raises:
            OSError: It cannot be deleted.
        """
        self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        assert NAME.fullmatch(name)
        return self._folder / f"{name}{_SUFFIX}"
