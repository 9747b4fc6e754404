"""How far the log on Kafka is archived, in the store that nodes share: one table.

The job writes it after each manifest, and retention of the leader reads it. The manifests of the
archive are the truth: the next job writes the table again. Not imported with the package.
"""

from collections.abc import Mapping
from typing import Final

import sqlalchemy as sa

from distributary.core import database

_STORE: Final = "resource store"
"""Name of the store in messages."""

_metadata: Final = sa.MetaData()
_archived: Final = sa.Table(
    "log_archived",
    _metadata,
    # Path or URL of the archive: a log may have several.
    sa.Column("archive", sa.Text, primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    # Offset of the first record that is not archived.
    sa.Column("position", sa.BigInteger, nullable=False),
)


def write_positions(url: sa.URL, archive: str, positions: Mapping[int, int]) -> None:
    """Write how far each partition is archived in *archive*; durable on return. Blocks.

    Args:
        url: Of the store.
        archive: Path or URL of the archive, as the setting ``archive`` has it.
        positions: Partition -> offset of the first record that is not archived.

    Raises:
        StoreError: Nothing was written; or the message says that this is not known.
    """
    writer = database.open_writer(url, _STORE)
    try:
        with database.migrating(writer) as connection:
            _metadata.create_all(connection)
            connection.execute(sa.delete(_archived).where(_archived.c.archive == archive))
            rows = [
                {"archive": archive, "partition": number, "position": position}
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
        archive: As for ``write_positions``.

    Raises:
        StoreError: It cannot be read now.
    """
    with database.reading(reader) as connection:
        if not sa.inspect(connection).has_table(_archived.name):
            return {}
        query = sa.select(_archived.c.partition, _archived.c.position)
        rows = connection.execute(query.where(_archived.c.archive == archive))
        return {row.partition: row.position for row in rows}
