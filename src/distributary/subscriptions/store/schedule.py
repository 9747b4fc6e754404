"""Rows of timers, expiries and limits of deliveries, as the store has them.

Each live subscription with any of them has one row, written in the transaction that changes the
subscription (``write_schedule``, called by ``Store``), so a replaced or deleted one leaves no stale
timer. ``SubscriptionTimers`` and ``Endings`` read here, each in a thread for each call.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes import tables as _tables
from distributary.subscriptions.resource import ConfigSpec
from distributary.subscriptions.store._rows import StoreRows
from distributary.subscriptions.store.stored import SubscriptionName

ROWS_MAX: Final = 5_000
"""Rows of one read: some 20 ms of a thread, which the API's requests share."""

ENDINGS_MAX: Final = 256
"""Subscriptions ended together: one batch of changes."""

_s = _tables.schedule
_t = _tables.api_subscription
_r = _tables.route_change
_g = _tables.generation


class Scheduled(NamedTuple):
    """Schedule of a subscription's newest revision.

    Attributes:
        seq: Number of the change.
        config: Its ``config``.
        now_ms: Stamp of the change.
    """

    seq: int
    config: ConfigSpec
    now_ms: int

    @property
    def empty(self) -> bool:
        """Whether it has no timer and no end."""
        config = self.config
        return config.interval_s is None and config.expires_ms is None and config.events_max is None


class TimerRow(NamedTuple):
    """A timer.

    Attributes:
        uid: Of the subscription.
        seq: Number of its newest change.
        interval_s: Between two ticks, seconds.
        phase_ms: The first tick comes one interval after this; wall clock, milliseconds.
    """

    uid: str
    seq: int
    interval_s: float
    phase_ms: int


class TimerChanges(NamedTuple):
    """Timers that changed.

    Attributes:
        through_seq: Last change that is included.
        set: Timers that were made or changed.
        gone: Uids of deleted subscriptions, with timers or without.
        more: The log already has further changes.
    """

    through_seq: int
    set: list[TimerRow]
    gone: list[str]
    more: bool


class DueTimer(NamedTuple):
    """Data for the next timer event of a subscription.

    Attributes:
        seq: Number of the newest change.
        interval_s: As ``TimerRow``; None: its timer was removed.
        id: Name of the subscription.
        revision: Its newest.
        realized: JSON of the subscription without its ``id``; headers may hold secrets.
        namespace: Its tenant.
    """

    seq: int
    interval_s: float | None
    id: str
    revision: int
    realized: bytes
    namespace: str = DEFAULT_NAMESPACE

    def __repr__(self) -> str:
        return f"DueTimer({self.id}, revision={self.revision}, interval_s={self.interval_s})"


class Ending(NamedTuple):
    """A subscription with an end.

    Attributes:
        uid: Of the subscription.
        id: Its name.
        etag: Of the revision with this end.
        events_max: Deliveries after which it ends; None: no limit.
        namespace: Its tenant.
    """

    uid: str
    id: str
    etag: str
    events_max: int | None
    namespace: str = DEFAULT_NAMESPACE

    @property
    def name(self) -> SubscriptionName:
        """Its namespace and id."""
        return SubscriptionName(self.namespace, self.id)


class Schedule(StoreRows):
    """When timers tick, and when subscriptions expire."""

    def timer_changes(self, after_seq: int) -> TimerChanges:
        """Timers changed after change *after_seq*, as far as every partition has the change.

        So no timer event is made for a route that the log does not have.
        """
        with database.reading(self._reader) as connection:
            through = newest = _appended_through(connection)
            rows = connection.execute(_TIMERS, {"after": after_seq, "through": through}).all()
            if len(rows) == ROWS_MAX:
                through = rows[-1].seq
            gone = connection.execute(_GONE, {"after": after_seq, "through": through})
            return TimerChanges(
                through, [TimerRow(*row) for row in rows], list(gone.scalars()), through < newest
            )

    def due(self, uids: Sequence[str]) -> dict[str, DueTimer]:
        """Data for the timer events of *uids*, without those that no longer exist."""
        with database.reading(self._reader) as connection:
            rows = connection.execute(_DUE, {"uids": uids}).all()
        return {
            uid: DueTimer(seq, interval_s, id_, revision, realized.encode(), namespace)
            for uid, seq, interval_s, id_, revision, realized, namespace in rows
        }

    def reserve(self, uids: Mapping[str, int], count: int) -> dict[str, int]:
        """Reserve for each of *uids* the next *count* numbers of timer events, durably, for ever.

        Args:
            uids: Each with the number of its newest change, as the caller knows it. After a newer
                change its numbers may have restarted, for the newer revision.
            count: How many.

        Returns:
            The first number for each uid whose newest change is still that one.
        """
        with self._writer.changing() as connection:
            connection.execute(_RESERVE, {"uids": list(uids), "count": count})
            rows = connection.execute(_NUMBERED, {"uids": list(uids)}).all()
        return {uid: numbered - count + 1 for uid, seq, numbered in rows if seq == uids[uid]}

    def expired(self, now_ms: int) -> list[Ending]:
        """Subscriptions that expired by *now_ms*, at most ``ENDINGS_MAX``."""
        with database.reading(self._reader) as connection:
            return [Ending(*row) for row in connection.execute(_EXPIRED, {"now_ms": now_ms})]

    def next_expiry_ms(self) -> int | None:
        """Earliest future expiry, wall clock, milliseconds; None: none."""
        with database.reading(self._reader) as connection:
            found: int | None = connection.execute(_NEXT_EXPIRY).scalar()
        return found

    def any_counted(self) -> bool:
        """Whether any subscription has a ``maxevents``."""
        with database.reading(self._reader) as connection:
            return connection.execute(_ANY_COUNTED).first() is not None

    def counted(self, uids: Sequence[str]) -> list[Ending]:
        """Those of *uids* that exist and have a ``maxevents``."""
        found: list[Ending] = []
        with database.reading(self._reader) as connection:
            for first in range(0, len(uids), ROWS_MAX):
                some = {"uids": uids[first : first + ROWS_MAX]}
                found += [Ending(*row) for row in connection.execute(_COUNTED, some)]
        return found


def write_schedule(connection: Connection, changed: Mapping[str, Scheduled | None]) -> None:
    """Write the schedules of *changed*, by uid; None deletes.

    A timer keeps its phase while its interval stays, and its numbers while its row exists.
    """
    if not changed:
        return
    uids = list(changed)
    before = {row.uid: row for row in connection.execute(_KEPT, {"uids": uids})}
    if before:
        connection.execute(sa.delete(_s).where(_s.c.uid.in_(list(before))))
    rows = [
        _row(uid, wanted, before.get(uid))
        for uid, wanted in changed.items()
        if wanted is not None and not wanted.empty
    ]
    if rows:
        connection.execute(sa.insert(_s), rows)


def _row(uid: str, wanted: Scheduled, before: Any) -> dict[str, Any]:
    config = wanted.config
    goes_on = before is not None and before.interval_s == config.interval_s
    return {
        "uid": uid,
        "seq": wanted.seq,
        "expires_ms": config.expires_ms,
        "events_max": config.events_max,
        "interval_s": config.interval_s,
        "phase_ms": before.phase_ms if goes_on else wanted.now_ms,
        "numbered": 0 if before is None else before.numbered,
    }


def _appended_through(connection: Connection) -> int:
    """Number of the newest change up to which every partition has all."""
    # Read in this order: a change committed between the two reads is above the first result.
    newest: int = connection.execute(sa.select(_g.c.seq)).scalar_one()
    pending = connection.execute(_PENDING).scalar()
    return newest if pending is None else min(newest, pending - 1)


_UIDS: Final[sa.BindParameter[Any]] = sa.bindparam("uids", expanding=True)
_AFTER: Final[sa.BindParameter[Any]] = sa.bindparam("after")
_THROUGH: Final[sa.BindParameter[Any]] = sa.bindparam("through")

_PENDING: Final = sa.select(sa.func.min(_r.c.seq)).where(_r.c.appended.is_(False))

_TIMERS: Final = (
    sa.select(_s.c.uid, _s.c.seq, _s.c.interval_s, _s.c.phase_ms)
    .where(_s.c.seq > _AFTER, _s.c.seq <= _THROUGH, _s.c.interval_s.is_not(None))
    .order_by(_s.c.seq)
    .limit(ROWS_MAX)
)
_GONE: Final = sa.select(_r.c.uid).where(
    _r.c.seq > _AFTER, _r.c.seq <= _THROUGH, _r.c.op == "delete"
)
_DUE: Final = (
    sa.select(
        _s.c.uid,
        _s.c.seq,
        _s.c.interval_s,
        _t.c.id,
        _t.c.revision,
        _t.c.spec_json,
        _t.c.namespace,
    )
    .join(_t, _t.c.uid == _s.c.uid)
    .where(_s.c.uid.in_(_UIDS))
)
_RESERVE: Final = (
    sa.update(_s).where(_s.c.uid.in_(_UIDS)).values(numbered=_s.c.numbered + sa.bindparam("count"))
)
_NUMBERED: Final = sa.select(_s.c.uid, _s.c.seq, _s.c.numbered).where(_s.c.uid.in_(_UIDS))
_KEPT: Final = sa.select(_s.c.uid, _s.c.interval_s, _s.c.phase_ms, _s.c.numbered).where(
    _s.c.uid.in_(_UIDS)
)
_ENDING: Final = sa.select(_s.c.uid, _t.c.id, _t.c.etag, _s.c.events_max, _t.c.namespace).join(
    _t, _t.c.uid == _s.c.uid
)
_EXPIRED: Final = (
    _ENDING.where(_s.c.expires_ms <= sa.bindparam("now_ms"))
    .order_by(_s.c.expires_ms)
    .limit(ENDINGS_MAX)
)
_NEXT_EXPIRY: Final = sa.select(sa.func.min(_s.c.expires_ms))
_ANY_COUNTED: Final = sa.select(_s.c.uid).where(_s.c.events_max.is_not(None)).limit(1)
_COUNTED: Final = _ENDING.where(_s.c.uid.in_(_UIDS), _s.c.events_max.is_not(None))
