"""A stopped data directory, read for its move. Nothing in it changes but what a start would repair.

Hides: locks, the upgrade of files of earlier versions, recovery of the log's tail.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from distributary.core.clock import SystemClock
from distributary.core.database import sqlite_url
from distributary.core.errors import LogLockedError, StoreError
from distributary.core.flow import Logged
from distributary.core.journal import JournalState, fit, read_intact_journal
from distributary.core.lease import FileLease
from distributary.core.log import Appender, Reader, open_folder
from distributary.core.log.kafka.copying import checksum_of
from distributary.core.outcome import DeliveryStore, TallyFile
from distributary.datadir import DataDir
from distributary.datadir.publishers import Publishers
from distributary.partitions.places import stands_in
from distributary.server.migrate._errors import MigrationError
from distributary.server.migrate._moving import Checksums, Moving
from distributary.subscriptions.store import Keys, Sealer
from distributary.subscriptions.store.store import Store

OWNERS_S_MAX: Final = 45.0
"""Longest wait for partitions whose server is gone: they are delivered for 30 s more at most."""
NEAR: Final = 64
"""Records whose numbers lie so close are read in one go."""


class PartitionSource:
    """One partition of the data directory. Close it.

    Attributes:
        partition: Its number.
        start: Number of the oldest record.
        end: Number after the newest one.
        state: Its committed offset and outcomes, as far as they fit the log.
        store: Its retries, backfills and dead letters.
        publishers: Who published what.
    """

    def __init__(self, paths: DataDir, partition: int) -> None:
        self.partition = partition
        self._paths = paths
        with contextlib.ExitStack() as opened:
            self.records = Reader(paths.log, partition)
            opened.callback(self.records.close)
            self.start, self.end = self.records.start(), self.records.durable_end()
            try:
                found, _ = read_intact_journal(paths.journal(partition))
            except StoreError as error:
                raise MigrationError(
                    f"partition {partition}: {error}. Start the server here once: it keeps what can"
                    " be read, and says what it delivers again. Stop it, and migrate then"
                ) from error
            self.state: JournalState = fit(found, lambda mark: stands_in(self.records, mark))
            self.store = DeliveryStore(sqlite_url(paths.delivery_db(partition)), partition)
            opened.callback(self.store.close)
            self.state.done.update(
                self.store.kept_outcomes(self.state.mark.offset, self.state.done)
            )
            self.publishers = Publishers(paths.publishers(partition))
            self._opened = opened.pop_all()

    def tallies(self) -> TallyFile:
        """Open its tallies, to be closed."""
        return TallyFile(self._paths.tallies(self.partition))

    def moving(self, offsets: Iterable[int]) -> Moving:
        """How it is numbered anew, with the checksums of the records *offsets*, where they are."""
        wanted = sorted({offset for offset in offsets if self.start <= offset < self.end})
        known: dict[int, Checksums] = {}
        for first, behind in _spans(wanted):
            chosen = set(wanted[first:behind])
            for logged in self.records.read(wanted[first], wanted[behind - 1] + 1):
                if logged.offset in chosen:
                    known[logged.offset] = Checksums(logged.checksum, self.checksum_after(logged))
        return Moving(self.start, known)

    def checksum_after(self, logged: Logged) -> int:
        """The checksum of a record once it is in the topic."""
        return checksum_of(logged.kind, logged.body, logged.offset - self.start, logged.time_ms)

    def close(self) -> None:
        """Close its files."""
        self._opened.close()


def _spans(numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Places of runs in *numbers* that are read together: the first, and the one behind."""
    first = 0
    for place in range(1, len(numbers) + 1):
        if place == len(numbers) or numbers[place] - numbers[place - 1] > NEAR:
            yield first, place
            first = place


class Source:
    """The data directory, locked against servers from construction until ``close``.

    Args:
        data_dir: Of a stopped server; what an earlier version wrote is upgraded, as by a start.
        key_file: Key file of credentials; empty: in the data directory.

    Attributes:
        paths: Its paths.
        partitions: Its partitions.
        sealer: Opens and seals secrets.
        identity: Tells this content from any other; it changes with the next start of a server.

    Raises:
        MigrationError: It cannot be moved: a server runs, or it is not whole.
        DistributaryError: It cannot be read.
    """

    def __init__(self, data_dir: Path, key_file: str = "") -> None:
        self.paths = paths = DataDir(data_dir)
        if not paths.state_db.exists():
            raise MigrationError(
                f"{data_dir} is no data directory: it has no {paths.state_db.name}"
            )
        if paths.restoring.exists():
            raise MigrationError(f"a restore to {data_dir} did not finish: nothing can be moved")
        with contextlib.ExitStack() as opened:
            opened.callback(self._lock(paths.lock, 0.0).release)
            self.sealer = Sealer(Keys.of(paths.key_file(key_file), os.environ))
            Store(sqlite_url(paths.state_db), sealer=self.sealer).close()
            count = open_folder(paths.log, 1)
            self.partitions: list[PartitionSource] = []
            for partition in range(count):
                paths.outcome(partition).mkdir(parents=True, exist_ok=True)
                lock = self._lock(paths.owner_lock(partition), OWNERS_S_MAX)
                opened.callback(lock.release)
                Appender.open(paths.log, partition, clock=SystemClock()).close()
                source = PartitionSource(paths, partition)
                opened.callback(source.close)
                self.partitions.append(source)
            self.identity = self._identity()
            self._opened = opened.pop_all()

    def _lock(self, path: Path, wait_s: float) -> FileLease:
        try:
            return FileLease(path, wait_s, SystemClock(), time.sleep)
        except LogLockedError as error:
            raise MigrationError(f"stop the server of {self.paths.root} first: {error}") from error

    def _identity(self) -> str:
        digest = hashlib.sha256()
        for source in self.partitions:
            newest = next(iter(source.records.read(source.end - 1, source.end)), None)
            checksum = 0 if newest is None else newest.checksum
            digest.update(f"{source.start} {source.end} {checksum} {source.state.mark}\n".encode())
        return digest.hexdigest()

    def close(self) -> None:
        """Unlock it."""
        self._opened.close()
