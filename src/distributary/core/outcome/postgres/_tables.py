"""Tables that only the form of several machines has, and the making of all tables of outcomes."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from distributary.core import database
from distributary.core.errors import StoreError
from distributary.core.outcome._dead_letter_tables import dead_letter
from distributary.core.outcome._delivery_tables import VERSION
from distributary.core.outcome._file_reservations import reservation_metadata
from distributary.core.outcome._metadata import metadata as _shared_with_files
from distributary.core.outcome._run_rows import ADDED as RUN_COLUMNS

STORE: Final = "delivery store"
"""Name of the store in messages."""
SCHEMA_VERSION: Final = 2
"""Raised when an older version must not write the tables. Version 1 had no index of dead
letters in the order of each partition."""

_meta: Final = sa.MetaData()

partition_owner: Final = sa.Table(
    "partition_owner",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    # Of the lease of the newest owner, and what is of this opening alone.
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("token", sa.String(32), nullable=False),
    # Number of the last flush: tells whether a commit whose answer was lost was made.
    sa.Column("n", sa.BigInteger, nullable=False),
)
outcome_frame: Final = sa.Table(
    "outcome_frame",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    # As ``core.journal`` has them in its file.
    sa.Column("frame", sa.LargeBinary, nullable=False),
)

tally: Final = sa.Table(
    "tally",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("route", database.text(64), primary_key=True),
    # Rises with each change of the partition's tallies: readers ask for what is newer.
    sa.Column("tick", sa.BigInteger, nullable=False),
    sa.Column("resting", sa.Boolean, nullable=False),
    # As in a slot of a file of tallies; null: the route is gone.
    sa.Column("slot", sa.LargeBinary),
    sa.Index("tally_newer", "partition", "tick"),
)
failing: Final = sa.Table(
    "failing",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    # JSON, as in the file of failing routes.
    sa.Column("routes", sa.LargeBinary, nullable=False),
)


def prepare_outcomes(writer: Engine) -> None:
    """Make the tables of outcomes where they are missing; any number of processes may do so.

    Args:
        writer: Of ``database.open_writer``.

    Raises:
        StoreError: They cannot be made, or a newer version of distributary has made them.
    """
    with database.migrating(writer) as connection:
        VERSION.create(connection, checkfirst=True)
        found = connection.execute(sa.select(VERSION.c.version)).scalar()
        if found is not None and found > SCHEMA_VERSION:
            raise StoreError(
                f"the {STORE} has schema {found}, this version knows {SCHEMA_VERSION}:"
                " upgrade distributary, or use another database"
            )
        for tables in (_shared_with_files, reservation_metadata, _meta):
            tables.create_all(connection)
        database.add_columns(connection, *RUN_COLUMNS)
        for index in dead_letter.indexes:
            index.create(connection, checkfirst=True)
        if found is None:
            connection.execute(VERSION.insert().values(version=SCHEMA_VERSION))
        elif found < SCHEMA_VERSION:
            connection.execute(VERSION.update().values(version=SCHEMA_VERSION))
