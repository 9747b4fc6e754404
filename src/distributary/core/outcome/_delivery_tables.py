"""Tables of retry rows, backfills and parked routes, of all partitions."""

import sqlalchemy as sa

from distributary.core.database import text
from distributary.core.outcome._metadata import metadata as _meta

VERSION = sa.Table("delivery_schema", _meta, sa.Column("version", sa.Integer, primary_key=True))
RETRY = sa.Table(
    "retry",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("offset", sa.BigInteger, primary_key=True),
    sa.Column("index", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("checksum", sa.BigInteger, nullable=False),
    sa.Column("leg", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("not_before_ms", sa.BigInteger, nullable=False),
    sa.Column("error_dest", text()),
    sa.Column("error_code", sa.Integer),
    sa.Column("error_data", text()),
    sa.Column("reason", text()),
    sa.Column("done", sa.Boolean, nullable=False),
    sa.Column("event", sa.LargeBinary),
)
BACKFILL = sa.Table(
    "lag",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("start_index", sa.Integer, nullable=False),
    sa.Column("from_offset", sa.BigInteger, nullable=False),
    sa.Column("to_offset", sa.BigInteger),
    sa.Column("record", sa.LargeBinary, nullable=False),
)

PARKED = sa.Table(
    "parked",
    _meta,
    sa.Column("partition", sa.Integer, primary_key=True),
    sa.Column("route", sa.String(64), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("demand_seq", sa.BigInteger, nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("reason", text(), nullable=False),
    sa.Column("dest", text(), nullable=False),
)
