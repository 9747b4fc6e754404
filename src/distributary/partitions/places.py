"""Where the parts of a server's partitions lie: in its data directory, or shared by machines.

Whatever an owner, a task or the driver opens of a partition, it opens by a ``Places``. An owner on
another machine than the server has nothing of the server's disk: only ``scratch`` is a folder.

Callers: ``_holding``, ``_prepared``, ``_session`` and the ``spark`` slice.
"""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from distributary.access.internal import InternalKey
from distributary.core.clock import Clock, SystemClock
from distributary.core.database import sqlite_url
from distributary.core.flow import Mark
from distributary.core.journal import Journal, fit, read_journal
from distributary.core.journal_damage import Damage
from distributary.core.lease import FileLease, Lease
from distributary.core.log import Reader
from distributary.core.log.tail_consumer import TailConsumer
from distributary.core.outcome import (
    Budgets,
    DeliveryStore,
    FailingReports,
    FailingRoutesFile,
    FileOwnership,
    FileReservations,
    Ownership,
    ReservationStore,
    TallyFile,
    TallyStore,
)
from distributary.datadir import (
    Bell,
    DataDir,
    LiveFile,
    LiveSettings,
    MappedStatusPage,
    StatusPage,
    read_internal_key,
)
from distributary.datadir.archived import StretchesFile
from distributary.net import OwnNodes
from distributary.partitions._log_tail import LogTail
from distributary.partitions._targets import DirectoryTargets
from distributary.partitions.ports import Records
from distributary.partitions.recall_requests import RequestsFile
from distributary.partitions.recalls import Recalls
from distributary.partitions.routes import RoutesAt
from distributary.subscriptions.store import Keys


class OwnedState(Ownership, Protocol):
    """The ``Ownership`` of a partition that this process holds.

    Attributes:
        damage: What the journal had when it was opened; None: nothing.
    """

    damage: Damage | None

    def hurry(self) -> None:
        """Wait no longer for a database that is away: the session ends. For any thread."""

    def keep_within(self, budgets: Budgets) -> None:
        """Keep dead letters within *budgets* from now on."""

    def close(self) -> None:
        """Close what it stands on. Call it before the lease is released."""


class OpenReservations(ReservationStore, Protocol):
    """A ``ReservationStore`` that is closed in the end."""

    def close(self) -> None:
        """Close the store."""


class OpenTallies(TallyStore, Protocol):
    """A ``TallyStore`` that is closed in the end."""

    def close(self) -> None:
        """Close the store."""


class Tail(Protocol):
    """Feeds a consumer the log of its partition; on the loop of the consumer."""

    def start(self, offset: int) -> None:
        """Read from the record *offset* on."""

    def stop(self) -> None:
        """Read nothing more. Stopping twice is harmless."""

    def look(self) -> None:
        """Feed the next chunk, if there is one and the last one has been taken."""

    def look_soon(self) -> None:
        """The consumer has taken all that it was given: look again, soon."""

    def end(self) -> int:
        """Returns the durable end as last seen, without waiting; 0 where none was seen."""


class TailSource(Protocol):
    """Makes the tails of a partition, one after the other."""

    def follow(self, consumer: TailConsumer, loop: asyncio.AbstractEventLoop) -> Tail:
        """Returns a tail, not started, that feeds *consumer* on *loop*."""

    def close(self) -> None:
        """Close what tails read with; the last one has stopped."""


class LiveSource(Protocol):
    """Settings that change while the server runs, for one reader."""

    def look(self) -> LiveSettings | None:
        """Returns the settings if they have changed since the last call; else None."""


class Places(Protocol):
    """Opens the parts of partitions; equal values open the same ones. For any thread.

    Attributes:
        scratch: The folder that this process may use for what needs not be kept: snapshots of
            metrics, cached route tables. In the embedded form it is the data directory.
    """

    @property
    def scratch(self) -> DataDir:
        """See above."""

    def lease(self, partition: int, wait_s: float) -> Lease:
        """Take the lease of *partition*, waiting at most *wait_s* for its holder to finish.

        Raises:
            LogLockedError: It has not.
            OSError, StoreError: The lease cannot be asked for.
        """

    def status_page(self, partition: int) -> StatusPage:
        """Open the status page of *partition*."""

    def status_pages(self, count: int) -> Sequence[StatusPage]:
        """Open those of the first *count* partitions: a task that looks for one needs them all."""

    def records(self, partition: int) -> Records:
        """Open a reader of *partition*; its position is its own."""

    def tail(self, partition: int, status_page: StatusPage) -> TailSource:
        """Open what reads *partition* for its live path."""

    def ownership(self, partition: int, lease: Lease, budgets: Budgets, clock: Clock) -> OwnedState:
        """Open the durable state of *partition*, each write of which *lease* fences.

        Raises:
            FencedError: The lease is lost.
            StoreError: The state cannot be read.
        """

    def is_out_of_reach(self, partition: int) -> bool:
        """Whether others reach *partition* of the log, and this process does not; may block."""

    def cursor(self, partition: int, records: Records) -> int:
        """Returns the cursor of *partition*, read without owning it.

        The owner determines it again under its lease; this one can only be lower, or of a log that
        lost its tail.
        """

    def routes_at(self, partition: int) -> RoutesAt | None:
        """Returns which routes an owner of *partition* on another machine has found; may block.

        None: nobody tells, as where a file in ``scratch`` outlives the owner.
        """

    def reservations(self, partition: int, lease: Lease, clock: Clock) -> OpenReservations:
        """Open the counts of deliveries, for the owner of *partition*."""

    def tallies(self, partition: int, lease: Lease) -> OpenTallies:
        """Open the tallies of *partition*, for its owner."""

    def failing(self, partition: int, lease: Lease) -> FailingReports:
        """Open what takes the failing routes of *partition*, for its owner."""

    def tell(self, partition: int) -> Callable[[], None]:
        """Begin to tell the leader what the owner of *partition* has in ``scratch`` for people.

        Returns:
            Ends it.
        """

    def tell_why(self, partition: int, reason: str) -> None:
        """Tell the leader why *partition* could not be owned, if it can be told now; may block."""

    def targets(self) -> DirectoryTargets:
        """Open the resource store, with the keys that open its credentials.

        Raises:
            StoreError: The store does not exist, or a newer version wrote it.
        """

    def live(self) -> LiveSource:
        """Open the settings that change while the server runs."""

    def recalls(self, partition: int, archive: str, clock: Clock) -> Recalls:
        """Open what the owner of *partition* recalls of the archive at *archive*."""

    def nodes(self) -> OwnNodes | None:
        """How the server's own receivers are reached from another machine; None: from none."""


@dataclass(frozen=True, slots=True)
class FilePlaces:
    """The places of a server that has everything in its data directory.

    Attributes:
        paths: The data directory.
        key_file: Key file of credentials; empty: in the data directory.
    """

    paths: DataDir
    key_file: str = ""

    @property
    def scratch(self) -> DataDir:
        """See ``Places.scratch``."""
        return self.paths

    def lease(self, partition: int, wait_s: float) -> Lease:
        """See ``Places.lease``."""
        path = self.paths.owner_lock(partition)
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileLease(path, wait_s, SystemClock(), time.sleep)

    def status_page(self, partition: int) -> StatusPage:
        """See ``Places.status_page``."""
        return MappedStatusPage(self.paths.status_page(partition))

    def status_pages(self, count: int) -> Sequence[StatusPage]:
        """See ``Places.status_pages``."""
        return [self.status_page(number) for number in range(count)]

    def records(self, partition: int) -> Records:
        """See ``Places.records``."""
        return Reader(self.paths.log, partition)

    def tail(self, partition: int, status_page: StatusPage) -> TailSource:
        """See ``Places.tail``."""
        return _FileTails(self.paths, partition, status_page)

    def ownership(self, partition: int, lease: Lease, budgets: Budgets, clock: Clock) -> OwnedState:
        """See ``Places.ownership``."""
        return _OwnedFiles(self.paths, partition, lease, budgets, clock)

    def cursor(self, partition: int, records: Records) -> int:
        """See ``Places.cursor``."""
        state, _ = read_journal(self.paths.journal(partition))
        return max(fit(state, lambda mark: stands_in(records, mark)).mark.offset, 0)

    def is_out_of_reach(self, partition: int) -> bool:  # noqa: ARG002 - see ``Places``
        """See ``Places.is_out_of_reach``: others have the same disk."""
        return False

    def routes_at(self, partition: int) -> RoutesAt | None:  # noqa: ARG002 - see ``Places``
        """See ``Places.routes_at``: the file is there."""
        return None

    def reservations(self, partition: int, lease: Lease, clock: Clock) -> OpenReservations:
        """See ``Places.reservations``."""
        del partition, lease  # one file for all, each call a transaction
        return FileReservations(self.paths.quota_db, clock)

    def tallies(self, partition: int, lease: Lease) -> OpenTallies:
        """See ``Places.tallies``."""
        del lease  # a late write costs some numbers
        return TallyFile(self.paths.tallies(partition))

    def failing(self, partition: int, lease: Lease) -> FailingReports:
        """See ``Places.failing``."""
        del lease  # told again each second
        return FailingRoutesFile(self.paths.failing(partition))

    def tell(self, partition: int) -> Callable[[], None]:
        """See ``Places.tell``."""
        del partition  # the leader sees the same files
        return lambda: None

    def tell_why(self, partition: int, reason: str) -> None:
        """See ``Places.tell_why``: the leader sees the file of it."""

    def targets(self) -> DirectoryTargets:
        """See ``Places.targets``."""
        seed = read_internal_key(self.paths.internal_key)
        return DirectoryTargets(
            sqlite_url(self.paths.state_db),
            Keys.of(self.paths.key_file(self.key_file), os.environ),
            internal=None if seed is None else InternalKey(seed),
        )

    def live(self) -> LiveSource:
        """See ``Places.live``."""
        return LiveFile(self.paths.live)

    def recalls(self, partition: int, archive: str, clock: Clock) -> Recalls:
        """See ``Places.recalls``."""
        paths = self.paths
        return Recalls(
            paths.recalled(partition),
            RequestsFile(paths.recall_requests(partition)),
            StretchesFile(paths.archived, archive, partition).read,
            clock,
        )

    def nodes(self) -> OwnNodes | None:
        """See ``Places.nodes``."""
        return None


class _OwnedFiles(FileOwnership):
    """Delivery store and journal of one partition."""

    def __init__(
        self, paths: DataDir, partition: int, lease: Lease, budgets: Budgets, clock: Clock
    ) -> None:
        with ExitStack() as opened:
            # Numbers are above those of an older data directory in the same history, and of what
            # the journal has lost: a microsecond is less than a row takes.
            rows_from = clock.wall_ms() * 1000
            journal = Journal(paths.journal(partition), fence=lease.check, rows_from=rows_from)
            opened.callback(journal.close)
            url = sqlite_url(paths.delivery_db(partition))
            store = DeliveryStore(url, partition, budgets, fence=lease.check)
            opened.callback(store.close)
            super().__init__(store, journal)
            self.keep_within: Callable[[Budgets], None] = store.keep_within
            self._opened = opened.pop_all()

    def close(self) -> None:
        """Close store and journal."""
        self._opened.close()


class _FileTails:
    """Tails of a partition of the log in files: its appender rings."""

    def __init__(self, paths: DataDir, partition: int, status_page: StatusPage) -> None:
        with ExitStack() as opened:
            self._records = Reader(paths.log, partition)
            opened.callback(self._records.close)
            self._bell = Bell(paths.bell(partition), status_page)
            opened.callback(self._bell.close)
            self._status_page = status_page
            self._opened = opened.pop_all()

    def follow(self, consumer: TailConsumer, loop: asyncio.AbstractEventLoop) -> Tail:
        return LogTail(self._records, self._bell, self._status_page, consumer, loop)

    def close(self) -> None:
        """Close reader and bell."""
        self._opened.close()


def meter_role(partition: int) -> str:
    """Returns the role by which the metrics of the owner of *partition* are known."""
    return f"owner-p{partition:04d}"


def stands_in(records: Records, mark: Mark) -> bool:
    """Whether the record below the cursor matches *mark*, or retention has deleted it."""
    offset = mark.offset - 1
    if offset < records.start():
        return mark.offset <= records.durable_end()
    return any(logged.checksum == mark.checksum for logged in records.read(offset, offset + 1))
