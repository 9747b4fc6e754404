"""The delivery store: rows, backfills, dead letters; all or none, and again without harm."""

import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.errors import FencedError, StoreError
from distributary.core.event import Event
from distributary.core.event import record as event_record
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import (
    CLOCK_MS_MIN,
    IN_STORE,
    BackfillRow,
    Budgets,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    GivenUp,
    RetryRow,
)

FAILURE = Failure("status-503", "http://sink.example/", 503, "YnVzeQ==")


def row(offset, index=0, *, route="r", not_before_ms=0, attempt=2, failure=FAILURE, done=False):
    """A retry row."""
    key = DoneKey(offset, index, route)
    return RetryRow(key, 2**32 - 1, Stage.PRIMARY, attempt, not_before_ms, failure, done=done)


def changes(*rows, backfills=(), gone=(), letters=(), forget=()):
    """One flush."""
    named = {backfill.name: backfill for backfill in backfills} | dict.fromkeys(gone)
    return Changes({r.key: r for r in rows}, list(forget), named, list(letters))


def letter(offset, kept_ms=1, route="r"):
    """A dead letter."""
    return DeadLetter(DoneKey(offset, 0, route), 7, FAILURE, b"\x01event", kept_ms)


@pytest.fixture
def path(tmp_path):
    """The store's file."""
    return tmp_path / "delivery.db"


@pytest.fixture
def store(path):
    """An empty store of partition 0."""
    store = DeliveryStore(sqlite_url(path), 0)
    yield store
    store.close()


def test_an_empty_store_holds_nothing(store):
    """No rows, backfills or dead letters."""
    assert (store.rows(), store.backfills(), store.dead_letters()) == ([], [], [])


def test_nothing_to_write_is_false():
    """A flush asks before it opens a transaction."""
    assert not Changes()
    assert changes(row(1))
    assert changes(forget=[DoneKey(1, 0, "r")])


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(row(1), id="with-an-answer"),
        pytest.param(row(1, failure=Failure("refused: nobody", "http://s/")), id="without-answer"),
        pytest.param(row(1, attempt=11, failure=None), id="moved-out-of-the-way"),
        pytest.param(row(2**40, 999)._replace(stage=Stage.DEAD_LETTER), id="dead-letter"),
        pytest.param(row(1, done=True), id="done"),
    ],
)
def test_a_row_comes_back_as_it_went_in(store, kept):
    """Also the failure that a later dead letter tells of."""
    store.apply(changes(kept))
    assert store.rows() == [kept]
    assert isinstance(store.rows()[0].stage, Stage)


def test_a_backfill_comes_back_as_it_went_in(store):
    """Open and joined ones."""
    backfills = [BackfillRow("r", 5, 2, 6, None, b"{}"), BackfillRow("q", 1, 0, 1, 9, b"x")]
    store.apply(changes(backfills=backfills))
    assert sorted(store.backfills()) == sorted(backfills)


def test_applying_the_same_changes_again_changes_nothing(store):
    """A flush that was cut off is made again."""
    backfill = BackfillRow("r", 5, 0, 5, None, b"{}")
    same = changes(row(1), backfills=[backfill], letters=[letter(2)], forget=[DoneKey(9, 0, "r")])
    store.apply(same)
    store.apply(same)
    assert (store.rows(), store.backfills()) == ([row(1)], [backfill])
    assert store.dead_letters() == [letter(2)]


def test_a_later_row_replaces_the_one_of_the_same_match(store):
    """One row a match: its next attempt."""
    store.apply(changes(row(1, attempt=2)))
    store.apply(changes(row(1, attempt=3, not_before_ms=9)))
    assert store.rows() == [row(1, attempt=3, not_before_ms=9)]


def test_rows_of_other_events_and_routes_of_a_record_are_others(store):
    """The key is (offset, index, route)."""
    store.apply(changes(row(1, 0), row(1, 1), row(1, 0, route="q")))
    store.apply(changes(forget=[DoneKey(1, 0, "r")]))
    assert {(r.key.index, r.key.route) for r in store.rows()} == {(1, "r"), (0, "q")}


def test_rows_come_in_the_order_of_their_next_attempt(store):
    """Who waited longest goes first, then the older event."""
    store.apply(changes(row(3, not_before_ms=5), row(1, not_before_ms=9), row(2, not_before_ms=5)))
    assert [r.key.offset for r in store.rows()] == [2, 3, 1]


def test_a_row_that_is_made_anew_in_the_flush_that_forgets_it_is_there(store):
    """The log had lost its record, and another event has its position now."""
    store.apply(changes(row(1)))
    store.apply(changes(row(1, attempt=2), forget=[DoneKey(1, 0, "r")]))
    assert store.rows() == [row(1, attempt=2)]


def test_a_backfill_that_ended_is_gone_and_the_other_of_its_route_stays(store):
    """A route can have an old backfill that ends and a new one."""
    rows = [BackfillRow("r", 5, 0, 5, 9, b"x"), BackfillRow("r", 12, 0, 12, None, b"x")]
    store.apply(changes(backfills=rows))
    store.apply(changes(gone=[("r", 5)]))
    assert [backfill.start for backfill in store.backfills()] == [12]


def test_changes_that_cannot_all_be_written_change_nothing(store):
    """A backfill without its record fails the flush, and the row of the same flush with it."""
    store.apply(changes(row(1)))
    broken = BackfillRow("r", 5, 0, 5, None, None)
    with pytest.raises(StoreError):
        store.apply(changes(row(2), backfills=[broken], letters=[letter(3)]))
    assert store.rows() == [row(1)]
    assert store.dead_letters() == []


def test_dead_letters_come_oldest_first_up_to_the_limit(store):
    """The store may hold more than a page shows."""
    store.apply(changes(letters=[letter(1, 30), letter(2, 10), letter(3, 20)]))
    assert [found.key.offset for found in store.dead_letters(limit=2)] == [2, 3]


def test_partitions_do_not_see_each_other(path, store):
    """One database may hold them all."""
    other = DeliveryStore(sqlite_url(path), 1)
    first = BackfillRow("r", 1, 0, 1, None, b"x")
    store.apply(changes(row(1), backfills=[first], letters=[letter(1)]))
    other.apply(changes(forget=[DoneKey(1, 0, "r")], gone=[("r", 1)]))
    assert (other.rows(), other.backfills(), other.dead_letters()) == ([], [], [])
    assert len(store.rows()) == len(store.backfills()) == len(store.dead_letters()) == 1
    other.close()


def test_what_was_applied_is_there_for_the_next_owner(path, store):
    """Durable means: another connection sees it."""
    store.apply(changes(row(1), letters=[letter(2)]))
    again = DeliveryStore(sqlite_url(path), 0)
    assert (again.rows(), again.dead_letters()) == ([row(1)], [letter(2)])
    again.close()


def test_a_commit_is_on_the_medium_when_it_returns(store):
    """SQLite's faster setting would lose the last commits at a power cut."""
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_a_store_of_a_newer_version_is_refused(path, store):
    """Its rows may mean what this version does not know."""
    store.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE delivery_schema SET version = version + 1")
    with pytest.raises(StoreError, match="upgrade"):
        DeliveryStore(sqlite_url(path), 0)


def test_a_file_that_is_no_database_is_a_store_error(path):
    """The owner says what is wrong instead of failing on a driver's error."""
    path.write_bytes(b"this is not a database, " * 300)
    with pytest.raises(StoreError, match="delivery store failed"):
        DeliveryStore(sqlite_url(path), 0)


def test_a_folder_that_does_not_exist_is_a_store_error(tmp_path):
    """Likewise."""
    with pytest.raises(StoreError):
        DeliveryStore(sqlite_url(tmp_path / "absent" / "delivery.db"), 0)


@pytest.mark.parametrize(
    ("offset", "index", "held"),
    [
        pytest.param(4, 0, False, id="before-the-lag"),
        pytest.param(5, 1, False, id="earlier-in-its-first-record"),
        pytest.param(5, 2, True, id="its-first-event"),
        pytest.param(8, 0, True, id="inside"),
        pytest.param(9, 0, False, id="the-live-reader-has-it"),
    ],
)
def test_a_backfill_row_stands_for_what_lies_between_its_ends(offset, index, held):
    """From the event where it began up to the record where the live reader took over."""
    assert BackfillRow("r", 5, 2, 5, 9, b"").holds(offset, index) is held


def test_a_backfill_row_stands_for_nothing_that_it_has_passed():
    """What lies below its position has its outcome."""
    backfill = BackfillRow("r", 5, 0, 7, None, b"")
    assert [backfill.holds(offset, 0) for offset in (6, 7, 10**9)] == [False, True, True]


# -- events that never stood in the log ---------------------------------------------------------

LETTER = row(1)._replace(stage=Stage.DEAD_LETTER, event=b"reply")


def test_the_event_of_a_row_is_read_when_it_is_asked_for(store):
    """Not with all rows: it may be large."""
    store.apply(changes(LETTER, row(2)))
    assert [kept.event for kept in store.rows()] == [IN_STORE, None]
    assert store.row_event(LETTER.key) == b"reply"
    assert store.row_event(row(2).key) is None
    assert store.row_event(row(3).key) is None


def test_the_event_of_a_row_stays_until_the_row_is_done(store):
    """Through retries; then it is let go, before the row is."""
    store.apply(changes(LETTER))
    store.apply(changes(LETTER._replace(attempt=5, event=IN_STORE), row(2)))
    assert store.rows()[0] == LETTER._replace(attempt=5, event=IN_STORE)
    assert store.row_event(LETTER.key) == b"reply"
    store.apply(changes(LETTER._replace(done=True, event=None)))
    assert store.row_event(LETTER.key) is None
    assert store.rows()[0].done


def test_a_store_of_an_earlier_version_is_brought_up_to_date(path):
    """It had no column for events; its rows stay."""
    DeliveryStore(sqlite_url(path), 0).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE retry DROP COLUMN event")
    for _ in range(2):
        store = DeliveryStore(sqlite_url(path), 0)
        store.apply(changes(LETTER, row(2)))
        assert store.row_event(LETTER.key) == b"reply"
        store.close()


def test_owners_of_all_partitions_may_bring_a_store_up_to_date_at_once(path):
    """Each of them comes at its start, in a process of its own."""
    DeliveryStore(sqlite_url(path), 0).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE retry DROP COLUMN event")
    held_back = threading.Barrier(4)

    def owner(partition):
        held_back.wait()
        store = DeliveryStore(sqlite_url(path), partition)
        store.apply(changes(row(partition)))
        store.close()

    with ThreadPoolExecutor(4) as owners:
        assert list(owners.map(owner, range(4))) == [None] * 4


# -- kept dead letters: shared, within budgets, given back --------------------------------------

VERSION_1 = """
DROP TABLE letter; DROP TABLE letter_body; DROP TABLE letter_cause; DROP TABLE letter_route;
CREATE TABLE dead_letter ("partition" INTEGER NOT NULL, "offset" BIGINT NOT NULL,
    "index" INTEGER NOT NULL, route VARCHAR(64) NOT NULL, checksum BIGINT NOT NULL,
    reason TEXT NOT NULL, error_dest TEXT, error_code INTEGER, error_data TEXT,
    event BLOB NOT NULL, kept_ms BIGINT NOT NULL,
    PRIMARY KEY ("partition", "offset", "index", route));
UPDATE delivery_schema SET version = 1;
"""
"""What the schema before kept dead letters in."""


def failed(offset, route="r", *, size=1_000, kept_ms=CLOCK_MS_MIN, dest="http://sink.example/"):
    """A dead letter with an event of so many bytes that could not be delivered to *dest*."""
    attributes = {"specversion": "1.0", "id": str(offset), "source": "/", "type": "t"}
    marks = {"knativeerrordest": dest, "knativeerrorcode": 400}
    event = Event({**attributes, **marks}, os.urandom(1) * size)
    failure = Failure("status-400", dest, 400)
    kept = event_record.encode([event])
    return DeadLetter(DoneKey(offset, 0, route), 7, failure, kept, kept_ms)


@pytest.mark.slow
def test_the_event_of_many_dead_letters_stands_once(path, store):
    """Fifty subscriptions missed it, each at a sink of its own: a fiftieth of the bytes is kept."""
    published = 0
    for offset in range(100):
        one = failed(offset, size=20_000)
        published += len(one.event)
        letters = [
            one._replace(key=DoneKey(offset, 0, f"{route:032x}"), event=moved(one.event, route))
            for route in range(50)
        ]
        store.apply(changes(letters=letters))
    assert store.dead_letters(5_000)[-50:] == letters
    store.close()
    assert path.stat().st_size < 2 * published


def moved(event, number):
    """*event* as it failed at another sink."""
    (found,) = event_record.decode(event)
    dest = {"knativeerrordest": f"http://sink{number}.example/"}
    attributes = {name: v for name, v in found.attributes.items() if name not in MARKS}
    return event_record.encode([Event({**attributes, **dest, "knativeerrorcode": 400}, found.data)])


MARKS = ("knativeerrordest", "knativeerrorcode", "knativeerrordata")


@pytest.mark.slow
def test_small_events_of_many_dead_letters_stay_small(path, store):
    """500 events of 1 KB, and 50 dead letters of each: some five times what was published."""
    for first in range(0, 500, 20):
        events = [failed(offset) for offset in range(first, first + 20)]
        letters = [
            one._replace(key=DoneKey(one.key.offset, 0, f"{route:032x}"))
            for one in events
            for route in range(50)
        ]
        store.apply(changes(letters=letters))
    store.close()
    assert path.stat().st_size < 5.4 * 500 * 1_000


@pytest.mark.slow
def test_what_a_deleted_route_leaves_goes_and_the_file_shrinks(path, store):
    """Others that missed the same event keep it."""
    for offset in range(100):
        one = failed(offset, size=50_000)
        shared = [one._replace(key=DoneKey(offset, 0, route)) for route in ("r", "q")]
        store.apply(changes(letters=shared if offset == 99 else shared[:1]))
    before = path.stat().st_size
    assert before > 4_000_000
    more = True
    while more:
        kept = store.keep_house({"r"}, 1)
        more = kept.more
    assert [found.key for found in store.dead_letters()] == [DoneKey(99, 0, "q")]
    assert kept.routes == ["q"]
    assert path.stat().st_size < 500_000
    assert not store.keep_house({"q"}, 1).more
    assert store.dead_letters() == []


def test_many_routes_that_are_gone_at_once_are_all_freed(store):
    """Those that have nothing left do not take the turns of the others."""
    routes = [f"r{number}" for number in range(100)]
    store.apply(changes(letters=[failed(1)._replace(key=DoneKey(1, 0, r)) for r in routes]))
    for _ in range(20):
        more = store.keep_house(routes, 1).more
    assert not more
    assert store.dead_letters() == []


def test_a_route_keeps_its_newest_dead_letters_and_others_theirs(path):
    """What is given up is counted by route."""
    store = DeliveryStore(sqlite_url(path), 0, Budgets(route_bytes_max=50_000))
    assert store.apply(changes(letters=[failed(0, "q")])) == []
    given_up = store.apply(
        changes(letters=[failed(offset, kept_ms=offset) for offset in range(99)])
    )
    kept = [found.key for found in store.dead_letters()]
    assert kept[0] == DoneKey(0, 0, "q")
    assert kept[1:] == [DoneKey(offset, 0, "r") for offset in range(100 - len(kept), 99)]
    assert 40 <= len(kept) <= 50
    assert given_up == [GivenUp("r", 100 - len(kept), "kept-bytes")]
    store.close()


@pytest.mark.slow
def test_all_dead_letters_together_keep_to_their_budget(path):
    """The oldest go, whosever they are; a store that is opened again counts the same."""
    store = DeliveryStore(sqlite_url(path), 0, Budgets(bytes_max=50_000))
    store.apply(changes(letters=[failed(offset, f"r{offset}") for offset in range(30)]))
    store.close()
    store = DeliveryStore(sqlite_url(path), 0, Budgets(bytes_max=50_000))
    given_up = store.apply(changes(letters=[failed(offset, "new") for offset in range(100, 130)]))
    assert [told.route for told in given_up] == [f"r{offset}" for offset in range(len(given_up))]
    left = store.dead_letters()
    assert len(left) == 60 - len(given_up)
    assert 35 <= len(left) <= 50
    store.close()


def test_dead_letters_go_when_they_are_old(path):
    """By the time at which they were kept."""
    store = DeliveryStore(sqlite_url(path), 0, Budgets(age_max_s=10.0))
    kept_ms = CLOCK_MS_MIN
    store.apply(changes(letters=[failed(1, kept_ms=kept_ms), failed(2, kept_ms=kept_ms + 8_000)]))
    assert store.keep_house((), kept_ms + 10_000).given_up == []
    assert store.keep_house((), kept_ms + 10_001).given_up == [GivenUp("r", 1, "kept-age")]
    assert [found.key.offset for found in store.dead_letters()] == [2]
    store.close()


def test_a_transaction_that_is_undone_does_not_count(path):
    """Budgets go by what is in the store."""
    store = DeliveryStore(sqlite_url(path), 0, Budgets(bytes_max=50_000))
    broken = failed(50)._replace(checksum=None)
    for _ in range(5):
        with pytest.raises(StoreError):
            store.apply(changes(letters=[*[failed(offset) for offset in range(30)], broken]))
    assert store.apply(changes(letters=[failed(offset) for offset in range(30)])) == []
    store.close()


@pytest.mark.slow
def test_dead_letters_of_the_version_before_are_kept(path):
    """Each with its event as it stood, the file learns to give space back, and none is lost."""
    DeliveryStore(sqlite_url(path), 0).close()
    letters = [failed(offset, f"r{offset % 3}", kept_ms=offset) for offset in range(2_500)]
    letters.append(letter(2_500, 2_500))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(VERSION_1)
        connection.executemany(
            "INSERT INTO dead_letter VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (*one.key, one.checksum, f.reason, f.dest, f.code, f.data, one.event, one.kept_ms)
                for one in letters
                for f in [one.failure]
            ],
        )
        connection.execute(
            "INSERT INTO dead_letter SELECT 1, 9, 0, route, checksum, reason,"
            " error_dest, error_code, error_data, event, kept_ms"
            " FROM dead_letter LIMIT 1"
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
    store = DeliveryStore(sqlite_url(path), 0)
    assert store.dead_letters(10_000) == letters
    store.close()
    other = DeliveryStore(sqlite_url(path), 1)
    assert [found.key for found in other.dead_letters()] == [DoneKey(9, 0, "r0")]
    other.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert connection.execute("SELECT version FROM delivery_schema").fetchall() == [(4,)]


def test_failures_that_version_1_noted_lose_the_queries_of_their_sinks(path, store):
    """They hold tokens, and whoever looks at dead letters would see them."""
    whole = "http://sink.example/in?access_token=canary"
    store.apply(changes(row(1)._replace(failure=Failure("status-503", whole, 503))))
    store.close()
    one = failed(1, dest=whole)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(VERSION_1)
        values = (*one.key, one.checksum, one.failure.reason, whole, 400, None, one.event, 1)
        places = ", ".join("?" * len(values))
        connection.execute(f"INSERT INTO dead_letter VALUES (0, {places})", values)
    store = DeliveryStore(sqlite_url(path), 0)
    (letter,) = store.dead_letters()
    (event,) = event_record.decode(letter.event)
    (waiting,) = store.rows()
    shown = "http://sink.example/in"
    assert (letter.failure.dest, event.attributes["knativeerrordest"]) == (shown, shown)
    assert waiting.failure.dest == shown
    store.close()


def test_an_owner_that_lost_its_partition_changes_nothing(path, store):
    """The fence stands inside the transaction: what was prepared is rolled back."""

    def fenced():
        raise FencedError("another owner has the partition")

    late = DeliveryStore(sqlite_url(path), 0, fence=fenced)
    with pytest.raises(FencedError):
        late.apply(changes(row(1), letters=[letter(1)]))
    assert (store.rows(), store.dead_letters()) == ([], [])
    late.close()
