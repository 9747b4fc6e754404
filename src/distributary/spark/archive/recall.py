"""Recalls archived records: brings stretches of the archive back into files of their partitions.

Called by ``server``, in a process that has a Spark of its own, while owners of partitions ask for
records that their log has no more. Each stretch is one task of Spark, which decodes its files, and
writes one frame for each offset (decision 0163). Spark brings their bytes, from whatever file
system; those that lie on this machine are read where they lie (decision 0170).
The checksum of each row is compared with that of what was read. A row that is damaged or gone
leaves a gap, as damage in the log does.

A file becomes visible as a whole, so a job that is killed at any point leaves nothing behind that
anybody reads.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from distributary.core.errors import EventError, LogUnavailableError
from distributary.core.flow import (
    TTL_DEFAULT,
    RecordKind,
    encode_addressed,
    encode_carried,
)
from distributary.core.log.recalled import RecalledName, RecalledWriter
from distributary.spark._bounded import settle
from distributary.spark.archive import rows
from distributary.spark.archive.manifest import (
    EVENTS,
    ArchivedRange,
    check_log,
    day_at,
    day_in,
    day_of,
)
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

# A tuple: to make an object of names for each row takes a tenth of what recalling an event costs.
_Row: TypeAlias = tuple[int, int, int, str, int, bytes | None, str | None, bytes, bytes, int]
_LOGGED_AT: Final = 2
_ADDRESS: Final = 3
_CARRIED: Final = 8


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
        logs: Partition -> ``Known.log``: nothing is brought of another log, whatever is mounted.

    Raises:
        SettingsError: The archive is of another log.
        OSError: The file system cannot be reached.
    """

    def __init__(self, spark: SparkSession, to: str, logs: Mapping[int, str]) -> None:
        self._spark = spark
        self._place = Place(spark, to)
        self._logs = logs
        self._contents = self._place.contents()
        check_log(self._contents, logs)

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
            SettingsError: They are of another log.
            LogError: There are none any more, or they do not fit. An archive that is not mounted
                has no missing files: nobody passes what it has.
        """
        contents = self._place.contents()
        if contents.count < self._contents.count or not contents.count:
            raise LogUnavailableError(f"there is no archive at {self._place.url}")
        check_log(contents, self._logs)
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
        partition, name, root = found.partition, _name(found), self._place.local
        if root is None:
            paths = [f"{self._place.events}/{each}" for each in files]
            asked = self._spark.read.format("binaryFile").load(paths).select("path", "content")
        else:
            asked = self._spark.range(1)

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            settle()
            broken: list[str] = []
            if root is None:
                contents = _sent(batches)
            else:
                deque(batches, maxlen=0)  # To its end: else Spark ends this worker.
                contents = _read(root, files)
            tables = list(_tables(contents, broken))
            days = [*lost, *map(day_in, broken)]
            events, damaged = write_stretch(folder, name, partition, tables, days)
            told = {"events": [events], "damaged": [damaged], "broken": ["\n".join(broken)]}
            yield pa.RecordBatch.from_pydict(told)

        return asked.coalesce(1).mapInArrow(write, _TOLD)


def _name(found: ArchivedRange) -> RecalledName:
    return RecalledName(found.from_offset, found.to_offset)


def _sent(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Buffer]]:
    """The paths below ``EVENTS``, and the contents, of the files that Spark has read."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield path.as_py().rpartition(f"/{EVENTS}/")[2], content.as_buffer()


def _read(root: Path, files: Sequence[str]) -> Iterator[tuple[str, pa.Buffer]]:
    """*files*, and their contents, of the archive at *root*, which this machine has.

    Raises:
        OSError: One cannot be read.
    """
    for file in files:
        yield file, pa.py_buffer((root / EVENTS / file).read_bytes())


def _tables(contents: Iterable[tuple[str, pa.Buffer]], broken: list[str]) -> Iterator[pa.Table]:
    """The rows of files of Parquet.

    Adds those that are none to *broken*: a file is read as a whole before, so it is damaged where
    it lies.
    """
    for path, content in contents:
        try:
            file = pq.ParquetFile(pa.BufferReader(content))
            yield file.read(columns=list(_NEEDED), use_threads=False)
        except (pa.ArrowException, OSError):
            broken.append(path)


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
        for offset, group in groupby(_rows(tables), key=itemgetter(0)):
            kept = list(group)
            time_ms = kept[0][_LOGGED_AT] // 1000
            if lost:
                before, day = day, day_at(time_ms)
                if any(before <= each <= day for each in lost):
                    writer.lose(writer.next_offset, offset)
            body = _body_of(partition, kept)
            if body is None:
                damaged += len(kept)
                writer.lose(offset, offset + 1)
                continue
            writer.add(offset, time_ms, *body)
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
        yield from zip(*(each.to_pylist() for each in part.columns), strict=True)


def _body_of(partition: int, kept: Sequence[_Row]) -> tuple[RecordKind, bytes] | None:
    """Kind and body of the record with the events *kept*; None: one of them is damaged."""
    ttls, events = [], []
    try:
        for number, row in enumerate(kept):
            offset, index, logged_at, address, ttl, data, by, head, carried, check = row
            place, event = (partition, offset, index, logged_at, ttl), (head, data)
            if index != number or rows.check_of(place, event, (address, by, carried)) != check:
                return None
            ttls.append(ttl)
            events.append(event)
        body = rows.body_of(events)
    except (EventError, TypeError, struct.error):
        return None
    address, carried = kept[0][_ADDRESS], kept[0][_CARRIED]
    if carried:
        return RecordKind.CARRIED, encode_carried(address, tuple(ttls), body, carried)
    if address or any(ttl != TTL_DEFAULT for ttl in ttls):
        return RecordKind.ADDRESSED, encode_addressed(address, tuple(ttls), body)
    return RecordKind.EVENTS, body
