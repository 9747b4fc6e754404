"""Applies a batch of changes in memory: pure, between one read of the store and one write."""

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from distributary.core.errors import DistributaryError, Fault, NotFoundError, ResourceError
from distributary.core.flow import RouteRecord, encode_route
from distributary.core.quotas import QuotaTable
from distributary.routes import tables as _tables
from distributary.routes.batch import ActiveRoute, RouteTargets, standing
from distributary.routes.changes import AppliedRoute, DropRoute, PutRoute
from distributary.subscriptions.store._credentials_batch import CredentialChanges, Sealing
from distributary.subscriptions.store._lifecycle import LifecycleChanges
from distributary.subscriptions.store._tenants import Tenants, namespace_of
from distributary.subscriptions.store.schedule import Scheduled
from distributary.subscriptions.store.stored import (
    NO_SUBSCRIPTION,
    Applied,
    Change,
    Delete,
    Put,
    Rotate,
    StoredSubscription,
    SubscriptionName,
)

_UID_CHARS_IN_TAG = 12
"""Characters of the uid in an entity tag: enough that a recreated subscription never repeats it."""


class SubscriptionRow(NamedTuple):
    """A row of ``api_subscription``.

    Attributes:
        subscription: What is shown of it.
        state: ``LIVE`` or ``DELETED``.
        seq: Number of its newest change.
        address: Where it listens; None: an older version wrote the row.
    """

    subscription: StoredSubscription
    state: str
    seq: int
    address: str | None

    def columns(self) -> dict[str, Any]:
        """Column values for the database."""
        values = self.subscription._asdict()
        values["spec_json"] = values.pop("realized").decode()
        return values | {"state": self.state, "seq": self.seq, "address": self.address}


@dataclass(slots=True)
class Batch:
    """Changes on top of the database's state.

    Attributes:
        live: Existing rows, by name; at least those that the changes name.
        seq: Number of the newest change.
        room: Number of subscriptions and routes that may still be created.
        now_ms: Stamp of these changes.
        credentials: Sealed credentials of these subscriptions.
        targets: Routes of Triggers and messaging Subscriptions.
        tenants: Namespaces that the changes name.
        quotas: What each of them may have.
        lifecycle: What is told of the changes.
        inserts: New rows to write, by uid.
        updates: Changed rows to write, by uid.
        records: Rows of ``route_change`` to write.
        schedules: Timers and ends to write, by uid; None: delete.
    """

    live: dict[SubscriptionName, SubscriptionRow]
    seq: int
    room: int
    now_ms: int
    credentials: CredentialChanges
    targets: RouteTargets
    tenants: Tenants
    quotas: QuotaTable
    lifecycle: LifecycleChanges
    inserts: dict[str, SubscriptionRow] = field(default_factory=dict)
    updates: dict[str, SubscriptionRow] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    schedules: dict[str, Scheduled | None] = field(default_factory=dict)

    def apply(self, change: Change) -> Applied | AppliedRoute | DistributaryError:
        """Apply *change*, or return why it is refused; a refused one has no effect."""
        try:
            match change:
                case Put():
                    return self._put(change)
                case Delete():
                    return self._delete(change)
                case Rotate():
                    return self._rotate(change)
                case PutRoute():
                    return self._put_route(change)
                case DropRoute():
                    return self._drop_route(change)
        except DistributaryError as error:
            return error

    def _put(self, change: Put) -> Applied:
        before = self.live.get(change.name)
        change.precondition.check(before.subscription.etag if before else None)
        # Before anything is counted: it may refuse.
        address = self.tenants.address(change.namespace, change.spec.config.broker)
        if before is None:
            return self._create(change, address)
        if change.claimed_id is not None and change.claimed_id != change.id:
            message = "must be absent or the id of the path: an id never changes"
            raise ResourceError([Fault("$.id", "immutable", message)])
        old = before.subscription
        sealing = self.credentials.seal(old.uid, change.spec, old)
        grown = len(sealing.spec.realized) - len(old.realized)
        self.tenants.grow(change, 0, grown, self.quotas, old.uid)
        return self._stand("replaced", sealing, self._next(old, sealing), address)

    def _rotate(self, change: Rotate) -> Applied:
        before = self.live.get(change.name)
        if before is None:
            raise NotFoundError(NO_SUBSCRIPTION)
        old = before.subscription
        change.precondition.check(old.etag)
        sealing = self.credentials.rotate(old, change.rotation)
        # Its Broker may be gone or another one by now: a new key moves nothing.
        address = before.address
        if address is None:
            address = self.tenants.address(old.namespace, sealing.spec.config.broker)
        self.tenants.count(old.namespace, 0, len(sealing.spec.realized) - len(old.realized))
        return self._stand("rotated", sealing, self._next(old, sealing), address)

    def _next(self, old: StoredSubscription, sealing: Sealing) -> StoredSubscription:
        return old._replace(
            revision=old.revision + 1,
            etag=etag(old.uid, old.revision + 1),
            updated_ms=self.now_ms,
            realized=sealing.spec.realized,
        )

    def _create(self, change: Put, address: str) -> Applied:
        self._check_room()
        sealing = self.credentials.seal(change.uid, change.spec, None)
        self.tenants.grow(change, 1, len(sealing.spec.realized), self.quotas)
        self.room -= 1
        new = StoredSubscription(
            namespace=change.namespace,
            id=change.id,
            uid=change.uid,
            revision=1,
            etag=etag(change.uid, 1),
            created_ms=self.now_ms,
            updated_ms=self.now_ms,
            realized=sealing.spec.realized,
        )
        return self._stand("created", sealing, new, address)

    def _delete(self, change: Delete) -> Applied:
        before = self.live.get(change.name)
        if before is None:
            raise NotFoundError(NO_SUBSCRIPTION)
        change.precondition.check(before.subscription.etag)
        del self.live[change.name]
        self.room += 1
        gone = before.subscription
        self.tenants.count(gone.namespace, -1, -len(gone.realized))
        self.tenants.end_timer(gone.namespace, gone.uid)
        record = self._write_record("delete", gone.uid, gone.revision)
        # Drop its content: a deleted row only tells readers that the subscription was deleted.
        ended = gone._replace(realized=b"{}")
        self._keep(SubscriptionRow(ended, _tables.DELETED, self.seq, before.address))
        self.schedules[gone.uid] = None
        self.credentials.remove(gone.uid)
        self.lifecycle.gone(gone, change.reason, self.seq)
        return Applied(self.seq, change.reason, gone, record)

    def _stand(self, op: str, sealing: Sealing, new: StoredSubscription, address: str) -> Applied:
        spec = sealing.spec
        record = self._write_record(
            "put",
            new.uid,
            new.revision,
            source=spec.source,
            types=spec.types,
            filters=spec.filters,
            address=address,
            # ``start`` counts once: a replace, or its retry, replays nothing.
            begin_ms=spec.config.begin_ms if new.revision == 1 else None,
        )
        row = SubscriptionRow(new, _tables.LIVE, self.seq, address)
        scheduled = Scheduled(self.seq, spec.config, self.now_ms)
        if op == "replaced" or (op == "created" and not scheduled.empty):
            self.schedules[new.uid] = scheduled
        self.live[new.name] = row
        self.credentials.put(new.uid, new.revision, sealing.sealed)
        self.lifecycle.stands(op, new, address, self.seq)
        if op == "created":
            self.inserts[new.uid] = row
        else:
            self._keep(row)
        return Applied(self.seq, op, new, record, sealing.made)

    def _put_route(self, change: PutRoute) -> AppliedRoute:
        before = self.targets.live.get(change.uid)
        after = standing(change, before.revision if before else 1)
        if after == before:
            return AppliedRoute(self.seq, "unchanged", change.uid, before.revision, None)
        if before is None:
            self._check_room()
        else:
            after = after._replace(revision=before.revision + 1)
        self._recount(before, after)  # may refuse
        if before is None:
            self.room -= 1
        record = self._write_record(
            "put",
            change.uid,
            after.revision,
            filters=change.filters,
            address=change.address,
            present=change.present,
        )
        self.targets.put(change.uid, after, self.seq)
        op: Literal["created", "replaced"] = "created" if before is None else "replaced"
        self.lifecycle.route_stands(op, change.uid, after, self.seq)
        return AppliedRoute(self.seq, op, change.uid, after.revision, record)

    def _drop_route(self, change: DropRoute) -> AppliedRoute:
        before = self.targets.live.get(change.uid)
        if before is None:
            return AppliedRoute(self.seq, "unchanged", change.uid, 0, None)
        self.room += 1
        self._recount(before, None)
        record = self._write_record("delete", change.uid, before.revision, address=before.address)
        self.targets.drop(change.uid, self.seq)
        self.lifecycle.route_gone(change.uid, before, self.seq)
        return AppliedRoute(self.seq, "deleted", change.uid, before.revision, record)

    def _recount(self, before: ActiveRoute | None, after: ActiveRoute | None) -> None:
        for route, sign in ((before, -1), (after, 1)):
            if route is not None:
                self.tenants.count(namespace_of(route), sign, sign * len(route.settings))

    def _check_room(self) -> None:
        if self.room <= 0:
            message = (
                "there are as many subscriptions and triggers as this server takes; delete some"
                " first"
            )
            raise ResourceError([Fault("$", "too-many", message)])

    def _keep(self, row: SubscriptionRow) -> None:
        uid = row.subscription.uid
        changed = self.inserts if uid in self.inserts else self.updates
        changed[uid] = row

    def _write_record(
        self, op: Literal["put", "delete"], uid: str, revision: int, **matching: Any
    ) -> bytes:
        """Add the next change with its route record to the rows to write; returns the record."""
        self.seq += 1
        route = RouteRecord(seq=self.seq, op=op, uid=uid, revision=revision, **matching)
        record = encode_route(route)
        self.records.append(
            {
                "seq": self.seq,
                "uid": uid,
                "revision": revision,
                "op": op,
                "record_json": record.decode(),
                "appended": False,
            }
        )
        return record


def etag(uid: str, revision: int) -> str:
    """Entity tag of a revision of the subscription *uid*."""
    return f'"{uid[:_UID_CHARS_IN_TAG]}-{revision}"'
