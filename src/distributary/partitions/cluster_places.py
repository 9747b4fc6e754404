"""The places of a server whose log is on Kafka and whose state is in PostgreSQL.

Used by owners on executors of a Spark cluster, and by the driver. Loads the clients of both.
"""

import asyncio
import contextlib
import functools
import importlib
import itertools
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from distributary.access.internal import InternalKey
from distributary.core import database
from distributary.core.clock import Clock
from distributary.core.cluster import KafkaPlace
from distributary.core.errors import LogError, LogLockedError, StoreError
from distributary.core.journal import fit
from distributary.core.lease import Lease
from distributary.core.log.kafka import KafkaEnds, KafkaRecords, KafkaTail
from distributary.core.log.kafka.recalled_topic import RecalledReader
from distributary.core.log.kafka.store_archived import StoredStretches, prepare_archived
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.log.tail_consumer import TailConsumer
from distributary.core.outcome import Budgets, FailingReports
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresFailing,
    PostgresOwnership,
    PostgresReservations,
    PostgresTallies,
    prepare_outcomes,
    read_outcomes,
    usurp_partition,
)
from distributary.core.postgres_lease import (
    PARTITIONS,
    LeaseRow,
    PostgresLease,
    leased_partition,
    partition_lease,
    prepare_leases,
    read_leases,
)
from distributary.core.postgres_nodes import is_log_reached, taking_addresses
from distributary.datadir import DataDir, StatusPage
from distributary.datadir.archived import ArchivedStretch
from distributary.net import OwnNodes
from distributary.net.own_nodes import OWN_ALPN, node_context
from distributary.partitions._courier import Courier
from distributary.partitions._owner_log import owner_log
from distributary.partitions._scratch import make_scratch
from distributary.partitions._targets import DirectoryTargets
from distributary.partitions.entrusted import Entrusted
from distributary.partitions.executor import ended_beside, lease_holder, lease_holder_of
from distributary.partitions.guardians import jvm_of_worker
from distributary.partitions.notes import (
    METER,
    RECALL,
    ROUTES,
    SICK,
    LiveNote,
    Notes,
    Pusher,
    prepare_notes,
)
from distributary.partitions.places import (
    LiveSource,
    OpenReservations,
    OpenTallies,
    OwnedState,
    Tail,
    TailSource,
    meter_role,
    stands_in,
)
from distributary.partitions.ports import Records
from distributary.partitions.recalls import Recalls
from distributary.partitions.routes import ROUTES_AT_BYTES, RoutesAt, routes_at_of
from distributary.partitions.shared_page import OwnStop, PageExchange, prepare_pages
from distributary.subscriptions.store import Keys

LOOK_S: Final = 0.2
"""Shortest interval of looks at the leases: a task that waits for one costs the database five
statements a second."""
ARCHIVED_LOOK_S: Final = 5.0
"""Interval of looks at what is archived, while somebody reads it: only days that are deleted are
seen so late."""
REACHED_S_MAX: Final = 3.0
"""Longest wait for the answer of a partition that could not be owned: its leader may change."""
EXIT_FENCED: Final = 72
"""Exit code of a process that has lost a lease: another one owns the partition, and whatever this
one still sends is sent twice."""


def import_clients() -> None:
    """Import the clients of log and store, which are loaded when they are used first.

    Raises:
        ImportError: One is not installed.
    """
    for name in ("confluent_kafka", "psycopg"):
        importlib.import_module(name)


def prepare_places(url: sa.URL) -> None:
    """Make the tables of owners where they are missing; any number of processes may do so at once.

    Raises:
        StoreError: They cannot be made, or a newer version has made them.
    """
    writer = database.open_writer(url, "delivery store")
    for prepare in (
        prepare_leases,
        prepare_outcomes,
        prepare_pages,
        prepare_notes,
        prepare_archived,
    ):
        prepare(writer)
    StoreSnapshots(database.StorePlace(url), leads=True).close()


@functools.cache
def cluster_places(entrusted: Entrusted) -> "ClusterPlaces":
    """Returns the places of this process, whose scratch folder is made.

    Whoever has them has secrets in memory: nothing of it is written where it crashes.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return ClusterPlaces(entrusted, make_scratch(jvm_of_worker()))


class ClusterPlaces:
    """See ``Places``; one for each process and server.

    Args:
        entrusted: Where all is, and the secrets to open it.
        scratch: A folder of this machine.

    Raises:
        SettingsError: The store's URL cannot be used.
    """

    def __init__(self, entrusted: Entrusted, scratch: Path) -> None:
        self._entrusted = entrusted
        self._log: KafkaPlace = entrusted.shared.log
        self._url = database.database_url(entrusted.shared.store)
        self._notes = Notes(self._url)
        self._pages = PageExchange(self._url)
        self._snapshots = StoreSnapshots(database.StorePlace(self._url))
        self._reader = database.open_reader(self._url, "leases")
        self._writer = database.open_writer(self._url, "leases")
        self._scratch = DataDir(scratch)
        self._free: dict[str, float] = {}
        self._looked_s = float("-inf")

    @property
    def scratch(self) -> DataDir:
        """See ``Places.scratch``."""
        return self._scratch

    def lease(self, partition: int, wait_s: float) -> Lease:
        """See ``Places.lease``. A lease that is lost ends this process."""
        name = partition_lease(partition)
        if not wait_s and self._held(name):
            raise LogLockedError(f"the lease {name} is held")
        # For the cache of the route table: it is in the scratch folder as in a data directory.
        self._scratch.outcome(partition).mkdir(parents=True, exist_ok=True)
        lease = PostgresLease(
            self._url,
            name,
            wait_s,
            holder=lease_holder().encode(),
            lost=functools.partial(_end, name),
        )
        self._pages.own(partition, lease.generation)
        return lease

    def _held(self, name: str) -> bool:
        """Whether somebody held the lease at the last look at all of them."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= LOOK_S:
            self._looked_s = now_s
            rows = read_leases(self._reader, PARTITIONS)
            self._take_from_dead(rows)
            self._free = {row.name: now_s + row.left_s for row in rows}
        return self._free.get(name, now_s) > now_s

    def _take_from_dead(self, rows: list[LeaseRow]) -> None:
        """Free at the next look what a worker of this executor held that was killed.

        Its lease would hold for seconds, and Spark has started a task in its place at once.
        """
        for row in rows:
            holder = lease_holder_of(row.holder) if row.left_s > 0 else None
            if holder is not None and ended_beside(holder):
                usurp_partition(self._writer, leased_partition(row.name), row.generation)

    def status_page(self, partition: int) -> StatusPage:
        """See ``Places.status_page``."""
        return OwnStop(self._pages.page(partition), self._entrusted.driver)

    def status_pages(self, count: int) -> Sequence[StatusPage]:
        """See ``Places.status_pages``: the database is asked once."""
        found = self._pages.pages(range(count))
        return [OwnStop(page, self._entrusted.driver) for page in found]

    def records(self, partition: int) -> Records:
        """See ``Places.records``."""
        return KafkaRecords(self._log, partition, self._snapshots)

    def tail(self, partition: int, status_page: StatusPage) -> TailSource:
        """See ``Places.tail``."""
        del status_page  # Kafka wakes its readers
        return _KafkaTails(self._log, partition, self._others_reach)

    def is_out_of_reach(self, partition: int) -> bool:
        """See ``Places.is_out_of_reach``."""
        try:
            if self._held(partition_lease(partition)):
                return False  # whoever has it reads it
            KafkaEnds(self._log, REACHED_S_MAX).end(partition)
        except LogError:
            return self._others_reach()
        except StoreError:
            pass  # whoever takes the lease now meets that too
        return False

    def _others_reach(self) -> bool:
        try:
            return is_log_reached(database.open_reader(self._url, "nodes"))
        except StoreError:
            return False

    def ownership(self, partition: int, lease: Lease, budgets: Budgets, clock: Clock) -> OwnedState:
        """See ``Places.ownership``."""
        rows_from = clock.wall_ms() * 1000  # as with files
        fence = _fence(partition, lease)
        return PostgresOwnership(self._url, fence, budgets, clock=clock, rows_from=rows_from)

    def cursor(self, partition: int, records: Records) -> int:
        """See ``Places.cursor``."""
        state = read_outcomes(database.open_reader(self._url, "delivery store"), partition)
        fitting = fit(state, lambda mark: stands_in(records, mark))
        return max(fitting.mark.offset, 0)

    def routes_at(self, partition: int) -> RoutesAt | None:
        """See ``Places.routes_at``."""
        try:
            content = self._notes.get(f"{ROUTES}{partition}")
        except StoreError:
            return None
        return None if content is None else routes_at_of(content)

    def reservations(self, partition: int, lease: Lease, clock: Clock) -> OpenReservations:
        """See ``Places.reservations``."""
        return PostgresReservations(self._url, _fence(partition, lease), clock)

    def tallies(self, partition: int, lease: Lease) -> OpenTallies:
        """See ``Places.tallies``."""
        return PostgresTallies(self._url, _fence(partition, lease))

    def failing(self, partition: int, lease: Lease) -> FailingReports:
        """See ``Places.failing``."""
        return PostgresFailing(self._url, partition, _fence(partition, lease))

    def tell(self, partition: int) -> Callable[[], None]:
        """See ``Places.tell``."""
        role, routes = meter_role(partition), f"{ROUTES}{partition}"
        files = {
            f"{METER}{role}": self._scratch.meter(role),
            routes: self._scratch.routes(partition),
        }
        return Pusher(self._notes, files, heads={routes: ROUTES_AT_BYTES}).close

    def tell_why(self, partition: int, reason: str) -> None:
        """See ``Places.tell_why``: at once, as there may be no owner here any more."""
        with contextlib.suppress(StoreError):
            self._notes.put(f"{SICK}{partition}", reason.encode("utf-8", "replace"))

    def targets(self) -> DirectoryTargets:
        """See ``Places.targets``."""
        given = self._entrusted
        # No file: an executor has none, and makes none.
        keys = Keys(Path(os.devnull), given.credential_keys)
        internal = InternalKey(given.internal_key) if given.internal_key else None
        return DirectoryTargets(self._url, keys, internal=internal)

    def live(self) -> LiveSource:
        """See ``Places.live``."""
        return LiveNote(self._notes)

    def recalls(self, partition: int, archive: str, clock: Clock) -> Recalls:
        """See ``Places.recalls``: into a folder of this machine."""
        folder = self._scratch.recalled(partition)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        stored = StoredStretches(self._reader, archive, partition)
        courier = Courier(
            functools.partial(self._notes.put, f"{RECALL}{partition}"),
            lambda: RecalledReader(self._log, partition),
            folder,
            functools.partial(_not_taken, partition),
        )
        return Recalls(
            folder,
            courier,
            lambda: list(itertools.starmap(ArchivedStretch, stored.read())),
            clock,
            look_s=ARCHIVED_LOOK_S,
        )

    def nodes(self) -> OwnNodes | None:
        """See ``Places.nodes``: any of them, with the proof that came with the task."""
        given = self._entrusted
        if not given.node_chain:
            return None
        reader = database.open_reader(self._url, "nodes")
        return OwnNodes(
            lambda: taking_addresses(reader),
            lambda: node_context(
                given.node_authority, given.node_chain_path, [OWN_ALPN], serves=False
            ),
        )


def _fence(partition: int, lease: Lease) -> PartitionFence:
    assert isinstance(lease, PostgresLease)
    return PartitionFence(partition, lease.generation, lease.token)


def _not_taken(partition: int, reason: str) -> None:
    log = owner_log("error").bind(partition=partition)
    log.error("recalled-not-taken", reason=reason)


def _end(name: str) -> None:
    """Another one has the lease *name*: end at once, so that attempts end too."""
    log = owner_log("error").bind(lease=name)
    log.error("lease-lost")
    os._exit(EXIT_FENCED)


class _KafkaTails:
    """Tails of a partition of the topic."""

    def __init__(self, place: KafkaPlace, partition: int, others_reach: Callable[[], bool]) -> None:
        self._place = place
        self._partition = partition
        self._others_reach = others_reach

    def follow(self, consumer: TailConsumer, loop: asyncio.AbstractEventLoop) -> Tail:
        reach = self._others_reach
        return KafkaTail(self._place, self._partition, consumer, loop, others_reach=reach)

    def close(self) -> None:
        """Nothing is held: a tail closes its connections when it stops."""
