"""Writers of the format ``distributary``: ``df.write`` and ``df.writeStream``.

Caller: ``spark.format``. Hides: Spark's writer classes, and what makes ids repeat.

Made on the driver, where options and columns are checked and secrets are read; pickled to tasks,
each of which publishes its rows in order. Tasks never fail because of refused rows, since Spark
would only repeat them: they tell the driver, whose commit names them all in one error.
"""

import random
import time
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from distributary.core.clock import SystemClock
from distributary.core.errors import EventError, Fault, SettingsError
from distributary.spark.publish._client import Client
from distributary.spark.publish._columns import ColumnPlan, plan_columns
from distributary.spark.publish._options import (
    WriteOptions,
    attributes_of,
    parse_write_options,
)
from distributary.spark.publish._publisher import REFUSED_NAMED_MAX, Publisher, RefusedRow, Waits
from distributary.spark.publish._rows import RowEvents


class RefusedRowsError(EventError):
    """Rows that are no events, or that the server does not take; all others are published.

    Args:
        summary: How many rows were published and refused, and why.
        faults: Of the first refused rows, each with its place.
    """

    def __init__(self, summary: str, faults: Sequence[Fault]) -> None:
        super().__init__(faults)
        self.summary = summary

    def __str__(self) -> str:
        """The summary, and a line for each fault."""
        lines = [f"{each.path}: {each.code}: {each.message}" for each in self.faults]
        return "\n  ".join([self.summary, *lines])


class Published(WriterCommitMessage):
    """What one task did.

    Attributes:
        partition: Number of its partition.
        taken: Events that the server took.
        refused_count: Rows that were refused.
        refused: The first of them.
        codes: Faults by their code.
    """

    def __init__(self, partition: int, publisher: Publisher) -> None:
        self.partition = partition
        self.taken = publisher.taken
        self.refused_count = publisher.refused_count
        self.refused: Sequence[RefusedRow] = publisher.refused
        self.codes: Mapping[str, int] = publisher.codes


def batch_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """A writer for one action of ``df.write``.

    Raises:
        SettingsError: Options or columns cannot be used; nothing was sent.
    """
    parsed, plan = _checked(options, schema, overwrite=overwrite)
    return _BatchWriter(parsed, plan, parsed.run or uuid.uuid4().hex)


def stream_writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """A writer for a query of ``df.writeStream``.

    Raises:
        SettingsError: As ``batch_writer``.
    """
    parsed, plan = _checked(options, schema, overwrite=overwrite)
    return _StreamWriter(parsed, plan)


def _checked(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> tuple[WriteOptions, ColumnPlan]:
    faults = []
    if overwrite:
        faults.append("events are published, never overwritten: use mode append")
    parsed = plan = None
    try:
        parsed = parse_write_options(options)
    except SettingsError as error:
        faults.append(str(error))
    try:
        plan = plan_columns(schema, attributes_of(options))
    except SettingsError as error:
        faults.append(str(error))
    if parsed is None or plan is None or faults:
        raise SettingsError("; ".join(faults))
    return parsed, plan


class _BatchWriter(DataSourceArrowWriter):
    """Publishes the rows of one action."""

    def __init__(self, options: WriteOptions, plan: ColumnPlan, run: str) -> None:
        self._options = options
        self._plan = plan
        self._run = run

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task. Runs on an executor, again if the task is repeated."""
        return _publish(iterator, self._options, self._plan, f"run {self._run}")

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Name the refused rows. Runs on the driver, when all tasks have ended.

        Raises:
            RefusedRowsError: There are some, and the option ``rejected`` is not ``skip``.
        """
        _tell(messages, self._options)


class _StreamWriter(DataSourceStreamArrowWriter):
    """Publishes the rows of each micro-batch."""

    def __init__(self, options: WriteOptions, plan: ColumnPlan) -> None:
        self._options = options
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task. Runs on an executor, again if task or batch is repeated."""
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        assert query, "Spark names the query"
        assert batch, "Spark numbers the batch"
        return _publish(iterator, self._options, self._plan, f"query {query} batch {batch}")

    def commit(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002, N803 - Spark's name
    ) -> None:
        """As that of a batch: an error ends the query, and its restart repeats the batch."""
        _tell(messages, self._options)

    def abort(
        self,
        messages: Sequence[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        """Nothing: what was published stays, and the batch is repeated."""


def _publish(
    batches: Iterator[pa.RecordBatch], options: WriteOptions, plan: ColumnPlan, scope: str
) -> Published:
    context = TaskContext.get()
    assert context is not None
    partition = context.partitionId()
    rows = RowEvents(plan, f"{scope} partition {partition}")
    client = Client(options)
    waits = Waits(time.sleep, SystemClock().wall_ms, random.random)
    publisher = Publisher(
        client.post,
        waits,
        batch_events_max=options.batch_events_max,
        batch_bytes_max=options.batch_bytes_max,
        retries=options.retries,
    )
    try:
        for batch in batches:
            for found in rows.of(batch):
                publisher.add(found)
        publisher.finish()
    finally:
        client.close()
    return Published(partition, publisher)


def _tell(messages: Sequence[WriterCommitMessage | None], options: WriteOptions) -> None:
    told = [each for each in messages if isinstance(each, Published)]
    refused = sum(each.refused_count for each in told)
    if not refused:
        return
    codes: Counter[str] = Counter()
    for each in told:
        codes.update(each.codes)
    counted = ", ".join(f"{code} {count}" for code, count in codes.most_common())
    faults = [
        Fault(f"partition {each.partition}, row {row.row}, id {row.id!r}, {fault.path}", *rest)
        for each in told
        for row in each.refused
        for fault in row.faults
        for rest in [(fault.code, fault.message)]
    ]
    summary = (
        f"{refused} rows were refused (faults: {counted}), {sum(each.taken for each in told)} are "
        f"published; the first refused ones:"
    )
    error = RefusedRowsError(summary, faults[:REFUSED_NAMED_MAX])
    if not options.skips_rejected:
        raise error
    warnings.warn(str(error), stacklevel=2)
