"""The internal source of the pipeline: one long batch an epoch, rows flowing while it runs.

The *offset* that Spark sees is an epoch number. What an epoch covers is in our own cursor, not
in Spark's checkpoint, so the checkpoint can be thrown away (DESIGN, "Long-lived epochs").
``read`` tails its partition until the driver ends the epoch on the partition's status page.

Runs: ``partitions`` on the driver's planner process, ``read`` in a Python worker of an executor.
Spark starts half a dozen Python processes that only need the classes here, so what reading
needs is in ``_epoch_tail`` and is imported by ``read`` alone.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "distributary_epochs"
SCHEMA = "partition int, epoch long, reader long, to_offset long, chunk binary"


class EpochPartition(InputPartition):
    """One partition of the log in one epoch."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch


class EpochReader(DataSourceStreamReader):
    """Plans epochs and tails partitions.

    Args:
        options: ``data_dir``, ``key_file`` (of credentials, see there) and ``partitions``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._data_dir = options["data_dir"]
        self._key_file = options["key_file"]
        self._partitions = int(options["partitions"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before the first epoch."""
        return {"epoch": 0}

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: Mapping[str, int], _limit: Any = None
    ) -> dict[str, int]:
        """There is always a next epoch."""
        return {"epoch": start["epoch"] + 1}

    def partitions(self, _start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        """One task for each partition of the log."""
        return [EpochPartition(number, end["epoch"]) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Rows of whole frames from the cursor on, until the driver ends the epoch."""
        assert isinstance(partition, EpochPartition)
        from distributary.spark import _epoch_tail  # noqa: PLC0415 - see the module

        return _epoch_tail.rows(
            self._data_dir, self._key_file, partition.partition, partition.epoch
        )

    def commit(self, _end: Mapping[str, int]) -> None:
        """Nothing: the cursor moved while the epoch ran."""


class EpochSource(DataSource):
    """Spark's view of the log for the pipeline. Not for users: see ``format.py`` for theirs."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def schema(self) -> str:
        """Chunks of frames, with where they lie."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """The reader."""
        return EpochReader(self.options)
