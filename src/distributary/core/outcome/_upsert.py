"""Inserts rows, or replaces them, in both dialects."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection


def upsert(
    connection: Connection,
    table: sa.Table,
    rows: list[dict[str, Any]],
    *,
    only: tuple[str, ...] | None = None,
) -> None:
    """Insert *rows*, or replace existing ones by primary key, in both dialects.

    Args:
        connection: In a transaction.
        table: Target.
        rows: All with the same columns.
        only: Columns to replace in existing rows; None: all.
    """
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert  # noqa: PLC0415 - only when it is used
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]  # noqa: PLC0415
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    names = only or tuple(c.name for c in table.columns if c.name not in keys)
    changed = {name: statement.excluded[name] for name in names}
    connection.execute(
        statement.on_conflict_do_update(index_elements=keys, set_=changed),
        rows,
    )
