"""Finds owners that are gone with their executor, and executors whose owners have fallen silent.

Called by ``shared_side``. Pure.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from distributary.core.postgres_lease import PARTITIONS, TTL_S, LeaseRow, leased_partition
from distributary.partitions.executor import lease_holder_of

RENEWED_S: Final = 4.0
"""Who has not renewed a lease for so long is gone with its executor: it does so every 2 s. What one
that is only late delivers it could not write: so this counts only where another owner waits."""
GIVEN_S: Final = 8.0
"""How long an owner whose executor is gone may keep another one waiting that asks for its
partition: it hears of that within a second, and drains for half of one."""
SILENT_S: Final = 6.0
"""How long an owner may be late with its renewals, beyond the end of its lease. One that is cut off
for some seconds goes on; the next owner of one that hangs waits for this time."""


class Lease(NamedTuple):
    """The lease of a partition, which an executor took.

    Attributes:
        partition: Its number.
        generation: Of the holder.
        executor: Spark's id of it.
    """

    partition: int
    generation: int
    executor: str


class Left:
    """Finds the leases of executors that Spark has lost."""

    def __init__(self) -> None:
        self._found: set[Lease] = set()
        self._asked_s: dict[Lease, float] = {}
        self._cut: set[Lease] = set()

    def look(
        self,
        rows: list[LeaseRow],
        application: str,
        alive: set[str],
        asked: Callable[[int], bool],
        now_s: float,
    ) -> tuple[list[Lease], list[Lease]]:
        """Returns the leases that were not seen before, and those whose holders are to be fenced.

        A holder whose executor and whose connection are gone is gone itself: its kernel ended both.
        That is looked for twice: after a restart of the database all of them connect anew.

        Args:
            rows: All leases of partitions.
            application: Spark's id of this application.
            alive: Its executors.
            asked: Whether somebody asks for a partition.
            now_s: Monotonic clock.
        """
        found = {
            lease: row
            for row in rows
            if row.left_s > 0
            and (lease := lease_in(row, application))
            and lease.executor not in alive
        }
        new = found.keys() - self._found
        self._found = set(found)
        # From the first question on: who asks may have started long after the loss.
        waiting = [lease for lease in found if asked(lease.partition)]
        self._asked_s = {lease: self._asked_s.get(lease, now_s) for lease in waiting}
        cut = self._cut
        self._cut = {lease for lease, row in found.items() if not row.connected}
        late_s = TTL_S - RENEWED_S
        ended = cut & self._cut | {
            lease
            for lease, asked_s in self._asked_s.items()
            if found[lease].left_s < late_s or now_s - asked_s >= GIVEN_S
        }
        return sorted(new), sorted(ended)


class Silence:
    """Finds executors that run, and whose owners let leases run out."""

    def __init__(self) -> None:
        self._since_s: dict[Lease, float] = {}

    def look(
        self, rows: list[LeaseRow], application: str, alive: set[str], now_s: float
    ) -> list[Lease]:
        """Returns leases that ran out ``SILENT_S`` ago or longer, and that nobody has taken.

        Args:
            rows: All leases of partitions, as the database has just told: while it is away, nobody
                can renew, and nobody is blamed.
            application: Spark's id of this application.
            alive: Its executors.
            now_s: Monotonic clock.
        """
        found = {
            lease
            for row in rows
            if row.left_s <= 0 and not row.released and (lease := lease_in(row, application))
        }
        late = {lease for lease in found if lease.executor in alive}
        self._since_s = {lease: self._since_s.get(lease, now_s) for lease in late}
        since = self._since_s.items()
        return sorted(lease for lease, since_s in since if now_s - since_s >= SILENT_S)


def lease_in(row: LeaseRow, application: str) -> Lease | None:
    """The lease of *row*, if an executor of *application* took it last."""
    holder = lease_holder_of(row.holder) if row.name.startswith(PARTITIONS) else None
    if holder is None or holder.application != application:
        return None
    return Lease(leased_partition(row.name), row.generation, holder.executor)
