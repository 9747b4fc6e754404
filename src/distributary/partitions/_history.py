"""The history of a partition: rows ride in the flushes, and every two seconds become files.

On the loop, but for the files themselves. Nothing here stops a delivery: where files cannot be
written, or a folder does not answer, rows stay in the journal, and beyond a limit the oldest are
given up, counted.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol, TypeVar

from distributary.core.deliver import Timers
from distributary.core.errors import StoreError
from distributary.core.flow import Attempt, DoneKey, Ending, Task
from distributary.core.journal import NO_ROWS
from distributary.core.journal_frames import HistoryBlock
from distributary.core.meter import Meter
from distributary.core.outcome import Batch, Ownership
from distributary.core.policy import Verdict
from distributary.history.names import HistoryFile
from distributary.history.rows import Recorder
from distributary.partitions._tracing import AttemptSpans
from distributary.partitions.ports import Blocking

T = TypeVar("T")

FILE_S: Final = 2.0
"""Interval of files: people see a row within 5 s, and a file takes some 3 ms."""
FILE_ROWS: Final = 20_000
"""Rows that make a file at once: they take some 7 ms of a thread beside the loop. Twice as many
would save 0.03 us a row."""
RETRY_S: Final = 10.0
"""Interval of further attempts after a file could not be written."""
WAITING_BYTES_MAX: Final = 32 * 1024 * 1024
"""Rows that wait for a file: beyond it the oldest are given up. About a million of them."""
UNSEEN_BYTES_MAX: Final = 4 * 1024 * 1024
"""The same for an owner that has never reached the folder, beside what its predecessor left: one on
a machine without that folder must not have its journal rewritten for ever with rows for nobody."""
SILENT: Final = "the folder does not answer"
LOST_TOTAL: Final = "history_lost_rows_total"
VANISHED: Final = "their file vanished before it was published"


class Files(Protocol):
    """Writes the files; blocking. ``history.writer.HistoryWriter`` does."""

    def write(self, blocks: Sequence[HistoryBlock]) -> list[HistoryFile]:
        """Write hidden files."""

    def publish(self, files: Sequence[HistoryFile]) -> int:
        """Publish files that were written; returns the number of rows that have vanished."""

    def recover(self, filed: int) -> None:
        """Publish or delete what the last owner left hidden."""


class Recording(NamedTuple):
    """The calls of ``Effects`` that record, by their names there."""

    attempted: Callable[[Attempt, Verdict, int], None]
    succeeded: Callable[[Attempt, DoneKey, int], None]
    ended: Callable[[DoneKey, Ending, str | None, int, Task | None], None]


def recording(recorder: Recorder | None, tracing: AttemptSpans | None) -> Recording:
    """Returns what records attempts and outcomes.

    Args:
        recorder: Keeps them; None: there is no history.
        tracing: Tells spans of them; None: there are none.
    """
    told = Recording(_ignore, _ignore, _ignore)
    if recorder is not None:
        told = Recording(recorder.attempted, recorder.succeeded, recorder.ended)
    if tracing is None:
        return told
    # A span without a verdict is that of an attempt that delivered: nothing is to be told of one.
    return told._replace(attempted=tracing.judging(told.attempted))


def _ignore(*_told: object) -> None:
    """Record nothing."""


class History:
    """Moves the rows of one partition from its recorder by the journal into files.

    Args:
        recorder: Collects rows.
        files: Writes files; None: there is no history.
        blocking: Runs what blocks.
        timers: For the interval of files.
        meter: Counts lost rows.
        warn: Takes a warning for people: (event, fields).
    """

    def __init__(
        self,
        recorder: Recorder,
        files: Files | None,
        *,
        blocking: Blocking,
        timers: Timers,
        meter: Meter,
        warn: Callable[[str, dict[str, object]], None],
    ) -> None:
        self._recorder = recorder
        self._files = files
        self._blocking = blocking
        self._timers = timers
        self._meter = meter
        self._warn = warn
        self._waiting: deque[HistoryBlock] = deque()
        self._waiting_bytes = 0
        self._waiting_rows = 0
        self._end = 0
        self._writing = 0
        """How many of the first blocks that wait are being written: these stay."""
        self._left_bytes = 0
        """Of the rows that the last owner left."""
        self._reached = False
        """Whether the folder has been reached."""
        self._watched = False
        self._jobs = 0
        self._written: list[HistoryFile] = []
        self._durable = 0
        self._busy = False
        self._armed = False
        self._failing = False
        self._recover_to: int | None = None
        """Where the files of the last owner end, until they have been recovered."""
        self.filed = 0
        """Number of the first row that files may not hold: the next flush makes it durable."""
        self._ask_flush: Callable[[], None] = lambda: None

    def load(
        self, blocks: Sequence[HistoryBlock], filed: int, end: int, ask_flush: Callable[[], None]
    ) -> None:
        """Begin with what the last owner left in the journal.

        Args:
            blocks: Rows that files may not hold.
            filed: Number of the first of them.
            end: Number of the next row.
            ask_flush: Schedules a flush.
        """
        self.filed = filed
        self._end = end
        self._ask_flush = ask_flush
        files = self._files
        if files is None:
            if blocks:  # The history has been turned off.
                self.filed = end
                ask_flush()
            return
        self._left_bytes = sum(len(block.rows) for block in blocks)
        for block in blocks:
            self._wait(block)
        self._recover_to = filed
        self._recover()

    # -- flushes -------------------------------------------------------------------------------

    def take(self) -> tuple[int, bytes]:
        """Returns the rows of the next flush: how many, and their encoding."""
        return NO_ROWS if self._files is None else self._recorder.take()

    def flushed(self, taken: tuple[int, bytes], filed: int) -> None:
        """Take note that the rows *taken*, and *filed*, are durable."""
        count, rows = taken
        if count:
            self._wait(HistoryBlock(self._end, count, rows))
            self._end += count
        self._durable = filed
        if self._failing:
            return  # The timer tries again.
        if self._written:
            self._publish()
        elif self._waiting_rows >= FILE_ROWS:
            self._write()
        elif count:
            self._arm(FILE_S)

    def _wait(self, block: HistoryBlock) -> None:
        self._waiting.append(block)
        self._waiting_bytes += len(block.rows)
        self._waiting_rows += block.length
        unseen = min(UNSEEN_BYTES_MAX + self._left_bytes, WAITING_BYTES_MAX)
        bytes_max = WAITING_BYTES_MAX if self._reached else unseen
        while self._waiting_bytes > bytes_max and len(self._waiting) > self._writing:
            lost = self._take(self._writing)
            self._meter.add(LOST_TOTAL, lost.length)
            # Also above rows that are being written: a file of them is whole or is none.
            self.filed = lost.end

    def _take(self, place: int) -> HistoryBlock:
        block = self._waiting[place]
        del self._waiting[place]
        self._waiting_bytes -= len(block.rows)
        self._waiting_rows -= block.length
        return block

    # -- files ---------------------------------------------------------------------------------

    def _arm(self, delay_s: float) -> None:
        if not self._armed:
            self._armed = True
            self._timers.call_later(delay_s, self._due)

    def _due(self) -> None:
        self._armed = False
        if self._recover_to is not None:
            self._recover()
        elif self._written:
            self._publish()
        else:
            self._write()

    def _recover(self) -> None:
        """Publish or delete what the last owner left hidden, before anything else is done."""
        files, filed = self._files, self._recover_to
        if files is None or filed is None or self._busy:
            return

        def done(error: StoreError | None) -> None:
            if not self._failed(error):
                self._recover_to = None
                self._go_on()

        self._run(lambda: files.recover(filed), done)

    def _write(self) -> None:
        """Write the rows that wait to a file, unless one is under way."""
        files = self._files
        if files is None or self._busy or self._written or not self._waiting:
            return
        blocks: list[HistoryBlock] = []
        rows = 0
        for block in self._waiting:
            blocks.append(block)
            rows += block.length
            if rows >= FILE_ROWS:
                break
        found: list[HistoryFile] = []

        def done(error: StoreError | None) -> None:
            self._writing = 0
            if self._failed(error):
                return
            for _ in blocks:
                self._take(0)
            self._written = found
            self.filed = max(self.filed, blocks[-1].end)
            self._ask_flush()

        self._writing = len(blocks)
        self._run(lambda: found.extend(files.write(blocks)), done)

    def _publish(self) -> None:
        """Publish the files that were written, once the journal says that they hold the rows."""
        writer, files = self._files, self._written
        if writer is None or self._busy or self._durable < files[-1].end:
            return
        lost: list[int] = []

        def done(error: StoreError | None) -> None:
            if not self._failed(error):
                self._written = []
                if any(lost):
                    self._meter.add(LOST_TOTAL, *lost)
                    self._warn("history-lost", {"rows": lost[0], "reason": VANISHED})
                self._go_on()

        self._run(lambda: lost.append(writer.publish(files)), done)

    def _failed(self, error: StoreError | None) -> bool:
        if error is None:
            self._reached = True
            if self._failing:
                self._failing = False
                self._warn("history-written-again", {})
            return False
        self._fail(str(error))
        self._arm(RETRY_S)
        return True

    def _fail(self, reason: str) -> None:
        if not self._failing:
            self._failing = True
            self._warn("history-not-written", {"error": reason})

    def _go_on(self) -> None:
        """Write what has come meanwhile, now if it is much."""
        if self._waiting_rows >= FILE_ROWS:
            self._write()
        elif self._waiting:
            self._arm(FILE_S)

    def _run(self, work: Callable[[], None], done: Callable[[StoreError | None], None]) -> None:
        def finished(error: StoreError | None) -> None:
            self._busy = False
            done(error)

        self._busy = True
        self._jobs += 1
        self._watch()
        self._blocking.run(work, finished)

    def _watch(self) -> None:
        """Tell people of a job that takes ``RETRY_S``: a share may not answer for hours."""
        if self._watched:
            return
        self._watched = True
        job = self._jobs

        def look() -> None:
            self._watched = False
            if self._busy and self._jobs == job:
                self._fail(SILENT)
            elif self._busy:
                self._watch()

        self._timers.call_later(RETRY_S, look)


class Waiting(Protocol):
    """Runs work on files, and waits for its end so long as there is time."""

    def __call__(self, work: Callable[[], T], /) -> T:
        """Return what *work* returns, or raise what it raises; a late one is a ``StoreError``."""


def finish(ownership: Ownership, files: Files, wait: Waiting) -> int:
    """Write what an owner that has ended has left, so that people see it while no server runs.

    Args:
        ownership: Of the owner; no flush of it is under way.
        files: Of its history.
        wait: Runs the work on files.

    Returns:
        Number of rows that have vanished before they were published.

    Raises:
        StoreError: The medium refuses, or takes too long: the next owner has the rows.
    """
    state = ownership.state
    blocks, filed = list(state.blocks), state.history_end
    wait(lambda: files.recover(state.filed))
    if not blocks:
        return 0
    written = wait(lambda: files.write(blocks))
    ownership.flush(Batch(state.mark, filed=filed))
    return wait(lambda: files.publish(written))
