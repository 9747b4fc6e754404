"""Reads who takes part, and who owns what, where nodes share log and store (``GET /cluster``)."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sa

from distributary.core import database
from distributary.core.clock import Clock
from distributary.core.cluster import KafkaPlace
from distributary.core.errors import DistributaryError
from distributary.core.log.kafka import KafkaEnds
from distributary.core.postgres_lease import CONTROL, LeaseRow, partition_lease, read_leases
from distributary.datadir import StatusField
from distributary.partitions.executor import lease_holder_of
from distributary.partitions.shared_page import read_pages
from distributary.resource.times import format_time
from distributary.server.nodes import Leader, NodeRow
from distributary.server.nodes.postgres import read_nodes
from distributary.server.processes.control.cluster import partition_shown
from distributary.subscriptions.http import ClusterReport, LeaseShown, NodeShown, OwnerShown

SHARED_S: Final = 1.0
"""Whoever asks again within this time gets the same report: watching people cost the database and
the brokers one look a second and node."""


class SharedCluster:
    """The report of nodes that share log and store. Any node reads it. For any thread.

    Args:
        url: ``database_url`` of the store.
        partitions: Number of partitions.
        ends: Returns where each partition of the log ends; None: unknown. May wait.
        clock: The clocks.

    Attributes:
        partitions: Number of partitions; may rise.
    """

    def __init__(
        self,
        url: sa.URL,
        partitions: int,
        ends: Callable[[], Sequence[int | None]],
        clock: Clock,
    ) -> None:
        self._url = url
        self.partitions = partitions
        self._ends = ends
        self._clock = clock
        self._turn = threading.Lock()
        self._last: tuple[float, ClusterReport] | None = None

    def __call__(self) -> ClusterReport:
        """See ``Cluster``.

        Raises:
            StoreError: The store cannot be asked now.
        """
        with self._turn:
            now_s = self._clock.monotonic_s()
            if self._last is None or now_s - self._last[0] >= SHARED_S:
                self._last = now_s, self._read()
            return self._last[1]

    def _read(self) -> ClusterReport:
        nodes = read_nodes(database.open_reader(self._url, "nodes"))
        leases = read_leases(database.open_reader(self._url, "leases"))
        pages = read_pages(self._url)
        by_name = {lease.name: lease for lease in leases}
        leader = _leader(by_name.get(CONTROL))
        ends = self._ends()
        partitions = []
        for number in range(self.partitions):
            lease = by_name.get(partition_lease(number))
            position = pages.get(number, {}).get(StatusField.COMMITTED_OFFSET)
            end = ends[number] if number < len(ends) else None
            generation = 0 if lease is None else lease.generation
            partitions.append(partition_shown(number, _owner(lease), generation, position, end))
        return ClusterReport(
            nodes=tuple(_node(row, leader) for row in nodes),
            leases=tuple(map(_shown, leases)),
            partitions=tuple(partitions),
        )


def cluster_of(url: sa.URL, log: KafkaPlace, partitions: int, clock: Clock) -> SharedCluster:
    """Returns the report of the nodes on *log*; a node gives it also while none leads."""
    ends = KafkaEnds(log)

    def look() -> Sequence[int | None]:
        try:
            return ends.read(made.partitions)
        except DistributaryError:
            return ()  # the rest is known

    made = SharedCluster(url, partitions, look, clock)
    return made


def _leader(lease: LeaseRow | None) -> str:
    """Name of the node that leads; empty: none does."""
    if lease is None or lease.left_s <= 0:
        return ""
    return Leader.of_holder(lease.holder, lease.generation).name


def _node(row: NodeRow, leader: str) -> NodeShown:
    sign = row.sign
    return NodeShown(
        name=sign.name,
        address=sign.address,
        version=sign.version,
        since=format_time(sign.started_ms),
        age_seconds=round(max(0.0, row.age_s), 3),
        live=row.is_live,
        leads=sign.name == leader,
        takes_events=sign.takes and row.is_live,
    )


def _owner(lease: LeaseRow | None) -> OwnerShown | None:
    if lease is None or lease.left_s <= 0:
        return None
    holder = lease_holder_of(lease.holder)
    if holder is None:
        return OwnerShown(host="", pid=0, executor="")
    return OwnerShown(host=holder.host, pid=holder.pid, executor=holder.executor)


def _shown(lease: LeaseRow) -> LeaseShown:
    return LeaseShown(
        name=lease.name,
        holder=_holder_text(lease),
        generation=lease.generation,
        held=lease.left_s > 0,
        left_seconds=round(lease.left_s, 3),
    )


def _holder_text(lease: LeaseRow) -> str:
    """Who holds *lease*, for people: a node by its name, an owner by machine and process."""
    owner = lease_holder_of(lease.holder)
    if owner is not None:
        where = f", executor {owner.executor}" if owner.executor else ""
        return f"{owner.host}{where}, process {owner.pid}"
    return Leader.of_holder(lease.holder, lease.generation).name
