"""Opening the files that owners write: the only place here that knows that they are SQLite."""

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


def sqlite_url(path: Path) -> str:
    """URL of the SQLite file at *path*."""
    return f"sqlite+pysqlite:///{path}"


def open_engine(url: str) -> Engine:
    """An engine whose transactions are on the medium when they return; its file is private."""
    engine = sa.create_engine(url, hide_parameters=True)  # tracebacks: rows hold whole events
    if engine.dialect.name == "sqlite":
        _create_private(engine.url.database)

        @sa_event.listens_for(engine, "connect")
        def _pragmas(connection: Any, _record: Any) -> None:
            # WAL: readers (the API, a person) never block the owner. FULL: a commit is on the
            # medium when it returns; NORMAL would lose the last ones at a power cut.
            _switch_to_wal(connection)
            for pragma in ("synchronous=FULL", "busy_timeout=5000"):
                connection.execute(f"PRAGMA {pragma}").close()

    return engine


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
