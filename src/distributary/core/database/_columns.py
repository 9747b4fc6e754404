"""Columns that mean the same in SQLite and PostgreSQL."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection


class _PlainText(sa.types.TypeDecorator[str]):
    """PostgreSQL's text, which holds every character but one: what has it gets another."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, _dialect: object) -> str | None:
        return value.replace("\0", "\ufffd") if value and "\0" in value else value


def text(length: int | None = None) -> sa.types.TypeEngine[str]:
    """Text in the order of its UTF-8 bytes.

    By a collation of PostgreSQL's operating system, pages would end elsewhere than in SQLite, and
    an index would be damaged by the next version of its library.

    Args:
        length: For people, as in SQLite: what has more characters is stored all the same.
    """
    return sa.String(length).with_variant(_PlainText(collation="C"), "postgresql")


def big_number() -> sa.types.TypeEngine[Any]:
    """A primary key of 64 bits that the database counts."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def add_columns(connection: Connection, *columns: sa.Column[Any]) -> None:
    """Add those of the nullable *columns* of one table that it lacks in an earlier version."""
    table = columns[0].table.name
    names = {found["name"] for found in sa.inspect(connection).get_columns(table)}
    for column in columns:
        if column.name not in names:
            kind = column.type.compile(connection.dialect)
            connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column.name} {kind}"))
