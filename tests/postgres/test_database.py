"""``core.database`` with a real PostgreSQL: what it refuses, outlives, and finds out."""

import socket
import threading
import time

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from distributary.core import database
from distributary.core.cluster import PostgresPlace
from distributary.core.database import _postgres
from distributary.core.errors import StoreAwayError, StoreError
from kit.cutting_proxy import CuttingProxy, Fate

THINGS = sa.Table("thing", sa.MetaData(), sa.Column("name", database.text(20), primary_key=True))


@pytest.fixture
def url(emptied_url: sa.URL) -> sa.URL:
    """A database in which nothing is."""
    return emptied_url


@pytest.fixture
def writer(url: sa.URL):
    """With a table."""
    engine = database.open_writer(url, "thing store")
    with database.migrating(engine) as connection:
        THINGS.metadata.create_all(connection)
    yield engine
    engine.dispose()


@pytest.fixture
def reader(url: sa.URL):
    """Of the same database."""
    engine = database.open_reader(url, "thing store")
    yield engine
    engine.dispose()


def _put(engine: sa.Engine, name: str) -> None:
    with database.writing(engine) as connection:
        connection.execute(THINGS.insert().values(name=name))


def _names(engine: sa.Engine) -> list[str]:
    with database.reading(engine) as connection:
        return list(connection.execute(sa.select(THINGS.c.name).order_by(THINGS.c.name)).scalars())


def test_a_process_asks_once_what_server_it_has(
    url: sa.URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many stores it opens: each question is a round trip before a partition's first event.

    All of them know the same of it.
    """
    asked: list[object] = []
    ask = PGDialect_psycopg.initialize
    monkeypatch.setattr(PGDialect_psycopg, "initialize", lambda *of: asked.append(of) or ask(*of))
    monkeypatch.setattr(_postgres, "_known", {})
    engines = [database.open_alone(url, "a lease") for _ in range(3)]
    known = []
    for engine in engines:
        with database.writing(engine) as connection:
            assert connection.exec_driver_sql("SELECT 1").scalar() == 1
        dialect = engine.dialect
        known.append((dialect.server_version_info, dialect.default_schema_name))
        known[-1] += (dialect.default_isolation_level, dialect._backslash_escapes)
        engine.dispose()
    assert len(asked) == 1
    assert known == [known[0]] * 3
    assert known[0][0] >= (14,)


def test_text_is_in_the_order_of_its_bytes(writer: sa.Engine, reader: sa.Engine) -> None:
    """As in SQLite, whatever the collation of the database."""
    for name in ("b", "a", "B", "é", "_", "Z"):
        _put(writer, name)
    assert _names(reader) == sorted(["b", "a", "B", "é", "_", "Z"])


def test_a_transaction_that_fails_leaves_nothing_and_tells_no_values(
    writer: sa.Engine, reader: sa.Engine
) -> None:
    """Neither the message nor the traceback quotes what was to be written."""
    with pytest.raises(StoreError, match="the thing store failed: duplicate key") as raised:
        _put_all(writer, ["x", "secret", "secret"])
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__
    with pytest.raises(StoreError, match=r"InvalidTextRepresentation \(22P02\)"):
        _cast(writer, "secret")
    assert _names(reader) == []


def test_what_the_driver_refuses_is_no_broken_connection(writer: sa.Engine) -> None:
    """Whoever waits for a database that is away would ask for the same for minutes."""
    with pytest.raises(StoreError) as raised:
        _cast(writer, "a\0b")
    assert not isinstance(raised.value, StoreAwayError)


def _cast(engine: sa.Engine, text: str) -> None:
    with database.writing(engine) as connection:
        connection.execute(sa.text("SELECT CAST(CAST(:a AS text) AS int)"), {"a": text})


def test_text_that_sqlite_takes_is_taken(writer: sa.Engine, reader: sa.Engine) -> None:
    """Longer than its column says, and with the one character that PostgreSQL has not."""
    _put(writer, "a\0b" + 30 * "c")
    assert _names(reader) == ["a\ufffdb" + 30 * "c"]


def _put_all(engine: sa.Engine, names: list[str], between=lambda: None) -> None:
    with database.writing(engine) as connection:
        for name in names:
            connection.execute(THINGS.insert().values(name=name))
            between()


def test_what_others_lock_is_waited_for_only_so_long(writer: sa.Engine) -> None:
    """And a statement, and a process that is silent within a transaction."""
    with database.writing(writer) as connection:
        found = connection.execute(
            sa.text(
                "SELECT name, setting FROM pg_settings WHERE name IN ('lock_timeout',"
                " 'statement_timeout', 'idle_in_transaction_session_timeout', 'tcp_user_timeout')"
            )
        )
        limits = {name: int(setting) for name, setting in found}
    assert limits == {
        "lock_timeout": 5_000,
        "statement_timeout": 10_000,
        "idle_in_transaction_session_timeout": 10_000,
        "tcp_user_timeout": 6_000,
    }


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"synchronous_commit": "off"}, "synchronous_commit is off"),
        ({"fsync": "off"}, "fsync is off"),
    ],
)
def test_a_server_that_may_lose_commits_is_refused(
    postgres, postgres_place: PostgresPlace, monkeypatch: pytest.MonkeyPatch, settings, fault
) -> None:
    """Before anything is written; the setting is named."""
    url = database.database_url(postgres_place)
    if "fsync" in settings:  # of the whole server: it is asked as if it were
        answer = "SELECT 150000, 'off', 'on', 'UTF8', ''"
        cursor = psycopg.Cursor.execute
        monkeypatch.setattr(
            psycopg.Cursor,
            "execute",
            lambda self, query, *rest, **more: cursor(
                self, answer if "current_setting" in str(query) else query, *rest, **more
            ),
        )
    else:
        with postgres.connected() as connection:
            connection.execute(f"ALTER DATABASE {url.database} SET synchronous_commit = off")
    engine = database.open_writer(url, "thing store")
    with pytest.raises(StoreError, match=fault), database.writing(engine):
        pass


def test_several_hosts_without_a_standby_that_commits_wait_for_are_warned_of(
    postgres, url: sa.URL, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """One that takes no connections is passed over."""
    monkeypatch.setattr(_postgres, "_warned", set())
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        ports = f"{closed.getsockname()[1]},{postgres.port}"
        query = dict(url.query) | {"host": "127.0.0.1,127.0.0.1", "port": ports}
        engine = database.open_reader(url.set(query=query), "thing store")
        with database.reading(engine) as connection:
            assert connection.execute(sa.select(1)).scalar() == 1
    engine.dispose()
    assert "synchronous_standby_names" in capsys.readouterr().out


def test_a_server_that_is_gone_is_named_without_the_password(url: sa.URL) -> None:
    """Where it was looked for, for whoever mends it."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        query = dict(url.query) | {"port": str(closed.getsockname()[1])}
        engine = database.open_reader(url.set(query=query), "thing store")
        with (
            pytest.raises(StoreError, match="Connection refused") as raised,
            database.reading(engine),
        ):
            pass
    assert "battery" not in str(raised.value)


def _end_all(postgres, url: sa.URL) -> None:
    with postgres.connected() as connection:
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(ended, [url.database]).fetchall()


def test_connections_that_broke_at_rest_are_opened_anew(
    postgres, url: sa.URL, writer: sa.Engine, reader: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a failover: nobody sees an error."""
    monkeypatch.setattr(_postgres, "PING_AFTER_S", 0.0)
    _put(writer, "a")
    assert _names(reader) == ["a"]
    _end_all(postgres, url)
    _put(writer, "b")
    assert _names(reader) == ["a", "b"]


def test_one_that_breaks_in_a_transaction_undoes_it(
    postgres, url: sa.URL, writer: sa.Engine, reader: sa.Engine
) -> None:
    """It fails, and the next one gets a new connection."""
    with pytest.raises(StoreError):
        _put_all(writer, ["a", "b"], between=lambda: _end_all(postgres, url))
    _put(writer, "c")
    assert _names(reader) == ["c"]


def test_a_wire_that_says_nothing_more_holds_no_thread(
    postgres, url: sa.URL, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half-open, with a machine between that acknowledges everything."""
    monkeypatch.setattr(_postgres, "ANSWER_S_MAX", 0.5)
    with CuttingProxy(postgres.port) as wire:
        engine = database.open_reader(url.update_query_dict({"port": str(wire.port)}), "store")
        with database.reading(engine) as connection:
            assert connection.execute(sa.select(1)).scalar() == 1
        wire.cut(Fate.HOLD)
        with pytest.raises(StoreError, match=r"no answer within|connection"):
            _names(engine)
        wire.mend()
        with database.reading(engine) as connection:
            assert connection.execute(sa.select(1)).scalar() == 1
        engine.dispose()


def _is_there(name: str):
    return lambda connection: bool(
        connection.execute(sa.select(THINGS.c.name).where(THINGS.c.name == name)).scalar()
    )


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "undone"])
def test_a_commit_whose_answer_was_lost_is_found_out(
    writer: sa.Engine, reader: sa.Engine, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """Either it was made, and nothing fails, or it was not, and that is said.

    Also where others use all connections when it is asked first.
    """
    commit = writer.dialect.do_commit

    def lose(connection) -> None:
        monkeypatch.undo()
        if committed:
            commit(connection)
        connection.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    busy = [sa.exc.TimeoutError("QueuePool limit reached")]

    def landed(connection: sa.Connection) -> bool:
        if busy:
            raise busy.pop()
        return _is_there("a")(connection)

    monkeypatch.setattr(writer.dialect, "do_commit", lose)
    failed = False
    try:
        with database.writing(writer, landed) as connection:
            connection.execute(THINGS.insert().values(name="a"))
    except StoreError:
        failed = True
    assert failed is not committed
    assert _names(reader) == (["a"] if committed else [])


def test_upgrades_take_turns(writer: sa.Engine) -> None:
    """Two processes of a new version may start at once."""
    order: list[str] = []

    def second() -> None:
        with database.migrating(writer):
            order.append("second")

    with database.migrating(writer) as connection:
        thread = threading.Thread(target=second)
        thread.start()
        waiting = sa.text(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        )
        end_s = time.monotonic() + 30
        while not connection.execute(waiting).scalar():
            assert time.monotonic() < end_s
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_all_stores_of_a_process_share_their_connections(postgres_place: PostgresPlace) -> None:
    """A store more costs the server nothing.

    In a database of its own: what other tests have left open counts nowhere else.
    """
    url = database.database_url(postgres_place)
    writer = database.open_writer(url, "thing store")
    with database.migrating(writer) as connection:
        THINGS.metadata.create_all(connection)
    others = [database.open_writer(url, f"store {n}", durable=bool(n % 2)) for n in range(10)]
    for n, engine in enumerate(others):
        _put(engine, f"n{n}")
    with database.writing(writer) as connection:
        mine = sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        assert connection.execute(mine).scalar() == 1
    for engine in (writer, *others):
        engine.dispose()


def _driver(connection: sa.Connection) -> psycopg.Connection:
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    return driver


OPENED = pytest.mark.parametrize(
    "opened", [database.open_reader, database.open_writer, database.open_alone]
)


@OPENED
def test_a_connection_that_a_thread_uses_while_its_store_is_closed_is_closed_when_it_comes_back(
    url: sa.URL, opened
) -> None:
    """A caller that is cancelled does not wait for its thread."""
    engine = opened(url, "thing store")
    used, closed = threading.Event(), threading.Event()
    drivers = []

    def use() -> None:
        with database.reading(engine) as connection:
            drivers.append(_driver(connection))
            used.set()
            assert closed.wait(30)
            assert connection.execute(sa.select(1)).scalar() == 1

    thread = threading.Thread(target=use)
    thread.start()
    assert used.wait(30)
    engine.dispose()
    closed.set()
    thread.join()
    assert drivers[0].closed


@OPENED
def test_a_store_that_is_closed_leaves_no_late_connection_open(url: sa.URL, opened) -> None:
    """Nobody would close it."""
    engine = opened(url, "thing store")
    engine.dispose()
    with database.reading(engine) as connection:
        late = _driver(connection)
    assert late.closed


def test_connections_are_kept_while_another_store_of_the_process_is_open(url: sa.URL) -> None:
    """Or when one is opened again."""
    first, second = (database.open_reader(url, f"store {n}") for n in range(2))
    with database.reading(first) as connection:
        kept = _driver(connection)
        first.dispose()
    assert not kept.closed
    second.dispose()
    assert kept.closed
    third = database.open_reader(url, "store 3")
    with database.reading(third) as connection:
        anew = _driver(connection)
    assert not anew.closed
    third.dispose()
    assert anew.closed
