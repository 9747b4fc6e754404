"""What people ask the owners of partitions to do: resume a route, send dead letters again.

A demand changes no resource and needs no route record. It gets a number of its own, which owners
see in the row that they look at anyway; each of them does its part and notes that in its own
store. Control never writes there.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import ConflictError, RequestError
from distributary.core.flow import Demand, DemandKind
from distributary.routes import tables as _tables

DEMANDS_MAX: Final = 10_000
"""Demands that are remembered: a hundred bytes each, and every owner reads them at its start."""
KEPT_MS: Final = 7 * 86_400_000
"""For so long an owner that was away finds what was asked of it."""

_d = _tables.demand
_g = _tables.generation


class RouteName(NamedTuple):
    """What a route belongs to.

    Attributes:
        kind: ``subscription`` of the Subscriptions API, or ``object`` of the Kubernetes API.
        text: Its id; of an object ``triggers.eventing.knative.dev/namespace/name``.
    """

    kind: Literal["subscription", "object"]
    text: str


def read_route_names(connection: Connection, uids: Collection[str]) -> dict[str, RouteName]:
    """What these routes belong to, where that stands yet."""
    t, o = _tables.api_subscription, _tables.object_
    found = sa.select(t.c.uid, t.c.id).where(t.c.uid.in_(uids), t.c.state == _tables.LIVE)
    names = {row.uid: RouteName("subscription", row.id) for row in connection.execute(found)}
    objects = sa.select(o.c.uid, o.c.resource, o.c.namespace, o.c.name).where(o.c.uid.in_(uids))
    for uid, *place in connection.execute(objects):
        names[uid] = RouteName("object", "/".join(place))
    return names


def write_demand(
    connection: Connection, kind: DemandKind, route: str, run: str, now_ms: int
) -> Demand:
    """Remember a demand; the one of this run that is there already, where there is one.

    Raises:
        ConflictError: The run is another demand's.
        RequestError: Too many are remembered.
    """
    counter = connection.execute(sa.select(_g.c.demand_seq).with_for_update()).scalar_one()
    found = connection.execute(sa.select(_d).where(_d.c.run == run)).one_or_none()
    if found is not None:
        before = Demand._make(found)
        if (before.kind, before.route) != (kind, route):
            raise ConflictError(f"the run {run} asked for something else")
        return before
    connection.execute(sa.delete(_d).where(_d.c.asked_ms < now_ms - KEPT_MS))
    if connection.execute(sa.select(sa.func.count()).select_from(_d)).scalar_one() >= DEMANDS_MAX:
        raise RequestError("unavailable", f"{DEMANDS_MAX} runs were asked for within a week")
    made = Demand(counter + 1, kind, route, run, now_ms)
    connection.execute(sa.insert(_d).values(made._asdict()))
    connection.execute(sa.update(_g).values(demand_seq=made.seq))
    return made


def read_demands(connection: Connection, after_seq: int) -> list[Demand]:
    """Those with a number above *after_seq*, in order."""
    return _demands(
        connection.execute(sa.select(_d).where(_d.c.seq > after_seq).order_by(_d.c.seq))
    )


def find_demand(connection: Connection, run: str) -> Demand | None:
    """The demand of this run; None: it is not remembered."""
    return next(iter(_demands(connection.execute(sa.select(_d).where(_d.c.run == run)))), None)


def _demands(rows: Iterable[Any]) -> list[Demand]:
    return [Demand._make(row) for row in rows]
