"""The progress of runs in one partition's delivery store; called inside its transactions."""

from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.outcome._metadata import metadata
from distributary.core.outcome._upsert import upsert
from distributary.core.outcome.rows import RunRow

RUNS_KEPT: Final = 100_000
"""Demands whose runs are remembered once they are done: as many as the resource store keeps. An
owner that starts begins each demand without a run, and must not begin one that is done."""

RUN: Final = sa.Table(
    "run",
    metadata,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("through", sa.BigInteger, nullable=False),
    sa.Column("handled", sa.BigInteger, nullable=False),
    sa.Column("passed", sa.BigInteger, nullable=False),
    sa.Column("done", sa.Boolean, nullable=False),
    # Null in rows of an earlier version.
    sa.Column("selected", sa.BigInteger),
    sa.Column("looked", sa.BigInteger),
    sa.Column("total", sa.BigInteger),
    sa.Column("cancelled", sa.Boolean),
    sa.Column("oldest_ms", sa.BigInteger),
    sa.Column("missing", sa.BigInteger),
    sa.Column("missing_from", sa.BigInteger),
    sa.Column("missing_to", sa.BigInteger),
    sa.Column("route_deleted", sa.Boolean),
)
ADDED: Final = (
    RUN.c.selected,
    RUN.c.looked,
    RUN.c.total,
    RUN.c.cancelled,
    RUN.c.oldest_ms,
    RUN.c.missing,
    RUN.c.missing_from,
    RUN.c.missing_to,
    RUN.c.route_deleted,
)
"""Columns that an earlier version has not."""

_COLUMNS: Final[list[Any]] = [RUN.c[name] for name in RunRow._fields]


def read_runs(connection: Connection, partition: int, seqs: list[int]) -> dict[int, RunRow]:
    """The progress of the demands *seqs*, of those that have begun."""
    query = sa.select(*_COLUMNS).where(RUN.c.partition == partition, RUN.c.seq.in_(seqs))
    return {row.seq: _run_of(row) for row in connection.execute(query)}


def put_runs(connection: Connection, partition: int, rows: list[RunRow]) -> None:
    """Write *rows*."""
    if rows:
        upsert(connection, RUN, [{"partition": partition, **row._asdict()} for row in rows])


def forget_runs(connection: Connection, partition: int, seq: int) -> None:
    """Forget runs that were done long before the demand *seq*."""
    old = sa.and_(RUN.c.partition == partition, RUN.c.seq < seq - RUNS_KEPT)
    connection.execute(RUN.delete().where(old, RUN.c.done.is_(True)))


def _run_of(row: Any) -> RunRow:
    found = RunRow._make(row)
    return found._replace(
        selected=found.selected or 0,
        looked=found.looked or 0,
        total=found.total or 0,
        cancelled=bool(found.cancelled),
        missing=found.missing or 0,
        route_deleted=bool(found.route_deleted),
    )
