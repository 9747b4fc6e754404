"""A slice of kept dead letters costs what is in it, however many are kept."""

import pytest
import sqlalchemy as sa

from distributary.core.database import sqlite_url
from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    CLOCK_MS_MIN,
    Budgets,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    GivenUp,
    LetterChoice,
    _dead_letters,
)

FAILURE = Failure("status-503", "http://sink.example/")
STEPS = 10
"""Instructions of the database to a count."""


@pytest.fixture
def counted():
    """How often the database did ``STEPS`` instructions, in a list of one number."""
    count = [0]

    def step():
        count[0] += 1

    def on_connect(connection, _record):
        connection.set_progress_handler(step, STEPS)

    sa.event.listen(sa.engine.Engine, "connect", on_connect)
    yield count
    sa.event.remove(sa.engine.Engine, "connect", on_connect)


def letters(first, end):
    """Dead letters of twenty routes."""
    return [
        DeadLetter(DoneKey(n, 0, f"r{n % 20}"), 7, FAILURE, b"\x01event%d" % n, CLOCK_MS_MIN + n)
        for n in range(first, end)
    ]


@pytest.fixture
def store(tmp_path, counted):
    """A store with 4,000 dead letters."""
    assert counted == [0]
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0, Budgets(age_max_s=100.0))
    store.apply(Changes(dead_letters=letters(0, 4_000)))
    yield store
    store.close()


def cost(counted, work):
    """What *work* takes, after it was done once."""
    work()
    before = counted[0]
    work()
    return counted[0] - before


@pytest.mark.parametrize("route", [None, "r3"])
def test_the_first_slice_of_many_costs_no_more_than_the_last(store, counted, route):
    """Four letters, of four thousand and of the last few."""
    choice = LetterChoice(route)
    ends = [kept.id for kept in store.chosen_letters(choice, 4_000, 0, 1_000_000)]

    def slice_after(number):
        return len(store.chosen_letters(choice, 4, number, 1_000_000))

    assert slice_after(0) == slice_after(ends[-5]) == 4
    last = cost(counted, lambda: slice_after(ends[-5]))
    assert 0 < cost(counted, lambda: slice_after(0)) < 2 * last


def test_a_look_for_old_ones_looks_at_one(store, counted):
    """None is older than the budget says, and twice as many cost no more."""
    before = cost(counted, lambda: store.keep_house([], CLOCK_MS_MIN + 8_000))
    store.apply(Changes(dead_letters=letters(4_000, 8_000)))
    assert 0 < cost(counted, lambda: store.keep_house([], CLOCK_MS_MIN + 8_000)) < 1.5 * before


def test_those_that_were_kept_in_1970_get_a_date_a_part_at_a_time(store, monkeypatch):
    """Each turn dates some of them; none is given up meanwhile."""
    monkeypatch.setattr(_dead_letters, "DATED_COUNT", 100)
    undated = [letter._replace(kept_ms=5) for letter in letters(4_000, 4_250)]
    store.apply(Changes(dead_letters=undated))
    now_ms = CLOCK_MS_MIN + 50_000
    left = []
    for _ in range(4):
        assert store.keep_house([], now_ms).given_up == []
        found = store.dead_letters(10_000)
        left.append(sum(letter.kept_ms == 5 for letter in found))
    assert left == [150, 50, 0, 0]
    assert len(found) == 4_250


def test_one_flush_of_many_large_ones_grows_the_file_little_beyond_the_budget(tmp_path):
    """What comes first is given up before the last comes, and told once."""
    path = tmp_path / "delivery.db"
    store = DeliveryStore(sqlite_url(path), 0, Budgets(bytes_max=1_000_000))
    large = [
        DeadLetter(DoneKey(n, 0, "r"), 7, FAILURE, b"%500000d" % n, n, "shop") for n in range(24)
    ]
    assert store.apply(Changes(dead_letters=large)) == [GivenUp("r", 23, "kept-bytes")]
    assert [kept.key.offset for kept in store.dead_letters()] == [23]
    store.close()
    assert path.stat().st_size < 1_000_000 + 8_000_000


def test_to_find_outcomes_above_the_cursor_costs_a_search_for_each_route(store, counted):
    """Four letters are above it, however many are below."""
    before = cost(counted, lambda: store.kept_outcomes(3_996, ()))
    store.apply(Changes(dead_letters=letters(4_000, 8_000)))
    assert len(store.kept_outcomes(7_996, ())) == 4
    assert 0 < cost(counted, lambda: store.kept_outcomes(7_996, ())) < 1.5 * before
