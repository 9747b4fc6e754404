"""One Spark task of the delivery sink: feeds the rows of a partition to its consumer.

Called by ``delivery_sink`` in a Python worker. The session's lock, not Spark, decides who owns a
partition. The end of the input proves nothing (it ends normally when the reader or the JVM is
killed): only outcomes move the committed offset (DESIGN rule 7, durable outcomes).

If the partition cannot be owned, the task waits and tries again: a task that fails too often ends
those of all other partitions too.
"""

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from distributary.core.clock import SystemClock
from distributary.core.errors import DistributaryError
from distributary.datadir import DataDir, LiveFile, MappedStatusPage, Sickness, StatusField
from distributary.partitions import PartitionSession, SessionSettings, owner_log, prepare_next


def run(batches: Iterator[pa.RecordBatch], settings_json: str) -> None:
    """Own the partition of *batches*, and deliver its rows, until they end."""
    settings = msgspec.json.decode(settings_json, type=SessionSettings)
    first = next(batches, None)
    if first is None:
        return
    partition, epoch, token = (first.column(place)[0].as_py() for place in range(3))
    task = _Task(batches, settings, partition, epoch)
    try:
        task.run(token)
    except BaseException:
        # Spark notices our failure only once our reader has returned.
        task.status_page[StatusField.FAILED_READER] = token
        raise
    finally:
        task.status_page.close()


class _Task:
    """The session of one partition in one epoch, and its input."""

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        settings: SessionSettings,
        partition: int,
        epoch: int,
    ) -> None:
        paths = DataDir.of(settings.data_dir)
        self.status_page = MappedStatusPage(paths.status_page(partition))
        self._live = LiveFile(paths.live)
        self._batches = batches
        self._settings = settings
        self._partition = partition
        self._epoch = epoch
        log = owner_log(settings.log_level)
        self._sickness = Sickness(paths, partition, self.status_page, SystemClock(), log)

    def run(self, token: int) -> None:
        """Own the partition, then have the reader with *token* send its rows."""
        session = self._open()
        if session is None:
            return
        self._sickness.began()
        if not session.idle:
            self.status_page[StatusField.TAKES_FROM] = session.consumer.live_offset
            self.status_page[StatusField.TAKES] = token
        try:
            self._feed(session)
        finally:
            ended = (
                bool(self.status_page[StatusField.STOP])
                or self.status_page[StatusField.END_EPOCH] >= self._epoch
            )
            session.close(orderly=ended)
        if ended:
            self._sickness.over()

    def _open(self) -> PartitionSession | None:
        """Open the session, retrying until it opens; None if the input ends first."""
        settings, partition = self._settings, self._partition
        while True:
            while not self._sickness.due():
                # Empty rows, one a second: the reader blocks until we consume them.
                batch = next(self._batches, None)
                if batch is None:
                    return None
            live = self._live.look()
            if live is not None:
                settings = self._settings = msgspec.json.decode(live.session, type=SessionSettings)
                # Before the phase becomes RUNNING: else the driver sees outdated settings and ends
                # the epoch.
                self.status_page[StatusField.SETTINGS] = live.number
            try:
                # Before the session, and so before the lock: the last owner may still deliver.
                prepare_next(settings.data_dir, settings.credential_key_file, partition)
                idle = bool(self.status_page[StatusField.HOLD])
                return PartitionSession(partition, self._epoch, settings, idle=idle)
            except Exception as error:  # noqa: BLE001 - must not fail the other partitions
                self._sickness.note(error)

    def _feed(self, session: PartitionSession) -> None:
        for batch in self._batches:
            chunk = batch.column(4)[0].as_py()
            try:
                if chunk:
                    session.feed(batch.column(3)[0].as_py(), chunk)
                else:
                    session.check()
            except DistributaryError as error:
                self._sickness.note(error)
                raise
            self._sickness.goes_on()
