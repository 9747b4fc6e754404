"""The thread that tells of changes of a store in PostgreSQL; the store is none."""

import threading

import pytest
import sqlalchemy as sa

from distributary.core.cluster import PostgresPlace
from distributary.core.database import database_url
from distributary.core.errors import StoreError
from distributary.datadir import shared_signs
from distributary.datadir.shared_signs import SharedSigns


class Source:
    """Fails in each way that was asked for, and then reads tokens."""

    def __init__(self) -> None:
        self.errors: list[Exception] = [StoreError("away"), KeyError("odd"), KeyError("odd")]
        self.read_all = threading.Event()

    def read(self) -> str:
        """As ``NewestChange``."""
        if self.errors:
            raise self.errors.pop(0)
        self.read_all.set()
        return "token"

    def close(self) -> None:
        """Nothing is held."""


def test_changes_are_seen_after_whatever_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error that nobody thought of is told once, and the thread goes on."""
    source = Source()
    monkeypatch.setattr(shared_signs, "NewestChange", lambda _url, _store: source)
    monkeypatch.setattr(shared_signs, "LOOK_S", 0.001)
    monkeypatch.setattr(shared_signs, "LOOK_FAILED_S", 0.001)
    url: sa.URL = database_url(PostgresPlace(url="postgresql://signs@nowhere.example/db"))
    signs = SharedSigns(url)
    assert signs.look()
    assert source.read_all.wait(30.0)
    while not signs.look():
        threading.Event().wait(0.001)
    assert capsys.readouterr().out.count("store-signs-failed") == 1
