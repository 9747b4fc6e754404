"""Spark's streaming source: its tasks own the partitions and deliver them, one long batch an epoch.

Spark's *offset* is an epoch number. Progress is in our own committed offset, not in Spark's
checkpoint, so the checkpoint is disposable. ``read`` delivers its partition until the driver ends
the epoch on the partition's status page; no event passes through Spark, so the sink is ``noop``.

``partitions`` runs in the driver's planner process, ``read`` in a Python worker of an executor.
Only ``read`` imports ``_delivery_task``: Spark starts several Python processes that need the
classes alone.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "distributary_delivery"
SCHEMA = "partition int, epoch long, live_offset long, committed_offset long"


class EpochPartition(InputPartition):
    """One partition of the log in one epoch."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch


class DeliveryReader(DataSourceStreamReader):
    """Stream reader: plans epochs, and delivers partitions.

    Args:
        options: ``settings`` (``SessionSettings`` as JSON) and ``partitions``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = options["settings"]
        self._partitions = int(options["partitions"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Returns epoch 0, which is before the first."""
        return {"epoch": 0}

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, int], _limit: Any = None
    ) -> dict[str, int]:
        """Returns the next epoch; there always is one."""
        return {"epoch": start["epoch"] + 1}

    def partitions(self, _start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        """Plan one task for each partition of the log."""
        return [EpochPartition(number, end["epoch"]) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Own the partition and deliver it until the epoch ends; yields where it stands."""
        assert isinstance(partition, EpochPartition)
        from distributary.spark import _delivery_task  # noqa: PLC0415 - see the module

        return _delivery_task.rows(self._settings, partition.partition, partition.epoch)

    def commit(self, _end: Mapping[str, int]) -> None:
        """Does nothing: the committed offset moved while the epoch ran."""


class DeliverySource(DataSource):
    """The internal data source that delivers. Users have the one in ``format.py``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def schema(self) -> str:
        """Columns of a row: where a partition stands."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """Returns the reader."""
        return DeliveryReader(self.options)
