"""What the store knows of events' addresses: which Broker or Channel a record was published to."""

from collections.abc import Collection
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from distributary.core.tenant import (
    BROKER_NAME,
    LIFECYCLE_BROKER,
    broker_address,
    lifecycle_address,
    path_in,
)
from distributary.resource.times import parse_time_ms
from distributary.routes import tables as _tables

_a = _tables.address
_n = _tables.tenant


def read_addresses(connection: Connection, namespace: str) -> dict[str, str]:
    """The paths at which *namespace* accepts events now, by their address.

    The Broker ``default`` is there whether or not it exists as an object.
    """
    query = sa.select(_n.c.address).where(_n.c.namespace == namespace)
    address = connection.execute(query).scalar()
    own = {} if address is None else {namespace: address}
    found = {broker_address(namespace, own): path_in(namespace, "/events")}
    found[lifecycle_address(namespace)] = f"/brokers/{namespace}/{LIFECYCLE_BROKER}"
    begins = [f"{plural}/{namespace}/" for plural in ("brokers", "channels")]
    mine = sa.or_(*(_a.c.path.startswith(begin, autoescape=True) for begin in begins))
    for path, uid in connection.execute(sa.select(_a.c.path, _a.c.uid).where(mine)):
        if path == f"brokers/{namespace}/{BROKER_NAME}":
            found[uid] = path_in(namespace, "/events")
        else:
            found[uid] = f"/{path}"
    return found


class RouteTimes(NamedTuple):
    """When the resource of a route was made and changed.

    Attributes:
        created_ms: Wall clock, milliseconds; of an object of the Kubernetes API the second.
        changed_ms: Of its newest revision; None: unknown.
    """

    created_ms: int
    changed_ms: int | None


class _Metadata(msgspec.Struct):
    creationTimestamp: str  # noqa: N815 - as Kubernetes spells it


class _Object(msgspec.Struct):
    metadata: _Metadata


def read_route_times(connection: Connection, uids: Collection[str]) -> dict[str, RouteTimes]:
    """When the resources of these routes were made, of those that exist."""
    t, o = _tables.api_subscription, _tables.object_
    rows = sa.select(t.c.uid, t.c.created_ms, t.c.updated_ms).where(t.c.uid.in_(uids))
    found = {
        uid: RouteTimes(created, updated) for uid, created, updated in connection.execute(rows)
    }
    objects = sa.select(o.c.uid, o.c.content_json).where(o.c.uid.in_(uids))
    for uid, content in connection.execute(objects):
        created = msgspec.json.decode(content, type=_Object).metadata.creationTimestamp
        found[uid] = RouteTimes(parse_time_ms(created), None)
    return found
