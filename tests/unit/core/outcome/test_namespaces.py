"""Kept dead letters by namespace: their quota, and the names that an earlier version lacks."""

from distributary.core.database import sqlite_url
from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    Budgets,
    Changes,
    DeadLetter,
    DeliveryStore,
    Failure,
    letters_of,
)
from distributary.core.quotas import Quotas, QuotaTable

FAILURE = Failure("status-400", "http://sink.example/", 400)


def test_a_namespace_gives_up_its_own_oldest_dead_letters(tmp_path):
    """Of all its routes, and none of another namespace's."""
    quotas = QuotaTable(named={"shop": Quotas(dead_letter_bytes=2 * 2_000)})
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0, Budgets(quotas=quotas).share(2))
    letters = [
        DeadLetter(DoneKey(number, 0, route), 7, FAILURE, b"x" * 500, number, namespace)
        for number, (route, namespace) in enumerate(
            [("a", "shop"), ("b", "shop"), ("c", "till")] * 4
        )
    ]
    given_up = store.apply(Changes(dead_letters=letters))
    assert {told.route for told in given_up} == {"a", "b"}
    assert sum(told.count for told in given_up) == 5
    left = [kept.key.route for kept in store.dead_letters()]
    assert (left.count("c"), len(left)) == (4, 7)
    store.close()


def test_dead_letters_of_an_earlier_version_get_their_namespace(tmp_path):
    """House-keeping tells which have none; until then no namespace shows them."""
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0)
    letters = [DeadLetter(DoneKey(1, 0, route), 7, FAILURE, b"x", 1) for route in ("a", "b")]
    store.apply(Changes(dead_letters=letters))
    assert store.kept_dead_letters(10, 0, letters_of("shop")) == []
    assert sorted(store.keep_house((), 2).unnamed) == ["a", "b"]
    assert store.keep_house((), 2, {"a": "shop"}).unnamed == ["b"]
    found = store.kept_dead_letters(10, 0, letters_of("shop"))
    assert [kept.dead_letter.key.route for kept in found] == ["a"]
    assert store.kept_dead_letters(10, 0, letters_of("till")) == []
    assert store.kept_dead_letters(10, 0, letters_of("shop", "b")) == []
    store.close()


def test_the_largest_namespace_gives_up_first(tmp_path):
    """Also over several turns, where the largest is another one then, and one is not named."""
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0, Budgets(bytes_max=12_000))

    def keep(route, namespace, offsets):
        letters = [
            DeadLetter(DoneKey(at, 0, route), 7, FAILURE, b"%500d" % at, at, namespace)
            for at in offsets
        ]
        return {(told.route, told.count) for told in store.apply(Changes(dead_letters=letters))}

    assert keep("a", "shop", range(4)) == set()
    assert keep("b", None, range(10, 15)) == set()
    assert keep("c", "till", range(20, 40)) == {("c", 11)}
    assert keep("d", "shop", range(40, 50)) == {("a", 4), ("d", 4), ("c", 2)}
    store.keep_house((), 2, {"b": "shop"})
    assert keep("e", "till", range(50, 51)) == {("b", 1)}
    store.close()


def kept_of(store, route):
    """The kept dead letters of *route*."""
    return [letter for letter in store.dead_letters(1_000) if letter.key.route == route]


def answered(at):
    """A failure that differs for each event, as a sink can make it: 5,000 characters."""
    return Failure("status-400", "http://sink.example/" + "p" * 4_000, 400, f"{at:01000d}")


def test_what_a_sink_answers_counts_to_its_namespace(tmp_path):
    """Small events with large answers push out none of another namespace."""
    budgets = Budgets(bytes_max=1_000_000)
    store = DeliveryStore(sqlite_url(tmp_path / "delivery.db"), 0, budgets)

    def keep(route, namespace, offsets, failure, event):
        letters = [
            DeadLetter(DoneKey(at, 0, route), 7, failure(at), event % at, at, namespace)
            for at in offsets
        ]
        told = store.apply(Changes(dead_letters=letters))
        return {one.route for one in told}

    assert keep("calm", "shop", range(100), lambda _: FAILURE, b"%01500d") == set()
    given_up = [
        keep("loud", "till", range(at, at + 50), answered, b"%0100d")
        for at in range(1_000, 1_500, 50)
    ]
    assert set().union(*given_up) == {"loud"}
    assert len(kept_of(store, "calm")) == 100
    store.close()


def test_answers_count_towards_the_quota_of_a_namespace_once_for_each_subscription(tmp_path):
    """Also after a start, which counts anew; equal ones count once."""
    quotas = QuotaTable(named={"till": Quotas(dead_letter_bytes=100_000)})
    path = tmp_path / "delivery.db"

    def keep(offsets, failure):
        store = DeliveryStore(sqlite_url(path), 0, Budgets(quotas=quotas))
        letters = [
            DeadLetter(DoneKey(at, 0, route), 7, failure(at), b"%0100d" % at, at, "till")
            for at in offsets
            for route in ("a", "b")
        ]
        store.apply(Changes(dead_letters=letters))
        kept = sum(len(kept_of(store, route)) for route in ("a", "b"))
        store.close()
        return kept

    same = [keep(range(at, at + 40), lambda _: answered(0)) for at in range(0, 160, 40)]
    assert same == [80, 160, 240, 320]  # of 228 bytes, and two answers
    assert keep(range(1_000, 1_040), answered) == 100_000 // (228 + 5_031)
    assert (
        keep(range(2_000, 2_200), lambda _: FAILURE) == 401
    )  # one of those with an answer of its own has room
