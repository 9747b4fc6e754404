"""What is set about the deliveries of a route is durable, and each change has a number."""

import sqlite3
from contextlib import closing

import pytest

from distributary.core.demand import DemandDetails
from distributary.core.errors import NotFoundError, RequestError
from distributary.subscriptions.store import Directory, demands
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


_AS_VERSION_6 = """
DROP TABLE steering;
ALTER TABLE generation DROP COLUMN steering_seq;
ALTER TABLE demand DROP COLUMN details;
UPDATE control_schema SET version = 6;
"""


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
    """What is no run has places of its own: to cancel one, and to resume a route."""
    monkeypatch.setattr(demands, "DEMANDS_OF_NAMESPACE_MAX", 2)
    for number in range(2):
        store.demand("retry", "u1", f"run-{number}", 5)
    with pytest.raises(RequestError, match="2 runs of a namespace"):
        store.demand("replay", "u1", "run-2", 5)
    store.demand("cancel", "", "end-1", 5, details=DemandDetails(of=1))
    store.demand("resume", "u1", "on-1", 5)
    with pytest.raises(RequestError):
        store.demand("resume", "u1", "on-2", 5)
