"""Where a stream with a name says how far it is: in a data directory, or in the store of nodes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from distributary.core.cluster import PostgresPlace
from distributary.core.database import database_url
from distributary.datadir import DataDir
from distributary.datadir.readers import ReaderFiles
from distributary.spark._places import Places


class OwnNote(Protocol):
    """The note of one reader. Blocking; close it.

    Attributes:
        place: Where it lies, for people.
    """

    place: str

    def write(self, positions: Mapping[int, int], now_ms: int) -> None:
        """Note how far the reader is; see ``ReaderNote``.

        Raises:
            OSError, StoreError: It may not be written.
        """

    def close(self) -> None:
        """End the connections."""


class _InFolder:
    """``OwnNote`` in a data directory."""

    def __init__(self, data_dir: Path, name: str) -> None:
        folder = DataDir(data_dir).readers
        self.place = str(folder)
        self._files, self._name = ReaderFiles(folder), name

    def write(self, positions: Mapping[int, int], now_ms: int) -> None:
        self._files.write(self._name, positions, now_ms)

    def close(self) -> None:
        """Nothing is open."""


class _InStore:
    """``OwnNote`` in the store that nodes share."""

    def __init__(self, store: PostgresPlace, name: str) -> None:
        # Imported here: no other stream needs what it imports.
        from distributary.core.log.kafka.store_readers import ReaderRow  # noqa: PLC0415

        self.place = f"the table log_readers of {store.url}"
        self._row = ReaderRow(database_url(store), name)
        self.write, self.close = self._row.write, self._row.close


def note_of(places: Places, name: str) -> OwnNote:
    """Returns the note of the reader *name* of a log at *places*."""
    if places.data_dir is not None:
        return _InFolder(places.data_dir, name)
    assert places.store is not None  # see ``parse_options``
    return _InStore(places.store, name)
