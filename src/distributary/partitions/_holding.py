"""A partition that this process holds: its lock, its files, and the state that was read from them.

A session works with a holding. When settings change, the next session of the process goes on with
the holding of the one before: opening the files and reading the journal take most of the CPU of a
session's beginning, and nothing of the partition is delivered meanwhile.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from distributary.core.clock import Clock
from distributary.core.errors import LogUnavailableError
from distributary.core.journal_damage import Damage
from distributary.core.lease import Lease
from distributary.core.outcome import Budgets
from distributary.datadir import Phase, StatusField
from distributary.partitions.places import Places, stands_in
from distributary.partitions.ports import Records

LOG_WAIT_S = 10.0
"""Longest wait for the ingest process to recover the log, which usually takes a second."""
LOCK_WAIT_S = 60.0
"""Longest wait for the previous owner, which may be finishing attempts."""


class Holding:
    """Holds a partition from construction until ``close``.

    Args:
        places: Where the partition lies.
        partition: Partition number.
        budgets: Of the kept dead letters.
        clock: Measures waits.
        lease: The lock of the partition; released by ``close``, or here if this fails. None: it is
            taken here.
        log: Takes lines for people.

    Attributes:
        lease: That of the partition.
        status_page: Of the partition.
        ownership: The durable state.
        reservations: The reservation store.
        tallies: The store of tallies.
        failing: Takes the routes that fail.
        records: Reads the log, for the route table.
        tail: Reads the log, for the live path.

    Raises:
        LogLockedError: The previous owner did not finish in time.
        StoreError, LogError: The stored state cannot be read.
    """

    def __init__(
        self,
        places: Places,
        partition: int,
        budgets: Budgets,
        *,
        clock: Clock,
        lease: Lease | None,
        log: Any,
    ) -> None:
        with ExitStack() as opened:
            if lease is None:
                lease = places.lease(partition, LOCK_WAIT_S)
            opened.callback(lease.release)
            self.lease = lease
            self.status_page = places.status_page(partition)
            opened.callback(self.status_page.close)
            opened.callback(self._absent)
            self.status_page[StatusField.PHASE] = Phase.LOADING
            self.records = places.records(partition)
            opened.callback(self.records.close)
            self.reservations = places.reservations(partition, lease, clock)
            opened.callback(self.reservations.close)
            self.tallies = places.tallies(partition, lease)
            opened.callback(self.tallies.close)
            self.failing = places.failing(partition, lease)
            opened.callback(places.tell(partition))
            self.ownership = places.ownership(partition, lease, budgets, clock)
            opened.callback(self.ownership.close)
            self._damages = _report(self.ownership.damage, log)
            cursor = self.ownership.state.mark.offset
            wait_for_log(self.records, cursor, clock, time.sleep)
            if self.ownership.fit(lambda mark: stands_in(self.records, mark)):
                before, cursor = cursor, self.ownership.state.mark.offset
                log.error("log-lost-its-tail", cursor=before, going_back_to=cursor)
            self.tail = places.tail(partition, self.status_page)
            opened.callback(self.tail.close)
            self._opened = opened.pop_all()

    def _absent(self) -> None:
        self.status_page[StatusField.PHASE] = Phase.ABSENT

    def keep_within(self, budgets: Budgets) -> None:
        """Keep dead letters within *budgets* from now on."""
        self.ownership.keep_within(budgets)

    def take_damages(self) -> int:
        """Return how many damaged stretches the journal had that nobody has counted yet."""
        count, self._damages = self._damages, 0
        return count

    def close(self) -> None:
        """Close the files and release the lock, in this order."""
        self._opened.close()


def _report(damage: Damage | None, log: Any) -> int:
    """Tell people of *damage*; return how many stretches it is."""
    if damage is None:
        return 0
    start, end, behind = damage
    log.error("journal-damaged", byte_from=start, byte_to=end, frames_behind=behind)
    return 1


def wait_for_log(
    records: Records, cursor: int, clock: Clock, sleep: Callable[[float], None]
) -> None:
    """Wait until the ingest process has recovered the partition.

    Ingest recovers to an end at or above the cursor. An end below it is out of date, not a loss of
    the medium: going back to it would deliver a whole log again.

    Raises:
        LogUnavailableError: It has not within ``LOG_WAIT_S``.
    """
    until_s = clock.monotonic_s() + LOG_WAIT_S
    while records.durable_end() < cursor:
        if clock.monotonic_s() >= until_s:
            raise LogUnavailableError(
                f"the log ends at {records.durable_end()}, below the cursor {cursor}:"
                " the ingest process has not recovered it; its log lines say why"
            )
        sleep(0.05)
