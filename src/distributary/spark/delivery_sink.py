"""The writer of the pipeline: matches and delivers while the epoch runs.

Each task opens a ``pipeline.Session`` for its partition: the session's lock, not Spark, decides
who owns it. The end of the input proves nothing (it ends normally when the reader or the JVM is
killed): only outcomes move the cursor (DESIGN rule 7).

Runs: in a Python worker of an executor.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from distributary.pipeline import Board, Places, Session, SessionSettings, Word

NAME = "distributary_delivery"


class DeliveryWriter(DataSourceStreamArrowWriter):
    """Feeds the rows of one partition to its owner.

    Args:
        settings: ``SessionSettings`` as JSON.
    """

    def __init__(self, settings: str) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Own the partition until the input ends; then let it go in good order."""
        settings = msgspec.json.decode(self._settings, type=SessionSettings)
        session: Session | None = None
        epoch = partition = 0
        try:
            for batch in iterator:
                for row in range(batch.num_rows):
                    if session is None:
                        partition = batch.column(0)[row].as_py()
                        epoch = batch.column(1)[row].as_py()
                        session = Session(partition, epoch, settings)
                    chunk = batch.column(3)[row].as_py()
                    if chunk:
                        session.feed(batch.column(2)[row].as_py(), chunk)
                    else:
                        session.check()
        finally:
            if session is not None:
                session.close(orderly=_ended(settings, partition, epoch))
        return WriterCommitMessage()

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing: the outcomes were durable before the task ended."""

    def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803 - Spark's name
        """Nothing to undo: what was delivered was delivered."""


def _ended(settings: SessionSettings, partition: int, epoch: int) -> bool:
    """Whether the driver ended this epoch, or stops the system."""
    board = Board(Places.of(settings.data_dir).board(partition))
    try:
        return bool(board[Word.STOP]) or board[Word.END_EPOCH] >= epoch
    finally:
        board.close()


class DeliverySink(DataSource):
    """Spark's view of delivery."""

    @classmethod
    def name(cls) -> str:
        """Name of the format."""
        return NAME

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802, FBT001, ARG002
        """The writer."""
        return DeliveryWriter(self.options["settings"])
