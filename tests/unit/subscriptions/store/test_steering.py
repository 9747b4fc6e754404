"""What is set about the deliveries of a route is durable, and each change has a number."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

import pytest
import sqlalchemy as sa

from distributary.core import database
from distributary.core.demand import DemandDetails
from distributary.core.errors import ConflictError, NotFoundError, RequestError
from distributary.routes import tables
from distributary.subscriptions.store import Directory, demands, steering
from distributary.subscriptions.store.store import Store
from distributary.subscriptions.store.stored import Delete, Put


@pytest.fixture
def one(store, spec):
    """A store with the subscription ``a``, of uid ``u1``."""
    store.apply([Put("a", spec(), "u1")], 5)
    return store


def test_a_pause_is_told_once_and_kept(one, url):
    """A second one changes neither its time nor its author, and a restart finds it."""
    first = one.pause("u1", "anna", 10)
    assert first.changed
    assert (first.now.paused_ms, first.now.paused_by, first.now.halted) == (10, "anna", True)
    again = one.pause("u1", "ben", 20)
    assert not again.changed
    assert again.now == first.now
    one.close()
    reopened = Store(url)
    assert reopened.steering(["u1", "u2"]) == {"u1": first.now}
    reopened.close()


def test_a_pause_and_being_disabled_end_apart(one):
    """Whoever resumes does not enable."""
    one.pause("u1", "anna", 10)
    off = one.disable("u1", "failing for a day", "server", 20)
    assert off.changed
    assert off.now.disabled_reason == "failing for a day"
    assert not one.disable("u1", "another reason", "anna", 30).changed
    assert one.resume("u1", "anna", 20).now.halted
    assert not one.resume("u1", "anna", 20).changed
    assert one.halted() == [one.steering(["u1"])["u1"]]
    assert one.enable("u1", "anna", 20).changed
    assert not one.enable("u1", "anna", 20).changed
    assert one.halted() == []


def test_what_is_deleted_is_not_halted(one):
    """Whatever was set about it, until its row goes."""
    one.pause("u1", "anna", 10)
    assert len(one.halted()) == 1
    one.apply([Delete("a")], 6)
    assert one.steering(["u1"])
    assert one.halted() == []


def test_nobody_steers_what_is_gone(one):
    """Neither what never was, nor what has been deleted."""
    one.apply([Delete("a")], 6)
    for uid in ("u1", "u9"):
        with pytest.raises(NotFoundError):
            one.pause(uid, "anna", 10)
        with pytest.raises(NotFoundError):
            one.disable(uid, "why", "anna", 10)
    assert one.halted() == []


def test_what_is_set_goes_with_its_subscription(url, spec):
    """With the next tidying, so that rows do not add up."""
    store = Store(url, changes_kept=1)
    store.apply([Put("a", spec(), "u1"), Put("b", spec(), "u2")], 5)
    store.pause("u1", "anna", 10)
    store.pause("u2", "anna", 10)
    store.apply([Delete("a")], 6)
    store.mark_appended(3)
    assert set(store.steering(["u1", "u2"])) == {"u2"}
    store.close()


def test_readers_learn_of_changes_alone(one, url):
    """The set of halted routes is the same object until it changes."""
    reader = Directory(url)
    reader.refresh()
    assert reader.halted() == frozenset()
    one.disable("u1", "why", "anna", 10)
    assert reader.refresh()
    halted = reader.halted()
    assert halted == {"u1"}
    assert not reader.refresh()
    one.pause("u1", "anna", 20)
    one.enable("u1", "anna", 20)
    reader.refresh()
    assert reader.halted() == {"u1"}
    one.resume("u1", "anna", 20)
    reader.refresh()
    assert reader.halted() == frozenset()
    reader.close()


def test_what_has_changed_is_read_from_a_number_on(one, spec):
    """In the order of the changes, each route once; what has no row yet begins at 0."""
    one.apply([Put("b", spec(), "u2")], 6)
    one.note_obeyed("u2", {"retry": "1"})  # an order of its object changes nothing that is set
    assert one.steered(0) == (0, [])
    one.pause("u1", "anna", 10)
    one.disable("u2", "why", "anna", 10)
    one.resume("u1", "anna", 20)
    newest, changed = one.steered(0)
    assert [(each.uid, each.halted) for each in changed] == [("u2", True), ("u1", False)]
    assert one.steered(newest) == (newest, [])
    one.pause("u1", "anna", 30)
    assert one.steered(newest) == (newest + 1, [one.steering(["u1"])["u1"]])


def test_orders_of_one_object_are_read_alone(one):
    """None where none was carried out."""
    one.note_obeyed("u1", {"retry": "1"})
    one.note_obeyed("u2", {"retry": "2"})
    assert one.obeyed_of("u1") == {"retry": "1"}
    assert one.obeyed_of("u3") == {}


def sqlite_steps_of(url: sa.URL, read: Callable[[sa.Connection], object]) -> int:
    """Thousands of steps of SQLite's machine that *read* takes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    reader = database.open_reader(url, "store")
    with database.reading(reader) as connection:
        raw = connection.connection.driver_connection
        raw.set_progress_handler(count, 1_000)
        read(connection)
        raw.set_progress_handler(None, 0)
    reader.dispose()
    return steps


def paused_objects(url: sa.URL) -> list[str]:
    """Add 5,000 Triggers, of which 50 are paused; the uids of these."""
    columns = {"resource": "triggers", "namespace": "n", "version": 1, "written_ms": 1}
    columns["content_json"] = b"{}"
    uids = [f"object-{number}" for number in range(5_000)]
    writer = database.open_writer(url, "store")
    with database.writing(writer) as connection:
        rows = [columns | {"name": uid, "uid": uid} for uid in uids]
        connection.execute(sa.insert(tables.object_), rows)
        paused = [{"uid": uid, "seq": 1, "paused_ms": 5} for uid in uids[:50]]
        connection.execute(sa.insert(tables.steering), paused)
    writer.dispose()
    return uids[:50]


def test_many_objects_do_not_slow_down_who_asks_about_some(one, url):
    """Whoever looks at all of them takes 6,000 steps or more."""
    paused = paused_objects(url)
    assert {each.uid for each in one.halted()} == set(paused)
    assert sqlite_steps_of(url, steering.read_all_halted) <= 4
    assert (
        sqlite_steps_of(url, lambda connection: demands.read_route_names(connection, paused)) <= 4
    )
    assert (
        sqlite_steps_of(url, lambda connection: steering.check_exists(connection, paused[0])) == 0
    )


_AS_VERSION_6 = """
DROP TABLE steering;
ALTER TABLE generation DROP COLUMN steering_seq;
ALTER TABLE demand DROP COLUMN details;
UPDATE control_schema SET version = 6;
"""


def test_an_earlier_store_finds_its_objects_by_uid(one, url):
    """It is given the index once, when it is opened."""
    paused = paused_objects(url)
    one.close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        connection.executescript("DROP INDEX object_uid; UPDATE control_schema SET version = 10")
    opened = Store(url)
    assert {each.uid for each in opened.halted()} == set(paused)
    opened.close()
    assert sqlite_steps_of(url, steering.read_all_halted) <= 4
    Store(url).close()


def test_a_store_of_an_earlier_version_is_brought_up(one, url):
    """Its demands have no details, and nothing in it is paused."""
    demand = one.demand("redrive", "u1", "run-1", 5)
    one.close()
    with closing(sqlite3.connect(url.database)) as connection, connection:
        connection.executescript(_AS_VERSION_6)
    opened = Store(url)
    assert opened.find_demand("run-1") == demand
    assert opened.halted() == []
    assert opened.pause("u1", "anna", 10).changed
    opened.close()


def test_runs_can_be_ended_however_many_were_asked_for(store, monkeypatch):
    """To cancel one needs no place, and to resume a route takes none of theirs."""
    monkeypatch.setattr(demands, "DEMANDS_OF_NAMESPACE_MAX", 2)
    for number in range(2):
        store.demand("retry", "u1", f"run-{number}", 5)
    with pytest.raises(RequestError, match="2 runs of a namespace are kept"):
        store.demand("replay", "u1", "run-2", 5)
    store.demand("replay", "u2", "shop run-2", 5)
    for number in range(3):
        store.demand("resume", f"u{number}", f"on-{number}", 5)
    for number in range(3):
        details = DemandDetails(of=number)
        assert store.demand("cancel", "", f"end-{number}", 5, details=details).details.of == number


def test_routes_are_resumed_however_many_were_before(store, monkeypatch):
    """Of a route the newest demand is kept, and of a namespace the newest ones."""
    monkeypatch.setattr(demands, "DEMANDS_OF_NAMESPACE_MAX", 2)
    monkeypatch.setattr(demands, "DEMANDS_MAX", 3)
    runs = ["on-1", "on-2", "on-3", "on-4", "shop on-5", "shop on-6"]
    kept = []
    for run, route in zip(runs, ["u1", "u1", "u2", "u3", "u4", "u5"], strict=True):
        store.demand("resume", route, run, 5)
        kept.append([one.run for one in store.find_demands(runs)])
    assert kept == [
        ["on-1"],
        ["on-2"],
        ["on-2", "on-3"],
        ["on-3", "on-4"],
        ["on-3", "on-4", "shop on-5"],
        ["on-4", "shop on-5", "shop on-6"],
    ]


def test_a_pause_ends_with_the_demand_to_send_again_or_not_at_all(one):
    """Nothing is changed of what is disabled or gone, nor where the demand cannot be stored."""
    one.pause("u1", "anna", 10)
    one.demand("redrive", "u1", "taken", 5)
    with pytest.raises(ConflictError):
        one.send_again("u1", "anna", "taken", 20)
    one.disable("u1", "it floods us", "anna", 10)
    with pytest.raises(ConflictError, match=r"disabled \(it floods us\): enable it"):
        one.send_again("u1", "anna", "on-1", 20)
    assert one.steering(["u1"])["u1"].paused_ms == 10
    assert one.find_demand("on-1") is None
    with pytest.raises(NotFoundError):
        one.send_again("u9", "anna", "on-1", 20)
    one.enable("u1", "anna", 30)
    made = one.send_again("u1", "anna", "on-1", 40)
    assert (made.kind, made.route) == ("resume", "u1")
    assert one.find_demand("on-1") == made
    assert not one.steering(["u1"])["u1"].halted
