"""Reading for the pipeline's source: tails one partition for one epoch.

Called by ``epoch_source`` in a Python worker. Hides the pace of looking, and what makes rows
flow through Spark at once.
"""

import os
import secrets
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from distributary.log import Reader
from distributary.outcome import fit, read_journal
from distributary.pipeline import Board, Places, Word, stands_in

CHUNK_BYTES = 512 * 1024
"""Most bytes of one row: 500 events of 1 KB; half a millisecond to copy through the JVM."""
POLL_S = 0.002
"""Pause between two looks at the log while single events come: costs each 1 ms on average."""
BUSY_POLLS = ((4 * 1024, 0.005), (32 * 1024, 0.01), (64 * 1024, 0.02))
"""After a chunk of so many bytes, so long a pause: a row costs readers, JVM and writers 0.3 ms of
CPU whatever it holds, so a busy log is sent in fewer, larger rows."""
IDLE_POLL_S = 0.005
"""The same when nothing has come for a while: 200 looks a second cost under 1 % of a core."""
IDLE_AFTER_S = 1.0
"""Nothing for so long means idle."""
SIGN_OF_LIFE_S = 1.0
"""An empty row so often: a reader whose JVM is gone finds out by writing to it (rule 7)."""


class _Reading(NamedTuple):
    """What every row of one reading says about it.

    ``token`` names the reading: an owner that fails says so under it, so that its own reader
    returns (Spark sees the failure only then) and the next one is not stopped.
    """

    partition: int
    epoch: int
    token: int


def rows(data_dir: str, partition: int, epoch: int) -> Iterator[pa.RecordBatch]:
    """Rows of whole frames from the cursor on, until the driver ends the epoch."""
    places = Places.of(data_dir)
    records = Reader(places.log, partition)
    board = Board(places.board(partition))
    reading = _Reading(partition, epoch, secrets.randbits(62))
    board[Word.READER_MS] = 0
    board[Word.READER_PID] = os.getpid()
    tail = _tail(records, board, reading, _cursor(places, records, partition))
    try:
        for row in tail:
            # Whoever takes rows may have no room: waiting for it is no hang.
            board[Word.READER_WAITS] = 1
            yield row
            board[Word.READER_WAITS] = 0
    finally:
        if board[Word.READER_PID] == os.getpid():
            board[Word.READER_PID] = 0
        records.close()
        board.close()


def _cursor(places: Places, records: Reader, partition: int) -> int:
    """Where the epoch begins. The writer decides again under its lock; ours can only be lower."""
    state, _ = read_journal(places.journal(partition))
    return max(fit(state, lambda mark: stands_in(records, mark)).mark.offset, 0)


def _tail(
    records: Reader, board: Board, reading: _Reading, offset: int
) -> Iterator[pa.RecordBatch]:
    empty = _row(reading, offset, b"")
    yield empty
    yield empty
    spoke_s = heard_s = time.monotonic()
    pause_s = POLL_S
    while not _ended(board, reading):
        chunk, after = records.read_chunk(offset, CHUNK_BYTES)
        now_s = time.monotonic()
        board[Word.READER_MS] = time.time_ns() // 1_000_000
        if after > offset:
            offset = after
            yield _row(reading, offset, chunk)
            # Each stage between here and the writer looks one batch ahead: the empty one lets
            # the full one through at once.
            yield empty
            spoke_s = heard_s = now_s
            if len(chunk) >= CHUNK_BYTES // 2:
                continue
            pause_s = _pause_after(len(chunk))
        elif now_s - spoke_s > SIGN_OF_LIFE_S:
            yield empty
            spoke_s = now_s
        time.sleep(pause_s if now_s - heard_s < IDLE_AFTER_S else IDLE_POLL_S)


def _pause_after(chunk_bytes: int) -> float:
    pause_s = POLL_S
    for size, longer_s in BUSY_POLLS:
        if chunk_bytes >= size:
            pause_s = longer_s
    return pause_s


def _ended(board: Board, reading: _Reading) -> bool:
    return bool(
        board[Word.END_EPOCH] >= reading.epoch
        or board[Word.STOP]
        or board[Word.FAILED_READER] == reading.token
    )


def _row(reading: _Reading, to_offset: int, chunk: bytes) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([reading.partition], pa.int32()),
            pa.array([reading.epoch], pa.int64()),
            pa.array([reading.token], pa.int64()),
            pa.array([to_offset], pa.int64()),
            pa.array([chunk], pa.binary()),
        ],
        names=["partition", "epoch", "reader", "to_offset", "chunk"],
    )
