"""Archives old segments of the log: writes, reads back, compares, and only then says so.

Called by ``server``, in a process that has a Spark of its own. A step is some ranges at once:

1. Spark writes their rows, into folders that no other attempt uses.
2. The log is read again, and counts and checksums of its events are summed by range and day.
3. The files are read back: each event is made again of its row, its columns are compared with the
   row, and its checksum is summed. Sums and counts have to be those of the log.
4. The files are brought to the medium, then a manifest names them, then the data directory learns
   how far the log is archived.

A job that is killed at any point leaves files that no manifest names, and nothing else.
"""

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql

from distributary.core.errors import LogDamagedError
from distributary.spark._schema import spark_schema
from distributary.spark.archive import manifest, rows
from distributary.spark.archive.logs import ArchivedLog
from distributary.spark.archive.manifest import (
    ArchivedFile,
    ArchivedRange,
    Contents,
    Known,
    Manifest,
    Stretch,
)
from distributary.spark.archive.place import Place

SETTINGS: Final = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.session.timeZone": "UTC",
    # Rows are as large as events: few at a time.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.parquet.columnarReaderBatchSize": "256",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.files.maxPartitionBytes": "64m",
}
"""Spark's settings of a job."""

CLUSTERED: Final = ("type", "offset", "index")
"""Order of the rows of a file: a row group has few types, so one type is in few row groups."""

PARQUET: Final = {"parquet.block.size": str(2 * 1024 * 1024)}
"""Options of the files: a segment is some thirty row groups, of which a search for one type of a
hundred reads one or two. Smaller ones would have footers that take longer than they save."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job is to do.

    Attributes:
        log: The log.
        to: Path or URL of the archive.
        newest: The newest segment of each partition too, as far as it goes.
        skip_damaged: Whether damaged records are left out; otherwise they end the job.
        ranges_per_step: How many segments are written before a manifest names them.
        delete_before: What was appended before this day (by UTC) is deleted of the archive; None:
            nothing is.
        note: Told what the archive holds, at the begin and after each step.
        noted: Returns to where each partition is archived by what ``note`` was told last.
        check: Called before anything is named or deleted; raises where another job may work.
        left_s: Age from which on what no manifest names is deleted: below it, another job may
            just have written it.
    """

    log: ArchivedLog
    to: str
    newest: bool
    skip_damaged: bool
    ranges_per_step: int
    delete_before: date | None = None
    note: Callable[[Contents], None] = lambda _contents: None
    noted: Callable[[], Mapping[int, int]] = dict
    check: Callable[[], None] = lambda: None
    left_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """What a job has done.

    Attributes:
        ranges: Segments archived.
        events: Events in them.
        bytes: Size of their files.
        lost: Records that retention had deleted before: by partition, first and after the last.
        swept: Folders that killed jobs had left, deleted.
        positions: Partition -> offset of the first record that is not archived.
        days_deleted: Days that were deleted because they are old.
    """

    ranges: int
    events: int
    bytes: int
    lost: tuple[Stretch, ...]
    swept: tuple[str, ...]
    positions: dict[int, int]
    days_deleted: tuple[str, ...] = ()


def archive(
    spark: SparkSession, wanted: Wanted, told: Callable[[Done], None] = lambda _done: None
) -> Done:
    """Archive what there is to archive, and return.

    Args:
        spark: The session; its settings are changed (``SETTINGS``).
        wanted: What is to be done.
        told: Called after each step with what is done so far.

    Raises:
        DistributaryError: The log or the archive cannot be read, records are damaged, what was
            read back is not what the log has, the archive is gone or of another log, or another job
            works.
        OSError: The file system of the archive failed.
    """
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    place = Place(spark, wanted.to)
    contents = place.contents()
    manifest.check_there(contents, wanted.noted(), place.url)
    known = wanted.log.known(contents.positions())
    manifest.check_log(contents, {number: each.log for number, each in known.items()})
    _compare_ends(contents, wanted.log, known)
    stretches = manifest.plan(contents, known, newest=wanted.newest)
    lost = tuple(manifest.lost(contents, known))
    wanted.check()
    days = _delete(place, contents, _first_day(wanted, known))
    swept = tuple(place.sweep(contents.names(), contents.deleted_before, left_s=wanted.left_s))
    done = Done(0, 0, 0, lost, swept, contents.positions(), days)
    wanted.note(contents)
    for start in range(0, len(stretches), wanted.ranges_per_step):
        step = _Step(spark, place, wanted, stretches[start : start + wanted.ranges_per_step])
        added = step.run(contents.count + 1, known)
        contents.add(added)
        done = replace(
            done,
            ranges=done.ranges + len(added.ranges),
            events=done.events + sum(each.events for each in added.ranges),
            bytes=done.bytes + sum(file.bytes for each in added.ranges for file in each.files),
            positions=contents.positions(),
        )
        wanted.note(contents)
        told(done)
    return done


def _first_day(wanted: Wanted, known: Mapping[int, Known]) -> date | None:
    """The first day that stays; none after that behind the newest record of the log.

    What a wrong clock or a slip of the pen asks for goes, and nothing that is yet to come.
    """
    if wanted.delete_before is None:
        return None
    newest_ms = 0
    for partition, there in known.items():
        with wanted.log.opened(partition) as (records, _who):
            for entry in records.read(max(there.start, there.end - 1), there.end):
                newest_ms = max(newest_ms, entry.time_ms)
    behind = date.fromisoformat(manifest.day_at(newest_ms)) + timedelta(days=1)
    return min(wanted.delete_before, behind) if newest_ms else wanted.delete_before


def _delete(place: Place, contents: Contents, before: date | None) -> tuple[str, ...]:
    """Say that what is older than *before* is deleted: what no manifest names is swept."""
    if before is None:
        return ()
    days = tuple(sorted(day for day in contents.days() if day < str(before)))
    if days:
        made = Manifest(
            format=manifest.FORMAT_DELETES,
            number=contents.count + 1,
            ranges=(),
            deleted_before=str(before),
        )
        place.write_manifest(made.number, manifest.encode(made))
        contents.add(made)
    return days


def _compare_ends(contents: Contents, log: ArchivedLog, known: dict[int, Known]) -> None:
    """Compare the newest archived record of each partition with that of the log."""
    for partition, there in known.items():
        archived, checksum = contents.archived(partition)
        if not there.start < archived <= there.end or not checksum:
            continue
        with log.opened(partition) as (records, _who):
            for entry in records.read(archived - 1, archived):
                if entry.checksum != checksum:
                    raise manifest.not_of_this_log(
                        f"record {archived - 1} of partition {partition} is another one"
                    )


class _Step:
    """Some ranges, written, compared and named by one manifest."""

    def __init__(
        self, spark: SparkSession, place: Place, wanted: Wanted, stretches: Sequence[Stretch]
    ) -> None:
        self._spark = spark
        self._place = place
        attempt = secrets.token_hex(8)
        self._ranges = {manifest.range_name(*each, attempt): each for each in stretches}
        self._check = wanted.check
        self._source = rows.Source(wanted.log, wanted.skip_damaged)

    def run(self, number: int, known: Mapping[int, Known]) -> Manifest:
        """Write, compare and name, of a log of which *known* is known; returns the manifest."""
        self._write()
        totals = self._totals()
        files = self._compare(totals)
        ranges = tuple(
            ArchivedRange(
                partition=stretch.partition,
                from_offset=stretch.from_offset,
                to_offset=stretch.to_offset,
                events=sum(events for events, _ in totals[name].days.values()),
                check=sum(check for _, check in totals[name].days.values()),
                from_ms=totals[name].from_ms,
                to_ms=totals[name].to_ms,
                last_checksum=totals[name].last_checksum,
                name=name,
                files=tuple(files.get(name, ())),
                log=known[stretch.partition].log,
            )
            for name, stretch in self._ranges.items()
        )
        self._place.sync([file.path for each in ranges for file in each.files])
        made = Manifest(format=manifest.FORMAT, number=number, ranges=ranges)
        self._check()
        self._place.write_manifest(number, manifest.encode(made))
        return made

    def _write(self) -> None:
        todo, source = list(self._ranges.items()), self._source

        def of_ranges(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    name, stretch = todo[number]
                    for made in source.rows(stretch, name):
                        yield made.batch(stretch.partition)

        numbers = self._spark.range(0, len(todo), 1, numPartitions=len(todo))
        frame = numbers.mapInArrow(of_ranges, spark_schema(rows.WRITTEN))
        frame = frame.sortWithinPartitions(rows.DAY.name, rows.RANGE.name, *CLUSTERED)
        writer = frame.write.mode("append").partitionBy(rows.DAY.name, rows.RANGE.name)
        writer.options(**PARQUET).parquet(self._place.events)

    def _totals(self) -> dict[str, rows.LogTotals]:
        stretches = list(self._ranges.values())
        found = self._spark.sparkContext.parallelize(stretches, len(stretches))
        totals = found.map(self._source.totals).collect()
        return dict(zip(self._ranges, totals, strict=True))

    def _compare(self, totals: dict[str, rows.LogTotals]) -> dict[str, list[ArchivedFile]]:
        """Read back; returns the files of each range.

        Raises:
            LogDamagedError: What was read is not what the log has.
        """
        expected = {
            (name, day): sums for name, each in totals.items() for day, sums in each.days.items()
        }
        found: dict[tuple[str, str], tuple[int, int]] = {}
        files: dict[str, dict[str, ArchivedFile]] = {}
        for each in self._read_back([f"day={day}/range={name}" for name, day in expected]):
            if each.fault:
                raise LogDamagedError(f"{each.path}: {each.fault}; nothing of it counts")
            place = each.range, each.day
            events, check = found.get(place, (0, 0))
            found[place] = events + each.events, check + int(each.check)
            path = f"day={each.day}/range={each.range}/{each.path.rpartition('/')[2]}"
            of_range = files.setdefault(each.range, {})
            before = of_range.get(path)
            events = each.events + (0 if before is None else before.events)
            of_range[path] = ArchivedFile(path, each.bytes, events)
        if found != expected:
            wrong = next(key for key in expected | found if expected.get(key) != found.get(key))
            raise LogDamagedError(
                f"the archive's range {wrong[0]} of {wrong[1]} has (events, sum of checksums)"
                f" {found.get(wrong)}, and the log {expected.get(wrong)}; nothing of it counts"
            )
        return {name: list(each.values()) for name, each in files.items()}

    def _read_back(self, folders: Sequence[str]) -> Sequence[Any]:
        if not folders:
            return ()
        reader = self._spark.read.option("basePath", self._place.events)
        frame = reader.schema(_read_schema()).parquet(
            *(f"{self._place.events}/{each}" for each in folders)
        )
        frame = _with_files(frame)

        def compared(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                if len(batch):
                    yield _as_batch(rows.compared(batch))

        found: list[Row] = frame.mapInArrow(compared, rows.COMPARED).collect()
        return found


def _read_schema() -> Any:
    """Columns of the files, and the two that are folders: the day stays a text."""
    return spark_schema((*rows.ARCHIVED, rows.DAY, rows.RANGE))


def _with_files(frame: DataFrame) -> DataFrame:
    """Returns *frame* with the place and the size of each row's file."""
    return frame.select(
        *(sql.col(f"`{each.name}`") for each in rows.WRITTEN),
        sql.col("_metadata.file_path").alias("file_path"),
        sql.col("_metadata.file_size").alias("file_size"),
    )


def _as_batch(found: Sequence[rows.Compared]) -> pa.RecordBatch:
    types = [pa.string(), pa.string(), pa.string(), pa.int64(), pa.int64(), pa.int64(), pa.string()]
    arrays = [
        pa.array(values, kind) for values, kind in zip(zip(*found, strict=True), types, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(rows.Compared._fields))
