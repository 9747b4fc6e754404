"""The public Spark format ``distributary``: the log as a table, and what became of its events.

::

    distributary.spark.register(spark)
    spark.read.format("distributary").load(data_dir)
    spark.readStream.format("distributary").option("maxRecordsPerTrigger", 10_000).load(data_dir)

The option ``table`` chooses among ``TABLES``, of which ``events`` is a stream too: one row is one
event. ``_options`` names the options.
Streaming offsets are those of the log (partition -> next offset), so a query may be replayed from
its checkpoint as long as retention keeps the records. Control records make no rows.

``df.write`` and ``df.writeStream`` publish rows over HTTP: the package ``publish``.

For users' jobs. Delivery has an internal source, ``delivery_source``, whose tasks deliver.

No read passes the durable end. Planning pins the end (a batch: at each action; a stream: at each
micro-batch), so a retried task reads the same rows again.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from distributary.core.clock import SystemClock
from distributary.core.errors import SettingsError, StoreError
from distributary.spark import _columns, _history_tables, _ranges, _schema, _state_tables
from distributary.spark._bounded import TableReader
from distributary.spark._history_tables import HistoryTable
from distributary.spark._log_reads import EventReader, Log, Slice
from distributary.spark._options import EARLIEST, FormatOptions, parse_options
from distributary.spark._ranges import Offsets
from distributary.spark._reader_notes import OwnNote, note_of
from distributary.spark._schema import Column
from distributary.spark._state_tables import DeadLetterTable, SubscriptionTable
from distributary.spark.publish import batch_writer, stream_writer

TABLES: Final = {
    "events": _columns.EVENTS,
    "outcomes": _history_tables.OUTCOMES,
    "attempts": _history_tables.ATTEMPTS,
    "dead_letters": _state_tables.DEAD_LETTERS,
    "subscriptions": _state_tables.SUBSCRIPTIONS,
}
"""Columns of each table."""

NOTED_S: Final = 3600.0
"""How long a registered reader says nothing at most: retention forgets it after seven days."""


class DistributarySource(DataSource):
    """The data source ``distributary``; Spark makes it on the driver and pickles it to workers."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "distributary"

    def schema(self) -> StructType:
        """Columns of a row; the same for every log.

        Raises:
            SettingsError: Invalid options.
        """
        options, of_catalog = _schema.without_catalog(self.options)
        columns = TABLES[parse_options(options).table]
        return _schema.spark_schema(columns, options if of_catalog else None)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a batch reader of the columns of *schema*.

        Raises:
            SettingsError: Invalid options, or a schema with other columns.
        """
        options, columns = self._parse(schema)
        if options.reader:
            raise SettingsError("reader belongs to streams: a batch read holds nothing")
        if options.table == "events":
            return EventReader(options, columns)
        if options.table in {"outcomes", "attempts"}:
            history = HistoryTable(options, columns)
            return TableReader(history, history.take)
        table = DeadLetterTable if options.table == "dead_letters" else SubscriptionTable
        return TableReader(table(options, columns))

    def streamReader(  # noqa: N802 - Spark's name
        self, schema: StructType
    ) -> DataSourceStreamReader:
        """Returns a stream reader of the columns of *schema*.

        Raises:
            SettingsError: As ``reader``; or options for an end, which a stream does not have.
        """
        options, columns = self._parse(schema)
        if options.table != "events":
            raise SettingsError(f"{options.table} is a table for batch reads; events is a stream")
        if options.end.kind != "latest":
            raise SettingsError("endingOffsets and endingTimestamp belong to batch reads")
        return _StreamReader(options, columns)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer that publishes the rows of one action; see ``publish``.

        Raises:
            SettingsError: Options or columns cannot be used; nothing was sent.
        """
        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """Returns a writer that publishes the rows of each micro-batch; see ``publish``.

        Raises:
            SettingsError: As ``writer``.
        """
        return stream_writer(self.options, schema, overwrite=overwrite)

    def _parse(self, schema: StructType) -> tuple[FormatOptions, list[Column]]:
        given, _ = _schema.without_catalog(self.options)
        kept = _schema.kept_options(schema)
        if kept is None and not given:
            raise SettingsError(
                "this table has no options: Spark keeps those of CREATE TABLE only where the "
                "statement names no columns; make it again without them"
            )
        options = parse_options(given or kept or {})
        return options, _schema.chosen(options.table, TABLES[options.table], schema)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read; lives on the driver for as long as the query runs.

    Spark keeps offsets as JSON objects with string keys: ``{"0": 1200, "1": 1180}``.
    """

    def __init__(self, options: FormatOptions, columns: Sequence[Column]) -> None:
        self._log = Log(options, columns)
        self._options = options
        self._target: Offsets | None = None
        self._noted_s = float("-inf")
        self._own: OwnNote | None = None

    def __getstate__(self) -> dict[str, object]:
        """For tasks, which note nothing."""
        return self.__dict__ | {"_own": None}

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns where a query without a checkpoint begins."""
        with self._log.partitions() as extents:
            return _encode(_ranges.resolve(self._options.start, extents, absent=EARLIEST))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Returns ``maxRecordsPerTrigger``, in records: a batch of events is one, never split."""
        limit = self._options.records_per_trigger_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Returns how far the next micro-batch reads: the durable end, or less by *limit*.

        Raises:
            RecordsMissingError: The log ends before *start*, with ``failOnDataLoss``.
        """
        begin = _decode(start)
        end = self._log.reached(begin, self._target or self._log.ends())
        # Again and again: a reader that says nothing is forgotten, and where no record comes no
        # micro-batch ends.
        if SystemClock().monotonic_s() - self._noted_s >= NOTED_S:
            # The first one shows that it can; a later one has days.
            first = self._noted_s == float("-inf")
            with contextlib.nullcontext() if first else contextlib.suppress(SettingsError):
                self._note(begin)
        # A partition added since the query began is read from its beginning. Without
        # ``failOnDataLoss`` a query goes back to the end of a log that was restored.
        begin = {number: min(begin.get(number, 0), offset) for number, offset in end.items()}
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return _encode(_ranges.admit(begin, end, records_max))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query with ``trigger(availableNow=True)``."""
        self._target = self._log.ends()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the durable end, for the query's progress report."""
        return _encode(self._log.ends())

    def commit(self, end: dict[str, int]) -> None:
        """Note how far a registered reader is: Spark has a micro-batch behind it."""
        self._note(_decode(end))

    def _note(self, positions: Offsets) -> None:
        """Tell retention what this query has not read yet.

        Raises:
            SettingsError: Data directory or store cannot be written.
        """
        self._noted_s = SystemClock().monotonic_s()
        options = self._options
        if not options.reader:
            return
        if self._own is None:
            self._own = note_of(options.places, options.reader)
        try:
            self._own.write(positions, SystemClock().wall_ms())
        except (OSError, StoreError) as error:
            raise SettingsError(
                f"reader: its position cannot be noted, so retention would not hold the log for it:"
                f" {error}. The query needs to write {self._own.place}"
            ) from error

    def stop(self) -> None:
        """End the connections."""
        if self._own is not None:
            self._own.close()
            self._own = None

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan one task for each partition with records to read, which keeps its order.

        What is read from an archive has a task for each of its ranges.
        """
        return [Slice(part) for part in self._log.plan(_decode(start), _decode(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Runs on an executor, again on a retry of task or batch."""
        assert isinstance(partition, Slice)
        return self._log.read_all(partition)


def _encode(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(offsets.items())}


def _decode(offset: Mapping[str, int]) -> Offsets:
    return {int(number): value for number, value in offset.items()}
