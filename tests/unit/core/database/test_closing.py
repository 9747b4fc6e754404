"""Connections that are in use while their store is closed: closed when they come back."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from distributary.core.database import open_reader, open_writer, reading, sqlite_url, writing


@pytest.fixture
def url(tmp_path: Path) -> sa.URL:
    """A store that is there."""
    made = sqlite_url(tmp_path / "a.db")
    engine = open_writer(made, "thing store")
    with writing(engine):
        pass
    engine.dispose()
    return made


@pytest.fixture(params=[open_reader, open_writer], ids=["reader", "writer"])
def engine(request, url: sa.URL) -> sa.Engine:
    """Of that store."""
    made: sa.Engine = request.param(url, "thing store")
    return made


def _used(engine: sa.Engine, meanwhile: Callable[[], Any] = lambda: None) -> Any:
    """The driver's connection that a read had, while which *meanwhile* is called."""
    with reading(engine) as connection:
        assert connection.execute(sa.select(1)).scalar() == 1
        meanwhile()
        assert connection.execute(sa.select(1)).scalar() == 1
        return connection.connection.driver_connection


def _is_open(driver: sqlite3.Connection) -> bool:
    try:
        driver.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return False
    return True


def test_a_connection_at_rest_is_used_again_and_closed_at_the_end(engine: sa.Engine) -> None:
    """As long as its store is open."""
    used = _used(engine)
    assert _used(engine) is used
    assert _is_open(used)
    engine.dispose()
    assert not _is_open(used)


def test_one_in_use_is_left_to_its_user_and_closed_afterwards(engine: sa.Engine) -> None:
    """It would stay open until the garbage collector finds it."""
    assert not _is_open(_used(engine, engine.dispose))


def test_one_that_comes_back_while_its_store_is_closed_is_closed(engine: sa.Engine) -> None:
    """In whichever order they do so."""
    sa.event.listen(engine, "checkin", lambda *_: engine.dispose())
    assert not _is_open(_used(engine))


def test_whoever_comes_late_leaves_nothing_open(engine: sa.Engine) -> None:
    """A thread that did not know yet that the store is closed."""
    engine.dispose()
    assert not _is_open(_used(engine))
