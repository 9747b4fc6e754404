"""Consistent copies of SQLite files that others write, and of the moment one of them stood at.

Hides: SQLite's online backup, snapshots of its write-ahead log.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote

from distributary.core.files import create_private
from distributary.server.backup._manifest import BackupError, make_folders

BUSY_MS: Final = 5_000
"""Longest wait for a transaction of the server, milliseconds; its own take some."""

PAGES: Final = 2048
"""Pages copied at once: 8 MiB, between two looks at the clock."""


class Snapshot:
    """One state of a database, whatever is written to it meanwhile; close it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = _connect(path)

    def hold(self) -> None:
        """Fix the state: that of now."""
        self._connection.execute("BEGIN")
        self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def copy(self, target: Path, note: Callable[[int], None]) -> None:
        """Copy the state to the new file *target*, and check the copy.

        Raises:
            BackupError: It cannot be copied.
        """
        make_folders(target.parent)
        create_private(target)
        page_bytes = self._connection.execute("PRAGMA page_size").fetchone()[0]
        seen = 0

        def progress(_status: int, left: int, total: int) -> None:
            nonlocal seen
            note((total - left) * page_bytes - seen)
            seen = (total - left) * page_bytes

        try:
            with contextlib.closing(sqlite3.connect(target)) as copy:
                self._connection.backup(copy, pages=PAGES, progress=progress)
                # One file is easier to keep than three: the server turns the log on again.
                copy.execute("PRAGMA journal_mode=DELETE").fetchall()
                _check(copy, target)
        except sqlite3.Error as error:
            raise BackupError(f"{self._path} cannot be copied: {error}") from error

    def close(self) -> None:
        """Let the state go."""
        self._connection.close()


@contextlib.contextmanager
def nobody_writes(path: Path) -> Iterator[None]:
    """Hold the write lock of the database at *path* inside the block; writes nothing.

    Raises:
        BackupError: Somebody has held it for too long.
    """
    with contextlib.closing(_connect(path)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise BackupError(f"{path} cannot be locked for a moment: {error}") from error
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def copy_database(source: Path, target: Path, note: Callable[[int], None]) -> None:
    """Copy the newest state of the database *source* to the new file *target*.

    Raises:
        BackupError: It cannot be copied.
    """
    with contextlib.closing(Snapshot(source)) as snapshot:
        try:
            snapshot.hold()
        except sqlite3.Error as error:
            raise BackupError(f"{source} cannot be read: {error}") from error
        snapshot.copy(target, note)


def check_database(path: Path) -> None:
    """Check the structure of the copy at *path*.

    Raises:
        BackupError: It is damaged.
    """
    try:
        with contextlib.closing(
            sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
        ) as db:
            _check(db, path)
    except sqlite3.Error as error:
        raise BackupError(f"{path} is damaged: {error}") from error


def _check(connection: sqlite3.Connection, path: Path) -> None:
    found = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != ("ok",):
        raise BackupError(f"{path} is damaged: {found[0] if found else 'nothing can be read'}")


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that makes no file and begins no transaction by itself."""
    try:
        connection = sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout={BUSY_MS}").fetchall()
    except sqlite3.Error as error:
        raise BackupError(f"{path} cannot be opened: {error}") from error
    return connection
