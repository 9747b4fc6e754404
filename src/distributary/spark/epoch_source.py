"""Spark's streaming source: one long batch an epoch, with rows flowing while it runs.

Spark's *offset* is an epoch number. Progress is in our own committed offset, not in Spark's
checkpoint, so the checkpoint is disposable. ``read`` tails its partition until the driver ends the
epoch on the partition's status page.

``partitions`` runs in the driver's planner process, ``read`` in a Python worker of an executor.
Only ``read`` imports ``_epoch_tail``: Spark starts half a dozen Python processes that need the
classes alone.
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
    """Stream reader: plans epochs and tails partitions.

    Args:
        options: ``data_dir``, ``key_file`` (keys of credentials) and ``partitions``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._data_dir = options["data_dir"]
        self._key_file = options["key_file"]
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
        """Yields whole frames from the committed offset on, until the driver ends the epoch."""
        assert isinstance(partition, EpochPartition)
        from distributary.spark import _epoch_tail  # noqa: PLC0415 - see the module

        return _epoch_tail.rows(
            self._data_dir, self._key_file, partition.partition, partition.epoch
        )

    def commit(self, _end: Mapping[str, int]) -> None:
        """Does nothing: the committed offset moved while the epoch ran."""


class EpochSource(DataSource):
    """The internal data source that tails the log. Users have the one in ``format.py``."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def schema(self) -> str:
        """Columns of a row: a chunk of frames and its position."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802, ARG002
        """Returns the reader."""
        return EpochReader(self.options)
