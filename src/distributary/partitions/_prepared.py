"""What an owner needs and takes long to make, kept by its process for the next one.

With 100,000 routes, compiling the table and reading the resources takes seconds. A table is a
function of the log up to a change, and every partition holds the same changes in the same order
(DESIGN rule 4), so one table of a process serves whichever partition it owns next. Spark gives
any of its workers to the next owner; so those that read prepare as well, before an epoch ends.

One set a process is kept, and whoever takes it has it alone: memory is bounded by that.
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
from distributary.partitions.routes import RouteFollower, follow_from, follow_on
from distributary.subscriptions.store import Keys


class Prepared:
    """Targets and route table, as far as this process knows them.

    Args:
        paths: Of the data directory.
        key_file: Keys of credentials, as in the settings of a session.

    Raises:
        StoreError: The resource store is not there, or a newer version wrote it.
    """

    def __init__(self, paths: DataDir, key_file: str) -> None:
        self._paths = paths
        self.targets = DirectoryTargets(
            paths.state_db, Keys.of(paths.key_file(key_file), os.environ)
        )
        self._table: RouteTable | None = None

    def prepare(self, partition: int) -> None:
        """Make what the next owner of *partition* needs; what cannot be made now is left to it.

        Only reads: another process may own the partition meanwhile. Nothing that belongs to an
        owner may stand in this process yet: it would be frozen, and its cycles stay for ever.
        """
        paths = self._paths
        gc.collect()  # cycles of a former owner must not be frozen with what stays
        try:
            self.targets.refresh()
            records = Reader(paths.log, partition)
            try:
                cursor = cursor_of(paths, records, partition)
                if records.durable_end() >= cursor:
                    self.keep(self.follow(partition, records, cursor))
            finally:
                records.close()
        except DistributaryError:
            return
        finally:
            # What stands here stays: collections need not look at it, nor copy its pages.
            gc.freeze()

    def follow(self, partition: int, records: Reader, offset: int) -> RouteFollower:
        """The routes that stand at *offset* of *partition*; the table is not kept here any more.

        Raises:
            LogError, StoreError: They cannot be known: the partition stops (DESIGN rule 4).
        """
        path = self._paths.routes(partition)
        table, self._table = self._table, None
        if table is not None:
            follower = follow_on(table, path, records, self.targets, offset)
            if follower is not None:
                return follower
            del table  # before another one is made
        return follow_from(path, records, self.targets, offset)

    def keep(self, follower: RouteFollower) -> None:
        """Keep the table of *follower*, which nobody uses any more."""
        self._table = follower.table

    def close(self) -> None:
        """Close the stores."""
        self._table = None
        self.targets.close()


class _Shelf:
    """The one set that this process keeps between two uses."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._kept: tuple[tuple[str, str], Prepared] | None = None

    def take(self, paths: DataDir, key_file: str) -> Prepared:
        """What is kept of the data directory, else a new one; the caller has it alone."""
        name = str(paths.root), key_file
        with self._gate:
            kept, self._kept = self._kept, None
        if kept is not None and kept[0] == name:
            return kept[1]
        if kept is not None:
            kept[1].close()
        return Prepared(paths, key_file)

    def put(self, paths: DataDir, key_file: str, prepared: Prepared) -> None:
        """Keep *prepared* for whoever comes next."""
        with self._gate:
            kept, self._kept = self._kept, ((str(paths.root), key_file), prepared)
        if kept is not None:
            kept[1].close()


SHELF = _Shelf()
"""Of this process."""


def prepare_next(data_dir: str, key_file: str, partition: int) -> None:
    """Have this process know what the next owner of *partition* will need.

    Call it before a ``Session``, while another process may own the partition yet; and in a process
    that may have to own one. Costs what has changed since it was last called there.
    """
    paths = DataDir.of(data_dir)
    try:
        prepared = SHELF.take(paths, key_file)
    except DistributaryError:
        return  # There is no store yet: the owner will say so.
    prepared.prepare(partition)
    SHELF.put(paths, key_file, prepared)


def cursor_of(paths: DataDir, records: Reader, partition: int) -> int:
    """The cursor of *partition*, as a process sees it that does not own it.

    The owner decides again under its lock; this can only be lower, or of a log that lost its tail.
    """
    state, _ = read_journal(paths.journal(partition))
    return max(fit(state, lambda mark: stands_in(records, mark)).mark.offset, 0)


def stands_in(records: Reader, mark: Mark) -> bool:
    """Whether the record below the cursor *mark* is the one that the cursor knew.

    A record that retention has deleted in good order is taken to be.
    """
    offset = mark.offset - 1
    if offset < records.start():
        return mark.offset <= records.durable_end()
    return any(logged.checksum == mark.checksum for logged in records.read(offset, offset + 1))
