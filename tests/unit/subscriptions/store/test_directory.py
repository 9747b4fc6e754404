"""What pipeline processes know: new after a refresh, and never more than the store says."""

import sqlite3
from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import StoreError
from distributary.subscriptions.store import Directory, _directory
from distributary.subscriptions.store.demands import read_demands
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put


@pytest.fixture
def directory(store, url):
    """A directory of the store, opened while it is empty."""
    assert store.live_count() == 0
    made = Directory(url)
    made.refresh()
    yield made
    made.close()


def test_a_refresh_without_changes_is_false(directory):
    """Called many times a second, it mostly finds nothing."""
    assert directory.refresh() is False


def test_a_refresh_brings_creates_replaces_and_deletes(store, directory, spec):
    """Each exactly when it is asked to look."""
    store.apply([Put("a", spec(), "u1")], 5)
    assert directory.get("u1") is None
    assert directory.refresh() is True
    listed = directory.get("u1")
    assert listed is not None
    assert (listed.id, listed.revision, listed.spec) == ("a", 1, spec())

    store.apply([Put("a", spec(sink="http://127.0.0.1/new"), "u2")], 5)
    assert directory.refresh() is True
    listed = directory.get("u1")
    assert listed is not None
    assert (listed.revision, listed.spec.sink) == (2, "http://127.0.0.1/new")
    assert directory.get("u2") is None

    store.apply([Delete("a")], 5)
    assert directory.refresh() is True
    assert directory.get("u1") is None
    assert len(directory) == 0
    assert directory.refresh() is False


def test_what_changed_is_told_once(store, directory, spec):
    """By uid: so that a reader need not look at all resources for one change."""
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)
    directory.refresh()
    assert directory.changed() == {"u1", "u2"}
    assert directory.changed() == set()
    store.apply([Delete("a")], 5)
    directory.refresh()
    store.apply([Put("c", spec(), "u3")], 5)
    directory.refresh()
    assert directory.changed() == {"u1", "u3"}


def test_a_change_is_seen_before_its_record_is_in_the_log(store, directory, spec):
    """The store is written first, so that a route record never finds nothing."""
    store.apply([Put("a", spec(), "u1")], 5)
    assert store.pending(1)
    directory.refresh()
    assert directory.get("u1") is not None


def test_only_changed_resources_are_read(store, directory, spec):
    """A spec that was read stays the same object while it does not change."""
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)
    directory.refresh()
    before = directory.get("u1"), directory.get("u2")
    store.apply([Put("b", spec(types=["x"]), "u3")], 5)
    directory.refresh()
    assert directory.get("u1") is before[0]
    assert directory.get("u2") is not before[1]


def test_who_slept_through_trimming_reads_everything_again(url, spec):
    """Deleted rows that are gone cannot be missed."""
    store = Store(url, changes_kept=2)
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)
    directory = Directory(url)
    directory.refresh()
    store.apply([Delete("a")], 5)
    store.apply([Put("b", spec(), "u3") for _ in range(5)], 5)
    store.mark_appended(8)
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        uids = connection.execute("SELECT uid FROM api_subscription").fetchall()
    assert uids == [("u2",)]
    assert directory.refresh() is True
    assert directory.get("u1") is None
    assert directory.get("u2") is not None
    directory.close()
    store.close()


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    """A reading process never leaves an empty file behind."""
    path = tmp_path / "control.db"
    with pytest.raises(StoreError, match="no store"):
        Directory(sqlite_url(path))
    assert not path.exists()


def test_a_damaged_row_is_a_store_error(store, directory, spec, url):
    """It is reported; nothing is sent to a sink that cannot be read."""
    store.apply([Put("a", spec(), "u1")], 5)
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE api_subscription SET spec_json = '{}'")
    directory.refresh()
    with pytest.raises(StoreError, match="damaged"):
        directory.get("u1")


def test_what_was_let_go_comes_back_when_it_changes(store, directory, spec):
    """For a reader that takes what it needs, and keeps no content."""
    store.apply([Put("a", spec(), "uid-a")], 5)
    directory.refresh()
    assert directory.changed() == {"uid-a"}
    assert directory.get("uid-a") is not None
    directory.let_go("uid-a")
    assert directory.get("uid-a") is None
    assert directory.changed() == set()
    store.apply([Put("a", spec(source="/other"), "uid-a")], 6)
    directory.refresh()
    assert directory.changed() == {"uid-a"}
    assert directory.get("uid-a").revision == 2


def test_a_demand_that_comes_while_another_is_read_is_known_once(store, directory, monkeypatch):
    """It is committed after the newest number was read, and before the demands are."""

    def read_late(connection, after_seq):
        if after_seq < 2:
            store.demand("redrive", "a", "run-2", 5)
        return read_demands(connection, after_seq)

    monkeypatch.setattr(_directory, "read_demands", read_late)
    store.demand("redrive", "a", "run-1", 5)
    assert directory.refresh() is True
    store.demand("redrive", "a", "run-3", 5)
    assert directory.refresh() is True
    assert [demand.run for demand in directory.demands(0)] == ["run-1", "run-2", "run-3"]
    assert directory.refresh() is False
