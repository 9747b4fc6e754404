"""What a batch of changes does to the routes of Triggers and messaging Subscriptions.

Called by ``Batch`` and ``Store``. The reconciler says what shall stand; what stands already is
left alone, so that it may say all of it again after a crash.
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
"""What a route delivered by leaves with it: a deleted row only tells readers that it is gone."""


class ActiveRoute(NamedTuple):
    """The route of a Trigger or Subscription, as the store holds it.

    Attributes:
        revision: From 1; each change adds one.
        address: Where it listens.
        matching: ``matching_digest`` of what it matches.
        settings: ``encode_settings`` of how it delivers.
    """

    revision: int
    address: str
    matching: str
    settings: bytes


def matching_digest(filters: tuple[dict[str, Any], ...], present: tuple[str, ...]) -> str:
    """Stands for what a route matches: equal filters give equal digests."""
    return hashlib.sha256(msgspec.json.encode((filters, present))).hexdigest()


def standing(change: PutRoute, revision: int) -> ActiveRoute:
    """What stands once *change* is made."""
    matching = matching_digest(change.filters, change.present)
    return ActiveRoute(revision, change.address, matching, encode_settings(change.settings))


@dataclass(slots=True)
class RouteTargets:
    """The rows of ``route_target`` that a batch changes.

    Attributes:
        live: Rows that stand, by uid; at least those that the changes name.
        written: Rows to be written, by uid.
    """

    live: dict[str, ActiveRoute]
    written: dict[str, dict[str, Any]] = field(default_factory=dict)

    def put(self, uid: str, route: ActiveRoute, seq: int) -> None:
        """The route *uid* stands as *route* from the change *seq* on."""
        self.live[uid] = route
        self._write(uid, route, _tables.LIVE, seq)

    def drop(self, uid: str, seq: int) -> None:
        """The route *uid* is gone from the change *seq* on."""
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
    """The routes that *changes* name, as they stand."""
    uids = {change.uid for change in changes if isinstance(change, (PutRoute, DropRoute))}
    return RouteTargets(_read(connection, _t.c.uid.in_(uids)) if uids else {})


def read_all(connection: Connection) -> dict[str, ActiveRoute]:
    """All routes that stand, by uid."""
    return _read(connection, sa.true())


def write_targets(connection: Connection, targets: RouteTargets) -> None:
    """Write what the changes came to."""
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
