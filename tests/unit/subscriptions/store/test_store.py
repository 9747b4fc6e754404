"""The store writes a resource and its route change together, in order, durably."""

import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing
from pathlib import Path

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import ConflictError, NotFoundError, ResourceError, StoreError
from distributary.core.flow import decode_route
from distributary.subscriptions.store import Directory
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Delete, Precondition, Put


def put(store, spec, id_, uid, **more) -> Applied:
    """Apply one put that must succeed."""
    (outcome,) = store.apply([Put(id_, spec, uid, **more)], 5)
    assert isinstance(outcome, Applied)
    return outcome


def test_a_create_writes_resource_and_route_change(store, spec):
    """Neither is ever without the other."""
    wanted = spec(source="/s", types=["t"], filters=[{"exact": {"type": "t"}}])
    made = put(store, wanted, "a", "u1")
    assert (made.seq, made.op) == (1, "created")
    assert store.find("a") == made.subscription
    assert store.pending(10) == [(1, made.record)]
    record = decode_route(made.record)
    assert (record.seq, record.op, record.uid, record.revision) == (1, "put", "u1", 1)
    assert (record.source, record.types) == ("/s", ("t",))
    assert record.filters == ({"exact": {"type": "t"}},)


def test_a_route_record_holds_no_sink_header_or_secret(store, spec):
    """The log is a table that any Spark job may read (DESIGN rule 4)."""
    wanted = spec(
        sink="http://127.0.0.1/canary-sink",
        protocolsettings={
            "headers": {"Authorization": "canary-token"},
            "delivery": {"deadLetterSink": "http://127.0.0.1/canary-dead"},
        },
    )
    assert b"canary" not in put(store, wanted, "a", "u1").record


def test_a_replace_keeps_the_uid_and_adds_a_revision(store, spec):
    """The route stays; its revision and entity tag change."""
    first = put(store, spec(), "a", "u1").subscription
    second = put(store, spec(types=["x"]), "a", "u2").subscription
    assert (second.uid, second.revision, second.created_ms) == ("u1", 2, first.created_ms)
    assert second.etag != first.etag


def test_a_recreated_id_gets_a_new_uid_and_tag(store, spec):
    """What waits for the old one must not go to the new one (DESIGN rule 5)."""
    old = put(store, spec(), "a", "u1").subscription
    store.apply([Delete("a")], 6)
    new = put(store, spec(), "a", "u2").subscription
    assert (new.uid, new.revision) == ("u2", 1)
    assert new.etag != old.etag


def test_one_batch_may_change_one_id_many_times(store, spec):
    """Each change sees what those before it left."""
    changes = [
        Put("a", spec(), "u1"),
        Put("a", spec(types=["x"]), "u2"),
        Delete("a"),
        Delete("a"),
        Put("a", spec(types=["y"]), "u3"),
        Delete("a"),
        Put("a", spec(types=["z"]), "u4"),
    ]
    outcomes = store.apply(changes, 5)
    assert isinstance(outcomes[3], NotFoundError)
    done = [outcome for outcome in outcomes if isinstance(outcome, Applied)]
    assert [outcome.op for outcome in done] == [
        "created",
        "replaced",
        "deleted",
        "created",
        "deleted",
        "created",
    ]
    assert [outcome.seq for outcome in done] == [1, 2, 3, 4, 5, 6]
    assert store.find("a").uid == "u4"
    assert store.live_count() == 1


def test_one_batch_may_delete_recreate_and_replace_what_stood(store, spec):
    """Old rows are written before new ones, so that an id is free when it is taken again."""
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)
    store.apply([Put("b", spec(types=["x"]), "u3"), Delete("a"), Put("a", spec(), "u4")], 6)
    assert (store.find("a").uid, store.find("a").revision) == ("u4", 1)
    assert (store.find("b").uid, store.find("b").revision) == ("u2", 2)
    assert store.live_count() == 2


def test_a_refused_change_leaves_nothing(store, spec):
    """Its neighbours in the batch are made all the same."""
    outcomes = store.apply(
        [
            Put("a", spec(), "u1"),
            Put("a", spec(), "u2", precondition=Precondition(if_none_match=frozenset("*"))),
            Put("b", spec(), "u3", precondition=Precondition(if_match=frozenset("*"))),
            Put("a", spec(), "u4", claimed_id="b"),
            Delete("c"),
        ],
        5,
    )
    assert [type(outcome) for outcome in outcomes] == [
        Applied,
        ConflictError,
        ConflictError,
        ResourceError,
        NotFoundError,
    ]
    assert len(store.pending(10)) == 1


def test_a_batch_without_effect_writes_nothing(store):
    """Numbers have no gaps."""
    store.apply([Delete("a")], 5)
    assert store.pending(10) == []


def test_appended_changes_are_no_longer_pending(store, spec):
    """Only what the log may lack is appended again."""
    for n in range(4):
        put(store, spec(), f"a{n}", f"u{n}")
    store.mark_appended(2)
    assert [seq for seq, _ in store.pending(10)] == [3, 4]
    assert [seq for seq, _ in store.pending(1)] == [3]


def test_a_store_that_was_closed_opens_as_it_was(url, spec):
    """Numbers go on where they ended."""
    store = Store(url)
    put(store, spec(), "a", "u1")
    store.close()
    again = Store(url)
    assert again.find("a").uid == "u1"
    assert put(again, spec(), "b", "u2").seq == 2
    again.close()


def test_numbers_are_not_used_again_after_trimming(url, spec):
    """A reader of the log passes over numbers that it has seen."""
    store = Store(url, changes_kept=2)
    for n in range(5):
        put(store, spec(), "a", f"u{n}")
        store.mark_appended(store.pending(10)[-1][0])
        store.apply([Delete("a")], 5)
        store.mark_appended(store.pending(10)[-1][0])
    assert put(store, spec(), "a", "u9").seq == 11
    store.close()


def test_there_is_room_for_a_limited_number(url, spec):
    """A full store says so, and takes again after a delete."""
    store = Store(url, subscriptions_max=1)
    put(store, spec(), "a", "u1")
    (refused,) = store.apply([Put("b", spec(), "u2")], 5)
    assert isinstance(refused, ResourceError)
    assert refused.faults[0].code == "too-many"
    put(store, spec(types=["x"]), "a", "u3")
    store.apply([Delete("a")], 5)
    put(store, spec(), "b", "u4")
    store.close()


def test_a_store_of_a_newer_version_is_refused(url, store):
    """It is not guessed at; the message says what to do."""
    store.close()
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("UPDATE control_schema SET version = 99")
    with pytest.raises(StoreError, match="upgrade distributary"):
        Store(url)
    with pytest.raises(StoreError, match="upgrade distributary"):
        Directory(url)


def test_a_file_that_is_no_store_is_a_store_error(tmp_path):
    """Nothing of the database library comes through."""
    path = tmp_path / "control.db"
    path.write_bytes(b"this is not a database, not at all" * 100)
    with pytest.raises(StoreError, match="resource store failed"):
        Store(sqlite_url(path))


def test_a_folder_that_is_missing_is_named(tmp_path):
    """The message says which path."""
    with pytest.raises(StoreError, match="nowhere"):
        Store(sqlite_url(tmp_path / "nowhere" / "control.db"))


def test_the_file_is_for_its_owner_alone(url, store):
    """Sinks and headers may hold tokens."""
    assert Path(str(url.database)).stat().st_mode & 0o077 == 0
    assert store.live_count() == 0


def test_commits_are_synced(store):
    """FULL: a commit that returned survives a power cut."""
    with store._writer.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_readers_cannot_write(store):
    """A reading process never holds the write lock, by mistake or not."""
    with (
        store._reader.connect() as connection,
        pytest.raises(Exception, match="readonly"),
    ):
        connection.exec_driver_sql("DELETE FROM generation")


def test_pages_hold_every_subscription_once(store, spec):
    """In the order of ids."""
    store.apply([Put(f"a{n}", spec(), f"u{n}") for n in range(5)], 5)
    first = store.page("", 2)
    rest = store.page(first[-1].id, 10)
    assert [found.id for found in [*first, *rest]] == ["a0", "a1", "a2", "a3", "a4"]


@pytest.mark.slow  # another process
def test_a_second_writer_of_the_process_costs_the_first_no_lock(store, url, spec):
    """Else another process that closes the store takes the write-ahead log away under us."""
    store.apply([Put("a", spec(), "u1")], 1)
    second = Store(url)
    look = (
        "import sqlite3, sys; store = sqlite3.connect(sys.argv[1]);"
        " store.execute('select * from generation').fetchall(); store.close()"
    )
    subprocess.run([sys.executable, "-c", look, str(url.database)], check=True)
    assert Path(f"{url.database}-wal").exists()
    second.apply([Put("b", spec(), "u2")], 2)
    assert store.find("b").uid == "u2"
    second.close()


def test_an_error_of_the_database_repeats_no_value(store, spec):
    """Not in its cause either, which a traceback shows: a header may hold a token."""
    telling = spec(protocolsettings={"headers": {"x-key": "canary"}})
    store.apply([Put("a", telling, "u1")], 5)
    with pytest.raises(StoreError) as caught:
        store.apply([Put("b", telling, "u1")], 5)  # this uid is there already
    assert "UNIQUE" in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_what_passes_on_a_subscription_shows_no_header_of_it(store, spec):
    """Whoever prints it, prints no token."""
    telling = spec(protocolsettings={"headers": {"x-key": "canary"}})
    change = Put("a", telling, "u1")
    outcome = store.apply([change], 5)
    assert "canary" not in repr((change, outcome, store.page("", 1)))
