"""Opens a PostgreSQL database that several machines share.

Hides: the driver, pools, timeouts, what the server must promise, and a commit whose answer was
lost. The driver is imported with the first engine.
"""

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection, Engine

from distributary.core.database._closing import ClosingPool, keep_open
from distributary.core.database._errors import guard, store_of
from distributary.core.errors import SettingsError, StoreError

SCHEMA: Final = "distributary"
"""Schema of all tables, and the whole search path."""

WRITERS_MAX: Final = 4
"""Most connections of a process that write. Changes of resources lock one row, so more would wait
there; the others are for what is written beside them."""
READERS_MAX: Final = 4
"""Most connections of a process that read: a statement takes milliseconds. With ``WRITERS_MAX``, 32
processes of a cluster need 256 of the server's ``max_connections`` at worst, and 64 at rest."""
ALONE_MAX: Final = 2
"""Most connections of ``open_alone``: one that may hang, and one to say good-bye with."""
POOL_WAIT_S: Final = 10.0
"""Longest wait for a connection that others use: as long as the server may take for a statement."""
CONNECT_S: Final = 3
"""Longest time to connect to one host: a machine that is gone answers nothing, and the next one
waits for its turn."""
STATEMENT_S: Final = 10
"""Longest statement: ours take milliseconds, and a list of 200,000 rows a second."""
LOCK_S: Final = 5
"""Longest wait for a row that another transaction has locked; as SQLite's ``BUSY_TIMEOUT_MS``."""
IDLE_IN_TRANSACTION_S: Final = 10
"""After this time the server ends a transaction whose process says nothing more: its locks would
stop all others until the server noticed a connection that was cut."""
KEEPALIVE_S: Final = 2
"""Pause before, and between, the signs of life that TCP asks for while a statement runs."""
SILENT_S_MAX: Final = 6
"""A connection breaks when the other machine has been silent for this time: half-open, it would
hold its thread for two hours by the kernel's defaults."""
ANSWER_S_MAX: Final = 15.0
"""A connection is closed when the server has not answered for this time, longer than any limit
above: a machine between us may acknowledge for one that is gone."""
PING_AFTER_S: Final = 1.0
"""A connection that has rested longer is asked for a sign of life before it is used: after a
failover all of them are broken."""
DOUBT_S_MAX: Final = 30.0
"""Longest time to find out whether a transaction was committed: a failover takes some seconds to
half a minute."""
DOUBT_PAUSE_S: Final = 0.25
"""Pause between two questions whether a transaction was committed: each may dial anew."""
MIGRATION_S: Final = 600
"""Longest time for an upgrade of tables, and to wait for that of another process."""
MIGRATION_LOCK: Final = 0x6469_7374_7269_6200
"""Key of the advisory lock that upgrades take turns by: ``distrib``, in hexadecimal."""
VERSION_MIN: Final = 140000
"""PostgreSQL 14, the oldest that its makers still mend."""

_log = structlog.get_logger(__name__)
_opening: Final = threading.Lock()
_warned: Final[set[str]] = set()
_known: Final[dict[sa.URL, dict[str, Any]]] = {}
"""URL of a database -> attributes of SQLAlchemy's dialect that it has found out by asking."""
_PLAIN: Final = (bool, int, str, tuple, type(None))


class _Pool:
    """The connections of a process to one database, for all its stores that write, or that read.

    Attributes:
        engine: Makes them.
        users: How many engines of stores stand on it.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.users = 0
        # For a store whose opening failed: nobody closes it.
        weakref.finalize(self, _end, engine, os.getpid()).atexit = False

    def user(self, **options: Any) -> Engine:
        """An engine of one store, which lets the connections go when it is disposed of."""
        made = self.engine.execution_options(**options)
        if not self.users:  # those before may have disposed of it
            keep_open(self.engine)
        self.users += 1
        gone = False

        def dispose(close: bool = True) -> None:
            nonlocal gone
            with _opening:
                self.users -= not gone
                gone = True
                if not self.users:  # others may be using them
                    self.engine.dispose(close)

        # The pool's own would end the connections of all.
        made.dispose = dispose  # type: ignore[method-assign]
        return made


def _end(engine: Engine, pid: int) -> None:
    if pid == os.getpid():  # after a fork they are the other process's
        engine.dispose()


_pools: Final[weakref.WeakValueDictionary[tuple[int, sa.URL, bool], _Pool]] = (
    weakref.WeakValueDictionary()
)
"""By process and URL, for writers and readers."""

Landed = Callable[[Connection], bool]
"""Finds out on another connection whether a transaction was committed; see ``writing``."""


def open_writer(url: sa.URL, store: str, *, durable: bool) -> Engine:
    """See ``database.open_writer``."""
    return _shared(url, writes=True, store=store, durable=durable)


def open_reader(url: sa.URL, store: str) -> Engine:
    """See ``database.open_reader``."""
    return _shared(url, writes=False, store=store)


def open_alone(url: sa.URL, store: str) -> Engine:
    """See ``database.open_alone``."""
    return _make(url, writes=True, pool_size=ALONE_MAX).execution_options(store=store, durable=True)


@contextmanager
def writing(engine: Engine, landed: Landed | None) -> Iterator[Connection]:
    """See ``database.writing``."""
    with guard(store_of(engine)):
        with engine.connect() as connection:
            transaction = connection.begin()
            try:
                if not engine.get_execution_options()["durable"]:
                    connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
                yield connection
            except BaseException:
                transaction.rollback()
                raise
            try:
                transaction.commit()
            except sa.exc.DBAPIError as error:
                if not error.connection_invalidated or landed is None:
                    raise
                lost = error
            else:
                return
        if not _found_out(engine, landed):
            raise lost


@contextmanager
def stating(engine: Engine) -> Iterator[Connection]:
    """See ``database.stating``."""
    assert engine.get_execution_options()["durable"]
    with guard(store_of(engine)), engine.connect() as connection:
        yield connection.execution_options(isolation_level="AUTOCOMMIT")


@contextmanager
def migrating(engine: Engine) -> Iterator[Connection]:
    """See ``database.migrating``."""
    with writing(engine, None) as connection, _patient(connection):
        limit = f"{MIGRATION_S}s"
        for setting in ("statement_timeout", "lock_timeout"):
            connection.exec_driver_sql(f"SET LOCAL {setting} = '{limit}'")
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(MIGRATION_LOCK)))
        # Whoever may not make schemas can have this one made.
        if connection.execute(sa.select(sa.func.to_regnamespace(SCHEMA))).scalar() is None:
            connection.exec_driver_sql(f"CREATE SCHEMA {SCHEMA}")
        yield connection


@contextmanager
def _patient(connection: Connection) -> Iterator[None]:
    """Let the server take as long as an upgrade may."""
    driver: Any = connection.connection.driver_connection
    driver.answer_s_max = MIGRATION_S + ANSWER_S_MAX
    try:
        yield
    finally:
        driver.answer_s_max = ANSWER_S_MAX


def _found_out(engine: Engine, landed: Landed) -> bool:
    """Whether the transaction that *landed* asks for was committed.

    Raises:
        StoreError: The database could not say.
    """
    deadline_s = time.monotonic() + DOUBT_S_MAX
    while True:
        try:
            with engine.begin() as connection:
                return landed(connection)
        except (sa.exc.DBAPIError, sa.exc.TimeoutError):  # or others use all connections
            if time.monotonic() > deadline_s:
                raise StoreError(
                    f"the {store_of(engine)} failed: the connection broke at a commit, and whether"
                    f" it was made could not be found out within {DOUBT_S_MAX:.0f} s"
                ) from None
        time.sleep(DOUBT_PAUSE_S)


def _shared(url: sa.URL, *, writes: bool, **options: Any) -> Engine:
    key = os.getpid(), url, writes
    with _opening:
        pool = _pools.get(key)
        if pool is None:
            pool = _pools[key] = _Pool(_make(url, writes=writes))
        return pool.user(**options)


def _make(url: sa.URL, *, writes: bool, pool_size: int = 0) -> Engine:
    try:
        engine = sa.create_engine(
            url,
            hide_parameters=True,
            isolation_level="READ COMMITTED" if writes else "AUTOCOMMIT",
            poolclass=ClosingPool,
            pool_size=pool_size or (WRITERS_MAX if writes else READERS_MAX),
            max_overflow=0,
            pool_timeout=POOL_WAIT_S,
            pool_use_lifo=True,  # those beyond what is needed rest
            use_native_hstore=False,  # else it is asked for at each connect
            connect_args=_connect_args(writes=writes),
        )
    except ModuleNotFoundError as error:
        raise SettingsError(
            "a store in PostgreSQL needs the package psycopg, which is not here: install"
            " 'distributary[server]' anew"
        ) from error
    hosts = str(url.query.get("host", "")).count(",") + 1

    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:
            _check_server(cursor, hosts)
        connection.rollback()

    def check_in(_connection: object, record: Any) -> None:
        record.info["used_s"] = time.monotonic()

    def check_out(connection: Any, record: Any, _proxy: object) -> None:
        if time.monotonic() - record.info.get("used_s", time.monotonic()) < PING_AFTER_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.dbapi.Error as error:  # type: ignore[union-attr] # it is loaded
            raise sa.exc.DisconnectionError("it has rested, and is broken") from error

    kind = _connection_type()

    def connect(_dialect: object, _record: object, args: Any, settings: Any) -> Any:
        return kind.connect(*args, **settings)

    _ask_once(engine)
    sa.event.listen(engine, "do_connect", connect)
    sa.event.listen(engine, "connect", prepare)
    sa.event.listen(engine, "checkin", check_in)
    sa.event.listen(engine, "checkout", check_out)
    return engine


def _ask_once(engine: Engine) -> None:
    """Have *engine* know of its server what the first one of this process has found out.

    SQLAlchemy asks four questions at the first connection of each, one after another, and an owner
    of a partition opens several on its way to its first event.
    """
    dialect: Any = engine.dialect
    ask = dialect.initialize

    def initialize(connection: Connection) -> None:
        known = _known.get(engine.url)
        if known is not None:
            vars(dialect).update(known)
            return
        before = set(vars(dialect))
        ask(connection)
        found = ((name, vars(dialect)[name]) for name in vars(dialect).keys() - before)
        # Not what it remembers of itself.
        _known[engine.url] = {n: value for n, value in found if isinstance(value, _PLAIN)}

    dialect.initialize = initialize


def _connection_type() -> Any:
    """The driver's connection, which waits for an answer only so long."""
    import psycopg  # noqa: PLC0415 - only where a store is in PostgreSQL

    class TimedConnection(psycopg.Connection[Any]):
        answer_s_max = ANSWER_S_MAX

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._within(gen, self.answer_s_max), *args, **options)

        def _within(self, gen: Any, seconds: float) -> Any:
            """*gen*, which is asked ten times a second while nothing arrives."""
            end_s = time.monotonic() + seconds
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > end_s:
                        self.pgconn.finish()
                        raise psycopg.OperationalError(f"no answer within {seconds:.0f} s")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return TimedConnection


def _connect_args(*, writes: bool) -> dict[str, Any]:
    settings = {
        "search_path": SCHEMA,
        "statement_timeout": f"{STATEMENT_S}s",
        "lock_timeout": f"{LOCK_S}s",
        "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_S}s",
        # The server too gives up a connection that was cut.
        "tcp_keepalives_idle": f"{KEEPALIVE_S}s",
        "tcp_keepalives_interval": f"{KEEPALIVE_S}s",
        "tcp_user_timeout": f"{SILENT_S_MAX}s",
        # Who only reads writes nothing, by mistake or not.
        "default_transaction_read_only": "off" if writes else "on",
    }
    return {
        "application_name": SCHEMA,
        "client_encoding": "utf8",
        "connect_timeout": CONNECT_S,
        "keepalives": 1,
        "keepalives_idle": KEEPALIVE_S,
        "keepalives_interval": KEEPALIVE_S,
        "keepalives_count": SILENT_S_MAX // KEEPALIVE_S,
        "tcp_user_timeout": SILENT_S_MAX * 1000,
        # Never a standby: its rows are older than what this process may have seen already.
        "target_session_attrs": "read-write" if writes else "primary",
        "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
    }


def _check_server(cursor: Any, hosts: int) -> None:
    """Refuse a server on which a commit that returned may be lost.

    Raises:
        StoreError: It is set up so; the message names the setting.
    """
    names = "fsync", "synchronous_commit", "server_encoding", "synchronous_standby_names"
    cursor.execute(
        "SELECT current_setting('server_version_num')::int, "
        + ", ".join(f"current_setting('{name}')" for name in names)
    )
    version, fsync, commit, encoding, standbys = cursor.fetchone()
    faults = [
        fault
        for bad, fault in (
            (version < VERSION_MIN, f"its version is {version}: at least {VERSION_MIN} is needed"),
            (fsync == "off", "fsync is off: a power cut would damage everything"),
            (
                commit == "off",
                "synchronous_commit is off: a crash would lose what was acknowledged",
            ),
            (encoding != "UTF8", f"its encoding is {encoding}: UTF8 is needed"),
        )
        if bad
    ]
    if faults:
        raise StoreError(f"the PostgreSQL database cannot be used: {'; '.join(faults)}")
    if hosts > 1 and (not standbys or commit == "local") and "failover" not in _warned:
        _warned.add("failover")
        _log.warning(
            "postgres-failover-may-lose",
            reason="there are several hosts, and a commit does not wait for a standby:"
            " set synchronous_standby_names, and synchronous_commit to on",
        )
