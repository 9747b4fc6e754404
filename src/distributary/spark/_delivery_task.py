"""One Spark task of the delivery source: owns a partition and delivers it while the epoch lasts.

Called by ``delivery_source`` in a Python worker. The session's lock, not Spark, decides who owns a
partition, and the session reads the log where it lies: no event passes through Spark. A task that
ends proves nothing (its JVM may have been killed): only outcomes move the committed offset (DESIGN
rule 7, stopping).

If the partition cannot be owned, the task waits and tries again: a task that fails too often ends
those of all other partitions too.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import NoReturn

import msgspec
import pyarrow as pa

from distributary.core.clock import SystemClock
from distributary.core.errors import DistributaryError
from distributary.datadir import DataDir, LiveFile, MappedStatusPage, Sickness, StatusField
from distributary.partitions import (
    Guardians,
    PartitionSession,
    SessionSettings,
    owner_log,
    prepare_next,
)

LOOK_S = 0.05
"""Interval at which a task reads the driver's requests: a hand-over waits half of it."""
ROW_S = 1.0
"""Interval of rows, by which Spark tells its users what the partitions have done."""
OUTLIVED_DRAIN_S = 0.5
"""Time for attempts under way when a session that has outlived its JVM ends: its successor waits,
and the events of the partition with it."""


def rows(settings_json: str, partition: int, epoch: int) -> Iterator[pa.RecordBatch]:
    """Own *partition* until the driver ends *epoch*, and deliver it.

    Yields:
        Where the partition stands, once a second: columns as in ``delivery_source.SCHEMA``.
    """
    settings = msgspec.json.decode(settings_json, type=SessionSettings)
    task = _Task(settings, partition, epoch)
    try:
        yield from task.run()
    finally:
        task.close()


class _Task:
    """The session of one partition in one epoch."""

    def __init__(self, settings: SessionSettings, partition: int, epoch: int) -> None:
        paths = DataDir.of(settings.data_dir)
        self.status_page = MappedStatusPage(paths.status_page(partition))
        self._live = LiveFile(paths.live)
        self._settings = settings
        self._partition = partition
        self._epoch = epoch
        log = owner_log(settings.log_level)
        self._sickness = Sickness(paths, partition, self.status_page, SystemClock(), log)
        self._row_s = float("-inf")
        self._guardians = Guardians.of_worker()
        if threading.current_thread() is threading.main_thread():
            # The daemon of Spark's workers sends it when the JVM ends: this is known already.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def close(self) -> None:
        """Let go of what the task looks at."""
        self.status_page.close()
        self._guardians.close()

    def run(self) -> Iterator[pa.RecordBatch]:
        """Own the partition and deliver it; yields rows."""
        session: PartitionSession | None = None
        while session is None:
            yield from self._row_if_due()
            if self._over():
                return
            if self._sickness.due():
                session = self._open()
            else:
                time.sleep(LOOK_S)
        self._sickness.began()
        try:
            while not self._over():
                session.wait(LOOK_S)
                self._sickness.goes_on()
                if self._guardians.orphaned:
                    self._outlive(session)
                yield from self._row_if_due()
        except DistributaryError as error:
            self._sickness.note(error)
            raise
        finally:
            session.close(orderly=self._over())
        self._sickness.over()

    def _outlive(self, session: PartitionSession) -> NoReturn:
        """Deliver without a JVM until a successor asks or the server ends; ends this process.

        Raises:
            DistributaryError: The session has failed.
        """
        status_page = self.status_page
        while (
            self._guardians.patient
            and not status_page[StatusField.SUCCESSOR]
            and not status_page[StatusField.STOP]
        ):
            session.wait(LOOK_S)
        session.close(orderly=True, drain_s=OUTLIVED_DRAIN_S)
        os._exit(0)  # there is nobody to answer

    def _over(self) -> bool:
        """Whether the driver has ended the epoch, or the server stops."""
        status_page = self.status_page
        return bool(
            status_page[StatusField.STOP] or status_page[StatusField.END_EPOCH] >= self._epoch
        )

    def _open(self) -> PartitionSession | None:
        """Open the session; None if that fails, which is noted."""
        settings, partition = self._settings, self._partition
        live = self._live.look()
        if live is not None:
            settings = self._settings = msgspec.json.decode(live.session, type=SessionSettings)
            # Before the phase becomes RUNNING: else the driver sees outdated settings and ends
            # the epoch.
            self.status_page[StatusField.SETTINGS] = live.number
        try:
            # Before the session, and so before the lock: the last owner may still deliver.
            prepare_next(settings.data_dir, settings.credential_key_file, partition)
            return PartitionSession(partition, self._epoch, settings, self._guardians)
        except Exception as error:  # noqa: BLE001 - must not fail the other partitions
            self._sickness.note(error)
            return None

    def _row_if_due(self) -> Iterator[pa.RecordBatch]:
        now_s = time.monotonic()
        if now_s - self._row_s >= ROW_S:
            self._row_s = now_s
            yield self._row()

    def _row(self) -> pa.RecordBatch:
        status_page = self.status_page
        return pa.record_batch(
            [
                pa.array([self._partition], pa.int32()),
                pa.array([self._epoch], pa.int64()),
                pa.array([status_page[StatusField.LIVE_OFFSET]], pa.int64()),
                pa.array([status_page[StatusField.WATERMARK]], pa.int64()),
            ],
            names=["partition", "epoch", "live_offset", "committed_offset"],
        )
