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
"""Most demands kept: a hundred bytes each, and every consumer reads them at its start."""
DEMANDS_OF_NAMESPACE_MAX: Final = 5_000
"""Most of them of one namespace, so that no tenant takes the place of another. Demands that are no
runs, such as to cancel one, have as many places of their own: what runs away can be ended."""
KEPT_MS: Final = 7 * 86_400_000
"""How long demands are kept at least, for people and for a consumer that was down, milliseconds."""
FORGOTTEN_AT_ONCE_MAX: Final = 500
"""Demands looked at in one turn of forgetting: their numbers are parameters of a query."""

RUN_KINDS: Final = ("redrive", "purge", "replay", "retry")
"""Kinds of demands that are runs: they have progress."""

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

    Raises:
        ConflictError: The run has a different demand.
        RequestError: Too many are kept.
    """
    counter = connection.execute(sa.select(_g.c.demand_seq).with_for_update()).scalar_one()
    found = connection.execute(sa.select(_d).where(_d.c.run == run)).one_or_none()
    if found is not None:
        before = _demand(found)
        same = msgspec.structs.replace(before.details, by=details.by) == details
        if (before.kind, before.route) != (kind, route) or not same:
            raise ConflictError(f"the run {run} asked for something else")
        return before
    namespace = run.rpartition(" ")[0] or DEFAULT_NAMESPACE
    alike = _d.c.kind.in_(RUN_KINDS) if kind in RUN_KINDS else _d.c.kind.not_in(RUN_KINDS)
    if _count(connection, _of_namespace(namespace) & alike) >= DEMANDS_OF_NAMESPACE_MAX:
        most = f"{DEMANDS_OF_NAMESPACE_MAX} runs of a namespace"
        raise RequestError("unavailable", f"{most} were asked for within a week")
    if _count(connection, alike) >= DEMANDS_MAX:
        raise RequestError("unavailable", "Too many runs were asked for within a week.")
    made = Demand(counter + 1, kind, route, run, now_ms, details)
    values = made._asdict() | {"details": encode_details(details)}
    connection.execute(sa.insert(_d).values(values))
    connection.execute(sa.update(_g).values(demand_seq=made.seq))
    return made


def oldest_demands(connection: Connection, before_ms: int, after_seq: int) -> list[Demand]:
    """The oldest demands above this number that were made before then, some of them, in order."""
    query = sa.select(_d).where(_d.c.asked_ms < before_ms, _d.c.seq > after_seq)
    return _demands(connection.execute(query.order_by(_d.c.seq).limit(FORGOTTEN_AT_ONCE_MAX)))


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


def _of_namespace(namespace: str) -> sa.ColumnElement[bool]:
    if namespace == DEFAULT_NAMESPACE:
        return ~_d.c.run.contains(" ")
    return _d.c.run.startswith(f"{namespace} ", autoescape=True)


def _demands(rows: Iterable[Any]) -> list[Demand]:
    return [_demand(row) for row in rows]


def _demand(row: Any) -> Demand:
    *members, details = row
    return Demand._make((*members, decode_details(details)))
