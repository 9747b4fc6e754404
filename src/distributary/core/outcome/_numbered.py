"""An ``Ownership`` whose flushes are numbered transactions, which compare who owns the partition.

The database has the generation of the partition's owner and the number of the last flush. Each
flush raises the number where both are what this owner knows. So it writes nothing once another one
has opened the partition; and where the answer to a commit was lost, the next try finds out by the
number whether it was made. A database that went back (a failover to a machine that lacked the last
commits) has an older number: then the partition is opened anew.

Called by the back ends that have such a database. Hides: what a frame is, when all of them are
replaced, and the waiting for a database that is away.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from distributary.core.errors import FencedError, StoreError
from distributary.core.flow import Mark
from distributary.core.journal import JournalState, Recorder, fit, state_of_frames
from distributary.core.journal_damage import Damage
from distributary.core.outcome._ownership import Batch, Deliveries
from distributary.core.outcome._patience import Patience
from distributary.core.outcome.dead_letter import GivenUp
from distributary.core.outcome.rows import Changes

FRAMES_MAX: Final = 1_000
"""Rows of frames that are kept before all are replaced by what still counts: a start reads them in
some 10 ms, and ten to forty seconds of flushes pass until then."""
PART_BYTES: Final = 1 << 20
"""Frames that are kept together, about: the driver holds a whole row."""


class NumberedFlushes(Protocol):
    """The tables of one partition, for one owner. Each call is one transaction.

    All raise ``StoreError``; ``StoreAwayError`` where the same may succeed in a moment.
    """

    def open(self) -> int:
        """Fence all owners before; return the number of the last flush.

        Raises:
            FencedError: A later owner has the partition.
        """

    def frames(self) -> list[bytes]:
        """Return the frames that are kept, in order."""

    def write(
        self,
        number: int,
        parts: list[bytes],
        changes: Changes,
        given_up: list[GivenUp],
        *,
        replaces: bool,
    ) -> bool:
        """Make the flush after *number*: its frames, and its changes of rows.

        Args:
            number: Of the last flush that this owner knows.
            parts: The frames.
            changes: Of rows.
            given_up: Set to what was given up for kept dead letters, before the commit.
            replaces: The frames replace all that are kept.

        Returns:
            False: nothing was written, since this is not the owner, or *number* not the last flush.
        """

    def last(self) -> int:
        """Return the number of the last flush.

        Raises:
            FencedError: A later owner has the partition.
        """


class NumberedOwnership:
    """The durable state of a partition, from construction until ``close``.

    A call waits for a database that is away: run them in threads.

    Args:
        flushes: The tables.
        store: The rows in them.
        patience: Waits for the database.
        rows_from: No new row of the history has a lower number.
        touch: Told each place that a flush has come to, for tests: "rows" before anything is
            changed, "end" after the commit.

    Attributes:
        local: False: a flush asks another machine, so no event loop may run it.
        damage: None: what a database keeps is whole, or cannot be opened.

    Raises:
        FencedError: A later owner has the partition.
        StoreError: The database failed, or what it keeps is damaged.
    """

    local: bool = False
    damage: Damage | None = None

    def __init__(
        self,
        flushes: NumberedFlushes,
        store: Deliveries,
        patience: Patience,
        *,
        rows_from: int = 0,
        touch: Callable[[str], None] = lambda _place: None,
    ) -> None:
        self.store: Deliveries = store
        self._flushes = flushes
        self._patience = patience
        self._touch = touch
        self._number = patience.run(flushes.open)
        frames = patience.run(flushes.frames)
        self._recorder = Recorder(*state_of_frames(frames), rows_from)
        self._frame_count = len(frames)
        self._replaces = False
        self._dead = False

    @property
    def state(self) -> JournalState:
        """See ``Ownership``."""
        return self._recorder.state

    def hurry(self) -> None:
        """Wait for the database no more: the owner ends."""
        self._patience.end()

    def close(self) -> None:
        """As ``hurry``; nothing else is held."""
        self._patience.end()

    def fit(self, fits: Callable[[Mark], bool]) -> bool:
        """See ``Ownership``."""
        self._check_alive()
        state = fit(self.state, fits)
        if state is self.state:
            return False
        self._record([], Changes(), self._recorder.rewritten(state))
        return True

    def flush(self, batch: Batch) -> list[GivenUp]:
        """See ``Ownership``."""
        self._check_alive()
        frame = self._recorder.frame(batch.mark, batch.done, batch.history, batch.filed)
        whole = self._recorder.rewritten(self.state) if self._replaces else []
        given_up = self._record([frame], batch.changes, whole)
        if not whole:
            grown = self._recorder.grown(len(frame), batch.backfilling)
            self._replaces = grown or self._frame_count >= FRAMES_MAX
        return given_up

    def _check_alive(self) -> None:
        if self._dead:
            raise StoreError("a flush of this owner failed before")

    def _record(self, frames: list[bytes], changes: Changes, whole: list[bytes]) -> list[GivenUp]:
        """Write *frames*, or *whole* in place of all before, with *changes*."""
        parts = list(_joined(whole)) if whole else frames
        given_up: list[GivenUp] = []
        try:
            self._patience.run(lambda: self._once(parts, changes, given_up, replaces=bool(whole)))
        except FencedError:
            raise  # so is every other one
        except BaseException:
            self._dead = True
            raise
        self._number += 1
        self._frame_count = len(parts) if whole else self._frame_count + 1
        if whole:
            self._replaces = False
        return given_up

    def _once(
        self, parts: list[bytes], changes: Changes, given_up: list[GivenUp], *, replaces: bool
    ) -> None:
        """Make the flush, unless an earlier try has.

        Raises:
            FencedError: A later owner has the partition.
            StoreError: The database has lost flushes.
        """
        self._touch("rows")
        if not self._flushes.write(self._number, parts, changes, given_up, replaces=replaces):
            last = self._flushes.last()
            if last != self._number + 1:
                self._patience.end()
                raise StoreError(
                    f"the database has gone back: flush {self._number} was made, and it knows"
                    f" {last}; the partition is opened anew"
                )
        self._touch("end")


def _joined(frames: Iterable[bytes]) -> Iterable[bytes]:
    """Join frames into parts of about ``PART_BYTES``."""
    part: list[bytes] = []
    size = 0
    for frame in frames:
        part.append(frame)
        size += len(frame)
        if size >= PART_BYTES:
            yield b"".join(part)
            part, size = [], 0
    if part:
        yield b"".join(part)
