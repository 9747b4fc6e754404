"""The outbox of lifecycle events: rows that wait until the log has their events.

A change of a subscription writes its row in its own transaction (``_lifecycle``), other transitions
are noted here. ``subscriptions.lifecycle`` publishes the rows in their order, and deletes each once
its event is durable: none is lost, and after a crash an event may come twice, with the same id.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from distributary.core import database
from distributary.core.shown import shown_uri
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes import tables as _tables
from distributary.routes.settings import decode_settings
from distributary.subscriptions.store._rows import StoreRows
from distributary.subscriptions.store.steering import Steered
from distributary.subscriptions.store.stored import StoredSubscription

STARTED: Final = "started"
UPDATED: Final = "updated"
ENDED: Final = "ended"
"""Transitions that are changes of the store; each is noted with it."""

FAILING: Final = "failing"
RECOVERED: Final = "recovered"
PAUSED: Final = "paused"
RESUMED: Final = "resumed"
DISABLED: Final = "disabled"
ENABLED: Final = "enabled"
"""Other transitions; whoever knows of one notes it."""

ROWS_MAX: Final = 500
"""Most rows of one read: their events share an append."""

KEPT_MAX: Final = 100_000
"""Most rows that wait, some 50 MB: a thousand subscriptions that fail and recover for hours while
the log refuses. Beyond it the namespace that has most gives up its oldest: what they told of is in
the status of each subscription."""

_FORGOTTEN_SHARE: Final = 100
"""A hundredth of ``KEPT_MAX`` is forgotten at once: to find whose rows takes a quarter of a second,
which not every change is to wait for."""

_log = structlog.get_logger(__name__)

_e = _tables.lifecycle_event
_l = _tables.lifecycle_route
_r = _tables.route_change
_t = _tables.api_subscription
_k = _tables.route_target


class About(NamedTuple):
    """The subscription that an event is about.

    Attributes:
        kind: ``subscription`` (of the Subscriptions API), ``trigger`` or
            ``messaging-subscription``.
        id: Its id, or the name of its object.
        namespace: Its tenant.
        uid: Of its route.
        revision: From 1.
        sink: Where it delivers, as shown to people.
        to_sink: Whether its own sink gets its events too.
    """

    kind: str
    id: str
    namespace: str
    uid: str
    revision: int
    sink: str
    to_sink: bool = False

    def row(
        self,
        transition: str,
        at_ms: int,
        members: Mapping[str, Any],
        *,
        to_broker: bool,
    ) -> dict[str, Any]:
        """The row of one event.

        Args:
            transition: The last word but one of its type.
            at_ms: When it happened, wall clock, milliseconds.
            members: Further members of its data.
            to_broker: For those who listen at the Broker ``lifecycle``.
        """
        return {
            "seq": 0,
            "event_id": f"{self.uid}/{self.revision}/{transition}",
            "transition": transition,
            "kind": self.kind,
            "id": self.id,
            "namespace": self.namespace,
            "uid": self.uid,
            "revision": self.revision,
            "at_ms": at_ms,
            "members_json": msgspec.json.encode({"sink": self.sink, **members}),
            "to_broker": to_broker,
            "to_sink": self.to_sink,
        }


class Transition(NamedTuple):
    """A transition of a subscription that no change of the store tells of.

    Attributes:
        uid: Of its route.
        transition: Its name, such as ``FAILING``.
        at_ms: When it happened, wall clock, milliseconds.
        members: Further members of the event's data.
        key_ms: What tells it from others of its kind, the same whenever it is noted again; None:
            *at_ms*.
    """

    uid: str
    transition: str
    at_ms: int
    members: Mapping[str, Any]
    key_ms: int | None = None


class OutboxRow(NamedTuple):
    """A row of the outbox; see ``About`` and ``About.row``.

    Attributes:
        number: Of the row; later ones have higher numbers.
        event_id: ``id`` of the event.
        members: Further members of its data.
    """

    number: int
    event_id: str
    transition: str
    kind: str
    id: str
    namespace: str
    uid: str
    revision: int
    at_ms: int
    members: dict[str, Any]
    to_broker: bool
    to_sink: bool


class LifecycleOutbox(StoreRows):
    """The outbox."""

    def waiting(self) -> list[OutboxRow]:
        """The oldest rows, at most ``ROWS_MAX``, as far as the log has the changes of their routes.

        So the event that a subscription was started comes after its route.
        """
        with database.reading(self._reader) as connection:
            rows = connection.execute(_WAITING.limit(ROWS_MAX)).all()
        return [
            OutboxRow(*row[:9], msgspec.json.decode(row[9]), bool(row[10]), bool(row[11]))
            for row in rows
        ]

    def note(self, transitions: Sequence[Transition]) -> int:
        """Add a row for each of *transitions* that somebody listens to; returns how many.

        May be repeated: one that waits already is not added again, and one that was published has
        the same id again.
        """
        with database.reading(self._reader) as connection:
            rows = _rows_of(connection, transitions)
        if rows:
            with self._writer.changing() as connection:
                _write(connection, rows)
        return len(rows)

    def done(self, numbers: Sequence[int]) -> None:
        """Delete the rows *numbers*: the log has their events."""
        with self._writer.changing() as connection:
            connection.execute(sa.delete(_e).where(_e.c.number.in_(numbers)))


def about_subscription(stored: StoredSubscription) -> About:
    """What events tell of a subscription of the API."""
    realized = msgspec.json.decode(stored.realized)
    return About(
        kind="subscription",
        id=stored.id,
        namespace=stored.namespace,
        uid=stored.uid,
        revision=stored.revision,
        sink=shown_uri(realized.get("sink", "")),
        to_sink=realized.get("config", {}).get("lifecycle") is True,
    )


def about_route(uid: str, revision: int, settings_json: bytes) -> About | None:
    """What events tell of the route of an object; None: its row is damaged."""
    try:
        settings = decode_settings(settings_json)
    except ValueError:
        return None
    kind, _, name = settings.name.partition(" ")
    return About(
        kind="trigger" if kind == "Trigger" else "messaging-subscription",
        id=name.partition("/")[2],
        namespace=settings.namespace or DEFAULT_NAMESPACE,
        uid=uid,
        revision=revision,
        sink=shown_uri(settings.sink.uri),
        to_sink=settings.lifecycle,
    )


def _read_abouts(connection: Connection, uids: Collection[str]) -> dict[str, About]:
    """The live ones of *uids*."""
    found: dict[str, About] = {}
    live = sa.and_(_t.c.uid.in_(uids), _t.c.state == _tables.LIVE)
    columns = (_t.c.id, _t.c.uid, _t.c.revision, _t.c.etag, _t.c.created_ms, _t.c.updated_ms)
    query = sa.select(*columns, _t.c.spec_json, _t.c.namespace).where(live)
    for *members, spec_json, namespace in connection.execute(query):
        stored = StoredSubscription._make((*members, spec_json.encode(), namespace))
        found[stored.uid] = about_subscription(stored)
    routes = sa.select(_k.c.uid, _k.c.revision, _k.c.settings_json)
    routes = routes.where(_k.c.uid.in_(uids), _k.c.state == _tables.LIVE)
    for uid, revision, settings in connection.execute(routes):
        about = about_route(uid, revision, settings.encode())
        if about is not None:
            found[uid] = about
    return found


def read_listening(connection: Connection, namespaces: Collection[str]) -> dict[str, set[str]]:
    """The routes that listen to the Brokers ``lifecycle`` of *namespaces*, by namespace."""
    found: dict[str, set[str]] = {}
    query = sa.select(_l.c.namespace, _l.c.uid).where(_l.c.namespace.in_(namespaces))
    for namespace, uid in connection.execute(query):
        found.setdefault(namespace, set()).add(uid)
    return found


def note_transition(connection: Connection, transition: Transition) -> None:
    """Add a row for *transition*, in the transaction that makes it, if anybody listens."""
    _write(connection, _rows_of(connection, [transition]))


def note_steered(
    connection: Connection, made: Steered, transition: str, now_ms: int, **members: str
) -> Steered:
    """Note what *made* has changed for those who listen; returns it."""
    if made.changed:
        note_transition(connection, Transition(made.now.uid, transition, now_ms, members))
    return made


def _rows_of(connection: Connection, transitions: Collection[Transition]) -> list[dict[str, Any]]:
    """Rows for those of *transitions* that somebody listens to."""
    abouts = _read_abouts(connection, {each.uid for each in transitions})
    listening = read_listening(connection, {about.namespace for about in abouts.values()})
    rows = []
    for uid, transition, at_ms, members, key_ms in transitions:
        about = abouts.get(uid)
        there = set() if about is None else listening.get(about.namespace, set())
        if about is not None and uid not in there and (there or about.to_sink):
            row = about.row(transition, at_ms, members, to_broker=bool(there))
            key = at_ms if key_ms is None else key_ms
            rows.append(row | {"event_id": f"{row['event_id']}/{key}"})
    return rows


def _write(connection: Connection, rows: Iterable[dict[str, Any]]) -> None:
    """Add *rows*, without those that wait already."""
    wanted = {row["event_id"]: row for row in rows}
    there = sa.select(_e.c.event_id).where(_e.c.event_id.in_(list(wanted)))
    for event_id in connection.execute(there).scalars().all():
        del wanted[event_id]
    # What befalls a subscription after a change is told after that change, which may have to wait
    # for the log.
    changes = _pending_of(connection, {row["uid"] for row in wanted.values()})
    told = [row | {"seq": changes.get(row["uid"], row["seq"])} for row in wanted.values()]
    add_rows(connection, told)


def _pending_of(connection: Connection, uids: Collection[str]) -> dict[str, int]:
    """The number of the newest change of each of *uids* that may be missing in the log."""
    newest = sa.select(_r.c.uid, sa.func.max(_r.c.seq)).where(_r.c.appended.is_(False))
    found = connection.execute(newest.where(_r.c.uid.in_(uids)).group_by(_r.c.uid))
    return {row[0]: row[1] for row in found}


def add_rows(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add *rows*; beyond ``KEPT_MAX`` some are forgotten, and a line says so."""
    if not rows:
        return
    connection.execute(sa.insert(_e), rows)
    if connection.execute(_SPAN).scalar_one() < KEPT_MAX:
        return
    excess = connection.execute(_COUNT).scalar_one() - KEPT_MAX
    if excess > 0:
        gone = {"count": excess + KEPT_MAX // _FORGOTTEN_SHARE}
        _log.warning("lifecycle-events-forgotten", count=connection.execute(_FORGET, gone).rowcount)


_COUNT: Final = sa.select(sa.func.count()).select_from(_e)

_SPAN: Final = sa.select(
    sa.select(sa.func.max(_e.c.number)).scalar_subquery()
    - sa.select(sa.func.min(_e.c.number)).scalar_subquery()
)
"""One less than the number of rows, or more: numbers of published rows are gone. Two look-ups."""

_PLACES: Final = sa.select(
    _e.c.number,
    sa.func.row_number()
    .over(partition_by=_e.c.namespace, order_by=_e.c.number.desc())
    .label("place"),
).subquery()

# By their place among the rows of their namespace, from its newest: the highest places are those
# of the namespace that has most.
_FORGET: Final = sa.delete(_e).where(
    _e.c.number.in_(
        sa.select(_PLACES.c.number)
        .order_by(_PLACES.c.place.desc(), _PLACES.c.number)
        .limit(sa.bindparam("count"))
    )
)


_PENDING: Final = sa.select(sa.func.min(_r.c.seq)).where(_r.c.appended.is_(False))

_NONE_PENDING: Final = (1 << 63) - 1
"""Above the numbers of all changes."""

# One statement, so that the rows and the changes are those of one moment.
_WAITING: Final = (
    sa.select(
        _e.c.number,
        _e.c.event_id,
        _e.c.transition,
        _e.c.kind,
        _e.c.id,
        _e.c.namespace,
        _e.c.uid,
        _e.c.revision,
        _e.c.at_ms,
        _e.c.members_json,
        _e.c.to_broker,
        _e.c.to_sink,
    )
    .where(_e.c.seq < sa.func.coalesce(_PENDING.scalar_subquery(), _NONE_PENDING))
    .order_by(_e.c.number)
)
