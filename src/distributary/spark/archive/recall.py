"""Recalls archived records: brings stretches of the archive back into files of their partitions.

Called by ``server``, in a process that has a Spark of its own, while owners of partitions ask for
records that their log has no more. Each stretch is one task: Spark reads its files, from whatever
file system, as bytes; the task decodes them, and writes one frame for each offset (decision 0163).
The checksum of each row is compared with that of what was read. A row that is damaged or gone
leaves a gap, as damage in the log does.

A file becomes visible as a whole, so a job that is killed at any point leaves nothing behind that
anybody reads.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from distributary.core.errors import EventError, LogUnavailableError
from distributary.core.event import record as event_record
from distributary.core.flow import (
    TTL_DEFAULT,
    RecordKind,
    encode_addressed,
    encode_carried,
)
from distributary.core.log.recalled import RecalledName, RecalledWriter
from distributary.spark.archive import rows
from distributary.spark.archive.manifest import EVENTS, ArchivedRange, day_at, day_in, day_of
from distributary.spark.archive.place import Place

BATCH_MAX: Final = 4
"""Stretches recalled at once: each is a segment, and all of a batch are waited for before what is
asked for meanwhile."""

_ROWS: Final = 1_000
"""Rows that are made objects at a time: some have a megabyte."""
_TOLD: Final = "events BIGINT, damaged BIGINT, broken STRING"


_NEEDED: Final = (
    "offset",
    "index",
    "logged_at",
    "address",
    "ttl",
    "data",
    "by",
    "head",
    "carried",
    "check",
)
"""Columns of ``rows.ARCHIVED``, in the order of ``_Row``."""


class _Row(NamedTuple):
    """What is needed of an archived row."""

    offset: int
    number: int
    logged_at: int
    address: str
    ttl: int
    data: bytes | None
    by: str | None
    head: bytes
    carried: bytes
    check: int


class Needed(NamedTuple):
    """A record whose stretch is asked for, and the folder that its file goes to."""

    partition: int
    offset: int
    folder: Path


@dataclass(frozen=True, slots=True)
class Brought:
    """What a batch has brought.

    Attributes:
        stretches: How many.
        events: Events in them.
        damaged: Events that cannot be read.
        missing: Files of the archive that are gone, or are no files of Parquet.
    """

    stretches: int
    events: int
    damaged: int
    missing: tuple[str, ...]


class Recaller:
    """Recalls from one archive.

    Args:
        spark: The session, with the settings of ``job.SETTINGS``.
        to: Path or URL of the archive.

    Raises:
        OSError: The file system cannot be reached.
    """

    def __init__(self, spark: SparkSession, to: str) -> None:
        self._spark = spark
        self._place = Place(spark, to)
        self._contents = self._place.contents()

    def recall(self, asked: Sequence[Needed]) -> Brought:
        """Bring the stretches of *asked*, at most ``BATCH_MAX``; those that nobody knows are not.

        Raises:
            LogError: The manifests do not fit.
            OSError: The archive cannot be read, or a file cannot be written.
            PySparkException: A task failed.
        """
        known = self._known(asked)
        missing = self._missing(known)
        if missing or len(known) < min(len(asked), BATCH_MAX):
            self._look_again()
            known = self._known(asked)
            missing = self._missing(known)
        frames: list[DataFrame] = []
        for folder, each in known:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            there = [file.path for file in each.files if file.path not in missing]
            lost = [day_of(file) for file in each.files if file.path in missing]
            if there:
                frames.append(self._frame(folder, each, there, lost))
            else:
                write_stretch(folder, _name(each), each.partition, (), lost)
        events = damaged = 0
        if frames:
            whole = frames[0]
            for frame in frames[1:]:
                whole = whole.unionAll(frame)
            for told in whole.collect():
                events += told.events
                damaged += told.damaged
                missing += told.broken.splitlines()
        return Brought(len(known), events, damaged, tuple(missing))

    def _look_again(self) -> None:
        """Read the manifests again.

        Raises:
            LogError: There are none any more, or they do not fit. An archive that is not mounted
                has no missing files: nobody passes what it has.
        """
        contents = self._place.contents()
        if contents.count < self._contents.count or not contents.count:
            raise LogUnavailableError(f"there is no archive at {self._place.url}")
        self._contents = contents

    def _known(self, asked: Sequence[Needed]) -> list[tuple[Path, ArchivedRange]]:
        """Returns the first ranges of *asked* that the archive has, and where they go."""
        found = {}
        for each in asked:
            for there in self._contents.ranges.get(each.partition, ()):
                if there.from_offset <= each.offset < there.to_offset:
                    found[there.name] = each.folder, there
        return list(found.values())[:BATCH_MAX]

    def _missing(self, known: Sequence[tuple[Path, ArchivedRange]]) -> list[str]:
        """Returns the files of *known* that are not there, though the manifests name them."""
        return [
            file.path
            for _, each in known
            for file in each.files
            if not self._place.has_events(file.path)
        ]

    def _frame(
        self, folder: Path, found: ArchivedRange, files: Sequence[str], lost: Sequence[str]
    ) -> DataFrame:
        paths = [f"{self._place.url}/{EVENTS}/{each}" for each in files]
        content = self._spark.read.format("binaryFile").load(paths).select("path", "content")
        partition, name = found.partition, _name(found)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            broken: list[str] = []
            tables = list(_tables(batches, broken))
            days = [*lost, *map(day_in, broken)]
            events, damaged = write_stretch(folder, name, partition, tables, days)
            told = {"events": [events], "damaged": [damaged], "broken": ["\n".join(broken)]}
            yield pa.RecordBatch.from_pydict(told)

        return content.coalesce(1).mapInArrow(write, _TOLD)


def _name(found: ArchivedRange) -> RecalledName:
    return RecalledName(found.from_offset, found.to_offset)


def _tables(batches: Iterator[pa.RecordBatch], broken: list[str]) -> Iterator[pa.Table]:
    """The rows of files of Parquet, of which *batches* have paths and contents.

    Adds those that are none to *broken*, by their paths below ``EVENTS``: a file is read as a whole
    before, so it is damaged where it lies.
    """
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            try:
                file = pq.ParquetFile(pa.BufferReader(content.as_buffer()))
                yield file.read(columns=list(_NEEDED), use_threads=False)
            except (pa.ArrowException, OSError):
                broken.append(path.as_py().rpartition(f"/{EVENTS}/")[2])


def write_stretch(
    folder: Path,
    name: RecalledName,
    partition: int,
    tables: Sequence[pa.Table],
    lost: Sequence[str] = (),
) -> tuple[int, int]:
    """Write the file *name* in *folder* from archived rows; runs in a Python worker.

    Args:
        folder: Of the partition.
        name: Which records.
        partition: Number of the partition.
        tables: All rows of the stretch that are there, in any order.
        lost: Days (``2026-01-31``) of which rows are missing that the archive ought to have. Times
            of records never go back, so they stood between those of the days beside them.

    Returns:
        How many events it has, and how many rows were damaged.

    Raises:
        OSError: The file cannot be written.
    """
    writer = RecalledWriter(folder, name)
    events = damaged = 0
    day = ""
    try:
        for offset, group in groupby(_rows(tables), key=attrgetter("offset")):
            kept = list(group)
            if lost:
                before, day = day, day_at(kept[0].logged_at // 1000)
                if any(before <= each <= day for each in lost):
                    writer.lose(writer.next_offset, offset)
            body = _body_of(partition, kept)
            if body is None:
                damaged += len(kept)
                writer.lose(offset, offset + 1)
                continue
            writer.add(offset, kept[0].logged_at // 1000, *body)
            events += len(kept)
        if any(day <= each for each in lost):
            writer.lose(writer.next_offset, name.to_offset)
        writer.finish()
    except BaseException:
        writer.discard()
        raise
    return events, damaged


def _rows(tables: Sequence[pa.Table]) -> Iterator[_Row]:
    """The rows of *tables* by offset and index."""
    if not tables:
        return
    whole = pa.concat_tables(tables)
    at = whole.schema.get_field_index("logged_at")
    stamps = whole.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    whole = whole.set_column(at, "logged_at", stamps).select(_NEEDED)
    order = pc.sort_indices(whole, [("offset", "ascending"), ("index", "ascending")])
    for first in range(0, len(order), _ROWS):
        part = whole.take(order.slice(first, _ROWS))
        yield from map(_Row._make, zip(*(each.to_pylist() for each in part.columns), strict=True))


def _body_of(partition: int, kept: Sequence[_Row]) -> tuple[RecordKind, bytes] | None:
    """Kind and body of the record with the events *kept*; None: one of them is damaged."""
    first = kept[0]
    if any(row.number != number for number, row in enumerate(kept)):
        return None
    try:
        if any(_check_of(partition, row) != row.check for row in kept):
            return None
        body = event_record.encode([rows.event_of(row.head, row.data) for row in kept])
    except (EventError, TypeError, struct.error):
        return None
    ttls = tuple(row.ttl for row in kept)
    if first.carried:
        return RecordKind.CARRIED, encode_carried(first.address, ttls, body, first.carried)
    if first.address or any(ttl != TTL_DEFAULT for ttl in ttls):
        return RecordKind.ADDRESSED, encode_addressed(first.address, ttls, body)
    return RecordKind.EVENTS, body


def _check_of(partition: int, row: _Row) -> int:
    place = partition, row.offset, row.number, row.logged_at, row.ttl
    return rows.check_of(place, (row.head, row.data), (row.address, row.by, row.carried))
