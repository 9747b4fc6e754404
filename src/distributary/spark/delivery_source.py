"""The rows that Spark's tasks make of a partition: they own it and deliver it, one epoch each.

The source of the query is Spark's own counter (``rate-micro-batch``): each micro-batch has one
number for each partition of the log, and one task for each number. A number says which partition
and which epoch. Progress is in our own committed offset, not in Spark's checkpoint, so the
checkpoint is disposable: what Spark reports of the source are its numbers. Where the partitions
stand is in the metrics that Spark observes on the rows (``COUNTS``). No event passes through
Spark, so the sink is ``noop``.

A source written in Python would need four more Python processes on this machine, which only plan.
Only ``_own`` imports ``_delivery_task``: the driver needs nothing of it.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, functions

from distributary.spark.delivery_columns import COUNTS, SCHEMA

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "rate-micro-batch"


def delivery_rows(
    spark: SparkSession, settings_json: str, partitions: int, entrusted: bytes = b""
) -> DataFrame:
    """Returns the rows of the query, some a minute and partition; Spark sums their counts.

    Args:
        spark: The session.
        settings_json: ``SessionSettings`` as JSON.
        partitions: Of the log.
        entrusted: For executors of a cluster: ``Entrusted`` as JSON. It stands in the function
            alone, which Spark shows nowhere.
    """
    own = functools.partial(_own, settings_json, entrusted)
    return counted_rows(spark, own, partitions)


def counted_rows(
    spark: SparkSession,
    task: "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    partitions: int,
) -> DataFrame:
    """Returns the rows of *task*, which gets a row with the number of its partition and epoch."""
    numbers = (
        spark.readStream.format(FORMAT)
        .option("rowsPerBatch", str(partitions))
        .option("numPartitions", str(partitions))
        .load()
        # Named, since Spark's UI shows them. The counter advances by the number of partitions.
        .selectExpr(
            f"cast(value % {partitions} AS int) AS partition",
            f"value div {partitions} + 1 AS epoch",
        )
    )
    rows = numbers.mapInArrow(task, SCHEMA)
    sums = [functions.sum(name).alias(name) for name in ("records", "attempts", "outcomes")]
    # One aggregate for all partitions: one for each would take seconds of every start.
    at_end = functions.expr(
        "array_agg(CASE WHEN ended = 1 THEN struct(partition, live_offset AS position,"
        " committed_offset AS committed, backlog) END)"
    )
    return rows.observe(COUNTS, *sums, at_end.alias("partitions"))


def _own(
    settings_json: str, entrusted: bytes, numbers: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Own the partition that the task is given, and deliver it until the epoch ends."""
    from distributary.spark import _delivery_task  # noqa: PLC0415 - see the module

    given = _delivery_task.decode_entrusted(entrusted)
    for batch in numbers:
        for row in batch.to_pylist():
            yield from _delivery_task.rows(settings_json, row["partition"], row["epoch"], given)
