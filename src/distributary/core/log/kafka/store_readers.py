"""Positions of registered readers of the log on Kafka, in the store that nodes share: one table.

A streaming query writes its row after each micro-batch, and retention of the leader reads them all.
Not imported with the package.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import sqlalchemy as sa

from distributary.core import database
from distributary.core.log.reader_notes import (
    NAME,
    NEVER_MS,
    READERS_MAX,
    ReaderNote,
    UnreadNote,
)

STORE: Final = "resource store"
"""Name of the store in messages."""

_metadata: Final = sa.MetaData()
_readers: Final = sa.Table(
    "log_readers",
    _metadata,
    sa.Column("reader", sa.Text, primary_key=True),
    # ``ReaderNote`` as JSON.
    sa.Column("note", sa.Text, nullable=False),
)


class ReaderRow:
    """The row of one reader. Blocking; close it.

    Args:
        url: Of the store.
        name: One that ``NAME`` matches.
    """

    def __init__(self, url: sa.URL, name: str) -> None:
        assert NAME.fullmatch(name)
        self._name = name
        self._engine = database.open_writer(url, STORE, durable=False)
        self._made = False

    def write(self, positions: Mapping[int, int], now_ms: int) -> None:
        """Note how far the reader is; see ``ReaderNote``. Idempotent.

        Raises:
            StoreError: It may not be written; call again.
        """
        if not self._made:
            with database.migrating(self._engine) as connection:
                _metadata.create_all(connection)
            self._made = True
        note = msgspec.json.encode(ReaderNote(dict(positions), now_ms)).decode()
        with database.writing(self._engine) as connection:
            changed = connection.execute(
                sa.update(_readers).where(_readers.c.reader == self._name).values(note=note)
            )
            if not changed.rowcount:
                connection.execute(sa.insert(_readers).values(reader=self._name, note=note))

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()


class ReaderRows:
    """All readers, for retention. Blocking; close it.

    Args:
        url: Of the store.
    """

    def __init__(self, url: sa.URL) -> None:
        self._engine = database.open_writer(url, STORE, durable=False)

    def read(self) -> dict[str, ReaderNote]:
        """Returns the readers by name, the first ``READERS_MAX``.

        What is no note is an ``UnreadNote``.

        Raises:
            StoreError: They cannot be read now.
        """
        found: dict[str, ReaderNote] = {}
        with database.writing(self._engine) as connection:
            if not sa.inspect(connection).has_table(_readers.name):
                return {}
            query = sa.select(_readers).order_by(_readers.c.reader).limit(READERS_MAX)
            rows = connection.execute(query).all()
        for row in rows:
            try:
                found[row.reader] = msgspec.json.decode(row.note, type=ReaderNote)
            except msgspec.MsgspecError as error:
                found[row.reader] = UnreadNote({}, NEVER_MS, str(error))
        return found

    def forget(self, name: str) -> None:
        """Delete the note of the reader *name*, if there is one.

        Raises:
            StoreError: It may be there still.
        """
        with database.writing(self._engine) as connection:
            connection.execute(sa.delete(_readers).where(_readers.c.reader == name))

    def close(self) -> None:
        """End the connections."""
        self._engine.dispose()
