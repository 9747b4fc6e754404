"""One Spark task of the delivery source: owns a partition and delivers it while the epoch lasts.

Called by ``delivery_source`` in a Python worker. The session's lock, not Spark, decides who owns a
partition, and the session reads the log where it lies: no event passes through Spark. A task that
ends proves nothing (its JVM may have been killed): only outcomes move the committed offset (DESIGN
rule 7, stopping).

A task goes on with the session that its process has from an earlier task, and leaves it there when
the epoch ends: a rollover pauses nothing (``_custody``). Without one it looks for a partition
(``_search``). If no partition can be owned, the task waits and tries again: a task that fails too
often ends those of all other partitions too.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import msgspec
import pyarrow as pa

from distributary.core.clock import SystemClock
from distributary.core.errors import DistributaryError, LogLockedError
from distributary.core.lease import FileLease, Lease
from distributary.datadir import DataDir, LiveFile, MappedStatusPage, Sickness, StatusField
from distributary.partitions import (
    Guardians,
    PartitionSession,
    SessionSettings,
    owner_log,
    prepare_next,
)
from distributary.spark._custody import CUSTODY
from distributary.spark._owner import Owner
from distributary.spark._search import Search
from distributary.spark.delivery_source import COLUMNS

FIND_S = 0.05
"""Interval at which a task without a session looks for a partition: one whose owner has ended
waits for it."""
ROW_S = 1.0
"""Interval of rows, by which Spark tells its users what the partitions have done."""
ASK_S = 0.01
"""Interval at which a task tries the lock that it has asked for: its partition waits half of it."""
LAST_DRAIN_S_MAX = 10.0
"""Longest drain of a session that ends with its epoch: the other partitions wait."""


def rows(settings_json: str, number: int, epoch: int) -> Iterator[pa.RecordBatch]:
    """Own a partition until the driver ends *epoch*, and deliver it.

    Args:
        settings_json: ``SessionSettings``, unless the settings file has newer ones.
        number: The partition to look at first.
        epoch: The epoch.

    Yields:
        Where the partition stands, once a second: columns as in ``delivery_source.SCHEMA``.
    """
    settings = msgspec.json.decode(settings_json, type=SessionSettings)
    task = _Task(settings, number, epoch)
    try:
        yield from task.run()
    finally:
        task.close()


class _Partition:
    """A partition, seen by a task that looks for one: a ``_search.Place``."""

    def __init__(self, settings: SessionSettings, number: int) -> None:
        paths = DataDir.of(settings.data_dir)
        self.status_page = MappedStatusPage(paths.status_page(number))
        log = owner_log(settings.log_level)
        self.sickness = Sickness(paths, number, self.status_page, SystemClock(), log)
        self.due = self.sickness.due
        self._lock = paths.owner_lock(number)

    @property
    def epoch(self) -> int:
        return self.status_page[StatusField.EPOCH]

    def take(self) -> Lease | None:
        try:
            self._lock.parent.mkdir(parents=True, exist_ok=True)
            return FileLease(self._lock, 0.0, SystemClock(), time.sleep)
        except LogLockedError:
            return None
        except OSError as error:
            self.sickness.note(error)
            return None

    def ask(self) -> None:
        self.status_page[StatusField.SUCCESSOR] = os.getpid()

    def withdraw(self) -> None:
        self.status_page[StatusField.SUCCESSOR] = 0


class _Task:
    """One task: a partition in one epoch."""

    def __init__(self, settings: SessionSettings, number: int, epoch: int) -> None:
        self._settings = settings
        self._paths = DataDir.of(settings.data_dir)
        self._number = number
        self._epoch = epoch
        count = max(settings.partitions, number + 1)
        self._partitions = [_Partition(settings, n) for n in range(count)]
        self._page = self._partitions[number].status_page
        self._search: Search | None = None
        self._prepared = False
        self._row_s = float("-inf")
        if threading.current_thread() is threading.main_thread():
            # The daemon of Spark's workers sends it when the JVM ends: this is known already.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def close(self) -> None:
        """Let go of what the task looks at."""
        if self._search is not None:
            self._search.end()
        for partition in self._partitions:
            partition.status_page.close()

    def run(self) -> Iterator[pa.RecordBatch]:
        """Own a partition and deliver it; yields rows.

        Raises:
            DistributaryError: The session has failed, which is noted.
        """
        owner = CUSTODY.take()
        if owner is not None:
            self._prepared = True
            self._number = owner.partition
            owner.serve(self._epoch)
        try:
            while not self._over(owner):
                yield from self._row_if_due(owner)
                owner = self._find() if owner is None else self._go_on(owner)
        except DistributaryError:
            owner = None  # closed already
            raise
        finally:
            if owner is not None:
                self._leave(owner)

    def _over(self, owner: Owner | None) -> bool:
        """Whether the server stops, or the driver has ended the epoch."""
        if self._page[StatusField.STOP]:
            return True
        if self._page[StatusField.END_EPOCH] < self._epoch:
            return False
        return owner is None or CUSTODY.possible or owner.quiet(LAST_DRAIN_S_MAX)

    def _go_on(self, owner: Owner) -> Owner | None:
        """Deliver for a moment; None if the session has ended for newer settings."""
        owner.watch()
        if owner.guardians.orphaned:
            owner.alone(lambda: False)
            os._exit(0)  # there is nobody to answer
        if owner.outdated():
            owner.close(orderly=True)
            return None
        return owner

    def _leave(self, owner: Owner) -> None:
        """Leave the session to the next task of this process, or end it."""
        stops = bool(self._page[StatusField.STOP])
        over = self._page[StatusField.END_EPOCH] >= self._epoch
        if CUSTODY.possible and not stops:
            CUSTODY.put(owner)
            return
        owner.close(orderly=stops or over)
        if stops or over:
            self._partitions[owner.partition].sickness.over()

    # -- without a session --------------------------------------------------------------------

    def _find(self) -> Owner | None:
        """Look for a partition once."""
        if self._search is None:
            self._search = Search(self._partitions, self._number, self._epoch, time.monotonic)
        found = self._search.look()
        if found is not None:
            self._search = None
            self._number, lease = found
            return self._open(self._number, lease)
        # Others have the locks, and deliver: the time costs nothing.
        self._prepare(self._settings, self._number)
        time.sleep(ASK_S if self._search.asking else FIND_S)
        return None

    def _prepare(self, settings: SessionSettings, number: int) -> None:
        """Prepare this process, unless it has had a session in this task."""
        if not self._prepared:
            self._prepared = True
            prepare_next(settings.data_dir, settings.credential_key_file, number)

    def _open(self, number: int, lease: Lease) -> Owner | None:
        """Open the session; None if that fails, which is noted."""
        live = LiveFile(self._paths.live)
        guardians = Guardians.of_worker()
        status_page = MappedStatusPage(self._paths.status_page(number))
        log = owner_log(self._settings.log_level)
        sickness = Sickness(self._paths, number, status_page, SystemClock(), log)
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(lease.release)
                newest = live.look()
                if newest is not None:
                    self._settings = msgspec.json.decode(newest.session, type=SessionSettings)
                settings = self._settings
                self._prepare(settings, number)
                undo.pop_all()
            session = PartitionSession(number, self._epoch, settings, guardians, lease)
        except Exception as error:  # noqa: BLE001 - must not fail the other partitions
            sickness.note(error)
            guardians.close()
            status_page.close()
            return None
        if newest is not None:
            status_page[StatusField.SETTINGS] = newest.number
        owner = Owner(number, session, status_page, guardians, sickness, live)
        sickness.began()
        owner.serve(self._epoch)
        return owner

    # -- rows ---------------------------------------------------------------------------------

    def _row_if_due(self, owner: Owner | None) -> Iterator[pa.RecordBatch]:
        now_s = time.monotonic()
        if now_s - self._row_s >= ROW_S:
            self._row_s = now_s
            yield self._row(owner)

    def _row(self, owner: Owner | None) -> pa.RecordBatch:
        attempts, outcomes = (0, 0) if owner is None else owner.counts()
        status_page = self._partitions[self._number].status_page
        return pa.record_batch(
            [
                pa.array([self._number], pa.int32()),
                pa.array([self._epoch], pa.int64()),
                pa.array([status_page[StatusField.LIVE_OFFSET]], pa.int64()),
                pa.array([status_page[StatusField.WATERMARK]], pa.int64()),
                pa.array([attempts], pa.int64()),
                pa.array([outcomes], pa.int64()),
            ],
            names=list(COLUMNS),
        )
