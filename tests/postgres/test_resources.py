"""The resource store in PostgreSQL: contract, one leader, nothing lost, nothing half made."""

import contextlib
import threading
import time

import psycopg
import pytest
import sqlalchemy as sa

from contract.resources.test_resources import StoredResources
from distributary.core import database
from distributary.core.database import database_url
from distributary.core.errors import FencedError, StoreError
from distributary.datadir.shared_signs import SharedSigns, signs_of
from distributary.knative.apiserver.objects import AddressBook
from distributary.knative.apiserver.objects._rows import Rows
from distributary.knative.kinds import KINDS
from distributary.resource import SinkRule
from distributary.routes import RouteChanges
from distributary.subscriptions import resource as api_subscription
from distributary.subscriptions.api_keys import ApiKeyStore
from distributary.subscriptions.service import rules
from distributary.subscriptions.store import Directory, Keys, Sealer
from distributary.subscriptions.store.consent_rows import ConsentRow, ConsentRows
from distributary.subscriptions.store.credentials_rows import CredentialRows
from distributary.subscriptions.store.lifecycle_rows import LifecycleOutbox
from distributary.subscriptions.store.schedule import Schedule
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Applied, Put
from distributary.testing import check_resources

KEY = "A" * 43 + "="
BACK_S_MAX = 60.0
"""Longest wait for what follows a restart of the server, on a busy machine."""


@pytest.fixture
def url(emptied_url) -> sa.URL:
    """An empty store."""
    return emptied_url


@pytest.fixture
def sealer(tmp_path) -> Sealer:
    """With a key."""
    return Sealer(Keys(tmp_path / "none", KEY))


@pytest.fixture
def make_store(url, sealer):
    """Opens stores; all are closed at the end."""
    with contextlib.ExitStack() as opened:

        def make(leader: int | None = None, at: sa.URL = url) -> Store:
            store = Store(at, sealer=sealer, leader=leader)
            opened.callback(store.close)
            return store

        yield make


SPEC = api_subscription.parse(
    {"sink": "http://127.0.0.1:9/", "protocol": "HTTP"}, rules(SinkRule(local_allowed=True))
)


def put(store: Store, name: str) -> Applied:
    """Create the subscription *name*."""
    (outcome,) = store.apply([Put(name, SPEC, name)], 5)
    assert isinstance(outcome, Applied), outcome
    return outcome


@pytest.mark.parametrize("check", check_resources.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, url, keys_beside) -> None:  # noqa: ARG001 - readers open it
    """What the owners count on."""
    made = StoredResources(url)
    check(made)
    made.close()


def test_a_former_leader_changes_nothing(make_store, url, sealer) -> None:
    """By none of its writers; whoever only reads goes on."""
    former = make_store(leader=1)
    put(former, "a")
    rows = Rows(url, [kind.resource for kind in KINDS], leader=1)
    consents, keys = ConsentRows(url, leader=1), ApiKeyStore(url, leader=1)
    outbox, schedule = LifecycleOutbox(url, leader=1), Schedule(url, leader=1)
    credentials = CredentialRows(url, sealer, leader=1)
    assert consents.put(ConsentRow("t", "asked", "o")) is not None
    now = make_store(leader=2)
    for change in (
        lambda: put(former, "b"),
        lambda: former.mark_appended(1),
        lambda: former.demand("redrive", "a", "run", 5),
        lambda: former.pause("a", "anna", 5),
        lambda: former.note_obeyed("a", {"x": "y"}),
        rows.load,
        lambda: consents.put(ConsentRow("u", "asked", "o")),
        lambda: consents.remove(["t"]),
        consents.clear,
        lambda: keys.remove("a"),
        lambda: keys.note_uses({"a": 1}),
        lambda: keys.forget_uses([]),
        lambda: outbox.done([1]),
        lambda: schedule.reserve({"a": 1}, 1),
        lambda: credentials.reseal(""),
        lambda: make_store(leader=1),
    ):
        with pytest.raises(FencedError):
            change()
    assert former.find("a").uid == "a"
    assert now.live_count() == 1
    assert put(now, "b").seq == 2
    for each in (rows, consents, keys, outbox, schedule, credentials):
        each.close()


def test_two_leaders_of_one_generation_are_not_both_obeyed(make_store, url) -> None:
    """As after a failover that lost the row of a lease: the newer opening decides."""
    store = make_store(leader=1)
    engine = database.open_writer(url, "resource store")
    with database.writing(engine) as connection:
        connection.exec_driver_sql("UPDATE leadership SET claim = 'of another process'")
    with pytest.raises(FencedError):
        put(store, "a")


def test_numbers_follow_the_order_of_commits(make_store, url) -> None:
    """Changes of two processes: whoever sees a number has seen all before it."""
    elsewhere = url.update_query_dict({"host": "localhost"})  # shares neither lock nor connection
    stores = [make_store(), make_store(at=elsewhere)]
    done = threading.Event()

    def change(store: Store, letter: str) -> None:
        for n in range(40):
            put(store, f"{letter}{n}")

    seen: list[list[int]] = []
    threads = [
        threading.Thread(target=change, args=(store, letter))
        for store, letter in zip(stores, "ab", strict=True)
    ]

    def look() -> None:
        changes = RouteChanges(url)
        while not done.is_set():
            newest = changes.newest_seq()
            seen.append([newest, *(record.seq for record in changes.between(0, newest + 1))])
        changes.close()

    looking = threading.Thread(target=look)
    for thread in (looking, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    looking.join()
    assert all(numbers == list(range(1, newest + 1)) for newest, *numbers in seen)
    assert stores[0].live_count() == 80


@pytest.mark.parametrize("committed", [True, False], ids=["committed", "undone"])
def test_a_change_whose_answer_was_lost_is_found_out(
    make_store, monkeypatch: pytest.MonkeyPatch, *, committed: bool
) -> None:
    """What was made is answered as made; what was not can be asked for again."""
    store = make_store(leader=1)
    put(store, "a")
    dialect = store._writer.engine.dialect
    commit = dialect.do_commit

    def lose(connection) -> None:
        monkeypatch.undo()
        if committed:
            commit(connection)
        connection.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", lose)
    if committed:
        assert put(store, "b").seq == 2
    else:
        with pytest.raises(StoreError):
            put(store, "b")
        assert put(store, "b").op == "created"
    assert store.find("b").uid == "b"
    assert store.live_count() == 2


def test_a_change_whose_answer_was_lost_is_found_behind_one_beside_the_leader(
    make_store, monkeypatch: pytest.MonkeyPatch, url
) -> None:
    """It was made: an offline command has changed the store since."""
    store, beside = (
        make_store(leader=1),
        make_store(at=url.update_query_dict({"host": "localhost"})),
    )
    put(store, "a")
    dialect = store._writer.engine.dialect
    commit = dialect.do_commit

    def lose(connection) -> None:
        monkeypatch.undo()
        commit(connection)
        put(beside, "c")
        connection.driver_connection.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(dialect, "do_commit", lose)
    assert put(store, "b").seq == 2
    assert put(store, "d").seq == 4


def test_a_server_that_is_killed_loses_nothing_and_leaves_nothing_half_made(
    postgres, make_store, url, sealer
) -> None:
    """Twice, in the middle of changes: a change whose answer came stands, whole; others may."""
    store = make_store(leader=1)
    reader = Directory(url, sealer)
    answered: list[str] = []
    stopping = threading.Event()

    def change() -> None:
        n = 0
        while not stopping.is_set():
            n += 1
            try:
                put(store, f"s{n}")
            except StoreError:
                time.sleep(0.05)
            else:
                answered.append(f"s{n}")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(2):
            before = len(answered)
            _wait(lambda before=before: len(answered) >= before + 20)
            postgres.kill()
            with pytest.raises(StoreError):
                reader.read()
            postgres.start()
    finally:
        if not postgres.ready():
            postgres.start()
        before = len(answered)
        _wait(lambda: len(answered) > before + 5)
        stopping.set()
        thread.join()
    reader.refresh()
    assert set(answered) <= set(reader.uids())
    changes = RouteChanges(url)
    made = changes.between(0, changes.newest_seq() + 1)
    assert [record.seq for record in made] == list(range(1, len(made) + 1))
    assert {record.uid for record in made} == set(reader.uids())
    assert store.live_count() == len(reader)
    for each in (reader, changes):
        each.close()


def _wait(condition) -> None:
    deadline_s = time.monotonic() + BACK_S_MAX
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_change_gives_a_sign_and_rest_gives_none(make_store, url) -> None:
    """However many look, one row is read."""
    signs = SharedSigns(url)  # before there is a store
    store = make_store()
    _wait(signs.look)
    put(store, "a")
    _wait(signs.look)
    others = [signs_of(url) for _ in range(3)]
    assert all(look() for look in others)
    assert not any(look() for look in others)
    assert sum(thread.name == "store-signs" for thread in threading.enumerate()) == 1


def test_a_store_of_an_earlier_version_is_brought_up(make_store, url, postgres) -> None:
    """Its missing columns and tables are made; a newer version is refused."""
    store = make_store()
    put(store, "a")
    with postgres.connected(url.database) as connection:
        connection.execute("SET search_path = distributary")
        connection.execute("DROP TABLE kept_secret, steering")
        connection.execute("ALTER TABLE demand DROP COLUMN details")
        connection.execute("ALTER TABLE generation DROP COLUMN steering_seq")
        connection.execute("ALTER TABLE address DROP COLUMN open")
        connection.execute("DROP INDEX object_uid")
        connection.execute("INSERT INTO address VALUES ('brokers/default/b', 'u')")
        connection.execute("UPDATE control_schema SET version = 6")
    brought_up = make_store()
    assert brought_up.pause("a", "anna", 5).changed
    with postgres.connected(url.database) as connection:
        found = connection.execute("SELECT to_regclass('distributary.object_uid')").fetchone()
    assert found != (None,)
    assert brought_up.demand("redrive", "a", "run", 5).seq == 1
    book = AddressBook(url)
    assert book.read()["brokers/default/b"] == "u"
    book.close()
    with postgres.connected(url.database) as connection:
        connection.execute("UPDATE distributary.control_schema SET version = 99")
    with pytest.raises(StoreError, match="schema 99"):
        make_store()
    with postgres.connected(url.database) as connection:
        connection.execute("DROP SCHEMA distributary CASCADE")


def test_a_store_that_is_not_made_yet_cannot_be_read(postgres_place, sealer) -> None:
    """Its leader makes it; a reader says so and tries again later."""
    with pytest.raises(StoreError, match="does not exist"):
        Directory(database_url(postgres_place), sealer)


def test_what_people_write_may_hold_any_character(make_store) -> None:
    """Also the one that PostgreSQL's text has not."""
    store = make_store()
    put(store, "a")
    assert store.disable("a", "why\0not", "an\0na", 5).changed
    assert store.halted()[0].disabled_reason == "why\ufffdnot"
