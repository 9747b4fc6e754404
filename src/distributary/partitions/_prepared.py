"""Caches targets and route table in a process, for the next partition it owns.

With 100,000 routes, compiling the table and reading the resources takes seconds. A table is a
function of the log up to a change, and every partition has the same changes in the same order
(DESIGN rule 4, route records), so one table of a process serves any partition it owns next. Spark
may run the next owner in any worker; a worker that has not owned one yet compiles everything.

A process caches one set, which one user at a time checks out: that bounds memory.
"""

import gc
import os
import threading

from distributary.core.errors import DistributaryError
from distributary.core.flow import Mark
from distributary.core.journal import fit, read_journal
from distributary.core.log import Reader
from distributary.core.route import RouteTable
from distributary.datadir import DataDir
from distributary.partitions._targets import DirectoryTargets
from distributary.partitions.routes import RouteFollower, follow_again, follow_from, follow_on
from distributary.subscriptions.store import Keys


class Prepared:
    """Targets and route table of this process.

    Args:
        paths: Paths of the data directory.
        key_file: Key file of credentials, as in the settings of a session.

    Raises:
        StoreError: The resource store does not exist, or a newer version wrote it.
    """

    def __init__(self, paths: DataDir, key_file: str) -> None:
        self._paths = paths
        self.targets = DirectoryTargets(
            paths.state_db, Keys.of(paths.key_file(key_file), os.environ)
        )
        self._table: RouteTable | None = None
        self._followed: tuple[int, tuple[int, int]] | None = None

    def prepare(self, partition: int) -> None:
        """Load what the next owner of *partition* needs; leaves to it what cannot be loaded now.

        Only reads: another process may own the partition meanwhile. Call it before this process
        holds objects of an owner: they would be frozen, and their cycles never collected.
        """
        paths = self._paths
        gc.collect()  # cycles of a former owner must not be frozen with what stays
        try:
            self.targets.refresh()
            records = Reader(paths.log, partition)
            try:
                cursor = cursor_of(paths, records, partition)
                if records.durable_end() >= cursor:
                    self.keep(partition, self.follow(partition, records, cursor))
            finally:
                records.close()
        except DistributaryError:
            return
        finally:
            # What stands here stays: collections need not look at it, nor copy its pages.
            gc.freeze()

    def follow(self, partition: int, records: Reader, offset: int) -> RouteFollower:
        """Returns the routes in force at *offset* of *partition*; gives the cached table away.

        Raises:
            LogError, StoreError: The routes are unknown: the partition stops (DESIGN rule 4,
                route records).
        """
        path = self._paths.routes(partition)
        table, self._table = self._table, None
        if table is not None:
            follower = None
            if self._followed is not None and self._followed[0] == partition:
                span = self._followed[1]
                follower = follow_again(table, span, records, self.targets, offset)
            follower = follower or follow_on(table, path, records, self.targets, offset)
            if follower is not None:
                return follower
            del table  # before another one is made
        return follow_from(path, records, self.targets, offset)

    def keep(self, partition: int, follower: RouteFollower) -> None:
        """Cache the table of *follower*, which is no longer in use; it followed *partition*."""
        self._table = follower.table
        self._followed = partition, follower.span

    def close(self) -> None:
        """Close the stores."""
        self._table = None
        self.targets.close()


class _Shelf:
    """The process's cache of one set."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._kept: tuple[tuple[str, str], Prepared] | None = None

    def take(self, paths: DataDir, key_file: str) -> Prepared:
        """Check out the cached set of the data directory, else a new one."""
        name = str(paths.root), key_file
        with self._gate:
            kept, self._kept = self._kept, None
        if kept is not None and kept[0] == name:
            return kept[1]
        if kept is not None:
            kept[1].close()
        return Prepared(paths, key_file)

    def put(self, paths: DataDir, key_file: str, prepared: Prepared) -> None:
        """Return *prepared* to the cache."""
        with self._gate:
            kept, self._kept = self._kept, ((str(paths.root), key_file), prepared)
        if kept is not None:
            kept[1].close()


SHELF = _Shelf()
"""The cache of this process."""


def prepare_next(data_dir: str, key_file: str, partition: int) -> None:
    """Prepare this process to own *partition*.

    Call it before a ``PartitionSession``: another process may still own the partition. Costs only
    what has changed since this process last owned one.
    """
    paths = DataDir.of(data_dir)
    try:
        prepared = SHELF.take(paths, key_file)
    except DistributaryError:
        return  # There is no store yet: the owner will say so.
    prepared.prepare(partition)
    SHELF.put(paths, key_file, prepared)


def cursor_of(paths: DataDir, records: Reader, partition: int) -> int:
    """Returns the cursor of *partition*, read without owning it.

    The owner determines it again under its lock; this one can only be lower, or of a log that lost
    its tail.
    """
    state, _ = read_journal(paths.journal(partition))
    return max(fit(state, lambda mark: stands_in(records, mark)).mark.offset, 0)


def stands_in(records: Reader, mark: Mark) -> bool:
    """Whether the record below the cursor matches *mark*, or retention has deleted it."""
    offset = mark.offset - 1
    if offset < records.start():
        return mark.offset <= records.durable_end()
    return any(logged.checksum == mark.checksum for logged in records.read(offset, offset + 1))
