"""Converts log records to Arrow batches: the columns and rows of the table ``events``.

Called by ``_log_reads``, in the Python workers. Hides: Arrow, and which records are events. Only
the columns that are asked for are made, and only what they need is parsed.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa

from distributary.core.event import Event, canonical
from distributary.core.flow import AddressedEvents, Logged, RecordKind, events_of
from distributary.spark._pushed import EVERYTHING, Pushed
from distributary.spark._schema import Column, arrow_schema

EVENTS: Final = (
    Column("partition", "INT", "partition of the log, from 0"),
    Column("offset", "BIGINT", "offset of the record in its partition, from 0; gaps are possible"),
    Column("index", "INT", "index of the event in its record (a batch is one record), from 0"),
    Column(
        "logged_at", "TIMESTAMP", "when the record was appended; never decreases in a partition"
    ),
    Column(
        "address",
        "STRING",
        "uid of the Broker or Channel that the event was published to; empty: the default broker",
    ),
    Column("ttl", "INT", "hops that the event has left (`knativebrokerttl`), 1 to 255"),
    Column("specversion", "STRING", "version of CloudEvents"),
    Column("id", "STRING", "the attribute `id`"),
    Column("source", "STRING", "the attribute `source`"),
    Column("type", "STRING", "the attribute `type`"),
    Column("subject", "STRING", "the attribute `subject`; NULL: absent, as with those that follow"),
    Column(
        "time",
        "TIMESTAMP",
        "the attribute `time`, to the microsecond; NULL too if Spark has no such time",
    ),
    Column("time_text", "STRING", "the attribute `time` as it was sent"),
    Column("datacontenttype", "STRING", "the attribute `datacontenttype`"),
    Column("dataschema", "STRING", "the attribute `dataschema`"),
    Column(
        "extensions",
        "MAP<STRING, STRING>",
        "every other attribute, in its canonical string form",
    ),
    Column("data", "BINARY", "the payload byte for byte; NULL: there is none"),
)
"""``address`` and ``ttl`` are those of ``flow.AddressedEvents``."""

TEXTS: Final = {
    name: "time" if name == "time_text" else name
    for name in (
        "specversion",
        "id",
        "source",
        "type",
        "subject",
        "time_text",
        "datacontenttype",
        "dataschema",
    )
}
"""Column -> attribute, of those that hold its text."""
_NAMED: Final = frozenset(TEXTS.values())

ROWS_MAX: Final = 2_000
"""Rows of one batch: enough that the cost of a batch (0.1 ms) is small against its rows."""

BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes after which a batch is closed: several copies of a batch exist on its way."""

_FEW: Final = 2
"""So many attributes are looked for one by one; more are parsed all at once."""

_STAMP: Final = pa.timestamp("us", tz="UTC")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def batches(
    partition: int,
    logged: Iterable[Logged],
    columns: Sequence[Column] = EVENTS,
    pushed: Pushed = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """Yields the events in *logged* as Arrow batches, in order, without control records.

    One record may exceed ``ROWS_MAX`` or ``BATCH_BYTES_MAX``: it is never split.

    Args:
        partition: Number of the partition.
        logged: Its records.
        columns: Those wanted, in the order wanted.
        pushed: Which records and events match; others are not parsed.

    Raises:
        EventError: The body of a record of events cannot be decoded. Its checksum was right, so
            a newer version wrote it: upgrade.
    """
    rows = Rows(columns)
    entries = logged if pushed is EVERYTHING else filter(pushed.may_match(), logged)
    for entry in entries:
        held = None if entry.kind == RecordKind.TIMER_EVENT else events_of(entry)
        if held is None:
            continue
        indexes = pushed.matching(held.events)
        if not indexes:
            continue
        rows.add(entry, held, indexes)
        if len(rows.events) >= ROWS_MAX or rows.body_bytes >= BATCH_BYTES_MAX:
            yield rows.batch(partition)
            rows = Rows(columns)
    if rows.events:
        yield rows.batch(partition)


class Rows:
    """Builder of one batch: a list for each column, which Arrow converts fastest."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._schema = arrow_schema(columns)
        self.body_bytes = 0
        self.events: list[Event] = []
        self.offsets: list[int] = []
        self.indexes: list[int] = []
        self.stamps_us: list[int] = []
        self.addresses: list[str] = []
        self.ttls: list[int] = []

    def add(self, entry: Logged, held: AddressedEvents, indexes: Sequence[int]) -> None:
        """Append one row for each event of *entry* in *indexes*."""
        count = len(indexes)
        self.body_bytes += len(entry.body)
        self.offsets += [entry.offset] * count
        self.indexes += indexes
        self.stamps_us += [entry.time_ms * 1000] * count
        self.addresses += [held.address] * count
        self.ttls += [held.ttls[index] for index in indexes]
        self.events += [held.events[index] for index in indexes]

    def batch(self, partition: int) -> pa.RecordBatch:
        """Returns the rows so far as an Arrow batch."""
        names = self._schema.names
        texts = sum(name in TEXTS or name == "time" for name in names)
        if texts > _FEW or "extensions" in names:
            for event in self.events:
                event.attributes  # noqa: B018 - parses all of them, once
        return pa.RecordBatch.from_arrays(
            [self.column(field, partition) for field in self._schema], schema=self._schema
        )

    def column(self, field: pa.Field, partition: int) -> pa.Array:
        """The values of one column."""
        if field.name in _MAKERS:
            return _MAKERS[field.name](self)
        if field.name in TEXTS:
            return pa.array(self._texts(TEXTS[field.name]), type=field.type)
        plain: Mapping[str, list[Any]] = {
            "offset": self.offsets,
            "index": self.indexes,
            "logged_at": self.stamps_us,
            "address": self.addresses,
            "ttl": self.ttls,
        }
        values = plain.get(field.name) or [partition] * len(self.events)
        return pa.array(values, type=field.type)

    def _texts(self, name: str) -> list[str | None]:
        return [event.text(name) for event in self.events]

    def data(self) -> pa.Array:
        """The payloads."""
        return pa.array([event.data for event in self.events], pa.binary())

    def extensions(self) -> pa.Array:
        """Every attribute that has no column."""
        ends, names, texts = [0], [], []
        for event in self.events:
            for name, value in event.attributes.items():
                if name not in _NAMED:
                    names.append(name)
                    texts.append(canonical(value))
            ends.append(len(names))
        return pa.MapArray.from_arrays(
            pa.array(ends, pa.int32()), pa.array(names, pa.string()), pa.array(texts, pa.string())
        )

    def times(self) -> pa.Array:
        """The attribute ``time`` as a moment."""
        texts = self._texts("time")
        with contextlib.suppress(pa.ArrowInvalid):  # a leap second, or finer than a microsecond
            return pa.array(texts, pa.string()).cast(_STAMP)
        return pa.array([_moment_us(text) for text in texts], pa.int64()).cast(_STAMP)


_MAKERS: Final[Mapping[str, Callable[[Rows], pa.Array]]] = {
    "data": Rows.data,
    "extensions": Rows.extensions,
    "time": Rows.times,
}


def _moment_us(text: str | None) -> int | None:
    """Microseconds from 1970 to the time *text*, rounded down; None: it is none that Spark has."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return None if moment.tzinfo is None else (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError):
        return None
