"""Opening the store's database: the only place that knows that it is SQLite (or, later, is not)."""

import os
import threading
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


_TO_BE_SCRUBBED: Final = 1
"""Value of SQLite's ``user_version``, which nothing else uses, while a file is to be scrubbed."""

_turns: Final[dict[str, threading.Lock]] = {}
"""By URL: whose turn it is to write. Two threads that met at SQLite's own lock would sleep and
look again, up to 100 ms at a time."""


def store_url(path: Path) -> sa.URL:
    """URL of the SQLite file at *path*."""
    return sa.URL.create("sqlite+pysqlite", database=str(path))


def open_writer(url: sa.URL, *, durable: bool = True) -> Engine:
    """An engine whose transactions may write and are on the medium when they return.

    Args:
        url: ``store_url`` of a file, which is made if it is not there.
        durable: False: they are whole and in order, but a power cut may lose the newest, until
            a durable one follows. Costs no sync.

    Raises:
        StoreError: The folder or file cannot be written.
    """
    if url.get_backend_name() == "sqlite":
        _create_private(Path(url.database or ""))
    engine = sa.create_engine(url, hide_parameters=True)
    if engine.dialect.name == "sqlite":
        prepare = _prepare_sqlite_writer if durable else _prepare_sqlite_noter
        sa.event.listen(engine, "connect", prepare)
        sa.event.listen(engine, "begin", _begin_immediate)
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction of an engine that ``open_writer`` made; committed at the end of the block.

    Writers of this process take turns. Those of others wait as ``BUSY_TIMEOUT_MS`` says.

    Raises:
        StoreError: The database failed; nothing was written, or, where the commit itself failed,
            nobody knows.
    """
    turn = _turns.setdefault(engine.url.render_as_string(), threading.Lock())
    with guard(), turn, engine.begin() as connection:
        yield connection


def open_reader(url: sa.URL) -> Engine:
    """An engine that reads, each statement for itself, and never waits for a writer.

    Raises:
        StoreError: There is no such store yet.
    """
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise StoreError(f"there is no store at {url.database}: the control process makes it")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", hide_parameters=True)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _prepare_sqlite_reader)
    return engine


def ask_for_scrubbing(connection: Connection) -> None:
    """Note in the transaction of *connection* that the file holds what nobody shall read there."""
    connection.exec_driver_sql(f"PRAGMA user_version = {_TO_BE_SCRUBBED}")


def scrubbed(engine: Engine) -> bool:
    """Rewrite the file and empty its write-ahead log, where ``ask_for_scrubbing`` was called.

    Returns:
        False where somebody else has it open: then the log could not be emptied.

    Raises:
        sqlite3.Error: It could not be done now.
    """
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        if cursor.execute("PRAGMA user_version").fetchone() != (_TO_BE_SCRUBBED,):
            return True
        cursor.execute("VACUUM")
        busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        if not busy:
            cursor.execute("PRAGMA user_version = 0")
        return not busy
    finally:
        raw.close()


@contextmanager
def guard() -> Iterator[None]:
    """Turns what the database library raises into a ``StoreError``."""
    try:
        yield
    except sa.exc.SQLAlchemyError as error:
        # Statements stay out of the message. Parameters stay out of the cause as well
        # (``hide_parameters``), which a traceback shows: a header may hold a token.
        cause = getattr(error, "orig", None) or type(error).__name__
        raise StoreError(f"the resource store failed: {cause}") from error


def _create_private(path: Path) -> None:
    """Make the file, readable by its owner alone: sinks and headers may hold tokens.

    One that is there is not touched. POSIX drops every lock of a process on a file when it closes
    any descriptor of it; SQLite knows its own descriptors only, and would lose the locks of a
    connection that is open already (sqlite.org/howtocorrupt.html, section 2.2).
    """
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        if not os.access(path, os.R_OK | os.W_OK):
            raise StoreError(f"cannot write the store {path}: no permission") from None
    except OSError as error:
        raise StoreError(f"cannot write the store {path}: {error.strerror}") from error


def _prepare_sqlite_writer(connection: Any, _record: object) -> None:
    # FULL: a commit that returned survives a power cut (NORMAL may lose the last ones).
    _prepare_sqlite_writing(connection, "FULL")


def _prepare_sqlite_noter(connection: Any, _record: object) -> None:
    _prepare_sqlite_writing(connection, "NORMAL")


def _prepare_sqlite_writing(connection: Any, synchronous: str) -> None:
    # WAL: readers in other processes never wait for the writer.
    _pragmas(connection, "journal_mode=WAL", f"synchronous={synchronous}")
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
