"""The tables of the resource store, and their version."""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.database import big_number, text
from distributary.core.errors import StoreError
from distributary.core.tenant import DEFAULT_NAMESPACE

SCHEMA_VERSION: Final = 11
"""Incremented by every change that an older version could not read, or would misunderstand, and by
what an older store is given once.

==  ==========================================================================================
1   the first
2   credentials: an older version would deliver without them
3   objects of the Kubernetes API: an older version would not deliver what their routes match
4   secret settings are sealed: an older version would send masks in their place;
    the rules by which a ``delivery`` was written: an older version has no such column
5   keys that sign deliveries: an older version would send without signatures
6   namespaces of subscriptions: an older version would mix the tenants
7   paused and disabled subscriptions: an older version would deliver to them;
    demands with a selection: an older version would purge or redrive more
8   secrets of Triggers and messaging Subscriptions: an older version would deliver without them
9   addresses that are not open yet: an older version would accept events that no route matches
10  addresses of subscriptions: an older version would leave them outdated
11  an index of objects by uid: given once
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
    6: (
        ("api_subscription", "namespace", "VARCHAR(63) NOT NULL DEFAULT 'default'"),
        ("generation", "tenant_seq", "BIGINT NOT NULL DEFAULT 0"),
    ),
    7: (
        ("generation", "steering_seq", "BIGINT NOT NULL DEFAULT 0"),
        ("demand", "details", "BLOB"),
    ),
    9: (("address", "open", "BOOLEAN NOT NULL DEFAULT 1"),),
    10: (("api_subscription", "address", "VARCHAR(64)"),),
}
"""Columns (table, column, type) that an older store lacks, by the version that introduced them.
Added in order, in one transaction, with the missing tables, when the store is opened. The types are
SQLite's; PostgreSQL has those of the tables below."""

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
    # Changes whenever a namespace gets its first subscription.
    sa.Column("tenant_seq", sa.BigInteger, nullable=False, server_default="0"),
    # Number of the newest change of ``steering``.
    sa.Column("steering_seq", sa.BigInteger, nullable=False, server_default="0"),
)
"""One row, with ``id`` 1. Every change locks it, so numbers follow commit order."""

api_subscription = sa.Table(
    "api_subscription",
    metadata,
    sa.Column("uid", text(64), primary_key=True),
    sa.Column("id", text(128), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("spec_json", text(), nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("updated_ms", sa.BigInteger, nullable=False),
    sa.Column("etag", text(64), nullable=False),
    sa.Column("state", text(16), nullable=False),
    # Number of the newest change of this resource.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
    sa.Column("namespace", text(63), nullable=False, server_default=DEFAULT_NAMESPACE),
    # Where it listens, as in its newest route record; null: an older version wrote the row.
    sa.Column("address", text(64)),
)

LIVE: Final = "live"
DELETED: Final = "deleted"

_live = api_subscription.c.state == LIVE
BY_NAME: Final = sa.Index(
    "api_subscription_live_name",
    api_subscription.c.namespace,
    api_subscription.c.id,
    unique=True,
    sqlite_where=_live,
    postgresql_where=_live,
)
"""An id is unique among the live subscriptions of its namespace."""

tenant = sa.Table(
    "tenant",
    metadata,
    sa.Column("namespace", text(63), primary_key=True),
    # ``tenant.broker_address``: where its subscriptions listen.
    sa.Column("address", text(64), nullable=False),
    # Live subscriptions and routes of its objects, and the bytes of what is stored of them.
    sa.Column("live_count", sa.BigInteger, nullable=False),
    sa.Column("stored_bytes", sa.BigInteger, nullable=False),
)
"""A row for each namespace that has, or had, subscriptions or routes; ``subscriptions.store``."""

lifecycle_route = sa.Table(
    "lifecycle_route",
    metadata,
    sa.Column("uid", text(64), primary_key=True),
    sa.Column("namespace", text(63), nullable=False, index=True),
)
"""A row for each route that listens to the Broker ``lifecycle`` of its namespace."""

lifecycle_event = sa.Table(
    "lifecycle_event",
    metadata,
    # In the order of the events; free again once the log has the event.
    sa.Column("number", big_number(), primary_key=True, autoincrement=True),
    # Number of the change of the subscription that it tells of, or that the log had not yet when it
    # was noted; 0: there is none. It waits until the log has that change.
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("event_id", text(192), nullable=False, index=True),
    sa.Column("transition", text(16), nullable=False),
    sa.Column("kind", text(32), nullable=False),
    # Id of the subscription, or name of the object.
    sa.Column("id", text(253), nullable=False),
    sa.Column("namespace", text(63), nullable=False),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    # When it happened, wall clock, milliseconds.
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    # Further members of its data.
    sa.Column("members_json", sa.LargeBinary, nullable=False),
    # Who gets it: routes at the Broker ``lifecycle``, and the sink of the subscription itself.
    sa.Column("to_broker", sa.Boolean, nullable=False),
    sa.Column("to_sink", sa.Boolean, nullable=False),
)
"""Lifecycle events that are not in the log yet; see ``subscriptions.store.lifecycle_rows``."""

demand = sa.Table(
    "demand",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", text(16), nullable=False),
    # Uid of the route, or ``outcome.letters_of`` a namespace; empty: all.
    sa.Column("route", text(64), nullable=False),
    # Its name; that of one namespace alone with it: ``namespace name``.
    sa.Column("run", text(128), nullable=False, unique=True),
    sa.Column("asked_ms", sa.BigInteger, nullable=False, index=True),
    # ``flow.DemandDetails`` in JSON; null: none.
    sa.Column("details", sa.LargeBinary),
)
"""Requests to the owners of partitions; see ``subscriptions.store.demands``."""

steering = sa.Table(
    "steering",
    metadata,
    # Of the route: a subscription's, a Trigger's or a messaging Subscription's.
    sa.Column("uid", text(64), primary_key=True),
    # Number of the newest change of the row.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
    # Wall clock, milliseconds, and who asked; null: it is not paused, or not disabled.
    sa.Column("paused_ms", sa.BigInteger),
    sa.Column("paused_by", text(512)),
    sa.Column("disabled_ms", sa.BigInteger),
    sa.Column("disabled_by", text(512)),
    sa.Column("disabled_reason", text()),
    # JSON object: annotations that were carried out, with their values; "turn": how many times.
    sa.Column("obeyed", sa.LargeBinary),
)
"""What people have set about the deliveries of a route; ``subscriptions.store.steering``."""

route_change = sa.Table(
    "route_change",
    metadata,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("uid", text(64), nullable=False),
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("op", text(16), nullable=False),
    # ``flow.encode_route``: the record that is, or will be, in every partition of the log.
    sa.Column("record_json", text(), nullable=False),
    sa.Column("appended", sa.Boolean, nullable=False),
    sa.Index("route_change_appended", "appended", "seq"),
)

schedule = sa.Table(
    "schedule",
    metadata,
    sa.Column("uid", text(64), primary_key=True),
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
    sa.Column("uid", text(64), primary_key=True),
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
    sa.Column("uid", text(64), primary_key=True),
    sa.Column("revision", sa.Integer, nullable=False),
    # Where the route listens: uid of a Broker or Channel; empty: the default broker.
    sa.Column("address", text(64), nullable=False),
    # Digest of what it matches; filters and required attributes are in the route's record.
    sa.Column("matching", text(64), nullable=False),
    # ``settings.encode_settings``: where and how it delivers.
    sa.Column("settings_json", text(), nullable=False),
    sa.Column("state", text(16), nullable=False),
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
    sa.Column("resource", text(128), primary_key=True),
    # Empty where the kind has none.
    sa.Column("namespace", text(63), primary_key=True),
    sa.Column("name", text(253), primary_key=True),
    sa.Column("uid", text(64), nullable=False),
    # Its resource version.
    sa.Column("version", sa.BigInteger, nullable=False),
    # Last write, wall clock, milliseconds.
    sa.Column("written_ms", sa.BigInteger, nullable=False),
    # Rules by which its ``spec.delivery`` was written: ``DELIVERY_RULES``, or 0 before them.
    sa.Column("delivery_rules", sa.Integer, nullable=False, server_default="0"),
    sa.Column("content_json", sa.LargeBinary, nullable=False),
)
"""Objects of the Kubernetes API: current state; no history."""

BY_UID: Final = sa.Index("object_uid", object_.c.uid)
"""Finds the object whose uid a row of another table has: a scan would read all contents."""

object_counter = sa.Table(
    "object_counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    # The newest resource version; 0: the store was never used.
    sa.Column("version", sa.BigInteger, nullable=False),
    # Number of the newest change of ``address``.
    sa.Column("address_version", sa.BigInteger, nullable=False),
)
"""One row, with ``id`` 1. Its counters never fall, so a resource version is never reused."""

address = sa.Table(
    "address",
    metadata,
    # ``brokers/{namespace}/{name}`` or ``channels/{namespace}/{name}``.
    sa.Column("path", text(140), primary_key=True),
    # ``flow.Addressed.address`` of events published there.
    sa.Column("uid", text(64), nullable=False),
    # Whether receivers accept events there: only once routes have moved to this address.
    sa.Column("open", sa.Boolean, nullable=False, server_default=sa.true()),
)
"""Paths where ``ingest`` accepts events besides ``/events``: a row for each Broker and Channel."""

kept_secret = sa.Table(
    "kept_secret",
    metadata,
    sa.Column("namespace", text(63), primary_key=True),
    sa.Column("name", text(253), primary_key=True),
    sa.Column("uid", text(64), nullable=False),
    # ``resource.KeptSecret``.
    sa.Column("sealed", sa.LargeBinary, nullable=False),
    # Number of the change that wrote the row.
    sa.Column("seq", sa.BigInteger, nullable=False),
)
"""Values of the objects of the kind ``v1/Secret``, whose rows in ``object`` have none."""

kept_secret_counter = sa.Table(
    "kept_secret_counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
)
"""At most one row, with ``id`` 1: number of the newest change of ``kept_secret``."""

api_key = sa.Table(
    "api_key",
    metadata,
    # Public part of the key.
    sa.Column("id", text(32), primary_key=True),
    sa.Column("name", text(63), nullable=False, index=True),
    # Hash of the whole key; the key itself is nowhere.
    sa.Column("sha256", text(64), nullable=False),
    # ``access.Grant`` list.
    sa.Column("grants_json", sa.LargeBinary, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    # Name of the identity that made it.
    sa.Column("created_by", text(512), nullable=False),
    # When it expires, wall clock, milliseconds.
    sa.Column("until_ms", sa.BigInteger),
)
"""API keys until they are revoked; see ``subscriptions.api_keys``."""

api_key_use = sa.Table(
    "api_key_use",
    metadata,
    # Of a key here or in the configuration file.
    sa.Column("id", text(32), primary_key=True),
    # The minute in which it was used last, wall clock, milliseconds.
    sa.Column("used_ms", sa.BigInteger, nullable=False),
)
"""When API keys were used last. Not beside the key: it changes often, and keys of the
configuration file have no row there."""

consent = sa.Table(
    "consent",
    metadata,
    # ``resource.target_key``: of namespace and URI, which may hold secrets.
    sa.Column("target", text(64), primary_key=True),
    sa.Column("state", text(16), nullable=False),
    # Name that the target consented to.
    sa.Column("origin", text(253), nullable=False),
    # Requests a minute that it allows; null: any number.
    sa.Column("rate_per_min", sa.BigInteger),
    # Whether it consented by callback.
    sa.Column("by_callback", sa.Boolean, nullable=False),
    # Why there is no consent, for people.
    sa.Column("reason", text(), nullable=False),
    # Questions in a row without consent.
    sa.Column("tries", sa.Integer, nullable=False),
    # Wall clock, milliseconds: in this state since, last asked, end (0: none), next step.
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("asked_ms", sa.BigInteger, nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    sa.Column("next_ms", sa.BigInteger, nullable=False),
    # Digests of the callback keys that are valid, with their ends.
    sa.Column("callbacks", text(), nullable=False),
    # Number of its newest change.
    sa.Column("seq", sa.BigInteger, nullable=False, index=True),
)
"""Consent of HTTP targets to deliveries: a row for each target that was looked at."""

consent_counter = sa.Table(
    "consent_counter",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    # Number of the newest change of ``consent``.
    sa.Column("seq", sa.BigInteger, nullable=False),
)
"""One row, with ``id`` 1, once there is a change."""


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


def add_column(connection: Connection, table: str, column: str, type_: str) -> None:
    """Add a column of ``ADDED_COLUMNS``, unless *table* was missing and was made with it."""
    if column in {each["name"] for each in sa.inspect(connection).get_columns(table)}:
        return
    if connection.dialect.name == "postgresql":
        made = sa.schema.CreateColumn(metadata.tables[table].c[column])
        definition = str(made.compile(dialect=connection.dialect))
    else:
        definition = f"{column} {type_}"
    connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN {definition}")


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
