"""What a store does whose newest changes are lost: restored, or served by a standby without them.

The log has the route records of those changes, and readers may have seen their numbers. A number or
a revision that came again would be passed over as a repeat.
"""

from collections.abc import Sequence
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.database import server_time
from distributary.core.flow import RouteRecord, encode_route
from distributary.routes import tables as _tables
from distributary.subscriptions.resource import restore
from distributary.subscriptions.store._batch import etag

DEMANDS_LOST_MAX: Final = 100
"""Demands that a failover may lose without a number that comes again. No more, since runs that are
over are forgotten after so many numbers (``NUMBERS_KEPT``)."""

_t = _tables.api_subscription
_g = _tables.generation
_k = _tables.route_target
_c = _tables.credential
_r = _tables.route_change


def pass_numbers(connection: Connection) -> None:
    """Pass numbers that an earlier leader may have given to changes that are lost.

    Not those of routes: they have no gaps, and ``go_on_after`` sees to them.
    """
    connection.execute(
        sa.update(_g).values(
            demand_seq=_g.c.demand_seq + DEMANDS_LOST_MAX,
            tenant_seq=sa.func.greatest(_g.c.tenant_seq + 1, server_time(1_000_000)),
        )
    )


def newest_change(connection: Connection) -> int:
    """Number of the newest change of a route that the store has."""
    return int(connection.execute(sa.select(_g.c.seq)).scalar_one())


def go_on_after(connection: Connection, found: Sequence[RouteRecord]) -> int:
    """Take over what the log has and the store has not, and undo it under new numbers.

    All of it is pending then: partitions that lack a record get it, the others pass over it, and
    once the last is appended, routes are in each partition as they are in the store.

    Args:
        connection: In a transaction of the leader.
        found: The changes in the log with numbers above the store's; those of several partitions.

    Returns:
        How many routes are undone.
    """
    seq = newest_change(connection)
    revisions: dict[str, int] = {}
    for record in sorted({each.seq: each for each in found}.values(), key=lambda each: each.seq):
        revisions[record.uid] = max(record.revision, revisions.get(record.uid, 0))
        _write(connection, record)
        seq = record.seq
    for uid, revision in sorted(revisions.items()):
        targets = sa.select(_k.c.revision).where(_k.c.uid == uid, _k.c.state == _tables.LIVE)
        target = connection.execute(targets).scalar()
        if target is not None:
            # Only its object knows the filters: without their digest it is written anew.
            values = {"matching": "", "revision": max(target, revision) + 1, "seq": seq}
            connection.execute(sa.update(_k).where(_k.c.uid == uid).values(values))
        else:
            seq += 1
            _write(connection, _undone(connection, uid, seq, revision + 1))
    connection.execute(sa.update(_g).values(seq=seq))
    return len(revisions)


def _write(connection: Connection, record: RouteRecord) -> None:
    values = {
        "seq": record.seq,
        "uid": record.uid,
        "revision": record.revision,
        "op": record.op,
        "record_json": encode_route(record).decode(),
        "appended": False,
    }
    connection.execute(sa.insert(_r).values(values))


def _undone(connection: Connection, uid: str, seq: int, revision: int) -> RouteRecord:
    """The record *seq* of a route that is to be as it is in the store."""
    query = sa.select(_t.c.revision, _t.c.spec_json, _t.c.address)
    row = connection.execute(query.where(_t.c.uid == uid, _t.c.state == _tables.LIVE)).one_or_none()
    if row is None:
        return RouteRecord(seq=seq, op="delete", uid=uid, revision=revision)
    revision = max(row.revision + 1, revision)
    values = {"revision": revision, "etag": etag(uid, revision), "seq": seq}
    connection.execute(sa.update(_t).where(_t.c.uid == uid).values(values))
    connection.execute(sa.update(_c).where(_c.c.uid == uid).values(revision=revision))
    spec = restore(row.spec_json.encode())
    return RouteRecord(
        seq=seq,
        op="put",
        uid=uid,
        revision=revision,
        source=spec.source,
        types=spec.types,
        filters=spec.filters,
        address=row.address or "",
    )
