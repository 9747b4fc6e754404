"""Opening the files that owners write: the only place here that knows that they are SQLite."""

import contextlib
import os
import sqlite3
import time
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import event as sa_event
from sqlalchemy.engine import Engine

from distributary.errors import StoreError

WAL_TRIES: Final = 500
WAL_PAUSE_S: Final = 0.01
"""Five seconds in all, as long as a statement waits for another one's transaction."""
_INCREMENTAL: Final = 2
"""SQLite's word for it in ``PRAGMA auto_vacuum``."""


def sqlite_url(path: Path) -> str:
    """URL of the SQLite file at *path*."""
    return f"sqlite+pysqlite:///{path}"


def open_engine(url: str, *, gives_back: bool = False) -> Engine:
    """An engine whose transactions are on the medium when they return; its file is private.

    Args:
        url: SQLAlchemy URL.
        gives_back: A file that is made here keeps account of its free pages, so that
            ``give_back`` can return them to the disk.
    """
    engine = sa.create_engine(url, hide_parameters=True)  # tracebacks: rows hold whole events
    if engine.dialect.name == "sqlite":
        _create_private(engine.url.database)

        @sa_event.listens_for(engine, "connect")
        def _pragmas(connection: Any, _record: Any) -> None:
            # WAL: readers (the API, a person) never block the owner. FULL: a commit is on the
            # medium when it returns; NORMAL would lose the last ones at a power cut.
            if gives_back:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL").close()
            _switch_to_wal(connection)
            for pragma in ("synchronous=FULL", "busy_timeout=5000"):
                connection.execute(f"PRAGMA {pragma}").close()

    return engine


def let_give_back(engine: Engine) -> None:
    """Bring a file that was made without to keep account of its free pages: it is written anew.

    Where that cannot be done now (a full disk, somebody reads it), the file serves as it is.
    """
    if engine.dialect.name != "sqlite" or engine.url.database in {None, "", ":memory:"}:
        return
    connection = engine.raw_connection()
    try:
        if _pragma(connection, "auto_vacuum") == _INCREMENTAL:
            return
        with contextlib.suppress(sqlite3.OperationalError):
            connection.cursor().execute("VACUUM").close()
    finally:
        connection.close()


def give_back(engine: Engine, pages: int, few: int) -> bool:
    """Return up to *pages* free pages to the disk; True where there are more.

    Args:
        engine: ``open_engine`` made it.
        pages: Pages of 4 KiB.
        few: With fewer free ones, or a quarter of all, nothing is done.
    """
    if engine.dialect.name != "sqlite":
        return False  # The other one looks after that by itself.
    connection = engine.raw_connection()
    try:
        free = _pragma(connection, "freelist_count")
        if free < few or free * 4 < _pragma(connection, "page_count"):
            return False
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            return False
        # A script is carried out to its end; a statement would free the first page alone.
        connection.cursor().executescript(f"PRAGMA incremental_vacuum({pages})")
        if free > pages:
            return True
        # What was written lies beside the file until then.
        connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return False
    finally:
        connection.close()


def _pragma(connection: Any, name: str) -> int:
    (found,) = connection.cursor().execute(f"PRAGMA {name}").fetchone()
    return int(found)


def _switch_to_wal(connection: Any) -> None:
    """Owners of several partitions may make the file at once.

    The switch takes a lock that two of them can keep from one another, so SQLite does not wait for
    it, whatever the busy timeout: one gives way and tries again.
    """
    for tries_left in reversed(range(WAL_TRIES)):
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not tries_left:
                raise
            time.sleep(WAL_PAUSE_S)
        else:
            return


def _create_private(database: str | None) -> None:
    """Make the file, readable by its owner alone: rows hold whole events.

    One that is there is not touched: closing a descriptor of it would drop the locks that
    connections of this process hold (sqlite.org/howtocorrupt.html, section 2.2).
    """
    if database and database != ":memory:":
        try:
            os.close(os.open(database, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not os.access(database, os.R_OK | os.W_OK):
                raise StoreError(f"cannot write the store {database}: no permission") from None
        except OSError as error:
            raise StoreError(f"cannot write the store {database}: {error.strerror}") from error
