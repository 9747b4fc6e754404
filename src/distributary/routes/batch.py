"""Rows of ``route_target`` that a batch writes: routes of Triggers and messaging Subscriptions.

Called by ``Batch`` and ``Store``. Changes are idempotent, a route that is equal already is not
written: so the reconciler may submit everything again after a crash.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.routes import tables as _tables
from distributary.routes.changes import DropRoute, PutRoute
from distributary.routes.settings import encode_settings

_t = _tables.route_target

_GONE_SETTINGS = b"{}"
"""Settings in the row of a deleted route: the row only marks the deletion for readers."""


class ActiveRoute(NamedTuple):
    """An active route of a Trigger or Subscription, as stored.

    Attributes:
        revision: From 1; each change adds one.
        address: Where it listens.
        matching: ``matching_digest`` of its filters.
        settings: ``encode_settings`` of its delivery settings.
    """

    revision: int
    address: str
    matching: str
    settings: bytes


def matching_digest(filters: tuple[dict[str, Any], ...], present: tuple[str, ...]) -> str:
    """Digest of what a route matches: equal filters give equal digests."""
    return hashlib.sha256(msgspec.json.encode((filters, present))).hexdigest()


def standing(change: PutRoute, revision: int) -> ActiveRoute:
    """The active route after *change*."""
    matching = matching_digest(change.filters, change.present)
    return ActiveRoute(revision, change.address, matching, encode_settings(change.settings))


@dataclass(slots=True)
class RouteTargets:
    """The rows of ``route_target`` that a batch changes.

    Attributes:
        live: Active routes by uid; at least those that the changes name.
        written: Rows to write, by uid.
    """

    live: dict[str, ActiveRoute]
    written: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, uid: str, route: ActiveRoute, seq: int) -> None:
        """Create or replace the route *uid*, with the change *seq*."""
        self.live[uid] = route
        self._write(uid, route, _tables.LIVE, seq)

    def drop(self, uid: str, seq: int) -> None:
        """Delete the route *uid*, with the change *seq*."""
        gone = self.live.pop(uid)._replace(settings=_GONE_SETTINGS)
        self._write(uid, gone, _tables.DELETED, seq)

    def _write(self, uid: str, route: ActiveRoute, state: str, seq: int) -> None:
        self.written[uid] = {
            "uid": uid,
            "revision": route.revision,
            "address": route.address,
            "matching": route.matching,
            "settings_json": route.settings.decode(),
            "state": state,
            "seq": seq,
        }


def read_targets(connection: Connection, changes: Iterable[object]) -> RouteTargets:
    """Read the active routes that *changes* name."""
    uids = {change.uid for change in changes if isinstance(change, (PutRoute, DropRoute))}
    return RouteTargets(_read(connection, _t.c.uid.in_(uids)) if uids else {})


def read_all(connection: Connection) -> dict[str, ActiveRoute]:
    """Read all active routes, by uid."""
    return _read(connection, sa.true())


def write_targets(connection: Connection, targets: RouteTargets) -> None:
    """Write the changed rows."""
    if targets.written:
        connection.execute(sa.delete(_t).where(_t.c.uid.in_(targets.written)))
        connection.execute(sa.insert(_t), list(targets.written.values()))


def _read(connection: Connection, which: sa.ColumnElement[bool]) -> dict[str, ActiveRoute]:
    query = sa.select(_t.c.uid, _t.c.revision, _t.c.address, _t.c.matching, _t.c.settings_json)
    rows = connection.execute(query.where(which, _t.c.state == _tables.LIVE))
    return {
        uid: ActiveRoute(revision, address, matching, settings.encode())
        for uid, revision, address, matching, settings in rows
    }
