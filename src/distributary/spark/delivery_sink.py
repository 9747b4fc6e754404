"""Spark's streaming sink: matches and delivers while the epoch runs.

Runs in a Python worker of an executor. Only ``write`` imports ``_delivery_task``: Spark starts
several Python processes that need the classes alone.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "distributary_delivery"


class DeliveryWriter(DataSourceStreamArrowWriter):
    """Feeds the rows of one partition to its owner.

    Args:
        settings: ``SessionSettings`` as JSON.
    """

    def __init__(self, settings: str) -> None:
        self._settings = settings

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> WriterCommitMessage:
        """Own the partition until the input ends, then release it."""
        from distributary.spark import _delivery_task  # noqa: PLC0415 - see the module

        _delivery_task.run(iterator, self._settings)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: the outcomes were durable before the task ended."""

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Does nothing: a delivery cannot be undone."""


class DeliverySink(DataSource):
    """The data source that Spark writes to; only a stream writer."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: Any,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamArrowWriter:
        """Returns the writer."""
        return DeliveryWriter(self.options["settings"])
