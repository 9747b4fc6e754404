"""The resource store: subscriptions, routes and the route changes that follow from them.

Blocking; ``Leader`` calls the writing half from one thread at a time, any thread the reading
half. One transaction writes a resource and its route change, so that neither exists without the
other (DESIGN rule 4, route records).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from distributary.core import database
from distributary.core.database import StoreWriter
from distributary.core.demand import NO_DETAILS, Demand, DemandDetails, DemandKind
from distributary.core.errors import ConflictError, DistributaryError, NotFoundError
from distributary.core.quotas import QuotaTable
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes import tables as _tables
from distributary.routes.batch import ActiveRoute, read_all, read_targets
from distributary.routes.changes import AppliedRoute
from distributary.subscriptions.store import steering as _steering
from distributary.subscriptions.store._batch import Batch, SubscriptionRow
from distributary.subscriptions.store._credentials_batch import CredentialChanges
from distributary.subscriptions.store._credentials_sealed import Sealer, sealer_beside
from distributary.subscriptions.store._lifecycle import read_lifecycle
from distributary.subscriptions.store._tenants import namespaces_in, read_tenants
from distributary.subscriptions.store._upgrade import bring_up, scrub
from distributary.subscriptions.store._writing import trim, write_batch
from distributary.subscriptions.store.consent_rows import (
    CallbackConsent,
    ConsentRow,
    confirm_consent,
    find_callback,
    read_consents,
)
from distributary.subscriptions.store.credentials_rows import read_stored
from distributary.subscriptions.store.demands import (
    RouteName,
    find_demand,
    find_demands,
    forget_demands,
    oldest_demands,
    page_demands,
    read_route_names,
    runs_kept,
    write_demand,
)
from distributary.subscriptions.store.event_rows import (
    RouteTimes,
    read_addresses,
    read_route_times,
)
from distributary.subscriptions.store.lifecycle_rows import (
    DISABLED,
    ENABLED,
    PAUSED,
    RESUMED,
    note_steered,
)
from distributary.subscriptions.store.lost import pass_numbers
from distributary.subscriptions.store.stored import (
    NO_SUBSCRIPTION,
    Applied,
    Change,
    Delete,
    Put,
    Rotate,
    StoredSubscription,
)

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
    _t.c.namespace,
)


def make_missing(url: sa.URL) -> None:
    """Make the tables of the store at *url* that are missing, for those who only read.

    A store of an older version stays as it is: who leads upgrades it, by opening a ``Store``.

    Raises:
        StoreError: They cannot be made, or a newer version wrote the store.
    """
    writer = StoreWriter(url, _tables.STORE)
    try:
        with writer.making() as connection:
            _tables.create(connection)
    finally:
        writer.close()


class Store:
    """The store at *url*, created if it does not exist.

    Args:
        url: ``sqlite_url`` of a file, or ``database_url``.
        changes_kept: See ``CHANGES_KEPT``.
        subscriptions_max: See ``SUBSCRIPTIONS_MAX``.
        sealer: For credentials; None: one with the key file beside the store, which is a file.
        leader: See ``StoreWriter``.

    Raises:
        FencedError: Another process leads.
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
        leader: int | None = None,
    ) -> None:
        self._sealer = sealer or sealer_beside(url)
        self._changes_kept = changes_kept
        self._subscriptions_max = subscriptions_max
        self._quotas = QuotaTable()
        self._trimmed_at = 0
        self._writer = StoreWriter(url, _tables.STORE, leader=leader)
        with self._writer.making() as connection:
            version = _tables.create(connection)
            if version < _tables.SCHEMA_VERSION:
                bring_up(connection, version, self._sealer)
            if leader is not None:
                pass_numbers(connection)
        scrub(self._writer.engine)
        # The mark of appended records may be lost: they are appended again, which is harmless.
        self._noter = StoreWriter(url, _tables.STORE, durable=False, leader=leader)
        self._reader = database.open_reader(url, _tables.STORE)

    @property
    def quotas(self) -> QuotaTable:
        """What each namespace may use."""
        return self._quotas

    def keep_within(self, quotas: QuotaTable) -> None:
        """Refuse what would exceed *quotas* from now on; what is there stays."""
        self._quotas = quotas

    def close(self) -> None:
        """Close every connection."""
        self._reader.dispose()
        self._noter.close()
        self._writer.close()

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
        with self._writer.changing() as connection:
            counter = connection.execute(sa.select(_g).with_for_update()).one()
            ids = {change.id for change in changes if isinstance(change, (Put, Delete, Rotate))}
            # Those of the same id in other namespaces too: the batch asks by name.
            found = [
                SubscriptionRow(_shown(row[:-2]), _tables.LIVE, row.seq, row.address)
                for row in connection.execute(
                    _SHOWN.add_columns(_t.c.seq, _t.c.address).where(
                        _t.c.namespace.in_(_namespaces(changes)),
                        _t.c.id.in_(ids),
                        _t.c.state == _tables.LIVE,
                    )
                )
            ]
            targets = read_targets(connection, changes)
            names = namespaces_in(changes, targets.live.values())
            batch = Batch(
                live={row.subscription.name: row for row in found},
                seq=counter.seq,
                room=self._subscriptions_max - counter.live_count,
                now_ms=now_ms,
                credentials=CredentialChanges(
                    self._sealer,
                    counter.credential_seq + 1,
                    read_stored(connection, [row.subscription.uid for row in found]),
                    now_ms,
                ),
                targets=targets,
                tenants=read_tenants(connection, changes, names, self._quotas),
                quotas=self._quotas,
                lifecycle=read_lifecycle(connection, changes, names, targets.live, now_ms),
            )
            outcomes = [batch.apply(change) for change in changes]
            if batch.seq != counter.seq:
                live_count = self._subscriptions_max - batch.room
                write_batch(connection, batch, live_count)
        return outcomes

    def pending(self, limit: int) -> list[tuple[int, bytes]]:
        """Numbers and route records of the oldest changes that may be missing in the log."""
        query = (
            sa.select(_r.c.seq, _r.c.record_json)
            .where(_r.c.appended.is_(False))
            .order_by(_r.c.seq)
            .limit(limit)
        )
        with database.reading(self._reader) as connection:
            return [(row.seq, row.record_json.encode()) for row in connection.execute(query)]

    def mark_appended(self, through_seq: int) -> None:
        """Record that every partition has the records of all changes up to *through_seq*.

        A power cut may undo it: then they are appended once more.
        """
        with self._noter.changing() as connection:
            connection.execute(
                sa.update(_r)
                .where(_r.c.appended.is_(False), _r.c.seq <= through_seq)
                .values(appended=True)
            )
            if through_seq - self._trimmed_at >= min(_TRIM_EVERY, self._changes_kept):
                self._trimmed_at = through_seq
                trim(connection, through_seq - self._changes_kept)
                _steering.forget_steering(connection)

    def demand(
        self,
        kind: DemandKind,
        route: str,
        run: str,
        now_ms: int,
        *,
        details: DemandDetails = NO_DETAILS,
    ) -> Demand:
        """Store a demand to the consumers of all partitions; idempotent within a run.

        Raises:
            ConflictError: The run has a different demand.
            RequestError: Too many are kept.
            StoreError: Nothing was stored.
        """
        with self._writer.changing() as connection:
            return write_demand(connection, kind, route, run, now_ms, details=details)

    def pause(self, uid: str, by: str, now_ms: int) -> _steering.Steered:
        """Send nothing of this route until it is resumed.

        Raises:
            NotFoundError: Its subscription or object does not exist.
        """
        with self._writer.changing() as connection:
            _steering.check_exists(connection, uid)
            made = _steering.pause(connection, uid, by, now_ms)
            return note_steered(connection, made, PAUSED, now_ms, by=by)

    def resume(self, uid: str, by: str, now_ms: int) -> _steering.Steered:
        """End a pause; *by* and *now_ms* are for who is told of it."""
        with self._writer.changing() as connection:
            made = _steering.resume(connection, uid)
            return note_steered(connection, made, RESUMED, now_ms, by=by)

    def send_again(self, uid: str, by: str, run: str, now_ms: int) -> Demand:
        """End a pause, and demand under the name *run* that a parked sink is sent to again.

        Raises:
            ConflictError: The route is disabled; nothing was changed.
            NotFoundError: Its subscription or object does not exist.
        """
        with self._writer.changing() as connection:
            _steering.check_exists(connection, uid)
            made = _steering.resume(connection, uid)
            if made.now.disabled_ms is not None:
                why = made.now.disabled_reason or "no reason was given"
                raise ConflictError(f"it is disabled ({why}): enable it")
            note_steered(connection, made, RESUMED, now_ms, by=by)
            return write_demand(connection, "resume", uid, run, now_ms)

    def disable(self, uid: str, reason: str, by: str, now_ms: int) -> _steering.Steered:
        """Send nothing of this route until it is enabled, for *reason*.

        Raises:
            NotFoundError: Its subscription or object does not exist.
        """
        with self._writer.changing() as connection:
            _steering.check_exists(connection, uid)
            made = _steering.disable(connection, uid, reason, by, now_ms)
            return note_steered(connection, made, DISABLED, now_ms, by=by, reason=reason)

    def enable(self, uid: str, by: str, now_ms: int) -> _steering.Steered:
        """End that a route is disabled; *by* and *now_ms* are for who is told of it."""
        with self._writer.changing() as connection:
            made = _steering.enable(connection, uid)
            return note_steered(connection, made, ENABLED, now_ms, by=by)

    def steering(self, uids: Collection[str]) -> dict[str, _steering.Steering]:
        """What is set about the deliveries of these routes; none about those that are absent."""
        with database.reading(self._reader) as connection:
            return _steering.read_steering(connection, uids)

    def obeyed(self) -> dict[str, dict[str, str]]:
        """The orders of objects that were carried out, by uid."""
        with database.reading(self._reader) as connection:
            return _steering.obeyed_by(connection)

    def obeyed_of(self, uid: str) -> dict[str, str]:
        """The orders of one object that were carried out."""
        with database.reading(self._reader) as connection:
            return _steering.obeyed_of(connection, uid)

    def note_obeyed(self, uid: str, orders: Mapping[str, str]) -> None:
        """Note that *orders* of an object are carried out."""
        with self._writer.changing() as connection:
            _steering.note_obeyed(connection, uid, orders)

    def halted(self) -> list[_steering.Steering]:
        """Every route that is paused or disabled, and is not deleted."""
        with database.reading(self._reader) as connection:
            return _steering.read_all_halted(connection)

    def steered(self, after_seq: int) -> tuple[int, list[_steering.Steering]]:
        """What is set since a number; see ``steering.read_changed``."""
        with database.reading(self._reader) as connection:
            return _steering.read_changed(connection, after_seq)

    def route_names(self, uids: Collection[str]) -> dict[str, RouteName]:
        """Names of these routes' owners, those that exist."""
        with database.reading(self._reader) as connection:
            return read_route_names(connection, uids)

    def addresses(self, namespace: str) -> dict[str, str]:
        """Paths at which *namespace* accepts events now, by address; see ``read_addresses``."""
        with database.reading(self._reader) as connection:
            return read_addresses(connection, namespace)

    def route_times(self, uids: Collection[str]) -> dict[str, RouteTimes]:
        """When the resources of these routes were made and changed, of those that exist."""
        with database.reading(self._reader) as connection:
            return read_route_times(connection, uids)

    def find_demand(self, run: str) -> Demand | None:
        """The demand of this run; None: it is not kept."""
        with database.reading(self._reader) as connection:
            return find_demand(connection, run)

    def find_demands(self, runs: Collection[str]) -> list[Demand]:
        """The demands of these runs, those that are kept."""
        with database.reading(self._reader) as connection:
            return find_demands(connection, runs)

    def page_demands(
        self,
        namespace: str,
        before: int | None,
        limit: int,
        *,
        route: str | None = None,
        kind: str | None = None,
    ) -> list[Demand]:
        """Runs of *namespace*, the newest first; see ``demands.page_demands``."""
        with database.reading(self._reader) as connection:
            return page_demands(connection, namespace, before, limit, route=route, kind=kind)

    def runs_kept(self) -> list[tuple[int, str]]:
        """Number and name in the store of every run, the oldest first."""
        with database.reading(self._reader) as connection:
            return runs_kept(connection)

    def oldest_demands(self, before_ms: int, after_seq: int) -> list[Demand]:
        """See ``demands``."""
        with database.reading(self._reader) as connection:
            return oldest_demands(connection, before_ms, after_seq)

    def forget_demands(self, seqs: Collection[int]) -> None:
        """Forget the demands of these numbers: nobody has to carry them out any more."""
        with self._writer.changing() as connection:
            forget_demands(connection, seqs)

    def consents(self, targets: Collection[str]) -> dict[str, ConsentRow]:
        """The consents of these targets, those that are stored."""
        with database.reading(self._reader) as connection:
            return read_consents(connection, targets)

    def confirm(self, name: str, key: str, allowed: CallbackConsent) -> ConsentRow | None:
        """Store a consent by callback; see ``confirm_consent``."""
        with database.reading(self._reader) as connection:
            if find_callback(connection, name, key, allowed.now_ms) is None:
                return None  # whoever guesses takes no turn of those who write
        with self._writer.changing() as connection:
            return confirm_consent(connection, name, key, allowed)

    def routes(self) -> dict[str, ActiveRoute]:
        """The live routes of Triggers and messaging Subscriptions, by uid."""
        with database.reading(self._reader) as connection:
            return read_all(connection)

    def find(self, id_: str, namespace: str = DEFAULT_NAMESPACE) -> StoredSubscription:
        """Return the subscription with this id.

        Raises:
            NotFoundError: It does not exist in this namespace.
        """
        query = _SHOWN.where(
            _t.c.namespace == namespace, _t.c.id == id_, _t.c.state == _tables.LIVE
        )
        with database.reading(self._reader) as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise NotFoundError(NO_SUBSCRIPTION)
        return _shown(row)

    def page(
        self, after_id: str, limit: int, namespace: str = DEFAULT_NAMESPACE
    ) -> list[StoredSubscription]:
        """At most *limit* subscriptions in the order of their ids, those after *after_id*."""
        query = (
            _SHOWN.where(
                _t.c.namespace == namespace, _t.c.state == _tables.LIVE, _t.c.id > after_id
            )
            .order_by(_t.c.id)
            .limit(limit)
        )
        with database.reading(self._reader) as connection:
            found = connection.execute(query).all()
        return [_shown(row) for row in found]

    def keys(self, after_id: str, limit: int, namespace: str) -> list[tuple[str, str]]:
        """Ids and uids of at most *limit* subscriptions, as ``page`` would return them."""
        query = (
            sa.select(_t.c.id, _t.c.uid)
            .where(_t.c.namespace == namespace, _t.c.state == _tables.LIVE, _t.c.id > after_id)
            .order_by(_t.c.id)
            .limit(limit)
        )
        with database.reading(self._reader) as connection:
            return [(row.id, row.uid) for row in connection.execute(query)]

    def some(self, ids: Sequence[str], namespace: str) -> list[StoredSubscription]:
        """Subscriptions with these ids, in the order of their ids, those that exist."""
        query = _SHOWN.where(
            _t.c.namespace == namespace, _t.c.state == _tables.LIVE, _t.c.id.in_(ids)
        )
        with database.reading(self._reader) as connection:
            return [_shown(row) for row in connection.execute(query.order_by(_t.c.id))]

    def page_everywhere(self, after: tuple[str, str], limit: int) -> list[StoredSubscription]:
        """At most *limit* subscriptions by namespace and id, those after this pair."""
        place = sa.tuple_(_t.c.namespace, _t.c.id)
        query = _SHOWN.where(_t.c.state == _tables.LIVE, place > sa.tuple_(*after))
        query = query.order_by(_t.c.namespace, _t.c.id).limit(limit)
        with database.reading(self._reader) as connection:
            return [_shown(row) for row in connection.execute(query)]

    def live_count(self) -> int:
        """Number of live subscriptions and routes of other objects."""
        with database.reading(self._reader) as connection:
            return int(connection.execute(sa.select(_g.c.live_count)).scalar_one())


def _namespaces(changes: Sequence[Change]) -> set[str]:
    return {change.namespace for change in changes if isinstance(change, (Put, Delete, Rotate))}


def _shown(row: Iterable[Any]) -> StoredSubscription:
    *members, spec_json, namespace = row
    return StoredSubscription._make((*members, spec_json.encode(), namespace))
