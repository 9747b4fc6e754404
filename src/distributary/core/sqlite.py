"""SQLite files that several processes share: the only place that knows how they are opened.

Called by the stores of the resources, of the deliveries and of the counts. Hides: pragmas, locks,
the modes of files, the driver's transactions and its errors.
"""

import contextlib
import itertools
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core.errors import StoreError
from distributary.core.files import create_private

BUSY_TIMEOUT_MS: Final = 5000
"""How long a statement waits for another process's transaction. Ours take milliseconds; a person
with a database shell may hold one open."""
WAL_TRIES: Final = 500
WAL_PAUSE_S: Final = 0.01
"""Five seconds in all, as long as a statement waits for another one's transaction."""
_TO_BE_SCRUBBED: Final = 1
"""Value of SQLite's ``user_version``, which nothing else uses, while a file is to be scrubbed."""
_INCREMENTAL: Final = 2
"""SQLite's word for it in ``PRAGMA auto_vacuum``."""

_numbers: Final = itertools.count()
_turns: Final[dict[str, threading.Lock]] = {}
"""By file: whose turn it is to write. Two threads that met at SQLite's own lock would sleep and
look again, up to 100 ms at a time."""


def sqlite_url(path: Path) -> sa.URL:
    """URL of the SQLite file at *path*."""
    return sa.URL.create("sqlite+pysqlite", database=str(path))


def memory_url() -> sa.URL:
    """URL of a new database in the memory of this process, for as long as an engine has it open."""
    name = f"file:memory-{next(_numbers)}"
    query = {"mode": "memory", "cache": "shared", "uri": "true"}
    return sa.URL.create("sqlite+pysqlite", database=name, query=query)


def open_writer(
    url: sa.URL, store: str, *, durable: bool = True, gives_back: bool = False
) -> Engine:
    """An engine for ``writing``: what it commits is on the medium when the commit returns.

    Args:
        url: ``sqlite_url`` of a file, which is made if it is not there, readable by its owner
            alone: rows hold tokens and whole events.
        store: What the file is, for messages: "resource store".
        durable: False: commits are whole and in order, but a power cut may lose the newest, until
            a durable one follows. Costs no sync.
        gives_back: A file that is made here keeps account of its free pages, so that
            ``give_back`` can return them to the disk.

    Raises:
        StoreError: The folder or file cannot be written.
    """
    if not url.query:
        _make_private(Path(url.database or ""))
    # FULL: a commit that returned survives a power cut; NORMAL may lose the last ones.
    synchronous = "synchronous=FULL" if durable else "synchronous=NORMAL"

    def prepare(connection: Any, _record: object) -> None:
        # The order matters: a file that is made keeps account of its pages from the first one on.
        _pragmas(connection, *(["auto_vacuum=INCREMENTAL"] if gives_back else []))
        _switch_to_wal(connection)
        _pragmas(connection, synchronous)
        connection.isolation_level = None  # the driver shall not begin transactions of its own

    engine = _engine(url, store)
    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "begin", _begin_immediate)
    return engine


def open_reader(url: sa.URL, store: str) -> Engine:
    """An engine for ``reading``: each statement for itself, and none waits for a writer.

    Args:
        url: ``sqlite_url`` of a file.
        store: As for ``open_writer``.

    Raises:
        StoreError: There is no such store yet.
    """
    if not url.query and not Path(url.database or "").exists():
        raise StoreError(f"there is no store at {url.database}: its writer makes it")

    def prepare(connection: Any, _record: object) -> None:
        _pragmas(connection, "query_only=ON")

    engine = _engine(url, store, isolation_level="AUTOCOMMIT")
    sa.event.listen(engine, "connect", prepare)
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
    with _guard(_store_of(engine)), turn, engine.begin() as connection:
        yield connection


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection of an engine that ``open_reader`` made.

    Raises:
        StoreError: The database failed.
    """
    with _guard(_store_of(engine)), engine.connect() as connection:
        yield connection


@contextmanager
def looking(path: Path, store: str) -> Iterator[Connection]:
    """A connection for one look at a file that another process owns, and may be about to mend.

    Nothing is written, not even what SQLite tidies up when it closes a file.

    Raises:
        StoreError: It cannot be read now.
    """
    name = f"file:{quote(str(path))}"
    url = sa.URL.create("sqlite+pysqlite", database=name, query={"mode": "ro", "uri": "true"})
    engine = _engine(url, store, poolclass=sa.NullPool)
    with _guard(store), engine.connect() as connection:
        yield connection


def ask_for_scrubbing(connection: Connection) -> None:
    """Note in the transaction of *connection* that the file holds what nobody shall read there."""
    connection.exec_driver_sql(f"PRAGMA user_version = {_TO_BE_SCRUBBED}")


def scrubbed(engine: Engine) -> bool:
    """Rewrite the file and empty its write-ahead log, where ``ask_for_scrubbing`` was called.

    Returns:
        False where somebody else has it open: then the log could not be emptied.

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
    """Bring a file that was made without to keep account of its free pages: it is written anew.

    Where that cannot be done now (a full disk, somebody reads it), the file serves as it is.
    """
    with _raw(engine) as connection:
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            with contextlib.suppress(sqlite3.OperationalError):
                connection.execute("VACUUM").close()


def give_back(engine: Engine, pages: int, few: int) -> bool:
    """Return up to *pages* free pages to the disk; True where there are more.

    Args:
        engine: ``open_writer`` made it.
        pages: Pages of 4 KiB.
        few: With fewer free ones, or a quarter of all, nothing is done.

    Raises:
        StoreError: It could not be done now.
    """
    with _raw(engine) as connection:
        free = _pragma(connection, "freelist_count")
        if free < few or free * 4 < _pragma(connection, "page_count"):
            return False
        if _pragma(connection, "auto_vacuum") != _INCREMENTAL:
            return False
        # A script is carried out to its end; a statement would free the first page alone.
        connection.executescript(f"PRAGMA incremental_vacuum({pages})").close()
        if free > pages:
            return True
        # What was written lies beside the file until then.
        _pragma(connection, "wal_checkpoint(TRUNCATE)")
        return False


def _make_private(path: Path) -> None:
    try:
        if not create_private(path) and not os.access(path, os.R_OK | os.W_OK):
            raise StoreError(f"cannot write the store {path}: no permission")
    except OSError as error:
        raise StoreError(f"cannot write the store {path}: {error.strerror}") from error


def _engine(
    url: sa.URL, store: str, *, poolclass: type[sa.Pool] = sa.QueuePool, **options: Any
) -> Engine:
    # ``hide_parameters``: a traceback shows neither headers, which may hold tokens, nor events.
    engine = sa.create_engine(url, hide_parameters=True, poolclass=poolclass, **options)
    engine.update_execution_options(store=store)
    return engine


def _store_of(engine: Engine) -> str:
    store: str = engine.get_execution_options()["store"]
    return store


@contextmanager
def _guard(store: str) -> Iterator[None]:
    """Turns what the database library or its driver raises into a ``StoreError``."""
    try:
        yield
    except (sa.exc.SQLAlchemyError, sqlite3.Error) as error:
        # The driver's words alone: statements stay out of the message.
        cause = error if isinstance(error, sqlite3.Error) else getattr(error, "orig", None)
        raise StoreError(f"the {store} failed: {cause or type(error).__name__}") from error


@contextmanager
def _raw(engine: Engine) -> Iterator[sqlite3.Connection]:
    """The driver's own connection, in no transaction."""
    with _guard(_store_of(engine)), contextlib.closing(engine.raw_connection()) as pooled:
        driver: Any = pooled.driver_connection
        yield driver


def _begin_immediate(connection: Connection) -> None:
    # Takes the write lock first: a transaction that reads and then writes cannot be refused
    # in between because another process wrote.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    """With a write-ahead log, readers in other processes never wait for the writer.

    Several writers may make a file at once. The switch takes a lock that two of them can keep from
    one another, so SQLite does not wait for it, whatever the busy timeout: one gives way and tries
    again.
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
    """The first number that the pragma answers."""
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
