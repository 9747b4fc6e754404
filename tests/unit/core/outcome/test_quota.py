"""Counts of deliveries: never more than may be, each counted once, across processes."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from distributary.core.errors import StoreError
from distributary.core.journal import DoneKey
from distributary.core.outcome import Grant, QuotaStore, Slot, SlotWish
from distributary.core.outcome._quota import CLOSED_KEPT_MS
from distributary.testing.virtual import VirtualClock

HELD, WAIT, USED_UP = Grant.HELD, Grant.WAIT, Grant.USED_UP


def slot(offset, route="r", index=0, checksum=7):
    """The slot of a match."""
    return Slot(DoneKey(offset, index, route), checksum)


def wish(offset, events_max=2, route="r", **more):
    """A match that asks."""
    return SlotWish(slot(offset, route, **more), events_max)


@pytest.fixture
def clock():
    """Time that stands."""
    return VirtualClock()


@pytest.fixture
def path(tmp_path):
    """The file."""
    return tmp_path / "quota.db"


@pytest.fixture
def store(path, clock):
    """Nothing is counted yet."""
    made = QuotaStore(path, clock)
    yield made
    made.close()


def test_a_system_that_counts_nothing_makes_no_file(store, path):
    """Asking for what was counted is no reason either."""
    assert (store.used_up(), store.slots(0), store.delivered("r")) == ([], {}, 0)
    store.forget("r")
    assert not store.exists
    assert not path.exists()


def test_the_file_is_private(store, path):
    """As every store is."""
    store.take(0, [wish(1)])
    assert path.stat().st_mode & 0o777 == 0o600


def test_slots_are_given_to_those_who_come_first(store):
    """And to no more than there are."""
    assert store.take(0, [wish(1), wish(2), wish(3)]) == [HELD, HELD, WAIT]
    assert store.take(1, [wish(1)]) == [WAIT]
    assert store.used_up() == []


def test_who_holds_a_slot_gets_the_same_one(store):
    """An attempt after a crash is the same match: it counts once."""
    assert store.take(0, [wish(1), wish(1)]) == [HELD, HELD]
    assert store.take(0, [wish(1), wish(2)]) == [HELD, HELD]
    assert set(store.slots(0)) == {slot(1), slot(2)}


def test_another_record_at_the_position_is_another_match(store):
    """The log lost its tail: what was delivered then may have been."""
    store.take(0, [wish(1)])
    assert store.take(0, [wish(1, checksum=8), wish(1, checksum=9)]) == [HELD, WAIT]


def test_what_was_delivered_is_counted_once(store):
    """Noting it again changes nothing."""
    store.take(0, [wish(1), wish(2)])
    store.count(0, [slot(1)])
    store.count(0, [slot(1), slot(5)])
    assert store.delivered("r") == 1
    assert store.slots(0) == {slot(2): False}
    assert store.take(0, [wish(3)]) == [WAIT]
    store.count(0, [slot(2)])
    assert store.used_up() == ["r"]
    assert store.take(0, [wish(3)]) == [USED_UP]


def test_what_failed_for_good_is_free_again(store):
    """Once: noting it again frees nothing else."""
    store.take(0, [wish(1), wish(2)])
    store.free(0, [slot(1)])
    store.free(0, [slot(1)])
    assert store.take(0, [wish(3), wish(4)]) == [HELD, WAIT]


def test_slots_are_given_up_before_others_are_taken(store):
    """In one change: who gives up makes room for who asks."""
    store.take(0, [wish(1), wish(2)])
    assert store.take(0, [wish(3)], free=[slot(1)]) == [HELD]


def test_a_slot_rests_until_it_is_asked_for_again(store):
    """What does not rest at a restart is in doubt."""
    store.take(0, [wish(1), wish(2)])
    store.take(0, [], resting=[slot(1)])
    assert store.slots(0) == {slot(1): True, slot(2): False}
    assert store.take(0, [wish(1)]) == [HELD]
    assert store.slots(0) == {slot(1): False, slot(2): False}


def test_the_newest_limit_counts(store):
    """Raised: it goes on. Lowered below what was delivered: it is used up."""
    store.take(0, [wish(1), wish(2)])
    store.count(0, [slot(1), slot(2)])
    assert store.take(0, [wish(3, events_max=3), wish(4, events_max=3)]) == [HELD, WAIT]
    assert store.used_up() == []
    assert store.take(0, [wish(4, events_max=1)]) == [USED_UP]
    assert store.used_up() == ["r"]


def test_routes_are_counted_each_for_itself(store):
    """One call may ask for several."""
    wishes = [wish(1, 1, "a"), wish(1, 1, "b"), wish(2, 1, "a")]
    assert store.take(0, wishes) == [HELD, HELD, WAIT]


def test_a_deleted_subscription_gets_nothing_any_more(store, clock):
    """A partition that is behind may still ask: a count that began anew would allow more."""
    store.take(0, [wish(1), wish(2)])
    store.count(0, [slot(1)])
    store.forget("r", "unknown")
    assert store.take(0, [wish(1), wish(3)]) == [USED_UP, USED_UP]
    store.count(0, [slot(2)])
    assert (store.used_up(), store.slots(0)) == ([], {})
    clock.move_to(CLOSED_KEPT_MS / 1000 + 1)
    store.forget("other")
    assert store.delivered("r") == 0


def test_owners_of_several_partitions_share_the_limit(path):
    """Each with a connection of its own, at the same time."""
    stores = [QuotaStore(path) for _ in range(4)]

    def ask(partition):
        store = stores[partition]
        return [store.take(partition, [wish(n, 25)])[0] for n in range(20)]

    with ThreadPoolExecutor(4) as pool:
        answers = [answer for found in pool.map(ask, range(4)) for answer in found]
    for store in stores:
        store.close()
    assert answers.count(HELD) == 25


def test_what_was_taken_is_there_for_the_next_owner(path, store):
    """A restart finds it."""
    store.take(3, [wish(1), wish(2, index=4)])
    again = QuotaStore(path)
    assert set(again.slots(3)) == {slot(1), slot(2, index=4)}
    assert again.slots(0) == {}
    again.close()


def test_a_file_of_a_newer_version_is_refused(path):
    """Nothing is guessed."""
    first = QuotaStore(path)
    first.take(0, [wish(1)])
    first.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE quota_schema SET version = 99")
    connection.close()
    newer = QuotaStore(path)
    with pytest.raises(StoreError, match="upgrade"):
        newer.take(0, [wish(2)])
    newer.close()


def test_a_file_that_is_no_store_is_an_error_of_ours(path):
    """Damage: said as such, never passed for an empty count."""
    path.write_bytes(b"no database" * 100)
    store = QuotaStore(path)
    with pytest.raises(StoreError, match="count store"):
        store.take(0, [wish(1)])
    with pytest.raises(StoreError, match="count store"):
        store.used_up()
    store.close()


@pytest.mark.slow
def test_many_may_make_the_file_at_once(tmp_path):
    """The switch to a write-ahead log is one that SQLite does not wait for by itself."""
    for number in range(20):
        stores = [QuotaStore(tmp_path / f"quota{number}.db") for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            made = pool.map(lambda each: each[1].take(each[0], [wish(1, 25)]), enumerate(stores))
            assert list(made) == [[HELD]] * 8
        for store in stores:
            store.close()
