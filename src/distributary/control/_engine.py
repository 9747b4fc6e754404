"""Opening the store's database: the only place that knows that it is SQLite (or, later, is not)."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.errors import StoreError

BUSY_TIMEOUT_MS: Final = 5000
"""How long a statement waits for another process's transaction. Ours take milliseconds; a person
with a database shell may hold one open."""


def store_url(path: Path) -> sa.URL:
    """URL of the SQLite file at *path*."""
    return sa.URL.create("sqlite+pysqlite", database=str(path))


def open_writer(url: sa.URL) -> Engine:
    """An engine whose transactions may write and are on the medium when they return.

    Raises:
        StoreError: The folder or file cannot be written.
    """
    if url.get_backend_name() == "sqlite":
        _create_private(Path(url.database or ""))
    engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite_writer)
        sa.event.listen(engine, "begin", _begin_immediate)
    return engine


def open_reader(url: sa.URL) -> Engine:
    """An engine that reads, each statement for itself, and never waits for a writer.

    Raises:
        StoreError: There is no such store yet.
    """
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise StoreError(f"there is no store at {url.database}: the control process makes it")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite_reader)
    return engine


@contextmanager
def guard() -> Iterator[None]:
    """Turns what the database library raises into a ``StoreError``."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        # Statements and parameters stay out of the message: a header may hold a token.
        cause = getattr(error, "orig", None) or type(error).__name__
        raise StoreError(f"the resource store failed: {cause}") from error


def _create_private(path: Path) -> None:
    """Make the file, readable by its owner alone: sinks and headers may hold tokens."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreError(f"cannot write the store {path}: {error.strerror}") from error


def _prepare_sqlite_writer(connection: Any, _record: object) -> None:
    # WAL: readers in other processes never wait for the writer. FULL: a commit that returned
    # survives a power cut (NORMAL may lose the last ones).
    _pragmas(connection, "journal_mode=WAL", "synchronous=FULL")
    connection.isolation_level = None  # the driver shall not begin transactions of its own


def _begin_immediate(connection: Connection) -> None:
    # Takes the write lock first: a transaction that reads and then writes cannot be refused
    # in between because another process wrote.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _prepare_sqlite_reader(connection: Any, _record: object) -> None:
    _pragmas(connection, "query_only=ON")


def _pragmas(connection: Any, *pragmas: str) -> None:
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
        connection.execute(f"PRAGMA {pragma}").close()
