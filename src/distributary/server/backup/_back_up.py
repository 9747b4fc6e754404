"""Takes a backup of a data directory while its server runs.

The order of copying is what makes it consistent; docs/decisions/0093-backup-and-restore.md derives
it from the rules. In short: what says that something is done is copied before what it is said of.

1. Retention is held off.
2. The journals: the committed offset and the outcomes above it. Everything later is newer, as
   after a crash before the next flush: matches are delivered again, none is forgotten.
3. The counts (``maxevents``), then the delivery stores: a reservation has its row by then.
4. At one moment in which nobody may write the resource store: a snapshot of it, and the end of
   each partition of the log. So every route record of the copied log is of a change in the copied
   store, and every change that the store calls appended is in the log.
5. The key that opens the store, the store, and the log up to these ends.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import distributary
from distributary.core.errors import LogUnavailableError, StoreError
from distributary.core.files import sync_folder
from distributary.core.journal import read_intact_journal
from distributary.core.lease import is_held
from distributary.core.log import partition_dir, read_folder
from distributary.core.log.copying import CopiedFile, durable_end, files_below, intact_end
from distributary.core.log.folder import FORMAT_NAME
from distributary.datadir import DataDir, holding_retention
from distributary.server.backup._databases import Snapshot, copy_database, nobody_writes
from distributary.server.backup._manifest import (
    BackupError,
    FileEntry,
    Manifest,
    copy_file,
    digest_of,
    make_folders,
    write_manifest,
)

BACKUP_S_MAX: Final = 6 * 3600.0
"""Longest backup, seconds: until it ends no segment of the log is deleted."""

SPARE_BYTES: Final = 64 * 1024 * 1024
"""Left free on the target's disk, and on the disk of the data directory while it is copied."""

Progress = Callable[[int, int], None]
"""Called with the bytes copied and those that there are in all, as far as is known."""


class _Copy:
    """One backup on its way: where it goes, what was copied, and what it may not exceed."""

    def __init__(self, paths: DataDir, target: Path, progress: Progress, rate: float) -> None:
        self.paths = paths
        self.target = target
        self.files: list[FileEntry] = []
        self.total = 0
        self.cursors: dict[int, int] = {}
        """Partition -> committed offset in its copied journal."""
        self._progress = progress
        self._rate = rate
        self._done = 0
        self._began_s = time.monotonic()

    def note(self, count: int) -> None:
        """Count bytes that were copied; waits where that is faster than asked for."""
        self._done += count
        spent_s = time.monotonic() - self._began_s
        if spent_s > BACKUP_S_MAX:
            raise BackupError(
                f"the backup took longer than {BACKUP_S_MAX / 3600:g} hours and was given up:"
                " the log cannot shrink meanwhile. Write to a faster place, or without a rate limit"
            )
        if self._rate:
            time.sleep(max(0.0, min(1.0, self._done / self._rate - spent_s)))
        self._progress(self._done, max(self.total, self._done))

    def add(self, source: Path, length: int | None = None) -> None:
        """Copy a file."""
        name = source.relative_to(self.paths.root)
        size, digest = copy_file(source, self.target / name, length, self.note)
        self.files.append(FileEntry(str(name), size, digest))

    def add_made(self, path: Path) -> None:
        """Note a file that was made in the target."""
        size, digest = digest_of(path, lambda _count: None)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        self.files.append(FileEntry(str(path.relative_to(self.target)), size, digest))

    def add_database(self, source: Path) -> None:
        """Copy the newest state of an SQLite file, if there is one."""
        if source.exists():
            target = self.target / source.relative_to(self.paths.root)
            copy_database(source, target, self.note)
            self.add_made(target)

    def add_journal(self, partition: int) -> None:
        """Copy the whole frames of a journal: the file may be replaced, and grow, meanwhile."""
        source = self.paths.journal(partition)
        target = self.target / source.relative_to(self.paths.root)
        try:
            copy_file(source, target, None, self.note)
        except FileNotFoundError:
            return  # nothing of the partition was ever delivered
        try:
            state, length = read_intact_journal(target)
        except StoreError as error:
            raise BackupError(
                f"partition {partition}: {error}. A server on this copy would deliver again"
                " what was delivered. Stop the server and start it once: it keeps what can be read,"
                " and says what it delivers again. Back up then"
            ) from error
        os.truncate(target, length)
        self.cursors[partition] = state.mark.offset
        self.add_made(target)


def back_up(
    data_dir: Path,
    target: Path,
    *,
    with_key: bool = True,
    rate: float = 0.0,
    progress: Progress = lambda _done, _total: None,
) -> Manifest:
    """Back the data directory *data_dir* up to the new folder *target*; returns its manifest.

    Args:
        data_dir: Its server may run, or not.
        target: Must be missing or empty; made for its owner alone.
        with_key: Whether the key that opens credentials is in it, where it is in *data_dir*.
        rate: Bytes a second that are copied at most; 0: as many as the disks give.
        progress: Is called often, with bytes.

    Raises:
        BackupError: It cannot be made; nothing that could pass for a backup is left.
        DistributaryError: *data_dir* cannot be read.
    """
    paths = DataDir(data_dir)
    if not paths.state_db.exists():
        raise BackupError(
            f"{data_dir} is no data directory: it has no {paths.state_db.name}. (A node of several"
            " has its state in PostgreSQL, and its log is shared: back both up by their own means)"
        )
    if paths.migrated.exists():
        raise BackupError(
            f"what {data_dir} holds has moved to a log and a store that machines share: a server"
            " on a copy would deliver it again. Back up PostgreSQL by its own means"
        )
    if paths.restoring.exists():
        raise BackupError(f"a restore to {data_dir} did not finish: a copy would lack something")
    partitions = read_folder(paths.log)
    _prepare(data_dir, target)
    copy = _Copy(paths, target, progress, rate)
    began = _now()
    try:
        with contextlib.ExitStack() as holds:
            for partition in range(partitions):
                holds.enter_context(holding_retention(paths.retention_hold(partition)))
            ends, key = _copy_all(copy, partitions, with_key=with_key)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise BackupError(f"the backup failed: {where}{error.strerror or error}") from error
    manifest = Manifest(
        format=1,
        version=distributary.__version__,
        began=began,
        ended=_now(),
        partitions=partitions,
        ends=ends,
        key=key,
        files=copy.files,
    )
    for made in sorted({(target / entry.path).parent for entry in copy.files}):
        sync_folder(made)
    write_manifest(target, manifest)
    return manifest


def _prepare(data_dir: Path, target: Path) -> None:
    if target.resolve().is_relative_to(data_dir.resolve()):
        raise BackupError(f"{target} is in the data directory itself: name a folder elsewhere")
    try:
        make_folders(target)
        if any(target.iterdir()):
            raise BackupError(f"{target} is not empty: name a new folder for each backup")
        target.chmod(0o700)
    except OSError as error:
        raise BackupError(f"{target} cannot be made: {error.strerror}") from error


def _copy_all(copy: _Copy, partitions: int, *, with_key: bool) -> tuple[list[int], str]:
    """Copy everything in the order that is said above; returns the ends of the log, and the key."""
    paths = copy.paths
    for partition in range(partitions):
        copy.add_journal(partition)
        # Before the ends of the log: a note of a record that the copy lacks would name its
        # publisher as that of the one which the restored server puts there.
        for notes in sorted(paths.publishers(partition).glob("*.who")):
            copy.add(notes)
    copy.add_database(paths.quota_db)
    for partition in range(partitions):
        copy.add_database(paths.delivery_db(partition))
        with contextlib.suppress(FileNotFoundError):  # counts; a slot half written counts as none
            copy.add(paths.tallies(partition))
    with contextlib.closing(Snapshot(paths.state_db)) as snapshot:
        with nobody_writes(paths.state_db):
            snapshot.hold()
            ends = [_end(copy, partition) for partition in range(partitions)]
        files = [
            file
            for partition, end in enumerate(ends)
            if end is not None
            for file in files_below(paths.log, partition, end)
        ]
        _check_space(copy, files)
        target = copy.target / paths.state_db.relative_to(paths.root)
        # At once: a key that replaces this one while the log is copied opens nothing of the store.
        key = _copy_key(copy, with_key=with_key)
        snapshot.copy(target, copy.note)
        copy.add_made(target)
    for file in files:
        copy.add(file.path, file.length)
    _add_format(copy)
    for line_file in sorted(paths.audit.parent.glob("audit*.jsonl")):
        with contextlib.suppress(FileNotFoundError):  # turned over meanwhile
            copy.add(line_file)
    return [end or 0 for end in ends], key


def _end(copy: _Copy, partition: int) -> int | None:
    """The end of a partition; None: nobody has appended to it yet.

    Raises:
        BackupError: The log has lost what is called delivered.
    """
    log = copy.paths.log
    if not any(partition_dir(log, partition).glob("*.seg")):
        return None
    try:
        end = durable_end(log, partition)
    except LogUnavailableError:
        end = 0
    if not is_held(copy.paths.lock):
        end = max(end, intact_end(log, partition))
    if end < copy.cursors.get(partition, 0):
        raise BackupError(
            f"partition {partition} of the log ends at {end:,}, and its events are called"
            f" delivered up to {copy.cursors[partition]:,}: start the server once, which finds out"
            " what is lost, and back up then"
        )
    return end


def _add_format(copy: _Copy) -> None:
    """Copy the log's format; it is written anew only while a server starts."""
    source = copy.paths.log / FORMAT_NAME
    json.loads(source.read_bytes())
    copy.add(source)


def _check_space(copy: _Copy, files: list[CopiedFile]) -> None:
    copy.total = sum(file.length for file in files) + copy.paths.state_db.stat().st_size
    copy.total += sum(entry.size for entry in copy.files)
    free = shutil.disk_usage(copy.target).free
    if free < copy.total + SPARE_BYTES:
        raise BackupError(
            f"{copy.target} has {free >> 20:,} MiB free, and the backup needs"
            f" {(copy.total + SPARE_BYTES) >> 20:,} MiB: name a folder on another disk"
        )


def _copy_key(copy: _Copy, *, with_key: bool) -> str:
    source = copy.paths.key_file()
    if not source.exists():
        return "elsewhere"
    if not with_key:
        return "left-out"
    copy.add(source)
    return "included"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
