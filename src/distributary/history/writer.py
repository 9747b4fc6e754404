"""Writes blocks of rows as Parquet files: hidden and synced first, published by a rename.

The order makes each row be in exactly one file, whatever is killed: write, note in the journal
that files hold the rows, publish. ``recover`` publishes or deletes what a kill leaves between.
"""

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.core.journal_frames import HistoryBlock
from distributary.history.names import HistoryFile, parse
from distributary.history.rows import DECISIONS, OUTCOMES, STAGES, decode

HIDDEN: Final = ".writing"
"""Folder of files that are not published yet; Spark and others pass over such a name."""
DAY_MS: Final = 86_400_000

_TEXT: Final = pa.string()
SCHEMA: Final = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("index", pa.int32(), nullable=False),
        ("event_id", _TEXT),
        ("event_source", _TEXT),
        ("event_type", _TEXT),
        ("namespace", _TEXT),
        ("subscription", _TEXT),
        pa.field("uid", _TEXT, nullable=False),
        ("revision", pa.int64()),
        ("stage", _TEXT),
        ("attempt", pa.int32()),
        ("duration", pa.float64()),
        ("status", pa.int32()),
        ("decision", _TEXT),
        ("reason", _TEXT),
        ("outcome", _TEXT),
        ("answer", _TEXT),
    ]
)
"""Columns of a row, as ``docs/reference/history.md`` tells them."""
_PLAIN: Final = ("number", "time", "offset", "duration")
"""Columns whose values seldom repeat: a dictionary would only cost."""


def table(partition: int, blocks: Sequence[HistoryBlock]) -> pa.Table:
    """Returns the rows of *blocks*, which follow one another, as columns of ``SCHEMA``.

    Raises:
        StoreError: A newer version wrote them.
    """
    events: list[tuple[Any, ...]] = []
    routes: list[tuple[Any, ...]] = []
    columns: list[list[Any]] = [[] for _ in range(11)]
    for block in blocks:
        found = decode(block.rows)
        before = len(events), len(routes)
        events += found.events
        routes += found.routes
        parts = zip(*found.rows, strict=True)
        for column, base, part in zip(columns, chain(before, [0] * 9), parts, strict=True):
            column.extend([place + base for place in part] if base else part)
    event, route, time_ms, stage, attempt, duration_us, status, decision, *texts = columns
    reason, outcome, answer = texts
    offsets, indexes, ids, sources, types = zip(*events, strict=True)
    uids, namespaces, subscriptions, revisions = zip(*routes, strict=True)
    first = blocks[0].first

    def named(values: Sequence[Any], places: list[Any], kind: pa.DataType = _TEXT) -> pa.Array:
        return pa.array(values, kind).take(pa.array(places, pa.int32()))

    arrays = [
        pa.array(range(first, first + len(event)), pa.int64()),
        pa.array(time_ms, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
        pa.repeat(pa.scalar(partition, pa.int32()), len(event)),
        named(offsets, event, pa.int64()),
        named(indexes, event, pa.int32()),
        named(ids, event),
        named(sources, event),
        named(types, event),
        named(namespaces, route),
        named(subscriptions, route),
        named(uids, route),
        named(revisions, route, pa.int64()),
        named(STAGES, stage),
        pa.array(attempt, pa.int32()),
        pa.array([None if us is None else us / 1e6 for us in duration_us], pa.float64()),
        pa.array(status, pa.int32()),
        named(DECISIONS, decision),
        pa.array(reason, _TEXT),
        named(OUTCOMES, outcome),
        pa.array(answer, _TEXT),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write_table(rows: pa.Table, path: Path) -> None:
    """Write *rows* to a file at *path*, and sync it.

    Raises:
        StoreError: The medium refuses.
    """
    dictionaries = [name for name in SCHEMA.names if name not in _PLAIN]
    try:
        with path.open("wb") as file:
            pq.write_table(rows, file, compression="zstd", use_dictionary=dictionaries)
            file.flush()
            os.fsync(file.fileno())
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"cannot write the history file {path}: {error}") from error


class HistoryWriter:
    """Writes the files of one partition into one folder. Blocking: for a thread beside the loop.

    Args:
        folder: Of the history, or of what waits for its transport.
        partition: Partition number.
    """

    def __init__(self, folder: Path, partition: int) -> None:
        self._folder = folder
        self._hidden = folder / HIDDEN
        self._partition = partition

    def write(self, blocks: Sequence[HistoryBlock]) -> list[HistoryFile]:
        """Write *blocks* to hidden files, one for each day; synced when this returns.

        Raises:
            StoreError: The medium refuses. Hidden files may be left.
        """
        rows = table(self._partition, blocks)
        try:
            self._hidden.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder {self._hidden}: {error}") from error
        files = []
        for day, start, count in _days(rows.column("time").cast(pa.int64()).to_pylist()):
            first = blocks[0].first + start
            file = HistoryFile(day, self._partition, first, first + count)
            write_table(rows.slice(start, count), self._at(file))
            files.append(file)
        self._sync(self._hidden)
        return files

    def publish(self, files: Iterable[HistoryFile]) -> None:
        """Rename hidden *files* to their names: from then on they are the history. Idempotent.

        Raises:
            StoreError: The medium refuses.
        """
        for file in files:
            target = self._folder / file.path
            try:
                if not target.parent.is_dir():
                    target.parent.mkdir(mode=0o750, exist_ok=True)
                    sync_folder(self._folder)
                if self._at(file).exists():  # else it was published before
                    self._at(file).rename(target)
                sync_folder(target.parent)
            except OSError as error:
                raise StoreError(f"cannot publish the history file {target}: {error}") from error

    def recover(self, filed: int) -> None:
        """Publish or delete what the last owner left hidden.

        Args:
            filed: Number of the first row that files may not hold, as the journal says.

        Raises:
            StoreError: The medium refuses.
        """
        try:
            left = [path for path in self._hidden.iterdir() if path.is_file()]
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read the folder {self._hidden}: {error}") from error
        for path in left:
            file = parse(path.name.replace("~", "/"))
            if file is None or file.partition != self._partition:
                continue  # another owner's
            if file.end <= filed:
                self.publish([file])
            else:
                path.unlink(missing_ok=True)

    def _at(self, file: HistoryFile) -> Path:
        return self._hidden / file.path.replace("/", "~")

    def _sync(self, folder: Path) -> None:
        try:
            sync_folder(folder)
        except OSError as error:
            raise StoreError(f"cannot sync the folder {folder}: {error}") from error


def _days(times_us: Sequence[int]) -> list[tuple[str, int, int]]:
    """Runs of rows of one day: the day, the place of the first row, and how many."""
    runs: list[tuple[int, int, int]] = []
    days = [time_us // (DAY_MS * 1000) for time_us in times_us]
    if days[0] == days[-1] == min(days) == max(days):
        runs = [(days[0], 0, len(days))]
    else:
        start = 0
        for place in range(1, len(days) + 1):
            if place == len(days) or days[place] != days[start]:
                runs.append((days[start], start, place - start))
                start = place
    return [(_date(day), start, count) for day, start, count in runs]


def _date(day: int) -> str:
    text: str = str(pa.scalar(day, pa.date32()))
    return text
