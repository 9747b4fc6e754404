"""What the owner of a partition holds of it: one port, and its back end of files.

A lease says who owns a partition; it is taken first (``core.lease``), and its fence stands inside
every write here. What the last owner left is read then, and everything an owner makes durable while
it delivers goes through ``flush``.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import Journal, JournalState, fit
from distributary.core.outcome._dead_letters import KeptDeadLetter
from distributary.core.outcome._store import DeliveryStore, KeptDeadLetters
from distributary.core.outcome.dead_letter import GivenUp
from distributary.core.outcome.rows import BackfillRow, Changes, ParkedRow, RetryRow, RunRow


@dataclass(frozen=True, slots=True)
class Batch:
    """What one flush makes durable.

    Attributes:
        mark: The cursor.
        done: Matches that finished since the last flush and that no cursor covers, with the
            checksums of their records.
        changes: Rows, backfills, kept dead letters, parked routes and runs.
        backfilling: For each backfilled route the lowest offset that its backfills still need:
            outcomes of that route are remembered from there on, those of all others from the cursor
            on.
    """

    mark: Mark
    done: list[tuple[DoneKey, int]] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    backfilling: Mapping[str, int] = field(default_factory=dict)


class Deliveries(Protocol):
    """What one partition keeps: rows, backfills, dead letters; see ``DeliveryStore``."""

    def rows(self) -> list[RetryRow]:
        """Every retry row, done ones included, without the bytes of their events."""

    def row_event(self, key: DoneKey) -> bytes | None:
        """The bytes of a row's event that stand here."""

    def backfills(self) -> list[BackfillRow]:
        """Every backfill row."""

    def parked(self) -> list[ParkedRow]:
        """Every parked route."""

    def kept_dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """The oldest dead letters behind the one with the number *after*."""

    def keep_house(self, gone: Collection[str], now_ms: int) -> KeptDeadLetters:
        """Give up what is too old, and the dead letters of routes that are *gone*."""

    def begin_run(self, seq: int) -> RunRow:
        """How far the run of demand *seq* is; one that is new takes the dead letters of now."""

    def purge(self, row: RunRow, route: str | None) -> RunRow:
        """Delete a slice of the dead letters of a run."""


class Ownership(Protocol):
    """A partition in the hands of its owner. Blocking, for a thread beside the loop.

    Attributes:
        store: What the flushes have written, and the changes that are no part of a flush. Each of
            them is fenced as a flush is.
    """

    store: Deliveries

    @property
    def state(self) -> JournalState:
        """Cursors and outcomes that are durable."""

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        """Go back to the newest cursor that *fits* the log; True where an older one is now it.

        Raises:
            FencedError, StoreError: As ``flush``.
        """

    def flush(self, batch: Batch) -> list[GivenUp]:
        """Make *batch* durable; idempotent.

        A crash on the way leaves all of the changes before any of the outcomes and the cursor
        (DESIGN rule 1), or nothing.

        Returns:
            What was given up for the dead letters that are kept.

        Raises:
            FencedError: Another owner has the partition: nothing was written.
            StoreError: The medium refused, now or before. The cursor may stand where it stood or
                where *batch* has it, and this ownership is dead: open the partition anew.
        """


class FileOwnership:
    """An ``Ownership`` by two files: the transaction of the store, then a frame of the journal.

    Args:
        store: Open; with the fence of the lease, as *journal*.
        journal: Open. Both are closed by who opened them.
    """

    def __init__(self, store: DeliveryStore, journal: Journal) -> None:
        self.store: Deliveries = store
        self._apply = store.apply
        self._journal = journal
        self._dead = False

    @property
    def state(self) -> JournalState:
        return self._journal.state

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        state = fit(self.state, fits)
        if state is self.state:
            return False
        self._journal.restart_at(state)
        return True

    def flush(self, batch: Batch) -> list[GivenUp]:
        if self._dead:
            raise StoreError("a flush of this owner failed before")
        try:
            given_up = self._apply(batch.changes) if batch.changes else []
            self._journal.record(batch.mark, batch.done, batch.backfilling)
        except BaseException:
            self._dead = True
            raise
        return given_up
