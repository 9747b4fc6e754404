"""Copies tables from SQLite files of the data directory into PostgreSQL, row by row as they are.

What a table holds is replaced in one transaction, so a copy that was interrupted is made anew.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database
from distributary.server.migrate._errors import MigrationError

ROWS: Final = 500
"""Rows that are held at a time: an object of the Kubernetes API has up to 1 MiB."""

Rewrite = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Gives a row as the target is to have it."""


def replace(
    source: Engine,
    target: Connection,
    tables: Sequence[sa.Table],
    rewrites: Mapping[str, Rewrite],
) -> dict[str, int]:
    """Replace the rows of *tables* in *target* by those of *source*; returns how many there are.

    Args:
        source: A file of SQLite.
        target: In a transaction.
        tables: In an order in which rows may be inserted.
        rewrites: By the name of a table, for those whose rows change.

    Raises:
        StoreError: One of both failed.
    """
    counts: dict[str, int] = {}
    for table in reversed(tables):
        target.execute(table.delete())
    for table in tables:
        rewrite = rewrites.get(table.name, dict)
        count = 0
        with database.reading(source) as connection:
            found = connection.execution_options(yield_per=ROWS).execute(sa.select(table))
            for some in found.mappings().partitions(ROWS):
                target.execute(table.insert(), [dict(rewrite(dict(row))) for row in some])
                count += len(some)
        counts[table.name] = count
        _continue_numbers(target, table)
    return counts


def _continue_numbers(target: Connection, table: sa.Table) -> None:
    """Let the numbers that PostgreSQL gives to new rows go on behind those that are there."""
    for column in table.primary_key:
        sequence = target.execute(
            sa.select(sa.func.pg_get_serial_sequence(table.name, column.name))
        ).scalar()
        if sequence is not None:
            newest = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
            target.execute(sa.select(sa.func.setval(sequence, newest, False)))


def check_counts(target: Engine, tables: Sequence[sa.Table], counts: Mapping[str, int]) -> None:
    """Count the rows of *tables* once more.

    Raises:
        MigrationError: There are more or fewer than *counts*.
    """
    with database.reading(target) as connection:
        for table in tables:
            query = sa.select(sa.func.count()).select_from(table)
            found = connection.execute(query).scalar_one()
            if found != counts[table.name]:
                raise MigrationError(
                    f"the table {table.name} has {found} rows in the database, and"
                    f" {counts[table.name]} in the data directory: something else writes there"
                )
