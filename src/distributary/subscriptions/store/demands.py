"""Demands: requests of people to partition consumers, such as resuming a route or a redrive.

A demand changes no resource and needs no route record. It gets its own number, which consumers see
in a row that they poll anyway; each carries out its part and records that in its own database,
where the control process never writes.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.errors import ConflictError, RequestError
from distributary.core.flow import Demand, DemandKind
from distributary.routes import tables as _tables

DEMANDS_MAX: Final = 10_000
"""Most demands kept: a hundred bytes each, and every consumer reads them at its start."""
KEPT_MS: Final = 7 * 86_400_000
"""How long demands are kept for a consumer that was down, milliseconds."""

_d = _tables.demand
_g = _tables.generation


class RouteName(NamedTuple):
    """The subscription or object that a route belongs to.

    Attributes:
        kind: ``subscription`` of the Subscriptions API, or ``object`` of the Kubernetes API.
        text: Its id; of an object ``triggers.eventing.knative.dev/namespace/name``.
    """

    kind: Literal["subscription", "object"]
    text: str


def read_route_names(connection: Connection, uids: Collection[str]) -> dict[str, RouteName]:
    """Names of these routes' owners, those that exist."""
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
    """Store a demand; returns the existing one if the run has one.

    Raises:
        ConflictError: The run has a different demand.
        RequestError: Too many are kept.
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
    """Demands with a number above *after_seq*, in order."""
    return _demands(
        connection.execute(sa.select(_d).where(_d.c.seq > after_seq).order_by(_d.c.seq))
    )


def find_demand(connection: Connection, run: str) -> Demand | None:
    """The demand of this run; None: it is not kept."""
    return next(iter(_demands(connection.execute(sa.select(_d).where(_d.c.run == run)))), None)


def _demands(rows: Iterable[Any]) -> list[Demand]:
    return [Demand._make(row) for row in rows]
