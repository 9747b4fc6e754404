"""What of the log on Kafka is archived, in the store that nodes share: one table.

The job writes it after each manifest. Retention of the leader reads how far each partition is
archived, and owners which stretches can be read. The manifests of the archive are the truth: the
next job writes the table again. Not imported with the package.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database

_STORE: Final = "resource store"
"""Name of the store in messages."""

Stretch: TypeAlias = tuple[int, int, int, int]
"""First record, the one after the last, and when the first and the last of their events were
appended, milliseconds; 0: there are no events."""

_metadata: Final = sa.MetaData()
_archived: Final = sa.Table(
    "log_archived",
    _metadata,
    # Path or URL of the archive: a log may have several.
    sa.Column("archive", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    # Offset of the first record that is not archived.
    sa.Column("position", sa.BigInteger, nullable=False),
    # The stretches that can be read, as JSON: 40 bytes for each 64 MiB. Null in what an earlier
    # version has written, which knew of none.
    sa.Column("stretches", sa.LargeBinary),
    # When the row was written, nanoseconds: another one for each writing.
    sa.Column("written_ns", sa.BigInteger),
)
_ADDED: Final = (_archived.c.stretches, _archived.c.written_ns)


def prepare_archived(writer: Engine) -> None:
    """Make the table, or add what an earlier version's lacks; any number may do so at once.

    Raises:
        StoreError: It cannot be made.
    """
    with database.migrating(writer) as connection:
        _metadata.create_all(connection)
        database.add_columns(connection, *_ADDED)


def write_archived(
    url: sa.URL,
    archive: str,
    positions: Mapping[int, int],
    stretches: Mapping[int, Sequence[Stretch]],
    check: Callable[[Connection], None] = lambda _connection: None,
) -> None:
    """Write what of each partition is in *archive*; durable on return. Blocks.

    A job that was stopped for long must not write what it knew: records that a later one has
    archived, and that are deleted of the log, would be nowhere.

    Args:
        url: Of the store.
        archive: Path or URL of the archive, as the setting ``archive`` has it.
        positions: Partition -> offset of the first record that is not archived.
        stretches: Partition -> what can be read there, in order; what was deleted is not in it.
        check: Called in the transaction; raises where a later job may have written.

    Raises:
        StoreError: Nothing was written; or the message says that this is not known.
    """
    writer = database.open_writer(url, _STORE)
    try:
        prepare_archived(writer)
        with database.writing(writer) as connection:
            check(connection)
            connection.execute(sa.delete(_archived).where(_archived.c.archive == archive))
            now_ns = time.time_ns()
            rows = [
                {
                    "archive": archive,
                    "partition": number,
                    "position": position,
                    "stretches": msgspec.json.encode(stretches.get(number, ())),
                    "written_ns": now_ns,
                }
                for number, position in sorted(positions.items())
            ]
            if rows:
                connection.execute(sa.insert(_archived), rows)
    finally:
        writer.dispose()


def read_positions(reader: sa.Engine, archive: str) -> dict[int, int]:
    """Returns what was written of *archive*; empty: no job has written anything. Blocks.

    Args:
        reader: Of ``database.open_reader``, for the store.
        archive: As for ``write_archived``.

    Raises:
        StoreError: It cannot be read now.
    """
    with database.reading(reader) as connection:
        if not sa.inspect(connection).has_table(_archived.name):
            return {}
        query = sa.select(_archived.c.partition, _archived.c.position)
        rows = connection.execute(query.where(_archived.c.archive == archive))
        return {row.partition: row.position for row in rows}


def noted_positions(url: sa.URL, archive: str) -> dict[int, int]:
    """As ``read_positions``, for who asks once of the store at *url*.

    Raises:
        StoreError: It cannot be read now.
    """
    reader = database.open_reader(url, _STORE)
    try:
        return read_positions(reader, archive)
    finally:
        reader.dispose()


class StoredStretches:
    """What an archive has of one partition; fetched again when it was written again. Thread-safe.

    Args:
        reader: Of ``database.open_reader``, for the store, whose table is there.
        archive: As for ``write_archived``.
        partition: Number of the partition.
    """

    def __init__(self, reader: Engine, archive: str, partition: int) -> None:
        self._reader = reader
        self._mine = (_archived.c.archive == archive) & (_archived.c.partition == partition)
        self._lock = threading.Lock()
        self._written_ns: int | None = None
        self._found: list[Stretch] = []

    def read(self) -> list[Stretch]:
        """Returns it, in order; empty: nothing that is known. Blocks.

        Raises:
            StoreError: The store cannot be read now.
        """
        with self._lock, database.reading(self._reader) as connection:
            written = sa.select(_archived.c.written_ns).where(self._mine)
            written_ns = connection.execute(written).scalar()
            if written_ns != self._written_ns:
                query = sa.select(_archived.c.written_ns, _archived.c.stretches).where(self._mine)
                row = connection.execute(query).one_or_none()
                stretches = b"[]" if row is None or row.stretches is None else row.stretches
                self._found = msgspec.json.decode(bytes(stretches), type=list[Stretch])
                self._written_ns = None if row is None else row.written_ns
            elif written_ns is None:
                self._found = []
            return self._found
