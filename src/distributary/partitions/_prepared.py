"""Caches targets and route table in a process, for the next partition it owns.

With 100,000 routes, compiling the table and reading the resources takes seconds. A table is a
function of the log up to a change, and every partition has the same changes in the same order
(DESIGN rule 4, route records), so one table of a process serves any partition it owns next. Spark
may run the next owner in any worker; a worker that has not owned one yet compiles everything.

A process caches one set, which one user at a time checks out: that bounds memory.
"""

import gc
import threading
from typing import Final

from distributary.core.errors import DistributaryError
from distributary.core.log.repeats import Stretch, look_back
from distributary.core.log.taken import OnceLimits
from distributary.core.route import RouteTable
from distributary.partitions._once import Once
from distributary.partitions.places import Places
from distributary.partitions.ports import Records
from distributary.partitions.routes import (
    RouteFollower,
    follow_again,
    follow_from,
    follow_on,
    kept_at,
)

ROUTES_FEW: Final = 1_000
"""Routes that are compiled in some hundredths of a second, and whose table costs collections of
garbage as little: a partition that is owned already does not wait for more."""


class Prepared:
    """Targets and route table of this process.

    Args:
        places: Where the partitions lie.

    Raises:
        StoreError: The resource store does not exist, or a newer version wrote it.
    """

    def __init__(self, places: Places) -> None:
        self._places = places
        self._once: tuple[int, OnceLimits, Stretch] | None = None
        self.targets = places.targets()
        self._table: RouteTable | None = None
        self._followed: tuple[int, tuple[int, int]] | None = None

    def prepare(
        self, partition: int, limits: OnceLimits | None = None, *, owned: bool = False
    ) -> None:
        """Load what the next owner of *partition* needs; leaves to it what cannot be loaded now.

        Only reads: another process may own the partition meanwhile. Call it before this process
        holds objects of an owner: they would be frozen, and their cycles never collected.

        Args:
            partition: Its number.
            limits: The window where readers find repeats; None: there is none.
            owned: Whether this process has it already, and its events wait: what the owner reads
                as soon by itself is left to it.
        """
        places = self._places
        gc.collect()  # cycles of a former owner must not be frozen with what stays
        try:
            self.targets.refresh()
            if owned and limits is None and self.targets.count() <= ROUTES_FEW:
                return
            records = places.records(partition)
            try:
                cursor = places.cursor(partition, records)
                if records.durable_end() >= cursor:
                    self.keep(partition, self.follow(partition, records, cursor))
                    self._look_back(partition, limits, records, cursor)
            finally:
                records.close()
        except DistributaryError:
            return
        finally:
            # What stands here stays: collections need not look at it, nor copy its pages.
            gc.freeze()

    def _look_back(
        self, partition: int, limits: OnceLimits | None, records: Records, cursor: int
    ) -> None:
        """Get to know the ids below *cursor*, unless those of the partition are there."""
        if self._once is not None and self._once[:2] == (partition, limits):
            return  # what has come since is read by ``begin``
        self._once = None  # before others are made
        if limits is not None:
            stretch = Stretch(look_back(records, cursor, limits))
            self._once = partition, limits, stretch

    def follow(self, partition: int, records: Records, offset: int) -> RouteFollower:
        """Returns the routes in force at *offset* of *partition*; gives the cached table away.

        Raises:
            LogError, StoreError: The routes are unknown: the partition stops (DESIGN rule 4,
                route records).
        """
        path = self._places.scratch.routes(partition)
        table, self._table = self._table, None
        if table is not None and self._followed is not None and self._followed[0] == partition:
            span = self._followed[1]
            follower = follow_again(table, span, records, self.targets, offset)
            if follower is not None:
                return follower
        told = self._places.routes_at(partition)
        if table is not None:
            known = (each for each in (kept_at(path), told) if each is not None)
            kept = max((each for each in known if each.offset <= offset), default=None)
            follower = follow_on(table, kept, records, self.targets, offset)
            if follower is not None:
                return follower
            del table  # before another one is made
        return follow_from(path, records, self.targets, offset, known=told)

    def keep(self, partition: int, follower: RouteFollower) -> None:
        """Cache the table of *follower*, which is no longer in use; it followed *partition*."""
        self._table = follower.table
        self._followed = partition, follower.span

    def begin(self, once: Once, partition: int, cursor: int) -> None:
        """Begin *once* at *cursor*: with the ids that this process knows of *partition*.

        The last owner knew them here, or they were prepared: to read them takes seconds.

        Raises:
            LogUnavailableError: The log cannot be read now.
        """
        kept, self._once = self._once, None
        known = kept is not None and kept[:2] == (partition, once.limits)
        once.begin(cursor, kept[2] if kept is not None and known else None)

    def end(self, once: Once, partition: int) -> None:
        """Keep the ids of *once*, which is no longer in use; it was that of *partition*."""
        self._once = partition, once.limits, once.end()

    def close(self) -> None:
        """Close the stores."""
        self._table = self._once = None
        self.targets.close()


class _Shelf:
    """The process's cache of one set."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._kept: tuple[Places, Prepared] | None = None

    def take(self, places: Places) -> Prepared:
        """Check out the cached set of *places*, else a new one."""
        with self._gate:
            kept, self._kept = self._kept, None
        if kept is not None and kept[0] == places:
            return kept[1]
        if kept is not None:
            kept[1].close()
        return Prepared(places)

    def put(self, places: Places, prepared: Prepared) -> None:
        """Return *prepared* to the cache."""
        with self._gate:
            kept, self._kept = self._kept, (places, prepared)
        if kept is not None:
            kept[1].close()


SHELF = _Shelf()
"""The cache of this process."""


def prepare_next(
    places: Places, partition: int, limits: OnceLimits | None = None, *, owned: bool = False
) -> None:
    """Prepare this process to own *partition*.

    Call it before a ``PartitionSession``: another process may still own the partition. Costs only
    what has changed since this process last owned one.

    Args:
        places: Where the partitions lie.
        partition: Its number.
        limits: The window where readers find repeats; None: there is none.
        owned: Whether this process has its lease already.
    """
    try:
        prepared = SHELF.take(places)
    except DistributaryError:
        return  # There is no store yet: the owner will say so.
    prepared.prepare(partition, limits, owned=owned)
    SHELF.put(places, prepared)
