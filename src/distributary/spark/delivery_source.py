"""The rows that Spark's tasks make of a partition: they own it and deliver it, one epoch each.

The source of the query is Spark's own counter (``rate-micro-batch``): each micro-batch has one
number for each partition of the log, and one task for each number. A number says which partition
and which epoch. Progress is in our own committed offset, not in Spark's checkpoint, so the
checkpoint is disposable. No event passes through Spark, so the sink is ``noop``.

A source written in Python would need four more Python processes on this machine, which only plan.
Only ``_own`` imports ``_delivery_task``: the driver needs nothing of it.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession, functions

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "rate-micro-batch"
COLUMNS = ("partition", "epoch", "live_offset", "committed_offset", "attempts", "outcomes")
SCHEMA = ", ".join(f"{name} {'int' if name == 'partition' else 'long'}" for name in COLUMNS)
"""Where a partition stands, and the attempts and the outcomes of matches since the row before."""
COUNTS = "deliveries"
"""Name of the metrics that Spark observes on the rows: sums over an epoch, in its progress."""


def delivery_rows(
    spark: SparkSession, settings_json: str, partitions: int, entrusted: bytes = b""
) -> DataFrame:
    """Returns the rows of the query, one a second and partition; Spark sums their counts.

    Args:
        spark: The session.
        settings_json: ``SessionSettings`` as JSON.
        partitions: Of the log.
        entrusted: For executors of a cluster: ``Entrusted`` as JSON. It stands in the function
            alone, which Spark shows nowhere.
    """
    own = functools.partial(_own, settings_json, partitions, entrusted)
    return counted_rows(spark, own, partitions)


def counted_rows(
    spark: SparkSession,
    task: "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]",
    partitions: int,
) -> DataFrame:
    """Returns the rows of *task*, which gets a number for each partition and epoch."""
    numbers = (
        spark.readStream.format(FORMAT)
        .option("rowsPerBatch", str(partitions))
        .option("numPartitions", str(partitions))
        .load()
        .select("value")
    )
    rows = numbers.mapInArrow(task, SCHEMA)
    counts = [functions.sum(name).alias(name) for name in ("attempts", "outcomes")]
    return rows.observe(COUNTS, *counts)


def task_of(number: int, partitions: int) -> tuple[int, int]:
    """Returns (partition, epoch) of a *number* of the counter; the first epoch is 1."""
    return number % partitions, number // partitions + 1


def _own(
    settings_json: str, partitions: int, entrusted: bytes, numbers: "Iterable[pa.RecordBatch]"
) -> "Iterator[pa.RecordBatch]":
    """Own the partition of the task's number, and deliver it until the epoch ends."""
    from distributary.spark import _delivery_task  # noqa: PLC0415 - see the module

    given = _delivery_task.decode_entrusted(entrusted)
    for batch in numbers:
        for number in batch.column("value").to_pylist():
            partition, epoch = task_of(number, partitions)
            yield from _delivery_task.rows(settings_json, partition, epoch, given)
