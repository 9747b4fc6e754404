"""Writes blocks of rows as Parquet files: hidden and synced first, published by a rename.

The order makes each row be in exactly one file, whatever is killed: write, note in the journal
that files hold the rows, publish. ``recover`` publishes or deletes what a kill leaves between.
"""

import contextlib
import os
import uuid
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.core.errors import StoreError
from distributary.core.files import sync_folder
from distributary.core.journal_frames import HistoryBlock
from distributary.history.columns import table
from distributary.history.names import HistoryFile, parse
from distributary.history.place import NOT_SHARED, is_marked

HIDDEN: Final = ".writing"
"""Folder of files that are not published yet; Spark and others pass over such a name."""
PART: Final = ".part"
"""Ends the name of a file that is being written: other hidden ones are whole."""
DAY_MS: Final = 86_400_000

_RISING: Final = dict.fromkeys(("number", "time", "offset"), "DELTA_BINARY_PACKED")
"""Columns that are told by how much each value is above the one before."""
_PLAIN: Final = (*_RISING, "duration")
"""Columns whose values seldom repeat: a dictionary would only cost."""
_BOUNDED: Final = list(_RISING)
"""Columns whose bounds a file tells: texts of two seconds span anything. Merging tells of all."""


def write_table(rows: pa.Table, path: Path) -> None:
    """Write *rows* to a file at *path*, and sync it.

    Raises:
        StoreError: The medium refuses.
    """
    dictionaries = [
        field.name
        for field in rows.schema
        if field.name not in _PLAIN and not pa.types.is_string(field.type)
    ]
    try:
        # Into memory first: for each piece that goes to a file of Python's, Arrow would wait for
        # the interpreter's lock. Without its own schema, which would have readers return
        # dictionaries.
        content = pa.BufferOutputStream()
        pq.write_table(
            rows,
            content,
            compression="zstd",
            use_dictionary=dictionaries,
            column_encoding=_RISING,
            write_statistics=_BOUNDED,
            store_schema=False,
        )
        with path.open("wb") as file:
            file.write(content.getvalue())
            file.flush()
            os.fsync(file.fileno())
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"cannot write the history file {path}: {error}") from error


class HistoryWriter:
    """Writes the files of one partition into one folder. Blocking: for a thread beside the loop.

    Args:
        folder: Of the history, or of what waits for its transport.
        partition: Partition number.
        mark: By which the folder is known, where another machine may have another one under its
            path: each call refuses one without it. Empty: there is no other one.
    """

    def __init__(self, folder: Path, partition: int, mark: str = "") -> None:
        self._folder = folder
        self._mark = mark
        self._ended = False
        self._hidden = folder / HIDDEN
        self._partition = partition
        self._renamed: set[HistoryFile] = set()
        """Of the files that are being published: they may have been moved or merged since."""

    def end(self) -> None:
        """Show nothing more, in any thread: the next owner writes the same rows."""
        self._ended = True

    def _check(self) -> None:
        if self._ended:
            raise StoreError("the owner of this partition has ended")
        if self._mark and not is_marked(self._folder, self._mark):
            raise StoreError(f"{self._folder} is not the folder of this server: {NOT_SHARED}")

    def write(self, blocks: Sequence[HistoryBlock]) -> list[HistoryFile]:
        """Write *blocks* to hidden files, one for each day; synced when this returns.

        A file spans no number that no row has: numbers leap between two owners.

        Args:
            blocks: In the order of their numbers.

        Returns:
            The files, in that order.

        Raises:
            StoreError: The medium refuses. Hidden files may be left, each of them whole.
        """
        self._check()
        try:
            self._hidden.mkdir(mode=0o750, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot make the folder {self._hidden}: {error}") from error
        files = [file for run in _without_leaps(blocks) for file in self._write(run)]
        self._sync(self._hidden)
        return files

    def _write(self, blocks: Sequence[HistoryBlock]) -> Iterator[HistoryFile]:
        rows = table(self._partition, blocks)
        for day, start, count in _days(rows.column("time").cast(pa.int64())):
            first = blocks[0].first + start
            file = HistoryFile(day, self._partition, first, first + count)
            self._put(rows.slice(start, count), file)
            yield file

    def _put(self, rows: pa.Table, file: HistoryFile) -> None:
        """Write a hidden file that is whole under its name, whoever writes the same one."""
        hidden = self._at(file)
        part = hidden.with_name(f"{hidden.name}.{uuid.uuid4().hex}{PART}")
        with contextlib.ExitStack() as failed:
            failed.callback(_delete, part)
            write_table(rows, part)
            self._check()
            try:
                part.rename(hidden)
            except OSError as error:
                raise StoreError(f"cannot write the history file {hidden}: {error}") from error
            failed.pop_all()

    def publish(self, files: Sequence[HistoryFile]) -> int:
        """Rename hidden *files* to their names: from then on they are the history. Idempotent.

        Returns:
            Number of rows that are lost: their hidden file has gone and was never published, as
            when somebody deletes the folder.

        Raises:
            StoreError: The medium refuses. Call it again: those of *files* that it has renamed
                do not count as lost.
        """
        self._check()
        lost = sum(self._publish(file) for file in files)
        self._renamed.difference_update(files)
        return lost

    def _publish(self, file: HistoryFile) -> int:
        """Publish *file*; returns its number of rows if they are lost, otherwise 0."""
        hidden, target = self._at(file), self._folder / file.path
        lost = 0
        try:
            if not target.parent.is_dir():
                target.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
                sync_folder(self._folder)
            if hidden.exists():
                hidden.rename(target)
                self._renamed.add(file)
            elif file not in self._renamed and not target.exists():
                lost = file.end - file.first
            sync_folder(target.parent)
        except OSError as error:
            raise StoreError(f"cannot publish the history file {target}: {error}") from error
        return lost

    def recover(self, filed: int) -> None:
        """Publish or delete what the last owner left hidden.

        Args:
            filed: Number of the first row that files may not hold, as the journal says.

        Raises:
            StoreError: The medium refuses.
        """
        self._check()
        try:
            left = [path for path in self._hidden.iterdir() if path.is_file()]
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read the folder {self._hidden}: {error}") from error
        for path in left:
            name = path.name.replace("~", "/")
            whole = not name.endswith(PART)
            file = parse(name if whole else name.removesuffix(PART).rpartition(".")[0])
            if file is None or file.partition != self._partition:
                continue  # another owner's
            if whole and file.end <= filed:
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


def _delete(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def _without_leaps(blocks: Sequence[HistoryBlock]) -> Iterator[Sequence[HistoryBlock]]:
    """Split *blocks* where one does not go on where the one before it ends."""
    start = 0
    for place in range(1, len(blocks)):
        if blocks[place].first != blocks[place - 1].end:
            yield blocks[start:place]
            start = place
    yield blocks[start:]


def _days(times_us: pa.ChunkedArray) -> list[tuple[str, int, int]]:
    """Runs of rows of one day: the day, the place of the first row, and how many."""
    days = pc.divide(times_us, DAY_MS * 1000)
    bounds = pc.min_max(days).as_py()
    if bounds["min"] == bounds["max"]:
        return [(_date(bounds["min"]), 0, len(days))]
    runs = []
    place = 0
    for day, group in groupby(days.to_pylist()):
        count = len(list(group))
        runs.append((_date(day), place, count))
        place += count
    return runs


def _date(day: int) -> str:
    text: str = str(pa.scalar(day, pa.date32()))
    return text
