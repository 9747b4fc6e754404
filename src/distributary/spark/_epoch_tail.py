"""Tails one partition of the log for one epoch: the reading side of ``epoch_source``.

Runs in a Python worker. Hides the poll interval, and what makes rows flow through Spark at once.
"""

import os
import secrets
import threading
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from distributary.core.log import Reader
from distributary.datadir import DataDir, MappedStatusPage, StatusField
from distributary.partitions import prepare_next

CHUNK_BYTES = 512 * 1024
"""Most bytes of one row: 500 events of 1 KB; half a millisecond to copy through the JVM."""
POLL_S = 0.002
"""Poll interval while single events arrive; delays each by 1 ms on average."""
BUSY_POLLS = ((4 * 1024, 0.005), (32 * 1024, 0.01), (64 * 1024, 0.02))
"""(chunk bytes, pause in seconds): a row costs readers, JVM and writers 0.3 ms of CPU whatever its
size, so a busy log is sent in fewer, larger rows."""
IDLE_POLL_S = 0.005
"""Poll interval when idle: 200 polls a second cost under 1 % of a core."""
IDLE_AFTER_S = 1.0
"""Without events for so long, a reader is idle."""
SIGN_OF_LIFE_S = 1.0
"""Interval of empty rows: a reader notices a dead JVM by writing to it (DESIGN rule 7, durable
outcomes)."""
LOOK_S = 0.05
"""Interval at which a reader writes its heartbeat and reads the driver's requests; it polls the
log hundreds of times a second, and its watchdog waits seconds."""
FAILED_WAIT_S = 1.0
"""Pause before a reader raises an error: Spark restarts the task at once."""


class _Reading(NamedTuple):
    """Identity of one reader, part of each of its rows.

    An owner that fails writes the ``token`` of its reader to the status page, so that this reader
    returns (only then does Spark see the failure) and the next one is not stopped.
    """

    partition: int
    epoch: int
    token: int


def rows(data_dir: str, key_file: str, partition: int, epoch: int) -> Iterator[pa.RecordBatch]:
    """Yields whole frames from the committed offset on, until the driver ends the epoch.

    Args:
        data_dir: The data directory.
        key_file: Keys of credentials, as in the settings of a session.
        partition: The partition to read.
        epoch: The epoch of this task.
    """
    paths = DataDir.of(data_dir)
    status_page = MappedStatusPage(paths.status_page(partition))
    reading = _Reading(partition, epoch, secrets.randbits(62))
    status_page[StatusField.READER_MS] = 0
    status_page[StatusField.READER_PID] = os.getpid()
    preparing = _Preparing(data_dir, key_file, status_page, reading)
    try:
        for row in _rows(paths, status_page, reading, preparing):
            # The owner may be saturated: a reader blocked by it does not hang.
            status_page[StatusField.READER_WAITS] = 1
            yield row
            status_page[StatusField.READER_WAITS] = 0
    except GeneratorExit:
        raise
    except Exception:
        # Spark restarts the task at once, each time.
        time.sleep(FAILED_WAIT_S)
        raise
    finally:
        if status_page[StatusField.READER_PID] == os.getpid():
            status_page[StatusField.READER_PID] = 0
        status_page.close()


def _rows(
    paths: DataDir, status_page: MappedStatusPage, reading: _Reading, preparing: "_Preparing"
) -> Iterator[pa.RecordBatch]:
    yield from _until_taken(status_page, reading, preparing)
    records = Reader(paths.log, reading.partition)
    try:
        yield from _tail(
            records, status_page, reading, status_page[StatusField.TAKES_FROM], preparing
        )
    finally:
        records.close()


class _Preparing:
    """Prepares this process, near the end of an epoch, to own a partition in the next."""

    def __init__(
        self, data_dir: str, key_file: str, status_page: MappedStatusPage, reading: _Reading
    ) -> None:
        self._data_dir = data_dir
        self._key_file = key_file
        self._status_page = status_page
        self._reading = reading
        self._thread: threading.Thread | None = None
        self._over = False

    def look(self) -> None:
        """Start the thread when the driver requests it; write ``PREPARED`` when it has ended."""
        reading, status_page = self._reading, self._status_page
        if self._thread is None:
            if status_page[StatusField.PREPARE] < reading.epoch:
                return
            self._thread = threading.Thread(target=self._prepare, name="prepare", daemon=True)
            self._thread.start()
        if not self._over and not self._thread.is_alive():
            self._over = True
            status_page[StatusField.PREPARED] = reading.epoch

    def _prepare(self) -> None:
        prepare_next(self._data_dir, self._key_file, self._reading.partition)


def _until_taken(
    status_page: MappedStatusPage, reading: _Reading, preparing: _Preparing
) -> Iterator[pa.RecordBatch]:
    """Yields only empty rows until an owner is ready for ours."""
    empty = _row(reading, 0, b"")
    yield empty
    yield empty
    spoke_s = began_s = time.monotonic()
    while status_page[StatusField.TAKES] != reading.token and not _ended(status_page, reading):
        preparing.look()
        status_page[StatusField.READER_MS] = time.time_ns() // 1_000_000
        now_s = time.monotonic()
        if now_s - spoke_s > SIGN_OF_LIFE_S:
            yield empty
            spoke_s = now_s
        time.sleep(POLL_S if now_s - began_s < IDLE_AFTER_S else IDLE_POLL_S)


def _tail(
    records: Reader,
    status_page: MappedStatusPage,
    reading: _Reading,
    offset: int,
    preparing: _Preparing,
) -> Iterator[pa.RecordBatch]:
    empty = _row(reading, offset, b"")
    spoke_s = heard_s = time.monotonic()
    looked_s = float("-inf")
    pause_s = POLL_S
    while not _ended(status_page, reading):
        chunk, after = records.read_chunk(offset, CHUNK_BYTES)
        now_s = time.monotonic()
        if now_s - looked_s >= LOOK_S:
            looked_s = now_s
            preparing.look()
            status_page[StatusField.READER_MS] = time.time_ns() // 1_000_000
        if after > offset:
            offset = after
            yield _row(reading, offset, chunk)
            # Each stage between here and the writer prefetches one batch: an empty one pushes the
            # full one through at once.
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


def _ended(status_page: MappedStatusPage, reading: _Reading) -> bool:
    return bool(
        status_page[StatusField.END_EPOCH] >= reading.epoch
        or status_page[StatusField.STOP]
        or status_page[StatusField.FAILED_READER] == reading.token
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
