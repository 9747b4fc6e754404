"""Steering: which routes are paused or disabled, since when, and by whom.

A change of steering changes no resource and needs no route record. It gets its own number, by which
partition consumers find what changed. A route without a row is neither paused nor disabled.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import NotFoundError
from distributary.routes import tables as _tables

BY_MAX: Final = 512
"""Longest name of who asked, in characters: the column's."""
REASON_MAX: Final = 1_024
"""Longest reason, in characters: a line or two for people."""

_s = _tables.steering
_g = _tables.generation


class Steering(NamedTuple):
    """What is set about the deliveries of a route.

    Attributes:
        uid: The route.
        paused_ms: Since when it is paused, wall clock, milliseconds; None: it is not.
        paused_by: Who asked.
        disabled_ms: Since when it is disabled, likewise.
        disabled_by: Who asked; ``server``: the server itself.
        disabled_reason: Why, for people.
    """

    uid: str
    paused_ms: int | None = None
    paused_by: str | None = None
    disabled_ms: int | None = None
    disabled_by: str | None = None
    disabled_reason: str | None = None

    @property
    def halted(self) -> bool:
        """Whether nothing is sent."""
        return self.paused_ms is not None or self.disabled_ms is not None


class Steered(NamedTuple):
    """The result of a change.

    Attributes:
        now: What is set.
        changed: False: it was so before.
    """

    now: Steering
    changed: bool


_COLUMNS: Final[list[Any]] = [_s.c[name] for name in Steering._fields]


def read_steering(connection: Connection, uids: Collection[str]) -> dict[str, Steering]:
    """What is set about these routes, those with a row."""
    found = connection.execute(sa.select(*_COLUMNS).where(_s.c.uid.in_(uids)))
    return {row.uid: Steering._make(row) for row in found}


def read_changed(connection: Connection, after_seq: int) -> tuple[int, list[Steering]]:
    """Number of the newest change, and what is set since *after_seq*, of deleted routes too."""
    changed = sa.select(*_COLUMNS, _s.c.seq).where(_s.c.seq > after_seq).order_by(_s.c.seq)
    rows = connection.execute(changed).all()
    newest = rows[-1].seq if rows else after_seq
    return newest, [Steering._make(row[:-1]) for row in rows]


def read_all_halted(connection: Connection) -> list[Steering]:
    """Every route that is paused or disabled, and is not deleted."""
    halted = sa.or_(_s.c.paused_ms.is_not(None), _s.c.disabled_ms.is_not(None))
    which = sa.and_(halted, sa.not_(_gone()))
    return [Steering._make(row) for row in connection.execute(sa.select(*_COLUMNS).where(which))]


def pause(connection: Connection, uid: str, by: str, now_ms: int) -> Steered:
    """Pause a route; one that is paused stays so, since when and by whom included."""
    before = _before(connection, uid)
    if before.paused_ms is not None:
        return Steered(before, changed=False)
    return _write(connection, before._replace(paused_ms=now_ms, paused_by=by[:BY_MAX]))


def resume(connection: Connection, uid: str) -> Steered:
    """End the pause of a route, if there is one."""
    before = _before(connection, uid)
    if before.paused_ms is None:
        return Steered(before, changed=False)
    return _write(connection, before._replace(paused_ms=None, paused_by=None))


def disable(connection: Connection, uid: str, reason: str, by: str, now_ms: int) -> Steered:
    """Disable a route; one that is disabled keeps its first reason."""
    before = _before(connection, uid)
    if before.disabled_ms is not None:
        return Steered(before, changed=False)
    now = before._replace(
        disabled_ms=now_ms, disabled_by=by[:BY_MAX], disabled_reason=reason[:REASON_MAX]
    )
    return _write(connection, now)


def enable(connection: Connection, uid: str) -> Steered:
    """End that a route is disabled, if it is."""
    before = _before(connection, uid)
    if before.disabled_ms is None:
        return Steered(before, changed=False)
    now = before._replace(disabled_ms=None, disabled_by=None, disabled_reason=None)
    return _write(connection, now)


def forget_steering(connection: Connection) -> None:
    """Delete the rows of routes whose subscription or object is gone."""
    connection.execute(sa.delete(_s).where(_gone()))


def _gone() -> sa.ColumnElement[bool]:
    """Condition on rows: there is no subscription and no object any more."""
    t, o = _tables.api_subscription, _tables.object_
    live = sa.select(t.c.uid).where(t.c.uid == _s.c.uid, t.c.state == _tables.LIVE)
    object_ = sa.select(o.c.uid).where(o.c.uid == _s.c.uid)
    return sa.and_(sa.not_(sa.exists(live)), sa.not_(sa.exists(object_)))


def check_exists(connection: Connection, uid: str) -> None:
    """Refuse to steer what is gone.

    Raises:
        NotFoundError: There is no subscription and no object with this uid.
    """
    t, o = _tables.api_subscription, _tables.object_
    live = sa.select(t.c.uid).where(t.c.uid == uid, t.c.state == _tables.LIVE)
    object_ = sa.select(o.c.uid).where(o.c.uid == uid)
    if all(connection.execute(query).scalar() is None for query in (live, object_)):
        raise NotFoundError("there is no subscription with this uid")


def obeyed_by(connection: Connection) -> dict[str, dict[str, str]]:
    """The orders that were carried out, by uid of the object that has, or had, them."""
    found = connection.execute(sa.select(_s.c.uid, _s.c.obeyed).where(_s.c.obeyed.is_not(None)))
    return {row.uid: msgspec.json.decode(row.obeyed, type=dict[str, str]) for row in found}


def obeyed_of(connection: Connection, uid: str) -> dict[str, str]:
    """The orders of one object that were carried out."""
    value = connection.execute(sa.select(_s.c.obeyed).where(_s.c.uid == uid)).scalar()
    return {} if value is None else msgspec.json.decode(value, type=dict[str, str])


def note_obeyed(connection: Connection, uid: str, orders: Mapping[str, str]) -> None:
    """Note that *orders* of an object are carried out."""
    value = msgspec.json.encode(orders) if orders else None
    update = sa.update(_s).where(_s.c.uid == uid).values(obeyed=value)
    if not connection.execute(update).rowcount:
        connection.execute(sa.insert(_s).values(uid=uid, seq=0, obeyed=value))


def _before(connection: Connection, uid: str) -> Steering:
    return read_steering(connection, [uid]).get(uid, Steering(uid))


def _write(connection: Connection, now: Steering) -> Steered:
    counter = connection.execute(sa.select(_g.c.steering_seq).with_for_update()).scalar_one()
    values = now._asdict() | {"seq": counter + 1}
    if not connection.execute(sa.update(_s).where(_s.c.uid == now.uid).values(values)).rowcount:
        connection.execute(sa.insert(_s).values(values))
    connection.execute(sa.update(_g).values(steering_seq=counter + 1))
    return Steered(now, changed=True)
