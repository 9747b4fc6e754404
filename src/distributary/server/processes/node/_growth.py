"""Adds partitions to the log that nodes share, where an administrator wants more.

The node that leads does it, beside all else. A new partition has all routes before any event lands
there: the number in the store, which receivers follow, is raised last. So a process that ends in
the middle leaves the old number in force, and the next one begins again.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from distributary.core.cluster import KafkaPlace
from distributary.core.database import StorePlace
from distributary.core.errors import DistributaryError, SettingsError
from distributary.core.flow import RecordKind
from distributary.core.log.kafka import KafkaRecords, KafkaRoutes
from distributary.core.log.kafka.store_snapshots import StoreSnapshots
from distributary.core.route import BlindMatcher
from distributary.partitions import DirectoryTargets
from distributary.partitions.routes import follow_from
from distributary.server.nodes.postgres import raise_partitions
from distributary.server.processes.receiver.route_snapshot import NO_CACHE

LOOK_S: Final = 1.0
"""Interval of looks at how many are wanted."""

AGAIN_S: Final = 5.0
"""Pause after a failure."""


class Growth:
    """Adds the partitions. For the event loop.

    Args:
        log: The log.
        store: The store, with the generation of the leader.
        routes: Appends the leader's route records; none while partitions are added.
        lines: Takes lines for people.
    """

    def __init__(self, log: KafkaPlace, store: StorePlace, routes: KafkaRoutes, lines: Any) -> None:
        self._log = log
        self._store = store
        self._routes = routes
        self._lines = lines
        # Of the store: ``routes`` has more where the last step has failed.
        self._in_use = routes.partitions

    async def follow(self, wanted: Callable[[], int]) -> None:
        """Add what is missing whenever more are *wanted*; never returns."""
        told = ""
        while True:
            pause_s = LOOK_S
            if wanted() > self._in_use:
                try:
                    await self.add(wanted())
                except DistributaryError as error:
                    pause_s = AGAIN_S
                    if str(error) != told:
                        told = str(error)
                        self._lines.error("partitions-not-added", wanted=wanted(), reason=told)
                else:
                    told = ""
            await asyncio.sleep(pause_s)

    async def add(self, count: int) -> None:
        """Have *count* partitions in use. What fails halfway is done by repeating.

        Raises:
            FencedError: Another node leads.
            LogUnavailableError: The cluster does not answer.
            SettingsError: It refuses more partitions.
            StoreError: The store failed.
        """
        before = self._in_use
        if count <= before:
            return
        count = max(count, self._routes.partitions)
        snapshots = await asyncio.to_thread(StoreSnapshots, self._store, leads=True)
        # Reads most of the log before changes of routes have to wait.
        newest = await asyncio.to_thread(NewestRoutes, self._log, self._store, snapshots)
        try:
            await self._routes.add_partitions(count, newest.read, snapshots)
            await asyncio.to_thread(raise_partitions, self._store, count)
            self._in_use = count
        finally:
            newest.close()
            snapshots.close()
        self._lines.info("partitions-added", before=before, partitions=count)


class NewestRoutes:
    """The routes at the end of the first partition. For one thread at a time; close it.

    Args:
        log: The log.
        store: The store.
        snapshots: The routes at the beginning of partitions.
    """

    def __init__(self, log: KafkaPlace, store: StorePlace, snapshots: StoreSnapshots) -> None:
        self._records = KafkaRecords(log, 0, snapshots)
        self._history = DirectoryTargets(store.url)
        # A while, where the log is long.
        self._at = self._records.durable_end()
        table = NO_CACHE, self._records, self._history, self._at, BlindMatcher
        self._follower = follow_from(*table)

    def read(self) -> tuple[int, bytes]:
        """Returns the number of the last change, and the routes after it. Blocks.

        Raises:
            DistributaryError: Log or store cannot be read.
        """
        end = self._records.durable_end()
        for logged in self._records.kinds(self._at, end, RecordKind.ROUTE):
            self._follower.pass_change(logged)
        self._follower.reach(end)
        self._at = end
        table = self._follower.table
        return table.last_seq, table.snapshot()

    def close(self) -> None:
        """Close the connections."""
        self._records.close()
        self._history.close()


def check_partitions(wanted: int | None, in_use: int, of_topic: int) -> None:
    """Refuse a number of partitions that the log cannot have.

    Args:
        wanted: As set; None: not set.
        in_use: How many are in use.
        of_topic: How many the topic has.

    Raises:
        SettingsError: The topic has lost some, or fewer are wanted than are in use.
    """
    if of_topic < in_use:
        raise SettingsError(
            f"the log has {in_use} partitions, and its topic {of_topic}: it was made anew, or this"
            " is another one. Bring the topic back, or name the right one (log)"
        )
    if wanted is not None and wanted < in_use:
        raise SettingsError(
            f"partitions: the log has {in_use}, and they never become fewer. Set {in_use} or more,"
            " at all nodes, or leave it out"
        )
