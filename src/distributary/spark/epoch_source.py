"""The internal source of the pipeline: one long batch an epoch, rows flowing while it runs.

The *offset* that Spark sees is an epoch number. What an epoch covers is in our own cursor, not
in Spark's checkpoint, so the checkpoint can be thrown away (DESIGN, "Long-lived epochs").
``read`` tails its partition until the driver ends the epoch on the partition's board.

Runs: ``partitions`` on the driver's planner process, ``read`` in a Python worker of an executor.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from distributary.log import Reader
from distributary.outcome import fit, read_journal
from distributary.pipeline import Board, Places, Word, stands_in

NAME = "distributary_epochs"
SCHEMA = "partition int, epoch long, to_offset long, chunk binary"

CHUNK_BYTES = 512 * 1024
"""Most bytes of one row: 500 events of 1 KB; half a millisecond to copy through the JVM."""
POLL_S = 0.002
"""Pause between two looks at the log while events come: batches rows of a busy log, and costs a
lone event 1 ms on average."""
IDLE_POLL_S = 0.005
"""The same when nothing has come for a while: 200 looks a second cost under 1 % of a core."""
IDLE_AFTER_S = 1.0
"""Nothing for so long means idle."""
SIGN_OF_LIFE_S = 1.0
"""An empty row so often: a reader whose JVM is gone finds out by writing to it (rule 7)."""


class EpochPartition(InputPartition):
    """One partition of the log in one epoch."""

    def __init__(self, partition: int, epoch: int) -> None:
        self.partition = partition
        self.epoch = epoch


class EpochReader(DataSourceStreamReader):
    """Plans epochs and tails partitions.

    Args:
        options: ``data_dir`` and ``partitions``.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._data_dir = options["data_dir"]
        self._partitions = int(options["partitions"])

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Before the first epoch."""
        return {"epoch": 0}

    def latestOffset(self, start: Mapping[str, int], _limit: Any = None) -> dict[str, int]:  # noqa: N802
        """There is always a next epoch."""
        return {"epoch": start["epoch"] + 1}

    def partitions(self, _start: Mapping[str, int], end: Mapping[str, int]) -> list[InputPartition]:
        """One task for each partition of the log."""
        return [EpochPartition(number, end["epoch"]) for number in range(self._partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of whole frames from the cursor on, until the driver ends the epoch."""
        assert isinstance(partition, EpochPartition)
        places = Places.of(self._data_dir)
        records = Reader(places.log, partition.partition)
        board = Board(places.board(partition.partition))
        try:
            yield from _tail(records, board, partition, _cursor(places, records, partition))
        finally:
            records.close()
            board.close()

    def commit(self, _end: Mapping[str, int]) -> None:
        """Nothing: the cursor moved while the epoch ran."""


def _cursor(places: Places, records: Reader, partition: EpochPartition) -> int:
    """Where the epoch begins. The writer decides again under its lock; ours can only be lower."""
    state, _ = read_journal(places.journal(partition.partition))
    return max(fit(state, lambda mark: stands_in(records, mark)).mark.offset, 0)


def _tail(
    records: Reader, board: Board, partition: EpochPartition, offset: int
) -> Iterator[pa.RecordBatch]:
    epoch = partition.epoch
    empty = _row(partition, offset, b"")
    yield empty
    yield empty
    spoke_s = heard_s = time.monotonic()
    while board[Word.END_EPOCH] < epoch and not board[Word.STOP]:
        chunk, after = records.read_chunk(offset, CHUNK_BYTES)
        now_s = time.monotonic()
        if after > offset:
            offset = after
            yield _row(partition, offset, chunk)
            # Each stage between here and the writer looks one batch ahead: the empty one lets
            # the full one through at once.
            yield empty
            spoke_s = heard_s = now_s
            if len(chunk) >= CHUNK_BYTES // 2:
                continue
        elif now_s - spoke_s > SIGN_OF_LIFE_S:
            yield empty
            spoke_s = now_s
        time.sleep(POLL_S if now_s - heard_s < IDLE_AFTER_S else IDLE_POLL_S)


def _row(partition: EpochPartition, to_offset: int, chunk: bytes) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([partition.partition], pa.int32()),
            pa.array([partition.epoch], pa.int64()),
            pa.array([to_offset], pa.int64()),
            pa.array([chunk], pa.binary()),
        ],
        names=["partition", "epoch", "to_offset", "chunk"],
    )


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
