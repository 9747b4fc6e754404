"""The record of a migration in the database that it fills: whose it is, and whether it has ended.

A row of its own, so that a move that was interrupted is known again, and that nothing of anybody
else is ever overwritten.
"""

from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core import database
from distributary.server.migrate._errors import MigrationError

STORE: Final = "record of the migration"

_meta: Final = sa.MetaData()
_migration: Final = sa.Table(
    "migration",
    _meta,
    sa.Column("one", sa.Integer, primary_key=True, autoincrement=False),
    # Of the data directory, as it was when the move began.
    sa.Column("identity", sa.String(64), nullable=False),
    sa.Column("began_ms", sa.BigInteger, nullable=False),
    # Null until everything is there, and was compared.
    sa.Column("done_ms", sa.BigInteger),
)


class Record(NamedTuple):
    """A migration.

    Attributes:
        identity: Of the data directory.
        began_ms: Wall clock of its first begin, milliseconds.
        done_ms: Of its end; None: it has not ended.
    """

    identity: str
    began_ms: int
    done_ms: int | None


def read(reader: Engine) -> Record | None:
    """The record; None: nothing was ever moved here.

    Raises:
        StoreError: The database failed.
    """
    with database.reading(reader) as connection:
        if connection.execute(sa.select(sa.func.to_regclass(_migration.name))).scalar() is None:
            return None
        return _found(connection)


def _found(connection: Connection) -> Record | None:
    columns = _migration.c.identity, _migration.c.began_ms, _migration.c.done_ms
    found = connection.execute(sa.select(*columns)).first()
    return None if found is None else Record._make(found)


def begin(writer: Engine, identity: str, now_ms: int) -> None:
    """Note that the move of *identity* has begun, before anything is written.

    Raises:
        MigrationError: The database holds something that is not of this move, or the move has
            ended: nodes may run there.
        StoreError: The database failed.
    """
    with database.migrating(writer) as connection:
        tables = _tables(connection)
        _meta.create_all(connection)
        found = _found(connection)
        if found is not None:
            check(found, identity)
            return
        filled = [name for name in tables if _has_rows(connection, name)]
        if filled:
            raise MigrationError(
                f"the database is not empty: {', '.join(filled)}. Name an empty one"
            )
        values = {"one": 1, "identity": identity, "began_ms": now_ms}
        connection.execute(_migration.insert().values(values))


def check(record: Record, identity: str) -> None:
    """See whether *record* is of a move of *identity* that can go on.

    Raises:
        MigrationError: It is another one, or it has ended.
    """
    if record.identity != identity:
        raise MigrationError(
            "the database holds what was moved from another data directory, or from this one before"
            " a server ran on it again. Name an empty database"
        )
    if record.done_ms is not None:
        raise MigrationError("everything was moved there already, and compared: start the nodes")


def check_ended(reader: Engine) -> None:
    """See whether nodes may use the database: nothing was moved there, or all of it.

    Raises:
        MigrationError: A move has begun, and not ended.
        StoreError: The database failed.
    """
    found = read(reader)
    if found is not None and found.done_ms is None:
        raise MigrationError(
            "a data directory is being moved to this database, and not all of it is there: let"
            " `distributary migrate` end, or run it again"
        )


def end(writer: Engine, now_ms: int) -> None:
    """Note that everything is there.

    Raises:
        StoreError: The database failed.
    """
    with database.writing(writer) as connection:
        open_ = _migration.c.done_ms.is_(None)
        connection.execute(_migration.update().where(open_).values(done_ms=now_ms))


def _tables(connection: Connection) -> list[str]:
    """Tables whose rows say that somebody uses the database."""
    names = sa.inspect(connection).get_table_names()
    return sorted(set(names) & {"api_subscription", "object", "outcome_frame", "route_change"})


def _has_rows(connection: Connection, name: str) -> bool:
    table = sa.table(name)
    query = sa.select(sa.literal(1)).select_from(table).limit(1)
    return connection.execute(query).first() is not None
