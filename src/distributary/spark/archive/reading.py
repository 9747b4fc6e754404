"""Reads an archive for the table ``events``, together with the log: each event exactly once.

Called by ``_log_reads``, on the driver's side and on executors, always in Python: the JVM's file
systems are out of reach there, so Arrow's are used (local, S3, HDFS, Google). Hides: them, and
Parquet.

An offset is read from the archive where the archive has it, else from the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from distributary.core.errors import LogUnavailableError, SettingsError
from distributary.spark._columns import ROWS_MAX
from distributary.spark._file_systems import open_folder
from distributary.spark._pushed import END_MS, Pushed, TextTest
from distributary.spark._ranges import Extent, OffsetRange
from distributary.spark._schema import Column, arrow_schema
from distributary.spark.archive.manifest import (
    EVENTS,
    MANIFESTS,
    ArchivedRange,
    Contents,
    contents_of,
    day_at,
    day_in,
    day_of,
    manifest_name,
    number_of,
)

_NARROW_ROWS_MAX: Final = 50_000
"""Rows of one batch without payloads: some megabytes."""


class ArchivedSpan(NamedTuple):
    """Records that a task reads from the archive.

    Attributes:
        span: Which records.
        files: Their files, below the folder of the rows; they hold others too.
    """

    span: OffsetRange
    files: tuple[str, ...]

    def of_days(self, pushed: Pushed) -> "ArchivedSpan":
        """Returns it with the files of the days that *pushed* wants."""
        first = day_at(max(pushed.from_ms, 0))
        last = None if pushed.to_ms >= END_MS else day_at(max(pushed.to_ms - 1, 0))
        files = (each for each in self.files if first <= day_in(each))
        return self._replace(
            files=tuple(each for each in files if not last or day_in(each) <= last)
        )


@dataclass(frozen=True, slots=True)
class ArchiveReader:
    """Reads one archive; plain and picklable.

    Attributes:
        url: Path or URL of its folder.
    """

    url: str

    def contents(self) -> Contents:
        """Returns what it holds now.

        Raises:
            SettingsError: There is no archive, or none can be read there.
            LogError: Its manifests do not fit.
        """
        system, root = self._open()
        try:
            listed = system.get_file_info(fs.FileSelector(f"{root}/{MANIFESTS}"))
            found = []
            for info in listed:
                number = number_of(info.base_name)
                if number is not None:
                    with system.open_input_stream(info.path) as stream:
                        found.append((number, stream.read()))
        except OSError as error:
            raise SettingsError(f"archive: there is none at {self.url}: {error}") from error
        return contents_of(found)

    def there(self, archived: ArchivedSpan) -> ArchivedSpan:
        """Returns *archived* with those of its files that are there.

        Raises:
            LogUnavailableError: The file system cannot be asked, or there is no archive: one
                that is not mounted lacks no files.
        """
        system, root = self._open()
        paths = [f"{root}/{EVENTS}/{each}" for each in archived.files]
        try:
            infos = system.get_file_info(paths)
            found = [info.type == fs.FileType.File for info in infos]
            if not all(found):
                first = f"{root}/{MANIFESTS}/{manifest_name(1)}"
                with system.open_input_stream(first):
                    pass
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unavailable(error) from error
        files = (file for file, is_there in zip(archived.files, found, strict=True) if is_there)
        return archived._replace(files=tuple(files))

    def read(
        self, archived: ArchivedSpan, columns: Sequence[Column], pushed: Pushed
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows of *archived* that match.

        Raises:
            LogUnavailableError: A file cannot be read.
        """
        schema = arrow_schema(columns)
        span = archived.span
        condition = _condition(pushed) & _between("offset", span.from_offset, span.to_offset)
        try:
            for batch in self._batches(archived.files, schema.names, condition):
                if len(batch):
                    arrays = [batch.column(each.name).cast(each.type) for each in schema]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unavailable(error) from error

    def offset_at(self, found: ArchivedRange, time_ms: int) -> int:
        """Returns the first offset of an event in the range *found* at *time_ms* or later.

        Raises:
            LogUnavailableError: A file cannot be read.
        """
        files = tuple(each.path for each in found.files if day_of(each) >= day_at(time_ms))
        lowest = found.to_offset
        span = OffsetRange(found.partition, found.from_offset, found.to_offset)
        # The task that reads tells of those that are gone.
        files = self.there(ArchivedSpan(span, files)).files
        try:
            for batch in self._batches(files, ["offset"], ds.field("logged_at") >= _stamp(time_ms)):
                if len(batch):
                    lowest = min(lowest, pc.min(batch.column("offset")).as_py())
        except (OSError, pa.ArrowInvalid) as error:
            raise self._unavailable(error) from error
        return lowest

    def _unavailable(self, error: Exception) -> LogUnavailableError:
        return LogUnavailableError(f"the archive {self.url} cannot be read: {error}")

    def _batches(
        self, files: Sequence[str], names: Sequence[str], condition: Any
    ) -> Iterator[pa.RecordBatch]:
        system, root = self._open()
        paths = [f"{root}/{EVENTS}/{each}" for each in files]
        if not paths:
            return
        dataset = ds.dataset(paths, filesystem=system, format="parquet")
        # Rows are as large as events: nothing is read ahead.
        yield from dataset.to_batches(
            columns=list(names),
            filter=condition,
            batch_size=ROWS_MAX if "data" in names else _NARROW_ROWS_MAX,
            batch_readahead=1,
            fragment_readahead=0,
            use_threads=False,
        )

    def _open(self) -> tuple[fs.FileSystem, str]:
        try:
            return open_folder(self.url)
        except ValueError as error:
            raise SettingsError(
                f"archive: {error}. Read it as Parquet: spark.read.parquet('{self.url}/{EVENTS}')"
            ) from error


class WithArchive:
    """``Extent`` of a partition whose older records are in an archive.

    Args:
        log: What the log has.
        ranges: What the archive has, in order; at least one.
        archive: Reads it.
    """

    def __init__(
        self, log: Extent, ranges: Sequence[ArchivedRange], archive: ArchiveReader
    ) -> None:
        self._log = log
        self._ranges = ranges
        self._archive = archive

    def start(self) -> int:
        """See ``Extent.start``."""
        return min(self._ranges[0].from_offset, self._log.start())

    def durable_end(self) -> int:
        """See ``Extent.durable_end``."""
        return self._log.durable_end()

    def offset_at(self, time_ms: int) -> int:
        """See ``Extent.offset_at``: the first event, in the archive."""
        if self._log.start() < self._ranges[0].from_offset:
            return self._log.offset_at(time_ms)
        for each in self._ranges:
            if each.to_ms >= time_ms:
                if each.from_ms >= time_ms:
                    return each.from_offset
                return self._archive.offset_at(each, time_ms)
        return max(self._log.offset_at(time_ms), self._ranges[-1].to_offset)


def extents(
    log: Mapping[int, Extent], contents: Contents, archive: ArchiveReader
) -> Mapping[int, Extent]:
    """Returns *log*, with what the archive has of each partition."""
    return {
        number: WithArchive(each, contents.readable(number), archive)
        if contents.readable(number)
        else each
        for number, each in log.items()
    }


def divide(
    span: OffsetRange, ranges: Sequence[ArchivedRange]
) -> Iterator[ArchivedSpan | OffsetRange]:
    """Yields the parts of *span* in order: from the archive where it has them, else of the log."""
    at = span.from_offset
    for each in ranges:
        first, last = max(each.from_offset, at), min(each.to_offset, span.to_offset)
        if first >= last:
            continue
        if at < first:
            yield OffsetRange(span.partition, at, first)
        yield ArchivedSpan(
            OffsetRange(span.partition, first, last), tuple(file.path for file in each.files)
        )
        at = last
    if at < span.to_offset:
        yield OffsetRange(span.partition, at, span.to_offset)


def _condition(pushed: Pushed) -> Any:
    condition = pc.scalar(True)
    if pushed.from_ms > 0:
        condition &= ds.field("logged_at") >= _stamp(pushed.from_ms)
    if pushed.to_ms < END_MS:
        condition &= ds.field("logged_at") < _stamp(pushed.to_ms)
    for test in pushed.tests:
        condition &= _test(test)
    return condition


def _stamp(time_ms: int) -> Any:
    return pa.scalar(time_ms * 1000, pa.timestamp("us", tz="UTC"))


def _between(name: str, first: int, end: int) -> Any:
    return (ds.field(name) >= first) & (ds.field(name) < end)


def _test(test: TextTest) -> Any:
    column = ds.field(test.name)
    if test.kind == "present":
        return column.is_valid()
    if test.kind == "equal":
        return column.isin(pa.array(test.values, pa.string()))
    condition = pc.starts_with(column, test.values[0])
    for prefix in test.values[1:]:
        condition |= pc.starts_with(column, prefix)
    return condition
