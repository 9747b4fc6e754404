"""Makes a data directory of a backup, and gives it numbers that its server has not used.

The server that was backed up went on after the backup. Where its numbers may have been seen
elsewhere (a folder of history, ids of timer events, versions of the Kubernetes API), the restored
one leaps over all that it can have used.
"""

import contextlib
import os
import secrets
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from distributary.core.files import sync_folder
from distributary.core.journal import Journal
from distributary.core.journal_frames import HistoryBlock
from distributary.datadir import DataDir
from distributary.server.backup._databases import check_database
from distributary.server.backup._manifest import (
    MANIFEST_NAME,
    BackupError,
    Manifest,
    copy_file,
    digest_of,
    make_folders,
    read_manifest,
)

LEAP: Final = 10**9
"""Resource versions and timer events that the server has not made since the backup for sure: at
1,000 a second that takes eleven days."""

RUNS_LEAP: Final = 10_000
"""Replays and the like that the server has not begun since the backup for sure. A broker that knows
a message by its id stores nothing of a replay whose number comes again. No more, since runs that
are over are forgotten after so many numbers (``NUMBERS_KEPT``)."""

LINEAGES: Final = 1 << 20
"""Ranges of row numbers: see ``LINEAGE_ROWS``."""
LINEAGE_ROWS: Final = 1 << 40
"""Numbers of rows of the history are drawn from so many ranges of so many rows: two directories
restored from one backup do not meet but by a chance of one in a million."""

Progress = Callable[[int, int], None]


def check(source: Path, progress: Progress = lambda _done, _total: None) -> Manifest:
    """Check the backup in *source*: every file is there, whole and unchanged, and nothing else.

    Raises:
        BackupError: Something is missing, changed or too much.
    """
    manifest = read_manifest(source)
    _look_for_strangers(source, manifest)
    note = _counting(manifest, progress)
    for entry in manifest.files:
        path = source / entry.path
        try:
            found = digest_of(path, note)
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror}") from error
        _compare(path, found, (entry.size, entry.sha256))
        if path.suffix == ".db":
            check_database(path)
    return manifest


def restore(
    source: Path, data_dir: Path, progress: Progress = lambda _done, _total: None
) -> Manifest:
    """Make the data directory *data_dir* of the backup in *source*; returns its manifest.

    Every file is checked while it is copied. A restore that was interrupted leaves a folder that
    no server starts on.

    Args:
        source: A folder that ``back_up`` made; only read.
        data_dir: Must be missing or empty.
        progress: Is called often, with bytes.

    Raises:
        BackupError: The backup is incomplete or damaged, or *data_dir* cannot be made.
    """
    manifest = read_manifest(source)
    _look_for_strangers(source, manifest)
    paths = DataDir(data_dir)
    _prepare(paths, manifest)
    note = _counting(manifest, progress)
    try:
        for entry in manifest.files:
            found = copy_file(source / entry.path, data_dir / entry.path, None, note)
            _compare(source / entry.path, found, (entry.size, entry.sha256))
        _leap_over(paths, manifest.partitions)
        for folder in {(data_dir / entry.path).parent for entry in manifest.files}:
            sync_folder(folder)
        paths.restoring.unlink()
        sync_folder(data_dir)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        raise BackupError(f"the restore failed: {where}{error.strerror or error}") from error
    return manifest


def _counting(manifest: Manifest, progress: Progress) -> Callable[[int], None]:
    """Returns what is called with each number of bytes, and tells *progress* their sum."""
    done = 0

    def note(count: int) -> None:
        nonlocal done
        done += count
        progress(done, manifest.total_bytes)

    return note


def _look_for_strangers(source: Path, manifest: Manifest) -> None:
    known = {entry.path for entry in manifest.files} | {MANIFEST_NAME}
    for folder, folders, names in os.walk(source):
        for name in folders + names:
            found = Path(folder, name)
            path, mode = str(found.relative_to(source)), found.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise BackupError(f"{found} is no file: a backup has no links, pipes or devices")
            if name in names and path not in known:
                raise BackupError(f"{source} has a file that the backup did not write: {path}")


def _compare(path: Path, found: tuple[int, str], expected: tuple[int, str]) -> None:
    if found != expected:
        what = "size" if found[0] != expected[0] else "checksum"
        raise BackupError(
            f"{path} is not as it was written: its {what} differs from the manifest's. Restore"
            " another backup"
        )


def _prepare(paths: DataDir, manifest: Manifest) -> None:
    root = paths.root
    try:
        make_folders(root)
        if paths.restoring.exists():
            raise BackupError(
                f"an earlier restore to {root} did not finish: delete what is in it, and restore"
                " again"
            )
        if any(root.iterdir()):
            raise BackupError(f"{root} is not empty: restore to a new folder")
        root.chmod(0o700)
        free = shutil.disk_usage(root).free
        if free < manifest.total_bytes:
            raise BackupError(
                f"{root} has {free >> 20:,} MiB free, and the backup has"
                f" {manifest.total_bytes >> 20:,} MiB"
            )
        os.close(os.open(paths.restoring, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        sync_folder(root)
    except OSError as error:
        raise BackupError(f"{root} cannot be made: {error.strerror}") from error


def _leap_over(paths: DataDir, partitions: int) -> None:
    """Give the directory numbers that were never used."""
    for partition in range(partitions):
        if paths.journal(partition).exists():
            _leap_in_journal(paths.journal(partition))
    try:
        with contextlib.closing(sqlite3.connect(paths.state_db)) as store, store:
            tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master")}
            if "object_counter" in tables:  # the store of an earlier version may lack either
                store.execute("UPDATE object_counter SET version = version + ?", (LEAP,))
            if "schedule" in tables:
                store.execute("UPDATE schedule SET numbered = numbered + ?", (LEAP,))
            columns = store.execute("SELECT name FROM pragma_table_info('generation')")
            if ("demand_seq",) in columns.fetchall():
                store.execute("UPDATE generation SET demand_seq = demand_seq + ?", (RUNS_LEAP,))
    except sqlite3.Error as error:
        raise BackupError(f"{paths.state_db} cannot be changed: {error}") from error


def _leap_in_journal(path: Path) -> None:
    """Renumber the rows of the history: those that wait in the journal, and all later ones."""
    journal = Journal(path)
    try:
        state = journal.state
        first = (1 + secrets.randbelow(LINEAGES)) * LINEAGE_ROWS
        state.filed, blocks, state.blocks = first, state.blocks, []
        for block in blocks:
            state.blocks.append(HistoryBlock(first, block.length, block.rows))
            first += block.length
        journal.restart_at(state)
    finally:
        journal.close()
