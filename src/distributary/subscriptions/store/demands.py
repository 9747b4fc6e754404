"""Demands: requests of people to partition consumers, such as resuming a route or a redrive.

A demand changes no resource and needs no route record. It gets its own number, which consumers see
in a row that they poll anyway; each carries out its part and records that in its own database,
where the control process never writes.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.demand import (
    NO_DETAILS,
    Demand,
    DemandDetails,
    DemandKind,
    decode_details,
    encode_details,
)
from distributary.core.errors import ConflictError, RequestError
from distributary.core.tenant import DEFAULT_NAMESPACE
from distributary.routes import tables as _tables

DEMANDS_MAX: Final = 100_000
"""Most runs kept: a hundred bytes each, and every consumer reads them at its start. As many places
are there to resume routes. To cancel a run needs none: a run has one cancel, which goes with it."""
DEMANDS_OF_NAMESPACE_MAX: Final = 5_000
"""Most of them of one namespace, so that no tenant takes the place of another."""
KEPT_MS: Final = 7 * 86_400_000
"""How long demands are kept for people and for a consumer that was down, milliseconds: a run also
until it is over, and a shorter time where others need its place."""
NUMBERS_KEPT: Final = DEMANDS_MAX // 2
"""Runs that are over are forgotten once so many demands were made after them: half of the
``RUNS_KEPT`` after which a partition no longer knows that it is done with one."""
FORGOTTEN_AT_ONCE_MAX: Final = 500
"""Demands looked at in one turn of forgetting: their numbers are parameters of a query."""

RUN_KINDS: Final = ("redrive", "purge", "replay", "retry")
"""Kinds of demands that are runs: they have progress."""

_MORE: Final = "those that are over make room within a minute, others once they are cancelled"

_d = _tables.demand
_g = _tables.generation


class RouteName(NamedTuple):
    """The subscription or object that a route belongs to.

    Attributes:
        kind: ``subscription`` of the Subscriptions API, or ``object`` of the Kubernetes API.
        text: Its id; of an object ``triggers.eventing.knative.dev/namespace/name``.
        namespace: Its tenant.
    """

    kind: Literal["subscription", "object"]
    text: str
    namespace: str = DEFAULT_NAMESPACE


def read_route_names(connection: Connection, uids: Collection[str]) -> dict[str, RouteName]:
    """Names of these routes' owners, those that exist."""
    t, o = _tables.api_subscription, _tables.object_
    found = sa.select(t.c.uid, t.c.id, t.c.namespace)
    found = found.where(t.c.uid.in_(uids), t.c.state == _tables.LIVE)
    names = {
        row.uid: RouteName("subscription", row.id, row.namespace)
        for row in connection.execute(found)
    }
    objects = sa.select(o.c.uid, o.c.resource, o.c.namespace, o.c.name).where(o.c.uid.in_(uids))
    for uid, *place in connection.execute(objects):
        names[uid] = RouteName("object", "/".join(place), place[1])
    return names


def write_demand(
    connection: Connection,
    kind: DemandKind,
    route: str,
    run: str,
    now_ms: int,
    *,
    details: DemandDetails = NO_DETAILS,
) -> Demand:
    """Store a demand; returns the existing one if the run has one.

    To resume a route takes the place of what was asked before to resume it and, where no place is
    free, of the oldest such demand: consumers that run have read that long ago.

    Raises:
        ConflictError: The run has a different demand.
        RequestError: Too many runs are kept.
    """
    counter = connection.execute(sa.select(_g.c.demand_seq).with_for_update()).scalar_one()
    found = connection.execute(sa.select(_d).where(_d.c.run == run)).one_or_none()
    if found is not None:
        before = _demand(found)
        same = msgspec.structs.replace(before.details, by=details.by) == details
        if (before.kind, before.route) != (kind, route) or not same:
            raise ConflictError(f"the run {run} asked for something else")
        return before
    namespace = namespace_of(run)
    if kind == "resume":
        _replace_resumes(connection, route, namespace)
    elif kind in RUN_KINDS:
        _check_room(connection, namespace)
    made = Demand(counter + 1, kind, route, run, now_ms, details)
    values = made._asdict() | {"details": encode_details(details)}
    connection.execute(sa.insert(_d).values(values))
    connection.execute(sa.update(_g).values(demand_seq=made.seq))
    return made


def _check_room(connection: Connection, namespace: str) -> None:
    """Refuse one run more where there are too many."""
    runs = _d.c.kind.in_(RUN_KINDS)
    if _count(connection, runs & _of_namespace(namespace)) >= DEMANDS_OF_NAMESPACE_MAX:
        raise RequestError(
            "unavailable", f"{DEMANDS_OF_NAMESPACE_MAX} runs of a namespace are kept: {_MORE}"
        )
    if _count(connection, runs) >= DEMANDS_MAX:
        raise RequestError("unavailable", f"{DEMANDS_MAX} runs are kept: {_MORE}")


def _replace_resumes(connection: Connection, route: str, namespace: str) -> None:
    """Make room for a demand to resume *route*."""
    resumes = _d.c.kind == "resume"
    connection.execute(sa.delete(_d).where(resumes, _d.c.route == route))
    own = resumes & _of_namespace(namespace)
    for which, most in ((own, DEMANDS_OF_NAMESPACE_MAX), (resumes, DEMANDS_MAX)):
        spare = _count(connection, which) + 1 - most
        if spare > 0:
            oldest = sa.select(_d.c.seq).where(which).order_by(_d.c.seq).limit(spare)
            forget_demands(connection, connection.execute(oldest).scalars().all())


def oldest_demands(connection: Connection, before_ms: int, after_seq: int) -> list[Demand]:
    """The oldest demands above this number, some of them, in order.

    Those made before then, and runs that ``NUMBERS_KEPT`` demands have followed.
    """
    newest = sa.select(_g.c.demand_seq).scalar_subquery()
    left_behind = _d.c.kind.in_(RUN_KINDS) & (_d.c.seq <= newest - NUMBERS_KEPT)
    query = sa.select(_d).where((_d.c.asked_ms < before_ms) | left_behind, _d.c.seq > after_seq)
    return _demands(connection.execute(query.order_by(_d.c.seq).limit(FORGOTTEN_AT_ONCE_MAX)))


def runs_kept(connection: Connection) -> list[tuple[int, str]]:
    """Number and name in the store of every run, the oldest first."""
    query = sa.select(_d.c.seq, _d.c.run).where(_d.c.kind.in_(RUN_KINDS)).order_by(_d.c.seq)
    return [(row.seq, row.run) for row in connection.execute(query)]


def forget_demands(connection: Connection, seqs: Collection[int]) -> None:
    """Forget the demands of these numbers."""
    connection.execute(sa.delete(_d).where(_d.c.seq.in_(seqs)))


def _count(connection: Connection, which: sa.ColumnElement[bool]) -> int:
    return connection.execute(sa.select(sa.func.count()).select_from(_d).where(which)).scalar_one()


def read_demands(connection: Connection, after_seq: int) -> list[Demand]:
    """Demands with a number above *after_seq*, in order."""
    return _demands(
        connection.execute(sa.select(_d).where(_d.c.seq > after_seq).order_by(_d.c.seq))
    )


def find_demand(connection: Connection, run: str) -> Demand | None:
    """The demand of this run; None: it is not kept."""
    return next(iter(_demands(connection.execute(sa.select(_d).where(_d.c.run == run)))), None)


def find_demands(connection: Connection, runs: Collection[str]) -> list[Demand]:
    """The demands of these runs, those that are kept."""
    return _demands(connection.execute(sa.select(_d).where(_d.c.run.in_(runs))))


def page_demands(
    connection: Connection,
    namespace: str,
    before: int | None,
    limit: int,
    *,
    route: str | None = None,
    kind: str | None = None,
) -> list[Demand]:
    """Runs of *namespace*, the newest first, from the one before number *before* on.

    Args:
        connection: To read by.
        namespace: Whose.
        before: Of the last known one; None: from the newest.
        limit: Most of them.
        route: Only those of this route.
        kind: Only those of this kind.
    """
    query = sa.select(_d).where(_d.c.kind.in_(RUN_KINDS), _of_namespace(namespace))
    if before is not None:
        query = query.where(_d.c.seq < before)
    if route is not None:
        query = query.where(_d.c.route == route)
    if kind is not None:
        query = query.where(_d.c.kind == kind)
    return _demands(connection.execute(query.order_by(_d.c.seq.desc()).limit(limit)))


def namespace_of(run: str) -> str:
    """The namespace of a run, by its name in the store."""
    return run.rpartition(" ")[0] or DEFAULT_NAMESPACE


def _of_namespace(namespace: str) -> sa.ColumnElement[bool]:
    if namespace == DEFAULT_NAMESPACE:
        return ~_d.c.run.contains(" ")
    return _d.c.run.startswith(f"{namespace} ", autoescape=True)


def _demands(rows: Iterable[Any]) -> list[Demand]:
    return [_demand(row) for row in rows]


def _demand(row: Any) -> Demand:
    *members, details = row
    return Demand._make((*members, decode_details(details)))
