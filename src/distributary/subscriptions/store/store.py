"""The resource store: subscriptions, routes and the route changes that follow from them.

Blocking; ``Leader`` calls the writing half from one thread at a time, any thread the reading
half. One transaction writes a resource and its route change, so that neither exists without the
other (DESIGN rule 4, route records).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import sqlite
from distributary.core.errors import DistributaryError, NotFoundError
from distributary.core.flow import Demand, DemandKind
from distributary.routes import tables as _tables
from distributary.routes.batch import (
    ActiveRoute,
    read_all,
    read_targets,
    write_targets,
)
from distributary.routes.changes import AppliedRoute
from distributary.subscriptions.store._batch import Batch, SubscriptionRow
from distributary.subscriptions.store._credentials_batch import CredentialChanges
from distributary.subscriptions.store._credentials_sealed import Sealer, sealer_beside
from distributary.subscriptions.store._upgrade import bring_up, scrub
from distributary.subscriptions.store.credentials_rows import read_stored, write_credentials
from distributary.subscriptions.store.demands import (
    RouteName,
    find_demand,
    read_route_names,
    write_demand,
)
from distributary.subscriptions.store.schedule import write_schedule
from distributary.subscriptions.store.stored import Applied, Change, Delete, Put, StoredSubscription

SUBSCRIPTIONS_MAX: Final = 200_000
"""Most subscriptions and routes of Triggers and messaging Subscriptions, together. Twice what the
matcher is built for; each costs every pipeline process about 2 KiB."""

CHANGES_KEPT: Final = 100_000
"""Newest changes whose records and deleted rows are kept: a record that the log lost to damage is
restored from here, and a reader that missed fewer reads only what changed."""

_TRIM_EVERY: Final = 1_000
"""Changes between two trims."""

_t = _tables.api_subscription
_g = _tables.generation
_r = _tables.route_change

# Columns read by position: a list reads 100,000 rows.
_SHOWN = sa.select(
    _t.c.id,
    _t.c.uid,
    _t.c.revision,
    _t.c.etag,
    _t.c.created_ms,
    _t.c.updated_ms,
    _t.c.spec_json,
)


class Store:
    """The store at *url*, created if it does not exist.

    Args:
        url: ``sqlite_url`` of a file.
        changes_kept: See ``CHANGES_KEPT``.
        subscriptions_max: See ``SUBSCRIPTIONS_MAX``.
        sealer: For credentials; None: one with the key file beside the store.

    Raises:
        StoreError: It cannot be opened, a newer version wrote it, or there is no key to seal
            secrets that an older version left unsealed.
    """

    def __init__(
        self,
        url: sa.URL,
        *,
        changes_kept: int = CHANGES_KEPT,
        subscriptions_max: int = SUBSCRIPTIONS_MAX,
        sealer: Sealer | None = None,
    ) -> None:
        self._sealer = sealer or sealer_beside(url)
        self._changes_kept = changes_kept
        self._subscriptions_max = subscriptions_max
        self._trimmed_at = 0
        self._writer = sqlite.open_writer(url, _tables.STORE)
        with sqlite.writing(self._writer) as connection:
            version = _tables.create(connection)
            if version < _tables.SCHEMA_VERSION:
                bring_up(connection, version, self._sealer)
        scrub(self._writer)
        # The mark of appended records may be lost: they are appended again, which is harmless.
        self._noter = sqlite.open_writer(url, _tables.STORE, durable=False)
        self._reader = sqlite.open_reader(url, _tables.STORE)

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._noter.dispose()
        self._writer.dispose()

    def apply(
        self, changes: Sequence[Change], now_ms: int
    ) -> list[Applied | AppliedRoute | DistributaryError]:
        """Make *changes*, in their order, in one transaction that is durable on return.

        Args:
            changes: Each is made or refused individually.
            now_ms: Wall clock for the stamps, milliseconds.

        Returns:
            For each change its result, or why it was refused.

        Raises:
            StoreError: Nothing was changed.
        """
        with sqlite.writing(self._writer) as connection:
            counter = connection.execute(sa.select(_g).with_for_update()).one()
            ids = {change.id for change in changes if isinstance(change, (Put, Delete))}
            found = connection.execute(
                _SHOWN.add_columns(_t.c.seq).where(_t.c.id.in_(ids), _t.c.state == _tables.LIVE)
            )
            batch = Batch(
                live={
                    row.id: SubscriptionRow(_shown(row[:-1]), _tables.LIVE, row.seq)
                    for row in found
                },
                seq=counter.seq,
                room=self._subscriptions_max - counter.live_count,
                now_ms=now_ms,
                credentials=CredentialChanges(
                    self._sealer,
                    counter.credential_seq + 1,
                    read_stored(connection, ids),
                ),
                targets=read_targets(connection, changes),
            )
            outcomes = [batch.apply(change) for change in changes]
            if batch.seq != counter.seq:
                live_count = self._subscriptions_max - batch.room
                _write(connection, batch, live_count)
        return outcomes

    def pending(self, limit: int) -> list[tuple[int, bytes]]:
        """Numbers and route records of the oldest changes that may be missing in the log."""
        query = (
            sa.select(_r.c.seq, _r.c.record_json)
            .where(_r.c.appended.is_(False))
            .order_by(_r.c.seq)
            .limit(limit)
        )
        with sqlite.reading(self._reader) as connection:
            return [(row.seq, row.record_json.encode()) for row in connection.execute(query)]

    def mark_appended(self, through_seq: int) -> None:
        """Record that every partition has the records of all changes up to *through_seq*.

        A power cut may undo it: then they are appended once more.
        """
        with sqlite.writing(self._noter) as connection:
            connection.execute(
                sa.update(_r)
                .where(_r.c.appended.is_(False), _r.c.seq <= through_seq)
                .values(appended=True)
            )
            if through_seq - self._trimmed_at >= min(_TRIM_EVERY, self._changes_kept):
                self._trimmed_at = through_seq
                _trim(connection, through_seq - self._changes_kept)

    def record(self, seq: int) -> bytes | None:
        """The route record of change *seq*, to restore a damaged one; None: no longer kept."""
        query = sa.select(_r.c.record_json).where(_r.c.seq == seq)
        with sqlite.reading(self._reader) as connection:
            found = connection.execute(query).scalar()
        return None if found is None else str(found).encode()

    def demand(self, kind: DemandKind, route: str, run: str, now_ms: int) -> Demand:
        """Store a demand to the consumers of all partitions; idempotent within a run.

        Raises:
            ConflictError: The run has a different demand.
            RequestError: Too many are kept.
            StoreError: Nothing was stored.
        """
        with sqlite.writing(self._writer) as connection:
            return write_demand(connection, kind, route, run, now_ms)

    def route_names(self, uids: Collection[str]) -> dict[str, RouteName]:
        """Names of these routes' owners, those that exist."""
        with sqlite.reading(self._reader) as connection:
            return read_route_names(connection, uids)

    def find_demand(self, run: str) -> Demand | None:
        """The demand of this run; None: it is not kept."""
        with sqlite.reading(self._reader) as connection:
            return find_demand(connection, run)

    def routes(self) -> dict[str, ActiveRoute]:
        """The live routes of Triggers and messaging Subscriptions, by uid."""
        with sqlite.reading(self._reader) as connection:
            return read_all(connection)

    def find(self, id_: str) -> StoredSubscription:
        """Return the subscription with this id.

        Raises:
            NotFoundError: It does not exist.
        """
        query = _SHOWN.where(_t.c.id == id_, _t.c.state == _tables.LIVE)
        with sqlite.reading(self._reader) as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFoundError("there is no subscription with this id")
        return _shown(row)

    def page(self, after_id: str, limit: int) -> list[StoredSubscription]:
        """At most *limit* subscriptions in the order of their ids, those after *after_id*."""
        query = (
            _SHOWN.where(_t.c.state == _tables.LIVE, _t.c.id > after_id)
            .order_by(_t.c.id)
            .limit(limit)
        )
        with sqlite.reading(self._reader) as connection:
            found = connection.execute(query).all()
        return [_shown(row) for row in found]

    def live_count(self) -> int:
        """Number of live subscriptions and routes of other objects."""
        with sqlite.reading(self._reader) as connection:
            return int(connection.execute(sa.select(_g.c.live_count)).scalar_one())


def _shown(row: Iterable[Any]) -> StoredSubscription:
    *members, spec_json = row
    return StoredSubscription._make((*members, spec_json.encode()))


def _write(connection: Connection, batch: Batch, live_count: int) -> None:
    # Updates first: the same batch may insert an id again that it deletes.
    if batch.updates:
        connection.execute(
            sa.update(_t).where(_t.c.uid == sa.bindparam("key")),
            [row.columns() | {"key": row.subscription.uid} for row in batch.updates.values()],
        )
    if batch.inserts:
        connection.execute(sa.insert(_t), [row.columns() for row in batch.inserts.values()])
    connection.execute(sa.insert(_r), batch.records)
    write_targets(connection, batch.targets)
    write_schedule(connection, batch.schedules)
    write_credentials(connection, batch.credentials)
    connection.execute(sa.update(_g).values(seq=batch.seq, live_count=live_count))


def _trim(connection: Connection, through_seq: int) -> None:
    if through_seq <= 0:
        return
    connection.execute(sa.delete(_r).where(_r.c.appended.is_(True), _r.c.seq <= through_seq))
    for table in (_t, _tables.route_target):
        gone = sa.and_(table.c.state == _tables.DELETED, table.c.seq <= through_seq)
        connection.execute(sa.delete(table).where(gone))
    connection.execute(sa.update(_g).values(trimmed_through=through_seq))
