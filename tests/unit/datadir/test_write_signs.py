"""Signs of a write: never missed, and none while nothing is written."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.datadir import WriteSigns


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Path, sa.Engine]]:
    """A store with one table, which stays open: its write-ahead log lies beside it."""
    path = tmp_path / "store.db"
    engine = database.open_writer(database.sqlite_url(path), "store")
    with database.writing(engine) as connection:
        connection.exec_driver_sql("CREATE TABLE t (n INTEGER)")
    yield path, engine
    engine.dispose()


def _write(engine: sa.Engine) -> None:
    with database.writing(engine) as connection:
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")


def _settle(path: Path) -> None:
    """Age the files beyond doubt."""
    for name in (path, path.with_name(f"{path.name}-wal")):
        if name.exists():
            os.utime(name, (1.0, 1.0))


def test_what_rests_shows_no_sign(store: tuple[Path, sa.Engine]) -> None:
    """The first look counts as news, the next ones find nothing, however often."""
    path, _ = store
    _settle(path)
    signs = WriteSigns(path)
    assert [signs.look() for _ in range(3)] == [True, False, False]


def test_each_write_is_a_sign(store: tuple[Path, sa.Engine]) -> None:
    """Also while the write-ahead log keeps its size, and after a checkpoint emptied it."""
    path, engine = store
    signs = WriteSigns(path)
    for _ in range(3):
        _settle(path)
        signs.look()
        assert not signs.look()
        _write(engine)
        assert signs.look()
    engine.dispose()  # the last connection empties and removes the write-ahead log
    _settle(path)
    signs.look()
    assert not signs.look()
    _write(engine)
    assert signs.look()


def test_a_young_file_stays_suspect(store: tuple[Path, sa.Engine]) -> None:
    """Within one tick of the kernel's clock, a second write would look like the first."""
    path, _ = store
    now_ns = time.time_ns()
    signs = WriteSigns(path, wall_ns=lambda: now_ns)
    assert [signs.look() for _ in range(3)] == [True, True, True]

    now_ns += 60 * 1_000_000_000
    assert [signs.look() for _ in range(3)] == [True, False, False]


def test_a_missing_file_is_a_state_like_others(tmp_path: Path) -> None:
    """A store that somebody makes later is news."""
    path = tmp_path / "store.db"
    signs = WriteSigns(path)
    assert [signs.look(), signs.look()] == [True, False]
    path.write_bytes(b"")
    assert signs.look()


def test_any_of_several_files_shows_a_sign(tmp_path: Path) -> None:
    """Who depends on two stores reads after a write of either."""
    signs = WriteSigns(tmp_path / "one.db", tmp_path / "two.db")
    assert [signs.look(), signs.look()] == [True, False]
    (tmp_path / "two.db").write_bytes(b"")
    assert signs.look()
