"""The table of consents: numbers, comparisons, callbacks, and older stores."""

import sqlite3
from contextlib import closing

import pytest

from distributary.resource import target_key
from distributary.subscriptions.store.consent_rows import (
    CallbackConsent,
    CallbackKey,
    ConsentReader,
    ConsentRow,
    ConsentRows,
    digest_of,
)
from distributary.subscriptions.store.store import Store

KEY = target_key("default", "https://sink.example/hook", None)
ALLOWED = CallbackConsent(None, 1_000, 9_000, 7_000)


@pytest.fixture
def consents(url, store):  # noqa: ARG001 - it makes the file
    """The empty table."""
    made = ConsentRows(url)
    yield made
    made.close()


def row(key=KEY, **values):
    """A row that nobody has stored yet."""
    return ConsentRow(key, "asked", "events.example.com", **values)


def test_readers_see_what_has_changed(consents, url):
    """Each write has a number; a reader asks for what is newer."""
    reader = ConsentReader(url)
    assert reader.changed(0) == (0, [])
    first = consents.put(row())
    second = consents.put(row("b" * 64, rate_per_min=60, reason="why"))
    assert reader.changed(0) == (2, [first, second])
    assert reader.changed(1) == (2, [second])
    assert reader.changed(2) == (2, [])
    reader.close()


def test_a_row_that_was_changed_meanwhile_is_not_overwritten(consents):
    """Neither changed, nor deleted, nor made by somebody else."""
    stored = consents.put(row())
    assert consents.put(stored._replace(state="given")).seq == 2
    assert consents.put(stored._replace(state="refused")) is None
    assert consents.put(row()) is None
    consents.remove([KEY])
    assert consents.put(stored._replace(seq=2)) is None
    assert consents.find([KEY]) == {}


def test_a_callback_consents_with_its_key_alone(consents, store):
    """Wrong keys, other names and ended keys change nothing."""
    keys = (CallbackKey(digest_of("old"), 1_000), CallbackKey(digest_of("new"), 2_000))
    consents.put(row(callbacks=keys, reason="no answer", tries=4))
    for name, key in [(KEY[:32], "old"), (KEY[:32], "wrong"), (KEY[:32], ""), ("0" * 32, "new")]:
        assert store.confirm(name, key, ALLOWED) is None
    assert consents.find([KEY])[KEY].state == "asked"
    given = store.confirm(KEY[:32], "new", ALLOWED._replace(rate_per_min=30))
    assert given is not None
    assert (given.state, given.rate_per_min, given.by_callback) == ("given", 30, True)
    assert (given.until_ms, given.next_ms, given.since_ms) == (9_000, 7_000, 1_000)
    assert (given.reason, given.tries, given.callbacks) == ("", 0, keys)
    assert store.confirm(KEY[:32], "new", ALLOWED._replace(now_ms=2_000)) is None


def test_callback_keys_are_stored_as_digests_alone(consents, url):
    """Whoever reads the file cannot consent for others."""
    consents.put(row(callbacks=(CallbackKey(digest_of("canary-key"), 2_000),)))
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        text = "\n".join(connection.iterdump())
    assert digest_of("canary-key") in text
    assert "canary" not in text
    assert "sink.example" not in text


def test_numbers_rise_over_clearing(consents, url):
    """A reader that knows number 1 must not miss what follows."""
    consents.put(row())
    consents.clear()
    assert consents.put(row()).seq == 2
    reader = ConsentReader(url)
    assert [found.seq for found in reader.changed(1)[1]] == [2]
    reader.close()


def test_a_store_without_the_table_gets_it(url, store):
    """State directories of earlier versions open."""
    store.close()
    with closing(sqlite3.connect(str(url.database))) as connection, connection:
        connection.execute("DROP TABLE consent")
        connection.execute("DROP TABLE consent_counter")
    again = Store(url)
    consents = ConsentRows(url)
    assert consents.put(row()).seq == 1
    consents.close()
    again.close()


def test_targets_of_tenants_and_places_differ():
    """Consent to one is none to the other."""
    uri = "https://sink.example/"
    keys = {
        target_key("a", uri, None),
        target_key("b", uri, None),
        target_key("a", uri, "10.0.0.1:80"),
        target_key("a", uri + "?x", None),
    }
    assert len(keys) == 4
