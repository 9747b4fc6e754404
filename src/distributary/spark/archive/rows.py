"""The rows of an archive: the columns of ``events``, and what makes each event exact again.

Called by ``job``, in Python workers. Hides: how an event is kept, and what its checksum covers.

An event is kept as its *head*, the record that it would be without its data, and its data. So
values keep their types and their order, which the columns for people do not show.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa

from distributary.core.errors import EventError, Fault, LogDamagedError, LogUnavailableError
from distributary.core.event import Event, binary
from distributary.core.event import record as event_record
from distributary.core.event.binary import BinaryEvent
from distributary.core.flow import AddressedEvents, Logged, RecordKind, events_of
from distributary.spark._columns import BATCH_BYTES_MAX, EVENTS, ROWS_MAX, Rows
from distributary.spark._logs import Records
from distributary.spark._schema import Column
from distributary.spark.archive.logs import ArchivedLog, Who
from distributary.spark.archive.manifest import Stretch

BY: Final = Column("by", "STRING", "who published the event; NULL: not known")

ARCHIVED: Final = (
    *EVENTS,
    BY,
    Column("head", "BINARY", "the record of the event without its data: all attributes, exactly"),
    Column("carried", "BINARY", "carried header lines; empty: none"),
    Column("check", "BIGINT", "CRC-32 of all that is kept of the event"),
)
"""Columns of a file."""

DAY: Final = Column("day", "DATE", "when the record was appended, by UTC")
RANGE: Final = Column("range", "STRING", "name of the range")

WRITTEN: Final = (*ARCHIVED, DAY, RANGE)
"""Columns as they are written: the last two become folders."""

_PLACE: Final = struct.Struct("<IQIQB?I")
_TIMER: Final = int(RecordKind.TIMER_EVENT)
_DAY_US: Final = 86_400_000_000
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def head_of(event: Event) -> bytes:
    """Returns the record that *event* would be without its data."""
    if isinstance(event, BinaryEvent):
        return event.record[: event.data_at]
    return event_record.encode([Event(event.attributes, None)])


def event_of(head: bytes, data: bytes | None) -> Event:
    """Returns the event that was kept as *head* and *data*.

    Raises:
        EventError: *head* is none.
    """
    event = binary.decode(head + (data or b""))
    if event is not None:
        return event
    found = event_record.decode(head)
    if len(found) != 1:
        raise EventError([Fault("$", "head", "one event was expected")])
    return Event(found[0].attributes, data)


def body_of(kept: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """Returns the body of the record whose events were kept as heads and data.

    Raises:
        EventError: A head is none.
    """
    if len(kept) == 1:
        head, data = kept[0]
        if binary.is_head(head):
            return head + (data or b"")
    return event_record.encode([event_of(*each) for each in kept])


def check_of(
    place: tuple[int, int, int, int, int],
    event: tuple[bytes, bytes | None],
    known: tuple[str, str | None, bytes],
) -> int:
    """Returns the checksum of a row.

    Args:
        place: Partition, offset, index, time of the append in microseconds, and TTL.
        event: Its head (see ``head_of``) and its data.
        known: Uid of the Broker or Channel, who published it (None: not known), carried lines.
    """
    head, data = event
    address, by, carried = known
    check = zlib.crc32(_PLACE.pack(*place, data is None, len(head)))
    if address or by is not None or carried:
        check = zlib.crc32(_known_bytes(address, by, carried), check)
    return zlib.crc32(data or b"", zlib.crc32(head, check))


@lru_cache(64)
def _known_bytes(address: str, by: str | None, carried: bytes) -> bytes:
    who = b"" if by is None else b"\1" + by.encode("utf-8", "surrogatepass")
    return b"\0".join((address.encode(), who, carried))


class ArchiveRows(Rows):
    """Builder of one batch of archived rows.

    Args:
        columns: Those wanted.
        partition: Number of the partition.
        name: Of the range.
        who: Returns who published the record at an offset; None: not known.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        partition: int,
        name: str,
        who: Who,
    ) -> None:
        super().__init__(columns)
        self._partition = partition
        self._name = name
        self._who = who
        self._heads: list[bytes] = []
        self._carried: list[bytes] = []
        self._by: list[str | None] = []

    def add(self, entry: Logged, held: AddressedEvents, indexes: Sequence[int]) -> None:
        """See ``Rows.add``."""
        super().add(entry, held, indexes)
        self._carried += [held.carried] * len(indexes)
        self._by += [self._who(entry.offset)] * len(indexes)
        self._heads += [head_of(held.events[index]) for index in indexes]

    def checks(self) -> list[int]:
        """The checksum of each row: of its place, its time, who published it, and the event."""
        return list(map(self._check, range(len(self.events))))

    def _check(self, at: int) -> int:
        place = (
            self._partition,
            self.offsets[at],
            self.indexes[at],
            self.stamps_us[at],
            self.ttls[at],
        )
        event = self._heads[at], self.events[at].data
        return check_of(place, event, (self.addresses[at], self._by[at], self._carried[at]))

    def column(self, field: pa.Field, partition: int) -> pa.Array:
        """See ``Rows.column``."""
        values: Any = None
        if field.name == "check":
            values = self.checks()
        elif field.name == "head":
            values = self._heads
        elif field.name == "carried":
            values = self._carried
        elif field.name == BY.name:
            values = self._by
        elif field.name == RANGE.name:
            values = [self._name] * len(self.events)
        elif field.name == DAY.name:
            return pa.array(self.stamps_us, pa.timestamp("us")).cast(field.type)
        else:
            return super().column(field, partition)
        return pa.array(values, field.type)


@dataclass(slots=True)
class LogTotals:
    """What the log holds in a stretch.

    Attributes:
        days: Day (``2026-11-24``) -> number of its events, and sum of their checksums.
        from_ms: Least time of an event, milliseconds; 0: there is none. Not that of the first one:
            the clock of a topic's next leader may be behind.
        to_ms: Greatest one.
        last_checksum: Checksum of the newest record; 0: there is none.
    """

    days: dict[str, tuple[int, int]] = field(default_factory=dict)
    from_ms: int = 0
    to_ms: int = 0
    last_checksum: int = 0

    def add(self, rows: ArchiveRows) -> None:
        """Add *rows*, the next ones."""
        for stamp_us, check in zip(rows.stamps_us, rows.checks(), strict=True):
            day = _day(stamp_us // _DAY_US)
            events, total = self.days.get(day, (0, 0))
            self.days[day] = events + 1, total + check
        least_ms = min(rows.stamps_us) // 1000
        self.from_ms = min(self.from_ms or least_ms, least_ms)
        self.to_ms = max(self.to_ms, max(rows.stamps_us) // 1000)


@lru_cache(16)
def _day(number: int) -> str:
    return str(date.fromordinal(_EPOCH_DAY + number))


class Source(NamedTuple):
    """Where records come from; pickled to executors.

    Attributes:
        log: The log.
        skip_damaged: Whether damaged records are left out; otherwise they end the job.
    """

    log: ArchivedLog
    skip_damaged: bool

    def _entries(self, records: Records, stretch: Stretch) -> Iterator[Logged]:
        """Yields each record of *stretch*.

        Raises:
            LogDamagedError: Records are damaged.
            LogUnavailableError: Records have been deleted meanwhile, or the log ends before.
        """
        if records.durable_end() < stretch.to_offset:
            raise LogUnavailableError(
                f"partition {stretch.partition}: the log ends before {stretch.to_offset}"
            )
        yield from records.read(stretch.from_offset, stretch.to_offset)
        if records.start() > stretch.from_offset:
            raise LogUnavailableError(
                f"partition {stretch.partition}: records from {stretch.from_offset} on were"
                " deleted before they were archived; start the job again"
            )
        damages = records.damages()
        if damages and not self.skip_damaged:
            firsts = ", ".join(str(each.from_offset) for each in damages)
            raise LogDamagedError(
                f"partition {stretch.partition}: records from {firsts} are damaged, so nothing from"
                f" {stretch.from_offset} on is archived. Keep a copy of {damages[0].segment}, then"
                " archive the others with --skip-damaged"
            )

    def rows(
        self, stretch: Stretch, name: str, seen: Callable[[Logged], None] = lambda _entry: None
    ) -> Iterator[ArchiveRows]:
        """Yields the rows of *stretch*, the range *name*, in batches.

        Args:
            stretch: Which records.
            name: Of the range.
            seen: Called with each record.
        """
        with self.log.opened(stretch.partition) as (records, who):
            rows = ArchiveRows(WRITTEN, stretch.partition, name, who)
            for entry in self._entries(records, stretch):
                seen(entry)
                held = None if entry.kind == _TIMER else events_of(entry)
                if held is None:
                    continue
                rows.add(entry, held, range(len(held.events)))
                if len(rows.events) >= ROWS_MAX or rows.body_bytes >= BATCH_BYTES_MAX:
                    yield rows
                    rows = ArchiveRows(WRITTEN, stretch.partition, name, who)
            if rows.events:
                yield rows

    def totals(self, stretch: Stretch) -> LogTotals:
        """Returns what the log holds in *stretch*, to be compared with what was written."""
        totals = LogTotals()

        def seen(entry: Logged) -> None:
            totals.last_checksum = entry.checksum

        for rows in self.rows(stretch, "", seen):
            totals.add(rows)
        return totals


class Compared(NamedTuple):
    """Rows of one file that were read back.

    Attributes:
        range: Name of its range.
        day: Its day.
        path: Where it lies.
        bytes: Its size.
        events: How many rows.
        check: Sum of their checksums, each made of the row as it was read.
        fault: What is wrong with one of them; empty: nothing.
    """

    range: str
    day: str
    path: str
    bytes: int
    events: int
    check: int
    fault: str


COMPARED: Final = (
    "range STRING, day STRING, path STRING, bytes BIGINT, events BIGINT, check BIGINT, fault STRING"
)
"""``Compared``, as columns of Spark."""

_KEYS: Final = (RANGE.name, DAY.name, "file_path", "file_size")


def compared(batch: pa.RecordBatch) -> list[Compared]:
    """Makes each event of *batch*, rows that were read back, again, and compares all columns.

    Args:
        batch: Columns ``WRITTEN``, ``file_path`` and ``file_size``.
    """
    found = []
    keys = [batch.column(key).dictionary_encode() for key in _KEYS]
    places = pa.table(keys, names=_KEYS).append_column("row", pa.array(range(len(batch))))
    grouped = places.group_by(list(_KEYS)).aggregate([("row", "min"), ("row", "count")])
    for each in grouped.to_pylist():
        part = batch.slice(each["row_min"], each["row_count"])
        check, fault = _again(part)
        where = (each[RANGE.name], str(each[DAY.name]), each["file_path"], each["file_size"])
        found.append(Compared(*where, len(part), check, fault))
    return found


def _again(batch: pa.RecordBatch) -> tuple[int, str]:
    """Sum of checksums of the rows of *batch*, of one file; and a fault."""
    partition, name = batch.column("partition")[0].as_py(), batch.column(RANGE.name)[0].as_py()
    by = iter(batch.column(BY.name).to_pylist())
    rows = ArchiveRows(WRITTEN, partition, name, lambda _offset: next(by))
    values = [
        batch.column(name).to_pylist() for name in ("offset", "address", "ttl", "carried", "index")
    ]
    stamps = batch.column("logged_at").cast(pa.int64()).to_pylist()
    events = zip(batch.column("head").to_pylist(), batch.column("data").to_pylist(), strict=True)
    try:
        for offset, address, ttl, carried, index, stamp, kept in zip(
            *values, stamps, events, strict=True
        ):
            held = AddressedEvents(address, (ttl,), [event_of(*kept)], carried)
            rows.add(Logged(offset, stamp // 1000, 0, RecordKind.EVENTS, b""), held, (0,))
            rows.indexes[-1] = index
        expected = rows.batch(partition)
    except (EventError, TypeError, struct.error) as error:
        return 0, f"{name}: a row is no event: {error}"
    for column in expected.schema:
        read = batch.column(column.name)
        if not read.cast(column.type).equals(expected.column(column.name)):
            return 0, f"{name}: the column {column.name} is not what was written"
    return sum(rows.checks()), ""
