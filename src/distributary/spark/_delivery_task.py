"""One Spark task of the delivery source: owns a partition and delivers it while the epoch lasts.

Called by ``delivery_source`` in a Python worker. The session's lock, not Spark, decides who owns a
partition, and the session reads the log where it lies: no event passes through Spark. A task that
ends proves nothing (its JVM may have been killed): only outcomes move the committed offset (DESIGN
rule 7, stopping).

A task goes on with the session that its process has from an earlier task, and leaves it there when
the epoch ends: a rollover pauses nothing (``_custody``). Without one it looks for a partition
(``_search``). If no partition can be owned, the task waits and tries again: a task that fails too
often ends those of all other partitions too. It fails where this executor alone cannot reach the
log: a task that waits stays where it is.
"""

import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from distributary.core.clock import SystemClock
from distributary.core.errors import (
    DistributaryError,
    LogLockedError,
    LogUnavailableError,
    StoreError,
)
from distributary.core.lease import Lease
from distributary.datadir import LiveSettings, Sickness, StatusField, StatusPage
from distributary.partitions import (
    Entrusted,
    Guardians,
    Holding,
    PartitionSession,
    Places,
    SessionSettings,
    owner_log,
    prepare_next,
)
from distributary.spark._custody import CUSTODY
from distributary.spark._owner import Owner
from distributary.spark._search import Search
from distributary.spark.delivery_columns import COLUMNS

_T = TypeVar("_T")

FIND_S = 0.05
"""Interval at which a task without a session looks for a partition: one whose owner has ended
waits for it."""
ROW_S = 5.0
"""Interval of rows. Spark sums them at the end of the epoch alone, and each costs the JVM a
millisecond. A task whose JVM has ended learns it from its guardians."""
ASK_S = 0.01
"""Interval at which a task tries the lock that it has asked for: its partition waits half of it."""
STORE_WAIT_S = 30.0
"""Longest wait of a task that begins for a store on another machine: a failover takes as long."""
STORE_LOOK_S = 0.25
"""Interval of asking it meanwhile."""
LAST_DRAIN_S_MAX = 10.0
"""Longest drain of a session that ends with its epoch: the other partitions wait."""


def rows(
    settings_json: str, number: int, epoch: int, entrusted: Entrusted | None = None
) -> Iterator[pa.RecordBatch]:
    """Own a partition until the driver ends *epoch*, and deliver it.

    Args:
        settings_json: ``SessionSettings``, unless the settings file has newer ones.
        number: The partition to look at first.
        epoch: The epoch.
        entrusted: For an executor of a cluster; None: it sees the data directory.

    Yields:
        Where the partition stands, every ``ROW_S``: columns as in ``delivery_columns.SCHEMA``.
    """
    settings = msgspec.json.decode(settings_json, type=SessionSettings).of_executor(entrusted)
    task = _Task(settings, number, epoch)
    try:
        yield from task.run()
    finally:
        task.close()


def prepare(settings_json: str, number: int, entrusted: Entrusted | None) -> None:
    """Prepare this process to own the partition *number*, which it does not own yet.

    Args:
        settings_json: ``SessionSettings``.
        number: The partition.
        entrusted: As for ``rows``.

    Raises:
        DistributaryError: Log or store cannot be used.
    """
    settings = msgspec.json.decode(settings_json, type=SessionSettings).of_executor(entrusted)
    prepare_next(settings.places(), number, settings.once_of_readers)


def decode_entrusted(content: bytes) -> Entrusted | None:
    """Returns what an executor gets, from its JSON; None where that is empty."""
    return msgspec.json.decode(content, type=Entrusted) if content else None


class _Partition:
    """A partition, seen by a task that looks for one: a ``_search.Place``."""

    def __init__(self, places: Places, number: int, page: StatusPage, log_level: str) -> None:
        self.status_page = page
        log = owner_log(log_level)
        self.sickness = _sickness(places, number, self.status_page, log)
        self.due = self.sickness.due
        self.out_of_reach: LogUnavailableError | None = None
        self._places = places
        self._number = number

    @property
    def epoch(self) -> int:
        return self.status_page[StatusField.EPOCH]

    def take(self) -> Lease | None:
        failed = self.status_page[StatusField.FAILURES]
        if failed and self._places.is_out_of_reach(self._number):
            self.out_of_reach = LogUnavailableError("the log is out of reach from here alone")
            self.sickness.note(self.out_of_reach)
            return None
        try:
            return self._places.lease(self._number, 0.0)
        except LogLockedError:
            return None
        except (DistributaryError, OSError) as error:
            self.sickness.note(error)
            return None

    def ask(self) -> None:
        self.status_page[StatusField.SUCCESSOR] = os.getpid()

    def withdraw(self) -> None:
        self.status_page[StatusField.SUCCESSOR] = 0


def _sickness(places: Places, number: int, status_page: StatusPage, log: Any) -> Sickness:
    tell = functools.partial(places.tell_why, number)
    return Sickness(places.scratch, number, status_page, SystemClock(), log, tell=tell)


def seen_once_there(
    look: Callable[[], _T],
    now_s: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> _T:
    """Returns what *look* returns once the store can be asked: a failed task costs Spark a new one.

    Raises:
        StoreError: It cannot be asked for ``STORE_WAIT_S``.
    """
    until_s = now_s() + STORE_WAIT_S
    while True:
        try:
            return look()
        except StoreError:
            if now_s() >= until_s:
                raise
            sleep(STORE_LOOK_S)


class _Task:
    """One task: a partition in one epoch."""

    def __init__(self, settings: SessionSettings, number: int, epoch: int) -> None:
        self._settings = settings
        self._places = settings.places()
        self._number = number
        self._epoch = epoch
        count = max(settings.partitions, number + 1)
        pages = seen_once_there(lambda: self._places.status_pages(count))
        self._partitions = [
            _Partition(self._places, number, page, settings.log_level)
            for number, page in enumerate(pages)
        ]
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
            yield self._row(owner, ended=True)
        except DistributaryError:
            owner = None  # closed already
            raise
        finally:
            if owner is not None:
                self._leave(owner)

    def _over(self, owner: Owner | None) -> bool:
        """Whether the server stops, or the driver has ended the epoch, or counts on others."""
        if self._page[StatusField.STOP] or (owner is not None and owner.given_away):
            return True
        if self._page[StatusField.END_EPOCH] < self._epoch:
            return False
        return owner is None or CUSTODY.possible or owner.quiet(LAST_DRAIN_S_MAX)

    def _go_on(self, owner: Owner) -> Owner | None:
        """Deliver for a moment; None if the session could not go on with newer settings."""
        owner.watch()
        if owner.guardians.orphaned:
            owner.alone(lambda: False)
            os._exit(0)  # there is nobody to answer
        if owner.outdated():
            goes_on = owner.renew(lambda newer, held: self._renewed(owner, newer, held))
            return owner if goes_on else None
        return owner

    def _renewed(self, owner: Owner, newer: LiveSettings, holding: Holding) -> PartitionSession:
        """The session of *owner* with newer settings."""
        self._settings = self._newer(newer)
        return PartitionSession(
            owner.partition, self._epoch, self._settings, owner.guardians, holding
        )

    def _newer(self, live: LiveSettings) -> SessionSettings:
        """The settings of *live*, with what only a task brings."""
        newer = msgspec.json.decode(live.session, type=SessionSettings)
        return newer.of_executor(self._settings.entrusted)

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
        for partition in self._partitions:
            if partition.out_of_reach is not None:
                raise partition.out_of_reach  # Spark starts the task again, wherever there is room.
        # Others have the locks, and deliver: the time costs nothing.
        self._prepare(self._settings, self._number)
        time.sleep(ASK_S if self._search.asking else FIND_S)
        return None

    def _prepare(self, settings: SessionSettings, number: int, *, owned: bool = False) -> None:
        """Prepare this process, unless it has had a session in this task."""
        if not self._prepared:
            self._prepared = True
            prepare_next(settings.places(), number, settings.once_of_readers, owned=owned)

    def _open(self, number: int, lease: Lease) -> Owner | None:
        """Open the session; None if that fails, which is noted."""
        places = self._places
        live = places.live()
        alone = self._settings.entrusted is None
        guardians = Guardians.of_worker() if alone else Guardians.of_executor()
        status_page = places.status_page(number)
        log = owner_log(self._settings.log_level)
        sickness = _sickness(places, number, status_page, log)
        try:
            with contextlib.ExitStack() as undo:
                undo.callback(lease.release)
                newest = live.look()
                if newest is not None:
                    self._settings = self._newer(newest)
                settings = self._settings
                self._prepare(settings, number, owned=True)
                undo.pop_all()
            holding = Holding(
                settings.places(),
                number,
                settings.budgets(),
                clock=SystemClock(),
                lease=lease,
                log=log,
            )
            session = PartitionSession(number, self._epoch, settings, guardians, holding)
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

    def _row(self, owner: Owner | None, *, ended: bool = False) -> pa.RecordBatch:
        records, attempts, outcomes = (0, 0, 0) if owner is None else owner.counts()
        backlog = None if owner is None else owner.session.backlog
        status_page = self._partitions[self._number].status_page
        return pa.record_batch(
            [
                pa.array([self._number], pa.int32()),
                pa.array([self._epoch], pa.int64()),
                pa.array([int(ended)], pa.int64()),
                pa.array([status_page[StatusField.LIVE_OFFSET]], pa.int64()),
                pa.array([status_page[StatusField.COMMITTED_OFFSET]], pa.int64()),
                pa.array([backlog], pa.int64()),
                pa.array([records], pa.int64()),
                pa.array([attempts], pa.int64()),
                pa.array([outcomes], pa.int64()),
            ],
            names=list(COLUMNS),
        )
