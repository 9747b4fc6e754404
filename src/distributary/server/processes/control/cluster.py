"""Reads who owns what in a server of one machine, for ``GET /cluster``."""

import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributary import __version__
from distributary.core.clock import Clock
from distributary.core.lease import read_holder
from distributary.datadir import DataDir, MappedStatusPage, Phase, StatusField
from distributary.resource.times import format_time
from distributary.subscriptions.http import (
    ClusterReport,
    LeaseShown,
    NodeShown,
    OwnerShown,
    PartitionShown,
)

_PROC: Final = Path("/proc")


class FileCluster:
    """The report of a server of one machine: one node, and locks on files as leases.

    Args:
        paths: The data directory.
        partitions: Number of partitions.
        end: Returns where a partition of the log ends; None: unknown.
        clock: The wall clock, now: the server starts.
        name: Of the machine.
        address: ``host:port`` of the server.
        receivers: Number of its receivers.
    """

    def __init__(
        self,
        paths: DataDir,
        partitions: int,
        end: Callable[[int], int | None],
        clock: Clock,
        *,
        name: str,
        address: str,
        receivers: int,
    ) -> None:
        self._paths = paths
        self._pages = [MappedStatusPage(paths.status_page(each)) for each in range(partitions)]
        self._end = end
        self._name, self._address = name, address
        self._receivers = [MappedStatusPage(paths.ingest_page(each)) for each in range(receivers)]
        self._since = format_time(clock.wall_ms())

    def __call__(self) -> ClusterReport:
        """See ``Cluster``."""
        node = NodeShown(
            name=self._name,
            address=self._address,
            version=__version__,
            since=self._since,
            age_seconds=0.0,
            live=True,
            leads=True,
            takes_events=all(page[StatusField.PHASE] == Phase.RUNNING for page in self._receivers),
        )
        partitions = [self._partition(number) for number in range(len(self._pages))]
        leases = [
            self._lease(f"partition-{number:04d}", self._paths.owner_lock(number))
            for number in range(len(self._pages))
        ]
        control = self._lease("control", self._paths.lock)
        return ClusterReport(nodes=(node,), leases=(control, *leases), partitions=tuple(partitions))

    def _lease(self, name: str, path: Path) -> LeaseShown:
        pid, generation = read_holder(path)
        return LeaseShown(
            name=name,
            holder=f"{socket.gethostname()}, process {pid}" if pid else "",
            generation=generation,
            held=_lives(pid),
            left_seconds=None,
        )

    def _partition(self, number: int) -> PartitionShown:
        page = self._pages[number]
        pid, generation = read_holder(self._paths.owner_lock(number))
        owned = page[StatusField.PHASE] != Phase.ABSENT and _lives(pid)
        owner = OwnerShown(host=socket.gethostname(), pid=pid, executor="") if owned else None
        position = page[StatusField.COMMITTED_OFFSET] if generation else None
        return partition_shown(number, owner, generation, position, self._end(number))


def partition_shown(
    number: int,
    owner: OwnerShown | None,
    generation: int,
    position: int | None,
    end: int | None,
) -> PartitionShown:
    """Returns what is known of a partition."""
    if position is not None and end is not None:
        end = max(end, position)  # the two were looked at some seconds apart
    known = position is not None and end is not None
    return PartitionShown(
        partition=number,
        owner=owner,
        generation=generation,
        position=position,
        end=end,
        lag=max(0, (end or 0) - (position or 0)) if known else None,
    )


def _lives(pid: int) -> bool:
    """Whether there is a process *pid*: its number may be of another one by now."""
    return pid > 0 and (_PROC / str(pid)).exists()
