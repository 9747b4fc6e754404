"""SQLite files that several processes share."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from distributary.core.database import (
    memory_url,
    open_reader,
    open_writer,
    reading,
    sqlite,
    sqlite_url,
    writing,
)
from distributary.core.database.sqlite import give_back, let_give_back, looking
from distributary.core.errors import StoreError

THINGS = sa.Table("thing", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made."""
    return tmp_path / "a?b.db"  # what has a meaning in a URL has none in a path


@pytest.fixture
def writer(path: Path):
    """A store with a table."""
    engine = open_writer(sqlite_url(path), "thing store")
    with writing(engine) as connection:
        THINGS.metadata.create_all(connection)
    yield engine
    engine.dispose()


def _put(engine: sa.Engine, name: str) -> None:
    with writing(engine) as connection:
        connection.execute(THINGS.insert().values(name=name))


def _names(engine: sa.Engine) -> list[str]:
    with reading(engine) as connection:
        return list(connection.execute(sa.select(THINGS.c.name)).scalars())


@pytest.mark.usefixtures("writer")
def test_a_file_is_made_for_its_owner_alone(path: Path) -> None:
    """Rows hold tokens and whole events."""
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(("durable", "level"), [(True, 2), (False, 1)])
def test_a_commit_is_synced_where_it_is_durable(path: Path, *, durable: bool, level: int) -> None:
    """SQLite's faster setting would lose the last commits at a power cut."""
    engine = open_writer(sqlite_url(path), "thing store", durable=durable)
    with writing(engine) as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == level
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()


def test_a_transaction_that_fails_leaves_nothing(path: Path, writer: sa.Engine) -> None:
    """All of a block is written, or none of it."""
    rows = [{"name": name} for name in ("a", "b", "a")]
    with pytest.raises(StoreError, match="the thing store failed: UNIQUE"), writing(writer) as at:
        at.execute(THINGS.insert(), rows)
    reader = open_reader(sqlite_url(path), "thing store")
    assert _names(reader) == []
    reader.dispose()


def test_an_error_of_the_driver_itself_is_a_store_error(writer: sa.Engine) -> None:
    """What is done past the database library fails like the rest."""
    with pytest.raises(StoreError, match="the thing store failed: odd"), writing(writer):
        raise sqlite3.OperationalError("odd")


def test_a_reader_sees_commits_and_writes_nothing(path: Path, writer: sa.Engine) -> None:
    """Each statement sees what is committed by then."""
    reader = open_reader(sqlite_url(path), "thing store")
    _put(writer, "a")
    assert _names(reader) == ["a"]
    with pytest.raises(StoreError, match="readonly"), reading(reader) as connection:
        connection.execute(THINGS.delete())
    reader.dispose()


def test_a_reader_does_not_wait_for_a_writer(path: Path, writer: sa.Engine) -> None:
    """A read inside somebody's transaction answers with what stood before it."""
    reader = open_reader(sqlite_url(path), "thing store")
    with writing(writer) as connection:
        connection.execute(THINGS.insert().values(name="a"))
        assert _names(reader) == []
    assert _names(reader) == ["a"]
    reader.dispose()


def test_a_store_that_is_not_there_cannot_be_read(path: Path) -> None:
    """A reader makes no file."""
    with pytest.raises(StoreError, match="there is no store"):
        open_reader(sqlite_url(path), "thing store")
    assert not path.exists()


def test_a_folder_that_is_not_there_cannot_be_written(tmp_path: Path) -> None:
    """The store says where it cannot write."""
    with pytest.raises(StoreError, match="cannot write the store"):
        open_writer(sqlite_url(tmp_path / "nowhere" / "a.db"), "thing store")


def test_threads_take_turns(path: Path, writer: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two writers of a process never meet at SQLite's own lock, whichever engines they have."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 0)
    other = open_writer(sqlite_url(path), "thing store", durable=False)
    threads = [
        threading.Thread(target=lambda at=at, n=n: [_put(at, f"{n}-{i}") for i in range(20)])
        for n, at in enumerate((writer, other, writer))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = open_reader(sqlite_url(path), "thing store")
    assert len(_names(reader)) == 60
    for engine in (reader, other):
        engine.dispose()


def test_writers_that_make_a_file_at_once_all_can(path: Path) -> None:
    """The switch to a write-ahead log is tried again where another one has it under way."""
    held = sqlite3.connect(path, isolation_level=None)
    held.execute("BEGIN EXCLUSIVE")
    begun = threading.Event()
    pause = sqlite.time.sleep

    def give_way(pause_s: float) -> None:
        begun.set()
        pause(pause_s)

    engine = open_writer(sqlite_url(path), "thing store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite.time, "sleep", give_way)
        patch.setattr(sqlite, "BUSY_TIMEOUT_MS", 0)
        thread = threading.Thread(target=lambda: THINGS.metadata.create_all(engine))
        thread.start()
        assert begun.wait(30)
        held.execute("COMMIT")
        held.close()
        thread.join()
    _put(engine, "a")
    engine.dispose()


def test_a_look_leaves_no_trace(path: Path, writer: sa.Engine) -> None:
    """A file that another process owns is read, not written."""
    _put(writer, "a")
    with looking(path, "thing store") as connection:
        assert connection.execute(sa.select(THINGS.c.name)).scalars().all() == ["a"]
    with pytest.raises(StoreError, match="readonly"), looking(path, "thing store") as connection:
        connection.execute(THINGS.delete())


def test_a_look_at_what_is_no_database_says_so(path: Path) -> None:
    """The message names the store, and nothing that it holds."""
    path.write_bytes(b"no database at all " * 300)
    said = "the thing store failed: file is not a database"
    with pytest.raises(StoreError, match=said), looking(path, "thing store") as connection:
        connection.execute(sa.select(THINGS.c.name))


def test_free_pages_go_back_to_the_disk(path: Path) -> None:
    """A file that was made without an account of its free pages is brought to keep one."""
    with closing(sqlite3.connect(path)) as plain, plain:
        plain.execute("CREATE TABLE thing (name TEXT PRIMARY KEY)")
        plain.executemany("INSERT INTO thing VALUES (?)", [(f"{n:0>4000}",) for n in range(500)])
    engine = open_writer(sqlite_url(path), "thing store", gives_back=True)
    let_give_back(engine)
    with writing(engine) as connection:
        connection.execute(THINGS.delete())
    full = path.stat().st_size
    assert give_back(engine, 100, 10)
    while give_back(engine, 100, 10):
        pass
    engine.dispose()
    assert path.stat().st_size < full / 2


def test_a_file_that_a_reader_held_shrinks_the_next_time(path: Path) -> None:
    """Its pages are free, but the file is as long as before until nobody reads an older state."""
    engine = open_writer(sqlite_url(path), "thing store", gives_back=True)
    with writing(engine) as connection:
        THINGS.metadata.create_all(connection)
        rows = [{"name": f"{n:0>4000}"} for n in range(500)]
        connection.execute(THINGS.insert(), rows)
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        full = path.stat().st_size
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM thing").fetchone()
        with writing(engine) as connection:
            connection.execute(THINGS.delete())
        while give_back(engine, 100, 10):
            pass
        assert path.stat().st_size == full
    assert not give_back(engine, 100, 10)
    assert path.stat().st_size < full / 2
    engine.dispose()


def test_a_database_in_memory_is_its_own() -> None:
    """Its writer and its readers share it; another one is another database."""
    url = memory_url()
    writer = open_writer(url, "thing store")
    with writing(writer) as connection:
        THINGS.metadata.create_all(connection)
    _put(writer, "a")
    reader, other = open_reader(url, "thing store"), open_reader(memory_url(), "thing store")
    assert _names(reader) == ["a"]
    with pytest.raises(StoreError, match="no such table"):
        _names(other)
    for engine in (writer, reader, other):
        engine.dispose()
