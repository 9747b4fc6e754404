"""The namespaces of a store: where each listens, and how much it has.

Called by ``Store`` and ``Batch``. A namespace is known from its first subscription on; counts of
live subscriptions and routes are kept with each change, so no limit needs a scan.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import Fault, RequestError, ResourceError
from distributary.core.quotas import QuotaTable
from distributary.core.tenant import (
    BROKER_NAME,
    DEFAULT_NAMESPACE,
    LIFECYCLE_BROKER,
    broker_address,
    lifecycle_address,
)
from distributary.routes import tables as _tables
from distributary.routes.batch import ActiveRoute
from distributary.routes.changes import PutRoute
from distributary.subscriptions.store.stored import Delete, Put, Rotate

NAMESPACES_MAX: Final = 10_000
"""Most namespaces with subscriptions: each costs a receiver two paths, about 1 KiB, and rows are
never deleted, since the log holds their addresses."""

_n = _tables.tenant
_g = _tables.generation
_a = _tables.address


class _Named(msgspec.Struct):
    namespace: str | None = None


_named: Final = msgspec.json.Decoder(_Named)


def namespace_of(route: ActiveRoute) -> str:
    """The namespace of the object that *route* belongs to."""
    try:
        return _named.decode(route.settings).namespace or DEFAULT_NAMESPACE
    except msgspec.MsgspecError:  # damaged: the reconciler overwrites it
        return DEFAULT_NAMESPACE


@dataclass(slots=True)
class Tenant:
    """What a namespace has.

    Attributes:
        address: Where its subscriptions listen.
        live_count: Live subscriptions, and routes of its objects.
        stored_bytes: Of them, as stored.
        timers: Timer events a second of each subscription with a timer, by uid; read only where
            they have a quota.
    """

    address: str
    live_count: int = 0
    stored_bytes: int = 0
    timers: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Tenants:
    """The namespaces, as a batch of changes sees them.

    Attributes:
        known: By name; at least those that the changes name.
        room: How many more may become known.
        opened: Those that the batch made known.
        changed: Those whose counts it changed.
        brokers: Addresses of the Brokers that the changes name, by ``brokers/{namespace}/{name}``.
    """

    known: dict[str, Tenant]
    room: int = NAMESPACES_MAX
    opened: list[str] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)
    brokers: dict[str, str] = field(default_factory=dict)

    def open(self, namespace: str) -> None:
        """Make *namespace* known.

        Raises:
            ResourceError: There are too many namespaces.
        """
        if namespace in self.known:
            return
        if self.room <= 0:
            message = f"there are {NAMESPACES_MAX} namespaces with subscriptions, the most possible"
            raise ResourceError([Fault("$", "too-many", message)])
        self.room -= 1
        self.known[namespace] = Tenant(broker_address(namespace))
        self.opened.append(namespace)

    def address(self, namespace: str, broker: str) -> str:
        """Where subscriptions to *broker* in *namespace* listen.

        Raises:
            ResourceError: There is no such Broker.
        """
        if broker == BROKER_NAME:
            tenant = self.known.get(namespace)
            return broker_address(namespace) if tenant is None else tenant.address
        address = self.brokers.get(_path(namespace, broker))
        if address is not None:
            return address
        if broker == LIFECYCLE_BROKER:
            return lifecycle_address(namespace)
        message = f"there is no Broker {broker} in the namespace {namespace}"
        raise ResourceError([Fault("$.config.broker", "unknown", message)])

    def grow(
        self, change: Put, live: int, stored_bytes: int, quotas: QuotaTable, uid: str = ""
    ) -> None:
        """Add to the counts for *change*, which replaces the subscription *uid* if that is set.

        Raises:
            RequestError: A quota of its namespace would be exceeded; nothing is counted.
            ResourceError: There are too many namespaces; likewise.
        """
        namespace, interval_s = change.namespace, change.spec.config.interval_s
        tenant = self.known.get(namespace) or Tenant(broker_address(namespace))
        own = quotas.of(namespace)
        count, size = tenant.live_count + live, tenant.stored_bytes + stored_bytes
        timers = tenant.timers.copy()
        timers.pop(uid, None)
        if interval_s is not None:
            timers[uid or change.uid] = 1.0 / interval_s
        if live > 0 and own.subscriptions and count > own.subscriptions:
            raise _exceeded(namespace, "subscriptions", own.subscriptions, tenant.live_count)
        if stored_bytes > 0 and own.stored_bytes and size > own.stored_bytes:
            raise _exceeded(namespace, "stored_bytes", own.stored_bytes, tenant.stored_bytes)
        # Summed exactly: the order of timers must not make a rate look higher than it was.
        rate, used = math.fsum(timers.values()), math.fsum(tenant.timers.values())
        if rate > used and 0 < own.timer_events_per_s < rate:
            raise _exceeded(namespace, "timer_events_per_s", own.timer_events_per_s, used)
        self.count(namespace, live, stored_bytes)
        self.known[namespace].timers = timers

    def end_timer(self, namespace: str, uid: str) -> None:
        """Note that the subscription *uid* has no timer any more."""
        self.known[namespace].timers.pop(uid, None)

    def count(self, namespace: str, live: int, stored_bytes: int) -> None:
        """Add to the counts of *namespace*."""
        self.open(namespace)
        tenant = self.known[namespace]
        tenant.live_count += live
        tenant.stored_bytes += stored_bytes
        self.changed.add(namespace)


def _exceeded(namespace: str, name: str, limit: float, used: float) -> RequestError:
    return RequestError(
        "quota-exceeded",
        f"The namespace {namespace} has the quota {name} = {limit:.12g}; its subscriptions use"
        f" {used:.12g} of it. Delete some, or ask the operator for more",
    )


def namespaces_in(changes: Iterable[object], targets: Iterable[ActiveRoute]) -> set[str]:
    """The namespaces that *changes*, and the routes that they replace, are in."""
    names = {namespace_of(route) for route in targets}
    for change in changes:
        if isinstance(change, PutRoute):
            names.add(change.settings.namespace or DEFAULT_NAMESPACE)
        elif isinstance(change, (Put, Delete, Rotate)):
            names.add(change.namespace)
    return names


def read_tenants(
    connection: Connection,
    changes: Collection[object],
    names: Collection[str],
    quotas: QuotaTable,
) -> Tenants:
    """Read the namespaces *names*, which *changes* concern."""
    columns = (_n.c.namespace, _n.c.address, _n.c.live_count, _n.c.stored_bytes)
    rows = connection.execute(sa.select(*columns).where(_n.c.namespace.in_(names)))
    known = {name: Tenant(*rest) for name, *rest in rows}
    room = NAMESPACES_MAX
    if len(known) < len(names):
        count = sa.select(sa.func.count()).select_from(_n)
        room -= connection.execute(count).scalar_one()
    for change in changes:
        if isinstance(change, Put) and change.spec.config.interval_s is not None:
            tenant = known.get(change.namespace)
            if tenant and not tenant.timers and quotas.of(change.namespace).timer_events_per_s:
                tenant.timers = _read_timers(connection, change.namespace)
    return Tenants(known, room, brokers=_read_brokers(connection, changes))


def _path(namespace: str, broker: str) -> str:
    return f"brokers/{namespace}/{broker}"


def _read_brokers(connection: Connection, changes: Iterable[object]) -> dict[str, str]:
    """Addresses of the Brokers, but ``default``, that *changes* attach subscriptions to."""
    named: set[str] = set()
    every: set[str] = set()
    for change in changes:
        if isinstance(change, Put) and change.spec.config.broker != BROKER_NAME:
            named.add(_path(change.namespace, change.spec.config.broker))
        elif isinstance(change, Rotate):  # its Broker is in the store
            every.add(_path(change.namespace, ""))
    if not named and not every:
        return {}
    wanted = [_a.c.path.in_(named), *(_a.c.path.startswith(each) for each in every)]
    rows = connection.execute(sa.select(_a.c.path, _a.c.uid).where(sa.or_(*wanted)))
    return {path: uid for path, uid in rows}  # noqa: C416 - rows are no plain tuples


def _read_timers(connection: Connection, namespace: str) -> dict[str, float]:
    t, s = _tables.api_subscription, _tables.schedule
    query = sa.select(s.c.uid, s.c.interval_s).join(t, t.c.uid == s.c.uid)
    mine = sa.and_(t.c.namespace == namespace, s.c.interval_s.is_not(None))
    return {uid: 1.0 / interval_s for uid, interval_s in connection.execute(query.where(mine))}


def write_tenants(connection: Connection, tenants: Tenants) -> None:
    """Write what a batch changed."""
    if tenants.opened:
        rows = [_row(name, tenants.known[name]) for name in tenants.opened]
        connection.execute(sa.insert(_n), rows)
        connection.execute(sa.update(_g).values(tenant_seq=_g.c.tenant_seq + 1))
    others = tenants.changed.difference(tenants.opened)
    if others:
        connection.execute(
            sa.update(_n).where(_n.c.namespace == sa.bindparam("of_namespace")),
            [_row(name, tenants.known[name]) | {"of_namespace": name} for name in others],
        )


def count_all(connection: Connection) -> None:
    """Fill the table in a store of a version that had no namespaces.

    A Broker ``default`` outside the namespace ``default`` keeps its uid as address: the log has
    events and routes there.
    """
    t, k = _tables.api_subscription, _tables.route_target
    known: dict[str, Tenant] = {}
    suffix = f"/{BROKER_NAME}"
    found = sa.select(_a.c.path, _a.c.uid).where(_a.c.path.like(f"brokers/%{suffix}"))
    for path, uid in connection.execute(found):
        namespace = path.removeprefix("brokers/").removesuffix(suffix)
        known[namespace] = Tenant(uid)
    tenants = Tenants(known)
    counted = sa.select(
        sa.func.count(), sa.func.sum(sa.func.length(sa.cast(t.c.spec_json, sa.LargeBinary)))
    ).where(t.c.state == _tables.LIVE)
    count, size = connection.execute(counted).one()
    tenants.count(DEFAULT_NAMESPACE, count, size or 0)
    live = sa.select(k.c.revision, k.c.address, k.c.matching, k.c.settings_json)
    rows = connection.execute(live.where(k.c.state == _tables.LIVE)).all()
    for revision, address, matching, settings in rows:
        route = ActiveRoute(revision, address, matching, settings.encode())
        tenants.count(namespace_of(route), 1, len(route.settings))
    connection.execute(sa.delete(_n))
    made = [_row(name, tenant) for name, tenant in known.items()]
    connection.execute(sa.insert(_n), made)


def _row(namespace: str, tenant: Tenant) -> dict[str, Any]:
    return {
        "namespace": namespace,
        "address": tenant.address,
        "live_count": tenant.live_count,
        "stored_bytes": tenant.stored_bytes,
    }
