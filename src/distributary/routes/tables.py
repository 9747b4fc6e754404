"""The tables of the resource store, and their version."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import StoreError

SCHEMA_VERSION: Final = 4
"""Incremented by every change that an older version could not read, or would misunderstand.

==  ==========================================================================================
1   the first
2   credentials: an older version would deliver without them
3   objects of the Kubernetes API: an older version would not deliver what their routes match
4   secret settings are sealed: an older version would send masks in their place;
    the rules by which a ``delivery`` was written: an older version has no such column
==  ==========================================================================================
"""

STORE: Final = "resource store"
"""Name of the store in messages."""

ADDED_COLUMNS: Final[dict[int, tuple[tuple[str, str, str], ...]]] = {
    2: (("generation", "credential_seq", "BIGINT NOT NULL DEFAULT 0"),),
    4: (
        ("credential", "settings", "BLOB"),
        ("object", "delivery_rules", "INTEGER NOT NULL DEFAULT 0"),
        ("generation", "demand_seq", "BIGINT NOT NULL DEFAULT 0"),
    ),
}
"""Columns (table, column, type) that an older store lacks, by the version that introduced them.
Added in order, in one transaction, with the missing tables, when the store is opened."""

NOT_BROUGHT_UP: Final = "the resource store is not brought up to this version yet"
"""Error of readers of an older store until ``Store`` has upgraded it."""

metadata = sa.MetaData()

schema = sa.Table("control_schema", metadata, sa.Column("version", sa.Integer, primary_key=True))

generation = sa.Table(
    "generation",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    # Number of the newest change; readers compare it to know whether to look further.
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("live_count", sa.BigInteger, nullable=False),
    # Rows of resources deleted up to this change are trimmed: older readers read all again.
    sa.Column("trimmed_through", sa.BigInteger, nullable=False),
    # Number of the newest change of sealed credentials, which have no route record.
    sa.Column("credential_seq", sa.BigInteger, nullable=False, server_default="0"),
    # Number of the newest demand, likewise.
    sa.Column("demand_seq", sa.BigInteger, nullable=False, server_default="0"),
)
"""One row, with ``id`` 1. Every change locks it, so numbers follow commit order."""

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

demand = sa.Table(
    "demand",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.String(16), nullable=False),
    # Uid of the route; empty: all.
    sa.Column("route", sa.String(64), nullable=False),
    sa.Column("run", sa.String(64), nullable=False, unique=True),
    sa.Column("asked_ms", sa.BigInteger, nullable=False, index=True),
)
"""Requests to the owners of partitions; see ``subscriptions.store.demands``."""

route_change = sa.Table(
    "route_change",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("uid", sa.String(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("op", sa.String(16), nullable=False),
    # ``flow.encode_route``: the record that is, or will be, in every partition of the log.
    sa.Column("record_json", sa.Text, nullable=False),
    sa.Column("appended", sa.Boolean, nullable=False),
    sa.Index("route_change_appended", "appended", "seq"),
)

schedule = sa.Table(
    "schedule",
    metadata,
    sa.Column("uid", sa.String(64), primary_key=True),
    # Number of the change that wrote the row.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
    # When it expires, wall clock, milliseconds.
    sa.Column("expires_ms", sa.BigInteger, index=True),
    # Deliveries after which it ends (``maxevents``).
    sa.Column("events_max", sa.BigInteger),
    # Interval of its timer, seconds, and its first moment, wall clock, milliseconds.
    sa.Column("interval_s", sa.Double),
    sa.Column("phase_ms", sa.BigInteger, nullable=False),
    # Ticks up to this number may have been made.
    sa.Column("numbered", sa.BigInteger, nullable=False),
)
"""Timers and expiry: a row for each live subscription with a timer or an end."""

_counted = schedule.c.events_max.is_not(None)
sa.Index(
    "schedule_counted",
    schedule.c.events_max,
    sqlite_where=_counted,
    postgresql_where=_counted,
)

credential = sa.Table(
    "credential",
    metadata,
    sa.Column("uid", sa.String(64), primary_key=True),
    # Of the resource: the secrets are only for this revision's sink.
    sa.Column("revision", sa.Integer, nullable=False),
    # Number of the change of credentials that wrote the row.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
    # The credential; empty where only settings are secret.
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    # Secret settings: values masked in ``api_subscription.spec_json``.
    sa.Column("settings", sa.LargeBinary),
)
"""Sealed secrets: a row for each live subscription that has any; no history."""

route_target = sa.Table(
    "route_target",
    metadata,
    sa.Column("uid", sa.String(64), primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    # Where the route listens: uid of a Broker or Channel; empty: the default broker.
    sa.Column("address", sa.String(64), nullable=False),
    # Digest of what it matches; filters and required attributes are in the route's record.
    sa.Column("matching", sa.String(64), nullable=False),
    # ``settings.encode_settings``: where and how it delivers.
    sa.Column("settings_json", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    # Number of its newest change.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
)
"""Routes of Knative's Triggers and Subscriptions; those of the Subscriptions API are rows of
``api_subscription``."""

DELIVERY_RULES: Final = 1
"""Under these rules a ``spec.delivery`` without ``retry`` means no retry; under rules 0 it meant
the default."""

object_ = sa.Table(
    "object",
    metadata,
    # ``plural.group``, or the plural alone for the core group.
    sa.Column("resource", sa.String(128), primary_key=True),
    # Empty where the kind has none.
    sa.Column("namespace", sa.String(63), primary_key=True),
    sa.Column("name", sa.String(253), primary_key=True),
    sa.Column("uid", sa.String(64), nullable=False),
    # Its resource version.
    sa.Column("version", sa.BigInteger, nullable=False),
    # Last write, wall clock, milliseconds.
    sa.Column("written_ms", sa.BigInteger, nullable=False),
    # Rules by which its ``spec.delivery`` was written: ``DELIVERY_RULES``, or 0 before them.
    sa.Column("delivery_rules", sa.Integer, nullable=False, server_default="0"),
    sa.Column("content_json", sa.LargeBinary, nullable=False),
)
"""Objects of the Kubernetes API: current state; no history."""

object_counter = sa.Table(
    "object_counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    # The newest resource version; 0: the store was never used.
    sa.Column("version", sa.BigInteger, nullable=False),
    # Resource version of the newest change of ``address``.
    sa.Column("address_version", sa.BigInteger, nullable=False),
)
"""One row, with ``id`` 1. Its counters never fall, so a resource version is never reused."""

address = sa.Table(
    "address",
    metadata,
    # ``brokers/{namespace}/{name}`` or ``channels/{namespace}/{name}``.
    sa.Column("path", sa.String(140), primary_key=True),
    # ``flow.Addressed.address`` of events published there.
    sa.Column("uid", sa.String(64), nullable=False),
)
"""Paths where ``ingest`` accepts events besides ``/events``: a row for each Broker and Channel."""


def create(connection: Connection) -> int:
    """Create missing tables.

    Returns:
        The schema version of the store: the current one if it is new, else perhaps an older one,
        which the caller upgrades next.

    Raises:
        StoreError: A newer version wrote the store.
    """
    schema.create(connection, checkfirst=True)
    version = connection.execute(sa.select(schema.c.version)).scalar()
    check_version(version or SCHEMA_VERSION)
    metadata.create_all(connection)
    if version is None:
        connection.execute(sa.insert(schema).values(version=SCHEMA_VERSION))
        counters = {"seq": 0, "live_count": 0, "trimmed_through": 0}
        connection.execute(sa.insert(generation).values(id=1, **counters))
    return version or SCHEMA_VERSION


def check_version(version: int) -> None:
    """Refuse a store with a newer schema.

    Raises:
        StoreError: *version* is newer than ``SCHEMA_VERSION``.
    """
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"the resource store has schema {version}, this version knows"
            f" {SCHEMA_VERSION}: upgrade distributary, or use another data directory"
        )
