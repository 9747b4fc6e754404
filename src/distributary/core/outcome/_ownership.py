"""A partition's durable state as one port, and its back end of files.

A lease decides who owns a partition; it is acquired first (``core.lease``), and its fence is
checked inside every write here. ``state`` reads what the last owner left; ``flush`` makes
everything durable while an owner delivers.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Mark
from distributary.core.journal import FRAME_MATCHES_MAX, NO_ROWS, Journal, JournalState, fit
from distributary.core.outcome._store import DeliveryStore
from distributary.core.outcome.dead_letter import (
    EVERY_LETTER,
    NO_NAMES,
    GivenUp,
    KeptDeadLetter,
    KeptDeadLetters,
    LetterChoice,
)
from distributary.core.outcome.rows import BackfillRow, Changes, ParkedRow, RetryRow, RunRow


@dataclass(frozen=True, slots=True)
class Batch:
    """The content of one flush.

    Attributes:
        mark: The cursor.
        done: Matches that finished since the last flush above the cursor, with the checksums of
            their records.
        changes: Rows, backfills, kept dead letters, parked routes and runs.
        backfilling: The lowest offset that the backfills of each backfilled route still need.
            Outcomes of that route are remembered from there, those of all others from the cursor.
            None: not known; all are remembered.
        history: How many rows of the history come with it, and their encoding.
        filed: Number of the first row of the history that files may not hold yet.
    """

    mark: Mark
    done: list[tuple[DoneKey, int]] = field(default_factory=list)
    changes: Changes = field(default_factory=Changes)
    backfilling: Mapping[str, int] | None = None
    history: tuple[int, bytes] = NO_ROWS
    filed: int = 0


class Deliveries(Protocol):
    """The delivery store of one partition: rows, backfills, dead letters; see ``DeliveryStore``."""

    def rows(self) -> list[RetryRow]:
        """Return every retry row, done ones included, without the bytes of their events."""

    def row_event(self, key: DoneKey) -> bytes | None:
        """Return the stored bytes of a row's event."""

    def backfills(self) -> list[BackfillRow]:
        """Return every backfill row."""

    def parked(self) -> list[ParkedRow]:
        """Return every parked route."""

    def kept_dead_letters(
        self, limit: int, after: int = 0, route: str | None = None
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters after number *after*."""

    def keep_house(
        self, gone: Collection[str], now_ms: int, namespaces: Mapping[str, str] = NO_NAMES
    ) -> KeptDeadLetters:
        """Give up dead letters that are too old, delete those of routes in *gone*.

        Args:
            gone: Uids of deleted routes.
            now_ms: The wall clock, milliseconds; 0: it may be wrong, and nothing is too old.
            namespaces: Of routes, to be noted.
        """

    def chosen_letters(
        self, choice: LetterChoice, limit: int, after: int, bytes_max: int
    ) -> list[KeptDeadLetter]:
        """Return the oldest dead letters of *choice* after number *after*, for a run."""

    def begin_run(self, seq: int, choice: LetterChoice = EVERY_LETTER) -> RunRow:
        """Return the progress of demand *seq*; a new run looks at present letters of *choice*."""

    def begin_run_as(self, row: RunRow) -> RunRow:
        """Return the progress of a demand; *row* where it has none yet."""

    def runs(self, seqs: Sequence[int]) -> dict[int, RunRow]:
        """Return the progress of these demands, of those that have begun."""


class Ownership(Protocol):
    """The durable state of an owned partition. Blocking, for a thread beside the loop.

    Attributes:
        store: What flushes have written, and changes outside a flush, each of which is fenced as
            a flush is.
        local: Whether a small flush is but a write to this machine's disk, which the event loop may
            run while that is quick.
    """

    store: Deliveries
    local: bool

    @property
    def state(self) -> JournalState:
        """Return the durable cursors and outcomes."""

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        """Go back to the newest cursor that *fits* the log; True if that is an older one.

        Raises:
            FencedError, StoreError: As ``flush``.
        """

    def flush(self, batch: Batch) -> list[GivenUp]:
        """Make *batch* durable. Idempotent but for the rows of the history, which get new numbers.

        A crash leaves all of the changes before any of the outcomes and the cursor (DESIGN rule 1,
        the cursor), or nothing. The history alone may have its rows before the changes: of an
        outcome that it tells of, nothing may be left, and the match comes to one again.

        Returns:
            What was given up for the kept dead letters.

        Raises:
            FencedError: Another owner has the partition: nothing was written.
            StoreError: The medium failed, now or before. The cursor may be the old one or that of
                *batch*, and this ownership is dead: open the partition anew.
        """


class FileOwnership:
    """An ``Ownership`` by two files: the transaction of the store, then a frame of the journal.

    After a kill between the two, a row in the store keeps its match from being made again, and so
    does a kept dead letter: it is the outcome of its match, which the journal learns here.

    Args:
        store: Open, with the fence of the lease.
        journal: Open, with the same fence. The caller closes both.

    Attributes:
        local: True: a small flush is one write and one sync on this machine.
        damage: That of the journal.

    Raises:
        FencedError, StoreError: As ``flush``.
    """

    local: bool = True

    def __init__(self, store: DeliveryStore, journal: Journal) -> None:
        self.store: Deliveries = store
        self._apply = store.apply
        self._kept_outcomes = store.kept_outcomes
        self._journal = journal
        self.damage = journal.damage
        self._dead = False
        self._learn_kept()

    @property
    def state(self) -> JournalState:
        return self._journal.state

    def hurry(self) -> None:
        """Nothing: a disk that does not answer cannot be left."""

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        state = fit(self.state, fits)
        if state is self.state:
            return False
        self._journal.restart_at(state)
        self._learn_kept()
        return True

    def _learn_kept(self) -> None:
        """Record the outcomes that only the store knows, as kept dead letters."""
        state = self.state
        found = self._kept_outcomes(state.mark.offset, state.done)
        for first in range(0, len(found), FRAME_MATCHES_MAX):
            self._journal.record(state.mark, found[first : first + FRAME_MATCHES_MAX])

    def flush(self, batch: Batch) -> list[GivenUp]:
        if self._dead:
            raise StoreError("a flush of this owner failed before")
        history, journal = batch.history, self._journal
        given_up: list[GivenUp] = []
        try:
            if batch.changes:
                if history[0]:
                    # First: a finished row or a dead letter is an outcome too. Rows of backfills
                    # are where they were, so no outcome may be forgotten yet.
                    journal.record(journal.state.mark, (), history=history)
                    history = NO_ROWS
                given_up = self._apply(batch.changes)
            journal.record(
                batch.mark, batch.done, batch.backfilling, history=history, filed=batch.filed
            )
        except BaseException:
            self._dead = True
            raise
        return given_up
