"""Read-only view of the resources, for the pipeline's processes; refreshed from the store."""

import dataclasses
import sys
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import sqlalchemy as sa

from distributary.core import database
from distributary.core.deliver.credential import Credential
from distributary.core.demand import Demand
from distributary.core.errors import StoreError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes import tables as _tables
from distributary.routes.settings import RouteSettings, decode_settings, encode_settings
from distributary.subscriptions.resource import (
    CREDENTIAL_MEMBERS,
    ApiSubscriptionSpec,
    Party,
    SecretSettings,
    another,
    has_secrets,
    put_back,
    restore,
    sink_party,
)
from distributary.subscriptions.store._credentials_sealed import Sealed, Sealer, sealer_beside
from distributary.subscriptions.store.demands import DEMANDS_MAX, read_demands
from distributary.subscriptions.store.steering import Steering, read_changed

_t = _tables.api_subscription
_g = _tables.generation
_c = _tables.credential
_k = _tables.route_target

_NEWEST = sa.select(
    _g.c.seq, _g.c.trimmed_through, _g.c.credential_seq, _g.c.demand_seq, _g.c.steering_seq
)

# One statement, so that a credential belongs to the revision that it is read with.
_RESOURCES = sa.select(
    _t.c.uid,
    _t.c.id,
    _t.c.revision,
    _t.c.state,
    _t.c.spec_json,
    _t.c.namespace,
    _c.c.sealed,
    _c.c.settings,
).join_from(_t, _c, sa.and_(_t.c.uid == _c.c.uid, _t.c.revision == _c.c.revision), isouter=True)

_ROUTES = sa.select(_k.c.uid, _k.c.revision, _k.c.state, _k.c.settings_json)


class Listed(NamedTuple):
    """The newest revision of a resource.

    Attributes:
        id: Name of the resource, for people.
        revision: From 1.
        spec: Where and how to deliver.
        namespace: Its tenant.
    """

    id: str
    revision: int
    spec: ApiSubscriptionSpec
    namespace: str = DEFAULT_NAMESPACE


class ListedRoute(NamedTuple):
    """The newest revision of the route of a Trigger or messaging Subscription.

    Attributes:
        revision: From 1.
        settings: Where and how to deliver.
    """

    revision: int
    settings: RouteSettings


class News(NamedTuple):
    """Changes that were read and not yet applied.

    Attributes:
        standing: ``database.standing_of``, when all was read.
        opened: Whether it is another opening than before.
        seq: Number of the newest change.
        credential_seq: Of the newest credential.
        demand_seq: Of the newest demand.
        steering_seq: Of the newest change of steering.
        everything: All was read: the rows are what differs from what is known, and what is set
            about routes is complete.
        gone: Uids of known resources that are not there any more; where all was read.
        let_go: Uids of those whose content was let go when all was read.
        resources: Rows of subscriptions.
        routes: Rows of the routes of Triggers and messaging Subscriptions.
        renewed: Credentials that were resealed.
        demands: New demands to partition consumers.
        steered: What is set about routes whose steering changed.
    """

    standing: database.Standing
    opened: bool
    seq: int
    credential_seq: int
    demand_seq: int
    steering_seq: int
    everything: bool
    gone: Sequence[str]
    let_go: AbstractSet[str]
    resources: Sequence[Any]
    routes: Sequence[Any]
    renewed: Sequence[Any]
    demands: Sequence[Demand]
    steered: Sequence[Steering]

    def __repr__(self) -> str:
        # Without its rows: custom headers may hold secrets.
        return f"News(seq={self.seq}, credential_seq={self.credential_seq})"


class _UnreadRoute(NamedTuple):
    revision: int
    settings_json: str


class _Unread(NamedTuple):
    id: str
    revision: int
    realized: str
    namespace: str

    def __repr__(self) -> str:
        # Without ``realized``: custom headers may hold secrets.
        return f"_Unread({self.id}, revision={self.revision})"


class Directory:
    """The resources in the store at *url*, as of the last ``refresh``. For one thread.

    The store is written before the log, so a ``refresh`` finds any uid of a route record, even
    one that it did not know before.

    Args:
        url: ``sqlite_url`` of a file.
        sealer: Opens credentials; None: one with the key file beside the store.

    Raises:
        StoreError: There is no store yet, or a newer version wrote it.
    """

    def __init__(self, url: sa.URL, sealer: Sealer | None = None) -> None:
        self._sealer = sealer or sealer_beside(url)
        self._engine = database.open_reader(url, _tables.STORE)
        self._standing: database.Standing | None = None
        self._seq = -1
        self._credential_seq = 0
        self._demand_seq = 0
        self._steering_seq = 0
        self._halted: frozenset[str] = frozenset()
        self._demands: deque[Demand] = deque(maxlen=DEMANDS_MAX)
        self._listed: dict[str, Listed | ListedRoute | _Unread | _UnreadRoute] = {}
        self._let_go: set[str] = set()  # known to whoever let them go: they may be deleted later
        self._sealed: dict[str, Sealed] = {}
        self._renewed: set[str] = set()
        self._changed: set[str] = set()
        try:
            self._check_version()
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Number of resources."""
        return len(self._listed)

    def uids(self) -> list[str]:
        """Uids of all resources, as of the last ``refresh``."""
        return list(self._listed)

    def _check_version(self) -> None:
        with database.reading(self._engine) as connection:
            version = connection.execute(sa.select(_tables.schema.c.version)).scalar()
        if version is None:
            raise StoreError("the resource store is not made yet")
        _tables.check_version(version)

    def close(self) -> None:
        """Close the connections."""
        self._engine.dispose()

    def refresh(self) -> bool:
        """Read and apply changes; True where there were some.

        One short read where there are none (about 0.1 ms). Else reads only changed resources, or
        all of them where this process has missed more changes than the store keeps deleted rows
        for, or a failover may have lost what was read.

        Raises:
            StoreError: The store cannot be read now; the known state stays.
        """
        news = self.read()
        if news is None:
            return False
        self.take(news)
        return True

    @property
    def seq(self) -> int:
        """Number of the newest change applied; resources of older changes are known."""
        return self._seq

    def read(self) -> News | None:
        """Read what has changed since the last ``take``; None: nothing. Applies nothing.

        Blocks, so it may run in another thread: one call at a time, each followed by ``take``.

        Raises:
            StoreError: The store cannot be read now.
        """
        with database.reading(self._engine) as connection:
            standing = database.standing_of(connection)  # before all that is read under it
            known = self._standing
            opened = known is None or standing.opening != known.opening
            newest = connection.execute(_NEWEST).one()
            numbers = newest.seq, newest.credential_seq, newest.demand_seq, newest.steering_seq
            mine = self._seq, self._credential_seq, self._demand_seq, self._steering_seq
            everything = known is None or not standing.has_all(known)
            everything = everything or self._seq < newest.trimmed_through
            if numbers == mine and not everything and not opened:
                return None
            rows: Sequence[Any] = ()
            routes: Sequence[Any] = ()
            renewed: Sequence[Any] = ()
            if everything:
                rows = connection.execute(_RESOURCES.where(_t.c.state == _tables.LIVE)).all()
                routes = connection.execute(_ROUTES.where(_k.c.state == _tables.LIVE)).all()
            elif newest.seq != self._seq:
                rows = connection.execute(_RESOURCES.where(_t.c.seq > self._seq)).all()
                routes = connection.execute(_ROUTES.where(_k.c.seq > self._seq)).all()
            if newest.credential_seq != self._credential_seq and not everything:
                # Credentials resealed without a change of their resource.
                query = sa.select(_c.c.uid, _c.c.revision, _c.c.sealed, _c.c.settings)
                query = query.where(_c.c.seq > self._credential_seq)
                renewed = connection.execute(query).all()
            demands: Sequence[Demand] = ()
            demand_seq = newest.demand_seq
            if demand_seq != self._demand_seq:
                demands = read_demands(connection, self._demand_seq)
                # One may have come between the two statements: once read, it is not read again.
                demand_seq = max([demand_seq, *(demand.seq for demand in demands[-1:])])
            steered: Sequence[Steering] = ()
            if everything or newest.steering_seq != self._steering_seq:
                _, steered = read_changed(connection, 0 if everything else self._steering_seq)
            last = database.standing_of(connection)  # rows may be of changes since
        if last.opening != standing.opening:
            last = standing._replace(number=None)
        gone: Sequence[str] = ()
        let_go: AbstractSet[str] = frozenset()
        if everything:
            let_go = frozenset(self._let_go)
            there = {row.uid for row in rows} | {row.uid for row in routes}
            gone = [uid for uid in list(self._listed) if uid not in there]
            rows = [row for row in rows if not self._has(row.uid, row[2], row[4], row[6:])]
            routes = [row for row in routes if not self._has(row.uid, row.revision, row[3])]
        return News(
            last,
            opened,
            newest.seq,
            newest.credential_seq,
            demand_seq,
            newest.steering_seq,
            everything,
            gone,
            let_go,
            rows,
            routes,
            renewed,
            demands,
            steered,
        )

    def _has(self, uid: str, revision: int, content: str, secrets: Sequence[Any] = (None,)) -> bool:
        """Whether this is known of *uid*; its revision may be the same, and the rest another."""
        listed = self._listed.get(uid)
        sealed = None if secrets[0] is None else Sealed(*secrets)
        if listed is None or self._sealed.get(uid) != sealed:
            return False
        return _content(listed) == (revision, content)

    def take(self, news: News) -> None:
        """Apply *news*; call it in the thread that reads resources."""
        if news.everything:
            self._changed.update(news.gone, news.let_go)
            self._let_go -= news.let_go
            for uid in news.gone:
                self._listed.pop(uid, None)
                self._sealed.pop(uid, None)
            # A revision that a failover has lost may be another one's again.
            found = {row.uid for row in (*news.resources, *news.routes)}
            self._renewed |= found & self._listed.keys()
        self._take_rows(news)
        for uid, revision, *secrets in news.renewed:
            sealed = Sealed(*secrets)
            listed = self._listed.get(uid)
            # A credential of a revision that is not read yet comes with that revision.
            if listed is None or listed.revision != revision or self._sealed.get(uid) == sealed:
                continue
            self._sealed[uid] = sealed
            self._renewed.add(uid)
        self._demands.extend(news.demands)
        if news.steered or news.everything:
            self._steer(news)
        known = None if news.everything else self._standing
        self._standing = news.standing if known is None else news.standing.joined(known)
        self._seq, self._credential_seq = news.seq, news.credential_seq
        self._demand_seq, self._steering_seq = news.demand_seq, news.steering_seq

    def _take_rows(self, news: News) -> None:
        for uid, revision, state, settings_json in news.routes:
            self._changed.add(uid)
            if state == _tables.LIVE:
                self._listed[uid] = _UnreadRoute(revision, settings_json)
            else:
                self._listed.pop(uid, None)
        for uid, id_, revision, state, realized, namespace, *secrets in news.resources:
            self._changed.add(uid)
            if state == _tables.LIVE:
                self._listed[uid] = _Unread(id_, revision, realized, sys.intern(namespace))
            else:
                self._listed.pop(uid, None)
            if secrets[0] is None:
                self._sealed.pop(uid, None)
            else:
                self._sealed[uid] = Sealed(*secrets)

    def _steer(self, news: News) -> None:
        ended = {one.uid for one in news.steered if not one.halted}
        begun = {one.uid for one in news.steered if one.halted}
        if news.everything:  # The steering of a route is kept for a while when it is deleted.
            ended, begun = set(self._halted), begun & self._listed.keys()
        halted = (self._halted - ended) | begun
        if halted != self._halted:
            self._halted = halted

    def end(self, uid: str) -> None:
        """Forget *uid*, whose deletion the log reports; the store has it already."""
        if self._listed.pop(uid, None) is not None:
            self._sealed.pop(uid, None)
            self._changed.add(uid)

    def let_go(self, uid: str) -> None:
        """Forget the content of *uid* until it changes: the reader has taken what it needs."""
        if self._listed.pop(uid, None) is not None:
            self._let_go.add(uid)
        self._sealed.pop(uid, None)

    def changed(self) -> set[str]:
        """Uids of resources created, changed or deleted since the last call."""
        changed, self._changed = self._changed, set()
        return changed

    def renewed(self) -> set[str]:
        """Uids of resources whose credential was renewed since the last call."""
        renewed, self._renewed = self._renewed, set()
        return renewed

    def demands(self, after_seq: int) -> list[Demand]:
        """Demands with a number above *after_seq*, in order."""
        if after_seq >= self._demand_seq:
            return []
        return [demand for demand in self._demands if demand.seq > after_seq]

    def halted(self) -> frozenset[str]:
        """Uids of routes that are paused or disabled; the same object until there are others."""
        return self._halted

    def credential(self, uid: str) -> Credential | None:
        """The credential for the sink of the resource *uid*; None: it has none.

        Raises:
            StoreError: It cannot be opened, is missing although the resource has one, or belongs to
                another sink. Do not deliver without it. The message has the remedy.
        """
        sealed = self._sealed.get(uid, Sealed()).credential
        listed = self.get(uid)
        if not isinstance(listed, Listed):
            return None
        if sealed:
            credential = self._sealer.open(uid, sealed)
            # Sealed before origins existed: in one row with this sink.
            if credential.origin is None:
                return credential
            held = Party(credential.origin, credential.trusted_by)
            elsewhere = another(held, sink_party(listed.spec.to_json()))
            if elsewhere is None:
                return credential
            raise StoreError(
                f"the stored credential is for {elsewhere}: send the subscription with its"
                " secrets again"
            )
        if _has_credential(listed.spec):
            raise StoreError(
                "the stored credential is missing: send the subscription with its secrets again"
            )
        return None

    def spec(self, uid: str) -> ApiSubscriptionSpec:
        """The spec of the existing subscription *uid*, with its secret settings restored.

        Raises:
            StoreError: As ``credential``, for the secret settings.
        """
        listed = self.get(uid)
        assert isinstance(listed, Listed)
        if not has_secrets(listed.spec.realized):
            return listed.spec
        sealed = self._sealed.get(uid, Sealed()).settings
        secrets = self._sealer.open_settings(uid, sealed) if sealed else SecretSettings()
        try:
            restored = restore(put_back(listed.spec.realized, secrets))
        except ValueError as error:
            raise StoreError(f"{error}: send the subscription with its secrets again") from None
        return dataclasses.replace(restored, secrets=secrets)

    def revision(self, uid: str) -> int | None:
        """Revision of the resource of the route *uid*; None: none, or not read yet."""
        found = self._listed.get(uid)
        return None if found is None else found.revision

    def get(self, uid: str) -> Listed | ListedRoute | None:
        """The resource of the route *uid*; None: deleted, or not read yet.

        Raises:
            StoreError: Its row cannot be read: damage, or a newer version wrote it.
        """
        found = self._listed.get(uid)
        # Decoded at first use: most routes are needed rarely.
        if isinstance(found, _Unread):
            found = self._listed[uid] = _read_resource(found)
        elif isinstance(found, _UnreadRoute):
            found = self._listed[uid] = _read_route(uid, found)
        return found


def _content(found: Listed | ListedRoute | _Unread | _UnreadRoute) -> tuple[int, str]:
    """Revision and content."""
    match found:
        case Listed():
            return found.revision, found.spec.realized.decode()
        case ListedRoute():
            return found.revision, encode_settings(found.settings).decode()
        case _Unread():
            return found.revision, found.realized
        case _UnreadRoute():
            return found.revision, found.settings_json


def _read_resource(unread: _Unread) -> Listed:
    try:
        spec = restore(unread.realized.encode())
    except ValueError as error:
        raise StoreError(f"the stored subscription {unread.id} is damaged") from error
    return Listed(unread.id, unread.revision, spec, unread.namespace)


def _read_route(uid: str, unread: _UnreadRoute) -> ListedRoute:
    try:
        settings = decode_settings(unread.settings_json.encode())
    except ValueError as error:
        raise StoreError(f"the stored settings of the route {uid} are damaged") from error
    return ListedRoute(unread.revision, settings)


def _has_credential(spec: ApiSubscriptionSpec) -> bool:
    member = CREDENTIAL_MEMBERS[0]
    return member.encode() in spec.realized and member in spec.to_json()
