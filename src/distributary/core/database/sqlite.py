"""SQLite files that several processes share: opening, and what no other database needs.

Called by ``database``, and by stores whose files are scrubbed or shrunk. Hides: pragmas, locks,
file modes, the driver's transactions and errors.
"""

import contextlib
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core.database._closing import ClosingPool
from distributary.core.database._errors import guard, store_of
from distributary.core.errors import StoreError
from distributary.core.files import create_private

BUSY_TIMEOUT_MS: Final = 5000
"""How long a statement waits for another process's transaction. Ours take milliseconds; a person
with a database shell may hold one open."""
WAL_TRIES: Final = 500
"""Attempts to switch a new file to WAL, while another process has it: see ``WAL_PAUSE_S``."""
WAL_PAUSE_S: Final = 0.01
"""Pause between attempts to switch to WAL; five seconds in all, as ``BUSY_TIMEOUT_MS``."""
_TO_BE_SCRUBBED: Final = 1
"""Value of SQLite's ``user_version``, otherwise unused, while a file needs scrubbing."""
_INCREMENTAL: Final = 2
"""The value of ``PRAGMA auto_vacuum`` for incremental."""

LOOKED_MAX: Final = 256
"""Files of which an engine is remembered, without a connection: some 50 KB of statements each."""

_numbers: Final = itertools.count()
_turns: Final[dict[str, threading.Lock]] = {}
"""Write lock of each file. Two threads that met at SQLite's own lock would poll it, with pauses of
up to 100 ms."""


def sqlite_url(path: Path) -> sa.URL:
    """Return the URL of the SQLite file at *path*."""
    return sa.URL.create("sqlite+pysqlite", database=str(path))


def memory_url() -> sa.URL:
    """Return the URL of a new in-memory database, which lives as long as an engine has it open."""
    name = f"file:memory-{next(_numbers)}"
    query = {"mode": "memory", "cache": "shared", "uri": "true"}
    return sa.URL.create("sqlite+pysqlite", database=name, query=query)


def open_writer(url: sa.URL, store: str, *, durable: bool, gives_back: bool) -> Engine:
    """See ``database.open_writer``."""
    if not url.query:
        _make_private(Path(url.database or ""))
    # FULL: a commit that returned survives a power cut; NORMAL may lose the last ones.
    synchronous = "synchronous=FULL" if durable else "synchronous=NORMAL"

    def prepare(connection: Any, _record: object) -> None:
        # First of all: SQLite can turn this on later only by rewriting the file.
        _pragmas(connection, *(["auto_vacuum=INCREMENTAL"] if gives_back else []))
        _switch_to_wal(connection)
        _pragmas(connection, synchronous)
        connection.isolation_level = None  # the driver must not begin transactions itself

    engine = _engine(url, store)
    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", _begin_immediate)
    return engine


def open_reader(url: sa.URL, store: str) -> Engine:
    """See ``database.open_reader``."""
    if not url.query and not Path(url.database or "").exists():
        raise StoreError(f"there is no store at {url.database}: its writer makes it")

    def prepare(connection: Any, _record: object) -> None:
        _pragmas(connection, "query_only=ON")

    engine = _engine(url, store, isolation_level="AUTOCOMMIT")
    sa.event.listen(engine, "connect", prepare)
    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """See ``database.writing``."""
    turn = _turns.setdefault(engine.url.render_as_string(), threading.Lock())
    with guard(store_of(engine)), turn, engine.begin() as connection:
        yield connection


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """See ``database.migrating``. Closes the files if it fails: the engine is used no more."""
    try:
        with writing(engine) as connection:
            yield connection
        _settle(engine)
    except BaseException:
        engine.dispose()
        raise


@contextmanager
def looking(path: Path, store: str) -> Iterator[Connection]:
    """Open a connection for one read of a file that another process owns.

    That process may be about to repair it. Writes nothing, not even what SQLite tidies up when it
    closes a file.

    Raises:
        StoreError: It cannot be read now.
    """
    with guard(store), _looked(path, store).connect() as connection:
        yield connection


@lru_cache(maxsize=LOOKED_MAX)
def _looked(path: Path, store: str) -> Engine:
    """Open a file anew for each connection, with the statements that were compiled before."""
    name = f"file:{quote(str(path))}"
    url = sa.URL.create("sqlite+pysqlite", database=name, query={"mode": "ro", "uri": "true"})
    return _engine(url, store, poolclass=sa.NullPool)


def ask_for_scrubbing(connection: Connection) -> None:
    """Mark in the transaction of *connection* that deleted content must be erased."""
    connection.exec_driver_sql(f"PRAGMA user_version = {_TO_BE_SCRUBBED}")


def scrubbed(engine: Engine) -> bool:
    """Rewrite the file and empty its write-ahead log, if ``ask_for_scrubbing`` was called.

    Returns:
        False if another process has it open: then the log could not be emptied.

    Raises:
        StoreError: It could not be done now.
    """
    with _raw(engine) as connection:
        if _pragma(connection, "user_version") != _TO_BE_SCRUBBED:
            return True
        connection.execute("VACUUM").close()
        busy = _pragma(connection, "wal_checkpoint(TRUNCATE)")
        if not busy:
            _pragmas(connection, "user_version = 0")
        return not busy


def let_give_back(engine: Engine) -> None:
    """Rewrite a file that was made without incremental vacuum, so that it has it.

    If that is not possible now (a full disk, a reader), the file stays as it is.
    """
    with _raw(engine) as connection:
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("VACUUM").close()


def give_back(engine: Engine, pages: int, few: int) -> bool:
    """Return up to *pages* free pages to the disk; True if there are more.

    Args:
        engine: Of ``open_writer``.
        pages: Pages of 4 KiB.
        few: Does nothing with fewer free pages, or with less than a quarter of all.

    Raises:
        StoreError: It could not be done now.
    """
    with _raw(engine) as connection:
        free, pages_of_all = (
            _pragma(connection, "freelist_count"),
            _pragma(connection, "page_count"),
        )
        if free < few or free * 4 < pages_of_all:
            # A reader may have kept the file from shrinking the last time.
            (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
            size = Path(path).stat().st_size if path else 0
            if size > pages_of_all * _pragma(connection, "page_size"):
                _pragma(connection, "wal_checkpoint(TRUNCATE)")
            return False
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            return False
        # A script runs to its end; a statement would free only the first page.
        connection.executescript(f"PRAGMA incremental_vacuum({pages})").close()
        if free > pages:
            return True
        # Until then the change is in the log beside the file.
        _pragma(connection, "wal_checkpoint(TRUNCATE)")
        return False


def _make_private(path: Path) -> None:
    try:
        if not create_private(path) and not os.access(path, os.R_OK | os.W_OK):
            raise StoreError(f"cannot write the store {path}: no permission")
    except OSError as error:
        raise StoreError(f"cannot write the store {path}: {error.strerror}") from error


def _engine(
    url: sa.URL, store: str, *, poolclass: type[sa.Pool] = ClosingPool, **options: Any
) -> Engine:
    # ``hide_parameters``: a traceback shows neither headers, which may hold tokens, nor events.
    engine = sa.create_engine(url, hide_parameters=True, poolclass=poolclass, **options)
    engine.update_execution_options(store=store)
    return engine


@contextmanager
def _raw(engine: Engine) -> Iterator[sqlite3.Connection]:
    """Yield the driver's own connection, outside any transaction."""
    with guard(store_of(engine)), contextlib.closing(engine.raw_connection()) as pooled:
        driver: Any = pooled.driver_connection
        yield driver


def _settle(engine: Engine) -> None:
    """Write into the file what the write-ahead log beside it has, and sync it.

    Its last writer may have been killed before the log was synced, or the sync has failed: such
    transactions read back from the page cache, and a power cut would take them, with all that were
    committed behind them. Whoever opens the file relies on them, and says so elsewhere. The next
    transaction begins the log anew: none is written behind what may be missing.
    """
    with _raw(engine) as connection:
        (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
        if _pragma(connection, "wal_checkpoint(RESTART)") and path:
            # A reader is in the way: what was never synced is synced at least. What a sync that
            # failed has lost is not.
            with contextlib.suppress(FileNotFoundError), Path(f"{path}-wal").open("rb") as log:
                os.fdatasync(log.fileno())


def _begin_immediate(connection: Connection) -> None:
    # Takes the write lock first: a transaction that reads and then writes cannot fail in between
    # because another process wrote.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log, so that readers in other processes never wait for the writer.

    Several writers may make a file at once. The switch takes a lock on which two of them can
    deadlock, so SQLite does not wait for it, whatever the busy timeout: one backs off and retries.
    """
    for tries_left in reversed(range(WAL_TRIES)):
        try:
            _pragmas(connection, "journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or not tries_left:
                raise
            time.sleep(WAL_PAUSE_S)
        else:
            return


def _pragmas(connection: Any, *pragmas: str) -> None:
    for pragma in (f"busy_timeout={BUSY_TIMEOUT_MS}", *pragmas):
        connection.execute(f"PRAGMA {pragma}").close()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return the first number of the pragma's result."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
