"""The database that the owners of a partition share, as a simulation of many machines has it.

Called by ``shared``. It has what PostgreSQL has for one partition: a lease, the
generation of the owner, the number of the last flush, and frames. What it holds outlives every
owner. It can be away, and it can break a connection at a commit, before or after the commit counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from distributary.core.clock import Clock
from distributary.core.errors import FencedError, StoreAwayError
from distributary.core.outcome import (
    GivenUp,
    ReservationAnswer,
    ReservationBatch,
    ReservationStore,
    Tally,
    TallyStore,
)
from distributary.core.outcome.rows import Changes
from kit.simulation.ports import StoreWatch, WatchedMemory

__all__ = ["FencedReservations", "FencedTallies", "Owner", "SharedDatabase", "SimulatedFlushes"]


class Owner(NamedTuple):
    """Who took the lease: the generation, and what is of this taking alone."""

    generation: int
    token: str


NOBODY = Owner(0, "")


class SharedDatabase:
    """What the database holds.

    Args:
        clock: Its own clock, which all leases run by.
        ttl_s: How long a lease holds without being renewed.

    Attributes:
        away_until_s: Until then nobody reaches it.
        doubt: The next commit breaks the connection: True: it counts, False: it does not.
        holder: Who has the lease, or had it last.
        owner: The newest owner that has opened the partition.
        number: Of the last flush.
        kept_frames: Frames, in order.
        refusals: How often a former owner was refused.
        cut_flushes: How many flushes it was away for, or broke at their commit.
    """

    def __init__(self, clock: Clock, ttl_s: float) -> None:
        self._clock = clock
        self._ttl_s = ttl_s
        self._until_s = 0.0
        self.away_until_s = 0.0
        self.doubt: bool | None = None
        self.holder = NOBODY
        self.owner = NOBODY
        self.number = 0
        self.kept_frames: list[bytes] = []
        self.refusals = self.cut_flushes = 0

    def reach(self) -> None:
        """Connect.

        Raises:
            StoreAwayError: It is away.
        """
        if self._clock.monotonic_s() < self.away_until_s:
            raise StoreAwayError("the simulated database is away")

    @property
    def free_s(self) -> float:
        """When the lease can be taken, if nobody renews it: the database is there by then."""
        return max(self._until_s, self.away_until_s)

    def take(self, token: str) -> Owner | None:
        """Take the lease; None: it is held."""
        self.reach()
        if self._clock.monotonic_s() < self._until_s:
            return None
        self._until_s = self._clock.monotonic_s() + self._ttl_s
        self.holder = Owner(self.holder.generation + 1, token)
        return self.holder

    def renew(self, holder: Owner) -> bool:
        """Hold the lease for its whole time again; False: another one has it."""
        self.reach()
        if holder != self.holder:
            return False
        self._until_s = self._clock.monotonic_s() + self._ttl_s
        return True

    def release(self, holder: Owner) -> None:
        """Let the next one take the lease, if *holder* has it."""
        if holder == self.holder:
            self._until_s = 0.0

    def usurp(self) -> None:
        """End the lease and the ownership of the holder, whom the driver believes dead."""
        generation = self.holder.generation + 1
        self.holder = self.owner = Owner(generation, "")
        self._until_s = 0.0

    def check(self, owner: Owner) -> None:
        """Compare, as in each transaction.

        Raises:
            FencedError: A later owner has the partition.
            StoreAwayError: It is away.
        """
        self.reach()
        if owner != self.owner:
            self.refusals += 1
            raise FencedError(f"generation {self.owner.generation} has the partition")


class SimulatedFlushes:
    """A ``NumberedFlushes`` of one owner.

    Args:
        database: What all owners share.
        store: The rows in it.
        owner: This one.
        current: Whether this is the newest owner: no other one may ever write.
    """

    def __init__(
        self,
        database: SharedDatabase,
        store: WatchedMemory,
        owner: Owner,
        current: Callable[[], bool],
    ) -> None:
        self._database = database
        self._store = store
        self._owner = owner
        self._current = current

    def open(self) -> int:
        """See ``NumberedFlushes``."""
        self._database.reach()
        if self._owner.generation < self._database.owner.generation:
            raise FencedError("a later owner has the partition")
        self._database.owner = self._owner
        return self._database.number

    def frames(self) -> list[bytes]:
        """See ``NumberedFlushes``."""
        self._database.reach()
        return list(self._database.kept_frames)

    def last(self) -> int:
        """See ``NumberedFlushes``."""
        self._database.check(self._owner)
        return self._database.number

    def write(
        self,
        number: int,
        parts: list[bytes],
        changes: Changes,
        given_up: list[GivenUp],
        *,
        replaces: bool,
    ) -> bool:
        """See ``NumberedFlushes``."""
        try:
            return self._write(number, parts, changes, given_up, replaces=replaces)
        except StoreAwayError:
            self._database.cut_flushes += 1
            raise

    def _write(
        self,
        number: int,
        parts: list[bytes],
        changes: Changes,
        given_up: list[GivenUp],
        *,
        replaces: bool,
    ) -> bool:
        database = self._database
        database.reach()
        self._store.refuse()
        if self._owner != database.owner or number != database.number:
            return False
        assert self._current(), "a former owner has written"
        doubt, database.doubt = database.doubt, None
        if doubt is False:
            raise StoreAwayError("the connection broke before the commit")
        database.number += 1
        database.kept_frames = [*([] if replaces else database.kept_frames), *parts]
        given_up[:] = self._store.apply(changes) if changes else []
        if doubt:
            raise StoreAwayError("the connection broke after the commit")
        return True


class FencedReservations:
    """Counts that only the newest owner changes.

    Args:
        reservations: What all owners share.
        check: Raises for a former owner.
    """

    def __init__(self, reservations: ReservationStore, check: Callable[[], None]) -> None:
        self._reservations = reservations
        self._check = check
        self.held = reservations.held
        self.used_up = reservations.used_up
        self.delivered = reservations.delivered

    @property
    def exists(self) -> bool:
        """See ``ReservationStore``."""
        return self._reservations.exists

    def exchange(self, partition: int, batch: ReservationBatch) -> list[ReservationAnswer]:
        """See ``ReservationStore``."""
        self._check()
        return self._reservations.exchange(partition, batch)


class FencedTallies:
    """Tallies that only the newest owner changes.

    Args:
        tallies: What all owners share.
        check: Raises for a former owner.
    """

    def __init__(self, tallies: TallyStore, check: Callable[[], None]) -> None:
        self._tallies = tallies
        self._check = check
        self.routes = tallies.routes
        self.get = tallies.get
        self.standing = tallies.standing

    def put(self, tallies: Mapping[str, Tally], gone: Iterable[str] = ()) -> None:
        """See ``TallyStore``."""
        self._check()
        self._tallies.put(tallies, gone)


def watched(store: StoreWatch) -> WatchedMemory:
    """Returns *store*, which is in memory."""
    assert isinstance(store, WatchedMemory)
    return store
