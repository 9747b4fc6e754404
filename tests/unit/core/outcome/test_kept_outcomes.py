"""Which kept dead letters say what the journal does not, and what it costs to find them."""

from contextlib import closing

import pytest

from distributary.core.database import sqlite_url
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import (
    BackfillRow,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    RetryRow,
)

FAILURE = Failure("status-400", "http://sink.example/")


def letter(offset, route="r"):
    """A dead letter of the record at *offset*, whose checksum is the same number."""
    return DeadLetter(DoneKey(offset, 0, route), offset, FAILURE, b"\x01event%d" % offset, 1)


@pytest.fixture
def store(tmp_path):
    """An empty store."""
    with closing(DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0)) as store:
        yield store


def test_letters_at_or_above_the_cursor_are_outcomes(store):
    """Those below it are passed, and those that the journal knows need not be said."""
    store.apply(Changes(dead_letters=[letter(n, route) for n in range(3, 8) for route in "rq"]))
    done = {DoneKey(5, 0, "r"), DoneKey(6, 0, "r"), DoneKey(6, 0, "q")}
    found = store.kept_outcomes(5, done)
    keys = [(5, "q"), (7, "q"), (7, "r")]
    assert sorted(found) == [(DoneKey(offset, 0, route), offset) for offset, route in keys]


def test_letters_of_a_backfilled_route_are_outcomes_from_where_it_stands(store):
    """Whatever its oldest backfill still reads is above a cursor of its own."""
    rows = [BackfillRow("r", start, 0, start, None, b"{}") for start in (4, 6)]
    changes = Changes(backfills={row.name: row for row in rows})
    changes.dead_letters += [letter(n, route) for n in range(2, 8) for route in "rq"]
    store.apply(changes)
    assert sorted(store.kept_outcomes(100, ())) == [(letter(n).key, n) for n in range(4, 8)]


def test_a_match_with_a_row_needs_no_outcome(store):
    """The row says whether it is finished; a replay may have made it wait again."""
    row = RetryRow(letter(5).key, 5, Stage.PRIMARY, 2, 1, None, done=True)
    store.apply(Changes(rows={row.key: row}, dead_letters=[letter(5), letter(6)]))
    assert store.kept_outcomes(0, ()) == [(letter(6).key, 6)]


def test_letters_of_other_partitions_are_not_looked_at(store, tmp_path):
    """One file may have several."""
    with closing(DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 1)) as other:
        other.apply(Changes(dead_letters=[letter(5)]))
    assert store.kept_outcomes(0, ()) == []


def test_more_than_one_statement_names_are_found(store):
    """A flush may keep thousands."""
    store.apply(Changes(dead_letters=[letter(n) for n in range(1_200)]))
    assert len(store.kept_outcomes(0, ())) == 1_200
