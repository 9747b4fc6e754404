"""The tables ``outcomes`` and ``attempts``: the files of the history, each row once.

Called by ``format``. Hides: which files there are. A task reads a range of row numbers, so files
may be merged while it runs.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs
from pyspark.sql import datasource as pushable

from distributary.core.errors import StoreError
from distributary.history.names import HistoryFile, parse, superseded
from distributary.spark._file_systems import open_folder
from distributary.spark._options import FormatOptions
from distributary.spark._schema import Column, arrow_schema

_MATCH: Final = (
    Column("number", "BIGINT", "rises in a partition; (`partition`, `number`) never repeats"),
    Column("time", "TIMESTAMP", "when the attempt ended, or the outcome was decided"),
    Column("partition", "INT", "partition of the event, as in `events`"),
    Column("offset", "BIGINT", "offset of the event, as in `events`"),
    Column("index", "INT", "index of the event, as in `events`"),
    Column("event_id", "STRING", "the attribute `id`, cut to 1,024 characters; NULL: not known"),
    Column("event_source", "STRING", "the attribute `source`, likewise"),
    Column("event_type", "STRING", "the attribute `type`, likewise"),
    Column("namespace", "STRING", "of the subscription or Trigger"),
    Column("subscription", "STRING", "its id, or its name"),
    Column("uid", "STRING", "its uid, as in `subscriptions`"),
    Column("revision", "BIGINT", "its revision"),
)
_ATTEMPT: Final = (
    Column("stage", "STRING", "`event` (to the sink), `dead-letter` (to its sink) or `reply`"),
    Column("attempt", "INT", "number of the attempt at this stage, from 1"),
    Column("duration", "DOUBLE", "seconds from the start of the attempt to its response"),
    Column("status", "INT", "status of the response; NULL: there was none"),
    Column("decision", "STRING", "`delivered`, `retry`, `dead-letter` or `dropped`"),
    Column("answer", "STRING", "the first 1,024 bytes of the response to a failed attempt"),
)
_ENDING: Final = (
    Column("reason", "STRING", "why, in the words of the log lines"),
    Column("outcome", "STRING", "`delivered`, `dead-lettered` or `dropped`"),
)
OUTCOMES: Final = (*_MATCH, *_ENDING)
ATTEMPTS: Final = (
    *_MATCH,
    *_ATTEMPT,
    *(
        each if each.name == "reason" else each._replace(meaning=f"{each.meaning}; NULL: not yet")
        for each in _ENDING
    ),
)

_TOLD: Final = {"outcomes": "outcome", "attempts": "attempt"}
"""Table -> the column that its rows have."""

_BYTES_PER_TASK: Final = 16 << 20
"""Bytes of files, compressed, that one task reads: a second of work."""

_BATCH_ROWS: Final = 1 << 13

_COMPARED: Final[dict[type, Callable[[pc.Expression, Any], pc.Expression]]] = {
    pushable.EqualTo: lambda field, value: field == value,
    pushable.In: lambda field, values: field.isin(list(values)),
    pushable.GreaterThan: lambda field, value: field > value,
    pushable.GreaterThanOrEqual: lambda field, value: field >= value,
    pushable.LessThan: lambda field, value: field < value,
    pushable.LessThanOrEqual: lambda field, value: field <= value,
    pushable.IsNotNull: lambda field, _: field.is_valid(),
}
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "STRING": (str,),
    "INT": (int,),
    "BIGINT": (int,),
    "TIMESTAMP": (datetime,),
}
"""Types of columns that are compared here, and of the values that they are compared with."""

Condition: TypeAlias = tuple[str, str, Any]
"""Name of the column, name of the comparison, value: it can be pickled."""


class HistoryRange(NamedTuple):
    """Rows of one task: ``first <= number < end`` of a partition."""

    partition: int
    first: int
    end: int


class HistoryTable:
    """A bounded read of one of the two tables; pickled to executors.

    Args:
        options: Of the read.
        columns: Those wanted.
    """

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._table = options.table
        self._columns = tuple(columns)
        self._url = options.places.history_folder
        self._conditions: list[Condition] = []

    def take(self, filters: Iterable[pushable.Filter]) -> list[pushable.Filter]:
        """Take the conditions that row groups and rows are chosen by; returns the others."""
        types = {each.name: each.type for each in (*OUTCOMES, *ATTEMPTS)}
        left = []
        for each in filters:
            name = ".".join(getattr(each, "attribute", ()))
            value = getattr(each, "value", None)
            if type(each) in _COMPARED and _comparable(types.get(name), each, value):
                self._conditions.append((name, type(each).__name__, value))
            else:
                left.append(each)
        return left

    def plan(self) -> list[HistoryRange]:
        """Returns the ranges of tasks.

        Raises:
            StoreError: There is no history, or none can be read there.
        """
        system, root = self._open()
        files = [each for each in self._files(system, root) if self._wants(each[0])]
        gone = set(superseded(file for file, _ in files))
        ranges: list[HistoryRange] = []
        taken = 0
        # By number, not by day: what a flush over midnight brings alternates between two days.
        for file, size in sorted(files, key=lambda each: (each[0].partition, each[0].first)):
            if file in gone:
                continue
            last = ranges[-1] if ranges and ranges[-1].partition == file.partition else None
            if last and taken + size <= _BYTES_PER_TASK:
                ranges[-1] = last._replace(end=file.end)
                taken += size
            else:
                # A read takes every file within its range, so ranges may not overlap.
                first = max(file.first, last.end) if last else file.first
                ranges.append(HistoryRange(file.partition, first, file.end))
                taken = size
        return ranges

    def _open(self) -> tuple[fs.FileSystem, str]:
        try:
            return open_folder(self._url)
        except ValueError as error:
            raise StoreError(f"history: {error}; read it with spark.read.parquet") from error

    def _files(self, system: fs.FileSystem, root: str) -> list[tuple[HistoryFile, int]]:
        """Returns the history files with their sizes, in no order.

        Raises:
            StoreError: There is no history, or it cannot be listed.
        """
        # A day may be deleted while it is listed.
        below = fs.FileSelector(root, recursive=True, allow_not_found=True)
        try:
            listed = system.get_file_info(below)
            there = bool(listed) or system.get_file_info(root).type == fs.FileType.Directory
        except NotADirectoryError:
            there = False
        except OSError as error:
            raise StoreError(f"the history at {self._url} cannot be listed: {error}") from error
        if not there:
            raise StoreError(
                f"there is no history at {self._url}: none is kept, or it lies elsewhere; name "
                "that folder with the option history"
            )
        found = []
        for info in listed:
            file = parse("/".join(info.path.split("/")[-2:]))
            if file is not None and info.is_file and info.path.endswith(f"{root}/{file.path}"):
                found.append((file, info.size))
        return found

    def _wants(self, file: HistoryFile) -> bool:
        """Whether rows of the day of *file* may be wanted."""
        days = {
            kind: str(value.astimezone(UTC).date())
            for name, kind, value in self._conditions
            if name == "time" and isinstance(value, datetime)
        }
        low = max(days.get(kind, "") for kind in ("GreaterThan", "GreaterThanOrEqual", "EqualTo"))
        high = min(days.get(kind, "9") for kind in ("LessThan", "LessThanOrEqual", "EqualTo"))
        return low <= file.date <= high

    def read(self, span: HistoryRange) -> Iterator[pa.RecordBatch]:
        """Yields the rows of *span*. Runs on an executor.

        Raises:
            StoreError: A file is damaged, or the history cannot be read any more.
        """
        system, root = self._open()
        at = span.first
        while at < span.end:
            files = [file for file, _ in self._files(system, root)]
            gone = set(superseded(files))
            ahead = sorted(
                (file.first, file.end, file)
                for file in set(files) - gone
                if file.partition == span.partition and at < file.end and file.first < span.end
            )
            with suppress(FileNotFoundError):  # merged or deleted just now: look again
                for _, end, file in ahead:
                    yield from self._rows(system, f"{root}/{file.path}", at, span.end)
                    at = end
                return

    def _rows(
        self, system: fs.FileSystem, path: str, first: int, end: int
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one file, all or none of them where it has gone."""
        number = pc.field("number")
        wanted = (number >= first) & (number < end) & pc.field(_TOLD[self._table]).is_valid()
        kinds = {kind.__name__: kind for kind in _COMPARED}
        for name, kind, value in self._conditions:
            wanted &= _COMPARED[kinds[kind]](pc.field(name), value)
        schema = arrow_schema(self._columns)
        try:
            found = ds.dataset(path, filesystem=system, format="parquet", partitioning=None)
            known = set(found.schema.names)
            table = found.to_table(
                columns=[name for name in schema.names if name in known],
                filter=wanted,
                batch_size=_BATCH_ROWS,
                use_threads=False,
            )
        except pa.ArrowException as error:
            raise StoreError(f"the history file {path} is damaged: {error}") from error
        # files of earlier versions have fewer columns
        for name in schema.names:
            if name not in known:
                table = table.append_column(name, pa.nulls(len(table), schema.field(name).type))
        yield from table.select(schema.names).cast(schema).to_batches(_BATCH_ROWS)


def _comparable(kind: str | None, condition: pushable.Filter, value: Any) -> bool:
    """Whether *condition* on a column of this *kind* means the same to Arrow as to Spark."""
    if isinstance(condition, pushable.IsNotNull):
        return kind is not None
    values = value if isinstance(condition, pushable.In) else (value,)
    return kind in _KINDS and all(
        type(each) in _KINDS[kind] and getattr(each, "tzinfo", UTC) is not None for each in values
    )
