"""The public Spark format ``distributary``: the log as a table, for batch and streaming reads.

::

    distributary.spark.register(spark)
    spark.read.format("distributary").load(data_dir)
    spark.readStream.format("distributary").option("maxRecordsPerTrigger", 10_000).load(data_dir)

One row is one event; ``_columns.SPARK_SCHEMA`` names the columns, ``_options`` the options.
Streaming offsets are those of the log (partition -> next offset), so a query may be replayed from
its checkpoint as long as retention keeps the records. Control records make no rows.

For users' jobs. Delivery has an internal source, ``delivery_source``, whose tasks deliver.

No read passes the durable end. Planning pins the end (a batch: at each action; a stream: at each
micro-batch), so a retried task reads the same rows again.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
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

from distributary.core.errors import LogDamagedError, LogUnavailableError, SettingsError
from distributary.core.flow import RecordKind
from distributary.core.log import Damage, Reader, read_folder
from distributary.spark import _columns, _ranges
from distributary.spark._options import EARLIEST, LATEST, FormatOptions, parse_options
from distributary.spark._ranges import OffsetRange, Offsets


class DistributarySource(DataSource):
    """The data source ``distributary``; Spark makes it on the driver and pickles it to workers."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return "distributary"

    def schema(self) -> str:
        """Columns of a row; the same for every log."""
        return _columns.SPARK_SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a batch reader.

        Raises:
            SettingsError: Invalid options, or a schema given by the user.
        """
        return _BatchReader(self._parse(schema))

    def streamReader(  # noqa: N802 - Spark's name
        self, schema: StructType
    ) -> DataSourceStreamReader:
        """Returns a stream reader.

        Raises:
            SettingsError: As ``reader``; or options for an end, which a stream does not have.
        """
        options = self._parse(schema)
        if options.end.kind != "latest":
            raise SettingsError("endingOffsets and endingTimestamp belong to batch reads")
        return _StreamReader(options)

    def _parse(self, schema: StructType) -> FormatOptions:
        expected = [column.split()[0] for column in _columns.SPARK_SCHEMA.split(", ")[:-2]]
        if schema.fieldNames()[: len(expected)] != expected:
            raise SettingsError("the format distributary has its own schema; give none")
        return parse_options(self.options)


class _Slice(InputPartition):
    """One task: a range of one partition, pickled to an executor."""

    def __init__(self, span: OffsetRange) -> None:
        super().__init__(span)
        self.span = span


class _Log:
    """The log of a data directory, for planning (driver) and reading (executor)."""

    def __init__(self, options: FormatOptions) -> None:
        self._log_dir = options.data_dir / "log"
        self._fail_on_data_loss = options.fail_on_data_loss

    @contextlib.contextmanager
    def partitions(self) -> Iterator[Mapping[int, Reader]]:
        """Yields number -> reader of every partition, open inside the ``with``.

        Raises:
            LogError: This folder has no log, or one of another format version.
        """
        with contextlib.ExitStack() as stack:
            yield {
                number: stack.enter_context(contextlib.closing(Reader(self._log_dir, number)))
                for number in range(read_folder(self._log_dir).partitions)
            }

    def ends(self) -> Offsets:
        """Returns the durable end of every partition."""
        with self.partitions() as log:
            return {number: reader.durable_end() for number, reader in log.items()}

    def plan(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Returns the non-empty ranges between two offsets, after the check for deleted records.

        Raises:
            LogUnavailableError: Records of a range are deleted, with ``failOnDataLoss``.
        """
        planned = []
        with self.partitions() as log:
            for number, to_offset in sorted(end.items()):
                # A partition that is not in the start was added since: read it whole.
                span = OffsetRange(number, start.get(number, 0), to_offset)
                lost = _ranges.deleted(span, log[number])
                if lost.from_offset < lost.to_offset:
                    self._lose(lost)
                planned.append(span._replace(from_offset=lost.to_offset))
        return [span for span in planned if span.from_offset < span.to_offset]

    def read(self, span: OffsetRange) -> Iterator[pa.RecordBatch]:
        """Yields the events of *span* as Arrow batches. Runs on an executor.

        Raises:
            LogDamagedError: Records are damaged, with ``failOnDataLoss``.
            LogUnavailableError: Retention has deleted records meanwhile, with ``failOnDataLoss``.
        """
        with contextlib.closing(Reader(self._log_dir, span.partition)) as reader:
            records = reader.read(span.from_offset, span.to_offset)
            kept = _ranges.without_loss(records, span, reader, self._lose)
            yield from _columns.batches(span.partition, kept)
            for damage in reader.damages():
                self._damaged(damage)

    def _lose(self, lost: OffsetRange) -> None:
        message = (
            f"partition {lost.partition}: records {lost.from_offset} to {lost.to_offset - 1} are "
            "deleted (retention)"
        )
        if self._fail_on_data_loss:
            raise LogUnavailableError(f"{message}; begin later, or set failOnDataLoss to false")
        warnings.warn(f"{message}; they are left out", stacklevel=2)

    def _damaged(self, damage: Damage) -> None:
        if damage.kind not in {None, RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED}:
            return
        message = (
            f"partition {damage.partition}: records from {damage.from_offset} are damaged "
            f"({damage.segment}, byte {damage.byte_from})"
        )
        if self._fail_on_data_loss:
            raise LogDamagedError(f"{message}; to read the others, set failOnDataLoss to false")
        warnings.warn(f"{message}; they are left out", stacklevel=2)


class _BatchReader(DataSourceReader):
    """A bounded read; one for each action."""

    def __init__(self, options: FormatOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Pin the range of every partition, and split it into tasks. Runs once, when planning."""
        log = _Log(self._options)
        with log.partitions() as extents:
            end = _ranges.resolve(self._options.end, extents, absent=LATEST)
            start = _ranges.resolve(self._options.start, extents, absent=EARLIEST)
        return [
            _Slice(piece)
            for span in log.plan(start, end)
            for piece in _ranges.split(span, self._options.records_per_task_max)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Runs on an executor, again if the task is retried."""
        # If nothing was planned, Spark makes one task with an ``InputPartition`` that is not ours.
        if not isinstance(partition, _Slice):
            return iter(())
        return _Log(self._options).read(partition.span)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An endless read; lives on the driver for as long as the query runs.

    Spark keeps offsets as JSON objects with string keys: ``{"0": 1200, "1": 1180}``.
    """

    def __init__(self, options: FormatOptions) -> None:
        self._log = _Log(options)
        self._options = options
        self._target: Offsets | None = None

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
        """Returns how far the next micro-batch reads: the durable end, or less by *limit*."""
        end = self._target or self._log.ends()
        begin = _decode(start)
        # A partition added since the query began is read from its beginning; one whose end is
        # before its start (a log restored from a backup) does not move.
        end = {number: max(offset, begin.get(number, 0)) for number, offset in end.items()}
        begin = {number: begin.get(number, 0) for number in end}
        records_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return _encode(_ranges.admit(begin, end, records_max))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Fix the end of a query with ``trigger(availableNow=True)``."""
        self._target = self._log.ends()

    def reportLatestOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns the durable end, for the query's progress report."""
        return _encode(self._log.ends())

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Plan one task for each partition with records to read, which keeps its order."""
        return [_Slice(span) for span in self._log.plan(_decode(start), _decode(end))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task. Runs on an executor, again on a retry of task or batch."""
        assert isinstance(partition, _Slice)
        return self._log.read(partition.span)


def _encode(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(number): offset for number, offset in sorted(offsets.items())}


def _decode(offset: Mapping[str, int]) -> Offsets:
    return {int(number): value for number, value in offset.items()}
