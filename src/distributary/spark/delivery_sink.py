"""The writer of the pipeline: matches and delivers while the epoch runs.

Runs in a Python worker of an executor. What writing needs is in ``_delivery_task`` and is
imported by ``write`` alone: Spark starts several Python processes that only need the classes.
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
        """Own the partition until the input ends; then let it go in good order."""
        from distributary.spark import _delivery_task  # noqa: PLC0415 - see the module

        _delivery_task.run(iterator, self._settings)
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: the outcomes were durable before the task ended."""

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to undo: what was delivered was delivered."""


class DeliverySink(DataSource):
    """Spark's view of delivery."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def streamWriter(  # noqa: N802 - Spark's name
        self,
        schema: Any,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamArrowWriter:
        """The writer."""
        return DeliveryWriter(self.options["settings"])
