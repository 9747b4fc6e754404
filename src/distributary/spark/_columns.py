"""Converts log records to Arrow batches: the schema and rows of the format ``distributary``.

Called by ``format``, in the Python workers. Hides: Arrow, and which records are events.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from distributary.core.event import AttributeValue, canonical
from distributary.core.flow import AddressedEvents, Logged, RecordKind, events_of

SPARK_SCHEMA: Final = (
    "partition INT, offset BIGINT, index INT, logged_at TIMESTAMP, address STRING, ttl INT, "
    "specversion STRING, id STRING, source STRING, type STRING, subject STRING, time STRING, "
    "datacontenttype STRING, dataschema STRING, extensions MAP<STRING, STRING>, data BINARY"
)
"""``address`` and ``ttl`` are those of ``flow.AddressedEvents``; ``time`` is the text as sent
(``to_timestamp`` parses it); ``extensions`` holds every other attribute in its canonical string
form; ``data`` is the payload byte for byte, or NULL."""

_NAMED: Final = (
    "specversion",
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
)
_NAMED_SET: Final = frozenset(_NAMED)

ARROW_SCHEMA: Final = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("index", pa.int32()),
        ("logged_at", pa.timestamp("us", tz="UTC")),
        ("address", pa.string()),
        ("ttl", pa.int32()),
        *((name, pa.string()) for name in _NAMED),
        ("extensions", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)
"""The same as ``SPARK_SCHEMA``; Spark refuses batches of another schema."""

_ROWS_MAX: Final = 2_000
"""Rows of one batch: enough that the cost of a batch (0.1 ms) is small against its rows."""

_BATCH_BYTES_MAX: Final = 4 * 1024 * 1024
"""Payload bytes after which a batch is closed: several copies of a batch exist on its way."""


def batches(partition: int, logged: Iterable[Logged]) -> Iterator[pa.RecordBatch]:
    """Yields the events in *logged* as Arrow batches, in order, without control records.

    One record may exceed ``_ROWS_MAX`` or ``_BATCH_BYTES_MAX``: it is never split.

    Raises:
        EventError: The body of a record of events cannot be decoded. Its checksum was right, so
            a newer version wrote it: upgrade.
    """
    rows = _Rows()
    for entry in logged:
        held = None if entry.kind == RecordKind.TIMER_EVENT else events_of(entry)
        if held is None:
            continue
        rows.add(entry, held)
        if len(rows.offsets) >= _ROWS_MAX or rows.body_bytes >= _BATCH_BYTES_MAX:
            yield rows.batch(partition)
            rows = _Rows()
    if rows.offsets:
        yield rows.batch(partition)


class _Rows:
    """Builder of one batch: a list for each column, which Arrow converts fastest."""

    def __init__(self) -> None:
        self.body_bytes = 0
        self.offsets: list[int] = []
        self.indexes: list[int] = []
        self.stamps_us: list[int] = []
        self.addresses: list[str] = []
        self.ttls: list[int] = []
        self.attributes: list[dict[str, AttributeValue]] = []
        self.data: list[bytes | None] = []
        self.extension_ends = [0]
        self.extension_names: list[str] = []
        self.extension_texts: list[str] = []

    def add(self, entry: Logged, held: AddressedEvents) -> None:
        """Append one row for each event in *entry*."""
        address, ttls, events, _, _ = held
        self.body_bytes += len(entry.body)
        self.addresses += [address] * len(events)
        self.ttls += ttls
        for index, event in enumerate(events):
            self.offsets.append(entry.offset)
            self.indexes.append(index)
            self.stamps_us.append(entry.time_ms * 1000)
            self.attributes.append(event.attributes)
            self.data.append(event.data)
            for name, value in event.attributes.items():
                if name not in _NAMED_SET:
                    self.extension_names.append(name)
                    self.extension_texts.append(canonical(value))
            self.extension_ends.append(len(self.extension_names))

    def batch(self, partition: int) -> pa.RecordBatch:
        """Returns the rows so far as an Arrow batch."""
        extensions = pa.MapArray.from_arrays(
            pa.array(self.extension_ends, pa.int32()),
            pa.array(self.extension_names, pa.string()),
            pa.array(self.extension_texts, pa.string()),
        )
        columns = {
            "partition": [partition] * len(self.offsets),
            "offset": self.offsets,
            "index": self.indexes,
            "logged_at": self.stamps_us,
            "address": self.addresses,
            "ttl": self.ttls,
            **{name: [row.get(name) for row in self.attributes] for name in _NAMED},
            "extensions": extensions,
            "data": self.data,
        }
        return pa.RecordBatch.from_arrays(
            [
                column if column is extensions else pa.array(column, type=field.type)
                for column, field in zip(columns.values(), ARROW_SCHEMA, strict=True)
            ],
            schema=ARROW_SCHEMA,
        )
