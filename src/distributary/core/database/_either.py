"""Opens a database by its URL: a file of SQLite, or PostgreSQL."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from distributary.core.database import _postgres, sqlite
from distributary.core.database._errors import guard, store_of
from distributary.core.database._url import is_postgres


def open_writer(
    url: sa.URL, store: str, *, durable: bool = True, gives_back: bool = False
) -> Engine:
    """Return an engine for ``writing``: a commit is on the medium when it returns.

    Args:
        url: ``sqlite_url`` of a file, which is made if it is missing, readable only by its owner:
            rows hold tokens and whole events; or ``database_url``, which is not yet connected to.
        store: Name of the store for messages: "resource store".
        durable: False: commits are atomic and in order, but a power cut may lose the newest, until
            a durable one follows. Costs no sync.
        gives_back: A new file uses incremental vacuum, so that ``sqlite.give_back`` can return free
            pages to the disk. PostgreSQL does so by itself.

    Raises:
        StoreError: The folder or file cannot be written.
        SettingsError: PostgreSQL's driver is not installed.
    """
    if is_postgres(url):
        return _postgres.open_writer(url, store, durable=durable)
    return sqlite.open_writer(url, store, durable=durable, gives_back=gives_back)


def open_alone(url: sa.URL, store: str) -> Engine:
    """As ``open_writer`` of PostgreSQL, with connections that nothing else of this process uses.

    For what must not wait for a turn: a lease that is renewed. The caller disposes of it.

    Raises:
        SettingsError: PostgreSQL's driver is not installed.
    """
    return _postgres.open_alone(url, store)


def open_reader(url: sa.URL, store: str) -> Engine:
    """Return an engine for ``reading``: each statement by itself, none waits for a writer.

    Args:
        url: As for ``open_writer``.
        store: As for ``open_writer``.

    Raises:
        StoreError: There is no such file yet.
        SettingsError: PostgreSQL's driver is not installed.
    """
    if is_postgres(url):
        return _postgres.open_reader(url, store)
    return sqlite.open_reader(url, store)


def writing(
    engine: Engine, landed: Callable[[Connection], bool] | None = None
) -> AbstractContextManager[Connection]:
    """Open a transaction on an engine of ``open_writer``; commits at the end of the block.

    SQLite: writers of this process take turns; those of others wait up to ``BUSY_TIMEOUT_MS``.
    PostgreSQL: transactions run side by side, each statement on what is committed when it begins
    (READ COMMITTED): lock a row that all of them change first.

    Args:
        engine: Of ``open_writer``.
        landed: Asked where a connection to PostgreSQL broke during the commit, on another
            connection, in a transaction: whether this one was committed. It must wait for a row
            that this one has locked, since the server may still be about to commit. None: nobody
            knows.

    Raises:
        StoreError: The database failed; nothing was written, or, if the commit itself failed, the
            outcome is unknown.
    """
    if engine.dialect.name == "postgresql":
        return _postgres.writing(engine, landed)
    return sqlite.writing(engine)


def stating(engine: Engine) -> AbstractContextManager[Connection]:
    """Open a connection to PostgreSQL on which each statement is a transaction by itself.

    For what is one statement: a third of the round trips of ``writing``. A statement that returned
    is on the medium.

    Args:
        engine: Of ``open_writer``, durable.

    Raises:
        StoreError: The database failed; whether the last statement was committed is unknown.
    """
    return _postgres.stating(engine)


def migrating(engine: Engine) -> AbstractContextManager[Connection]:
    """Open a transaction that makes or upgrades tables: as ``writing``, but one at a time.

    In PostgreSQL under an advisory lock; makes the schema ``distributary`` first. Afterwards all
    that is in an SQLite file is on the medium, whatever became of its last writer.

    Raises:
        StoreError: As for ``writing``.
    """
    if engine.dialect.name == "postgresql":
        return _postgres.migrating(engine)
    return sqlite.migrating(engine)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Open a connection on an engine of ``open_reader``.

    Raises:
        StoreError: The database failed.
    """
    with guard(store_of(engine)), engine.connect() as connection:
        yield connection
