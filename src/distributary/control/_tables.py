"""The tables of the resource store, and their version."""

from typing import Final

import sqlalchemy as sa

SCHEMA_VERSION: Final = 1
"""Raised by every change that an older version could not read."""

metadata = sa.MetaData()

schema = sa.Table("control_schema", metadata, sa.Column("version", sa.Integer, primary_key=True))

generation = sa.Table(
    "generation",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    # Number of the newest change; readers compare it to know whether to look further.
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("live_count", sa.BigInteger, nullable=False),
    # Rows of deleted resources up to this change are gone: who is older reads everything again.
    sa.Column("trimmed_through", sa.BigInteger, nullable=False),
)
"""One row, with ``id`` 1. Locked by every change, so that numbers are given in commit order."""

api_subscription = sa.Table(
    "api_subscription",
    metadata,
    sa.Column("uid", sa.String(64), primary_key=True),
    sa.Column("id", sa.String(128), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("spec_json", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
    sa.Column("etag", sa.String(64), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    # Number of the newest change of this resource.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
)

LIVE: Final = "live"
DELETED: Final = "deleted"

_live = api_subscription.c.state == LIVE
sa.Index(
    "api_subscription_live_id",
    api_subscription.c.id,
    unique=True,
    sqlite_where=_live,
    postgresql_where=_live,
)

route_change = sa.Table(
    "route_change",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.String(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("op", sa.String(16), nullable=False),
    # ``flow.encode_route``: what stands, or will stand, in every partition of the log.
    sa.Column("record_json", sa.Text, nullable=False),
    sa.Column("appended", sa.Boolean, nullable=False),
    sa.Index("route_change_appended", "appended", "seq"),
)
