"""Who takes part in a server, and who owns what, over HTTP: ``GET /cluster``.

A node answers it by itself, also while none leads: that is when people ask.
"""

import asyncio
from collections.abc import Callable

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from distributary.subscriptions.http import _problems
from distributary.subscriptions.http._answers import json_response
from distributary.subscriptions.http._resources import Resource

CLUSTER_PATH = "/cluster"


class NodeShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node.

    Attributes:
        name: Its name.
        address: ``host:port`` at which the other nodes reach it; of a server of one machine, at
            which clients do.
        version: Of its software.
        since: When it started, RFC 3339.
        age_seconds: How long ago it gave a sign of life.
        live: Whether the others count on it.
        leads: Whether it leads.
        takes_events: Whether its receivers accept events.
    """

    name: str
    address: str
    version: str
    since: str
    age_seconds: float
    live: bool
    leads: bool
    takes_events: bool


class LeaseShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A lease.

    Attributes:
        name: Its name.
        holder: Who holds it, or held it last, for people; empty: unknown.
        generation: Of that holder.
        held: Whether somebody holds it.
        left_seconds: Until it runs out, unless it is renewed; None: it is a lock on a file, which
            ends with its holder.
    """

    name: str
    holder: str
    generation: int
    held: bool
    left_seconds: float | None


class OwnerShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who delivers a partition.

    Attributes:
        host: Name of the machine.
        pid: Process id there.
        executor: Spark's id of the executor; empty: it is none of a cluster.
    """

    host: str
    pid: int
    executor: str


class PartitionShown(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A partition of the log.

    Attributes:
        partition: Its number.
        owner: Who delivers it; None: nobody does now.
        generation: Of its newest owner; 0: it has had none.
        position: The committed offset; None: unknown.
        end: The record after the last durable one; None: unknown.
        lag: Records between the two; None: unknown.
    """

    partition: int
    owner: OwnerShown | None
    generation: int
    position: int | None
    end: int | None
    lag: int | None


class ClusterReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Body of ``GET /cluster``.

    Attributes:
        nodes: By name.
        leases: By name.
        partitions: By number.
    """

    nodes: tuple[NodeShown, ...] = ()
    leases: tuple[LeaseShown, ...] = ()
    partitions: tuple[PartitionShown, ...] = ()


Cluster = Callable[[], ClusterReport]
"""Reads the report; may block. Raises ``DistributaryError`` where it cannot be read now."""


def cluster_resources(cluster: Cluster) -> dict[str, Resource]:
    """``/cluster``, as *cluster* reads it."""

    async def answer(_request: Request) -> Response:
        return json_response(await asyncio.to_thread(cluster))

    return {CLUSTER_PATH: Resource({"GET": answer})}


def create_cluster_app(cluster: Cluster) -> Starlette:
    """An application with ``/cluster`` alone, for a node that does not lead."""
    return Starlette(
        routes=[Route(path, resource) for path, resource in cluster_resources(cluster).items()],
        exception_handlers={
            **dict.fromkeys(_problems.HANDLED, _problems.answer_error),
            Exception: _problems.answer_bug,
        },
    )
