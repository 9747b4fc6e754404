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
    assert keep("c", "till", range(20, 40)) == {("c", 10)}
    assert keep("d", "shop", range(40, 50)) == {("a", 4), ("d", 3), ("c", 3)}
    store.keep_house((), 2, {"b": "shop"})
    assert keep("e", "till", range(50, 51)) == {("b", 1)}
    store.close()
