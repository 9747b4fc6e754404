"""What an owner finds in the delivery store is on the medium before anybody relies on it."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from distributary.core.database import sqlite_url
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import Changes, DeliveryStore, RetryRow

ROW = RetryRow(DoneKey(5, 0, "r"), 5, Stage.PRIMARY, 2, 1, None, done=False)


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A store whose owner was killed: its newest row is in the log beside the file."""
    path, left = tmp_path / "delivery.db", tmp_path / "left.db"
    with closing(DeliveryStore(sqlite_url(path), 0)) as store:
        store.apply(Changes(rows={ROW.key: ROW}))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{left}{end}")
    return left


def in_the_file_alone(path: Path, tmp_path: Path) -> int:
    """Rows that are there without the log beside the file, which no sync has reached."""
    alone = shutil.copy(path, tmp_path / "after.db")
    with closing(sqlite3.connect(alone)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
        query = "SELECT count(*) FROM retry"
        return connection.execute(query).fetchone()[0] if "retry" in tables else 0


def test_rows_that_may_be_in_memory_alone_are_in_the_file_once_it_is_open(killed, tmp_path):
    """The next owner's cursor passes their matches without a change of the store."""
    assert in_the_file_alone(killed, tmp_path) == 0
    with closing(DeliveryStore(sqlite_url(killed), 0)) as store:
        assert [row.key for row in store.rows()] == [ROW.key]
        assert in_the_file_alone(killed, tmp_path) == 1


def test_a_reader_that_stays_holds_up_nobody(killed, monkeypatch):
    """Somebody looks at the file with a shell: the log beside it is synced where it lies."""
    monkeypatch.setattr("distributary.core.database.sqlite.BUSY_TIMEOUT_MS", 1)
    with closing(sqlite3.connect(killed)) as shell:
        shell.execute("BEGIN")
        shell.execute("SELECT * FROM retry").fetchall()
        with closing(sqlite3.connect(killed)) as other:
            other.execute("DELETE FROM retry")
            other.commit()
        with closing(DeliveryStore(sqlite_url(killed), 0)) as store:
            assert store.rows() == []
