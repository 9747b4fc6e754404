"""What became of one event: its rows of the history, wherever they are now.

Called for one event at a time, by people: a tenth of a second. Rows are looked for where owners
keep the newest until files have them, and in the files of local folders. Of a file the offsets are
remembered that its row groups span, so that nearly all are passed over.
"""

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple

from distributary.core.flow import Position
from distributary.core.journal_frames import HistoryBlock
from distributary.history.local_folder import LocalFolder
from distributary.history.names import HistoryFile, superseded
from distributary.history.rows import DECISIONS, OUTCOMES, STAGES, Block, Row, decode

SPANS_MAX: Final = 50_000
"""Files whose spans are remembered, some 300 bytes each: four years of hours."""
PREPARED_MAX: Final = 1_000
"""Files whose spans are read before the first question: three weeks of hours of two partitions."""
CLOCK_SLACK_S: Final = 60.0
"""A file that was written longer than this before an event has no row of it."""
_TEXTS: Final = (
    "uid",
    "namespace",
    "subscription",
    "stage",
    "decision",
    "reason",
    "outcome",
    "answer",
)
"""Columns whose values repeat: read by the number of the value, and so in a tenth of the time."""
COLUMNS: Final = ("number", "time", "revision", "attempt", "duration", "status", *_TEXTS)
"""Columns of a row; those of the event itself are the larger part of a file."""
ROWS_MAX: Final = 10_000
"""Rows of one event that are returned, the oldest first: it may have matched 100,000 routes."""


class EventRow(NamedTuple):
    """An attempt, or an outcome that no attempt brought.

    Attributes:
        number: Of the row, in its partition.
        time_ms: Wall clock, milliseconds.
        uid: Of the route.
        namespace: Of its subscription or Trigger; None: unknown.
        subscription: Its id or name; None: unknown.
        revision: The newest one then; None: unknown.
        stage: ``event``, ``dead-letter`` or ``reply``; None: no attempt.
        attempt: Number of the attempt, from 1.
        duration_s: From its start to its answer, seconds.
        status: Of the answer.
        decision: What the server decided.
        reason: Of the decision, or of the outcome.
        outcome: ``delivered``, ``dead-lettered`` or ``dropped``; None: the match goes on.
        answer: The beginning of the answer of a failed attempt, where it was kept.
    """

    number: int
    time_ms: int
    uid: str
    namespace: str | None
    subscription: str | None
    revision: int | None
    stage: str | None
    attempt: int | None
    duration_s: float | None
    status: int | None
    decision: str | None
    reason: str | None
    outcome: str | None
    answer: str | None


class EventRows:
    """Reads the rows of single events. Safe from any thread.

    Args:
        folders: Local folders with history files; one may be missing.
        waiting: Returns the rows of a partition that files may not hold yet.
    """

    def __init__(
        self, folders: Sequence[Path], waiting: Callable[[int], Sequence[HistoryBlock]]
    ) -> None:
        self._folders = [LocalFolder(folder) for folder in folders]
        self._waiting = waiting
        self._spans: dict[tuple[int, HistoryFile], list[tuple[int, int]]] = {}
        self._lock = Lock()

    def prepare(self) -> None:
        """Load what reads files, and what the newest of them span: else the first question waits.

        Takes a third of a second and 1.5 ms a file, and 13 MiB beside what owners share.

        Raises:
            OSError: A folder cannot be read.
        """
        for name in ("pyarrow.parquet", "pyarrow.compute"):
            importlib.import_module(name)
        for place, folder in enumerate(self._folders):
            stored = sorted(folder.files(), key=lambda each: each.modified_s, reverse=True)
            for each in stored[:PREPARED_MAX]:
                with contextlib.suppress(FileNotFoundError):  # merged just now
                    self._spans_of(place, folder, each.file)

    def rows(self, position: Position, since_ms: int) -> list[EventRow]:
        """The rows of the event at *position*, in the order in which they were recorded.

        Args:
            position: Of the event.
            since_ms: When it was accepted: older rows are of an event that a restored log has lost.

        Raises:
            OSError: A folder cannot be read.
            StoreError: What owners keep cannot be read.
        """
        found: dict[int, EventRow] = {}
        # What waits first: a row that is filed meanwhile is in one of the two.
        for block in self._waiting(position.partition):
            found.update((row.number, row) for row in _of_block(block, position))
        for place, folder in enumerate(self._folders):
            for row in self._filed(place, folder, position, since_ms):
                found[row.number] = row
        oldest_ms = since_ms - CLOCK_SLACK_S * 1000
        rows = (found[number] for number in sorted(found))
        return [row for row in rows if row.time_ms >= oldest_ms][:ROWS_MAX]

    def _filed(
        self, place: int, folder: LocalFolder, position: Position, since_ms: int
    ) -> Iterator[EventRow]:
        day = str(datetime.fromtimestamp(since_ms / 1000, UTC).date())
        stored = folder.files()
        gone = set(superseded([each.file for each in stored]))
        for each in stored:
            file = each.file
            if (
                file.partition != position.partition
                or file.date < day
                or file in gone
                or each.modified_s < since_ms / 1000 - CLOCK_SLACK_S
            ):
                continue
            try:
                spans = self._spans_of(place, folder, file)
                groups = [
                    number
                    for number, (low, high) in enumerate(spans)
                    if low <= position.offset <= high
                ]
                if groups:
                    yield from _of_file(folder.path(file), groups, position)
            except FileNotFoundError:
                continue  # merged just now: the larger file is met by the next question

    def _spans_of(
        self, place: int, folder: LocalFolder, file: HistoryFile
    ) -> list[tuple[int, int]]:
        """The least and greatest offset of each row group."""
        key = place, file
        with self._lock:
            known = self._spans.get(key)
        if known is None:
            known = _read_spans(folder.path(file))
            with self._lock:
                if len(self._spans) >= SPANS_MAX:
                    self._spans.clear()
                self._spans[key] = known
        return known


def _of_block(block: HistoryBlock, position: Position) -> Iterator[EventRow]:
    packed = decode(block.rows)
    if not packed.concerns(position.offset):
        return
    found = packed.in_full()
    places = {
        place
        for place, event in enumerate(found.events)
        if (event.offset, event.index) == position[1:]
    }
    if not places:
        return
    for number, row in enumerate(found.rows, block.first):
        if row.event in places:
            yield row_in(found, number, row)


def row_in(block: Block, number: int, row: Row) -> EventRow:
    """The *row* with this number of a *block* in full."""
    uid, namespace, subscription, revision = block.routes[row.route]
    return EventRow(
        number,
        row.time_ms,
        uid,
        namespace,
        subscription,
        revision,
        None if row.stage is None else STAGES[row.stage],
        row.attempt,
        None if row.duration_us is None else row.duration_us / 1e6,
        row.status,
        None if row.decision is None else DECISIONS[row.decision],
        row.reason,
        OUTCOMES[row.outcome],
        row.answer,
    )


def _read_spans(path: Path) -> list[tuple[int, int]]:
    import pyarrow as pa  # noqa: PLC0415 - see ``prepare``
    import pyarrow.parquet as pq  # noqa: PLC0415 - likewise

    try:
        with pq.ParquetFile(path) as file:
            column = file.schema_arrow.get_field_index("offset")
            found = []
            for number in range(file.num_row_groups):
                told = file.metadata.row_group(number).column(column).statistics
                whole = told is not None and told.has_min_max
                found.append((told.min, told.max) if whole else (0, 1 << 63))
            return found
    except pa.ArrowException:
        return []  # damaged: reported by who merges it


def _of_file(path: Path, groups: list[int], position: Position) -> Iterator[EventRow]:
    import pyarrow as pa  # noqa: PLC0415 - see above
    import pyarrow.compute as pc  # noqa: PLC0415 - likewise

    try:
        with opened(path) as file:
            columns = [name for name in COLUMNS if name in file.schema_arrow.names]
            for group in groups:
                # The numbers first: they tell whether the texts have to be read at all.
                keys = file.read_row_group(group, columns=["offset", "index"], use_threads=False)
                hit = pc.and_(
                    pc.equal(keys.column("offset"), _number(position.offset)),
                    pc.equal(keys.column("index"), _number(position.index)),
                )
                places = pc.indices_nonzero(hit)
                if len(places):
                    rows = file.read_row_group(group, columns=columns, use_threads=False)
                    yield from map(row_of, with_plain_times(rows.take(places)).to_pylist())
    except pa.ArrowException:
        return


# For a Python number, and for a time with its zone, Arrow loads pandas: half a second, and 30 MiB.


def _number(value: int) -> Any:
    """A scalar of Arrow."""
    import pyarrow as pa  # noqa: PLC0415 - see above

    content = pa.py_buffer(value.to_bytes(8, sys.byteorder, signed=True))
    return pa.Array.from_buffers(pa.int64(), 1, [None, content])[0]


def with_plain_times(rows: Any) -> Any:
    """*rows* with times in microseconds."""
    import pyarrow as pa  # noqa: PLC0415 - see above

    at = rows.schema.get_field_index("time")
    return rows.set_column(at, "time", rows.column(at).cast(pa.timestamp("us")).cast(pa.int64()))


def opened(path: Path) -> Any:
    """Open the history file at *path*, with its texts by number."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - see above

    try:
        return pq.ParquetFile(path, read_dictionary=list(_TEXTS))
    except KeyError:  # a file of an earlier version has no answers
        return pq.ParquetFile(path, read_dictionary=[name for name in _TEXTS if name != "answer"])


def row_of(row: dict[str, Any]) -> EventRow:
    """The row of a file with these values, by column."""
    return EventRow(
        row["number"],
        row["time"] // 1000,
        row["uid"],
        row["namespace"],
        row["subscription"],
        row["revision"],
        row["stage"],
        row["attempt"],
        row["duration"],
        row["status"],
        row["decision"],
        row["reason"],
        row["outcome"],
        row.get("answer"),  # files of earlier versions have no such column
    )
