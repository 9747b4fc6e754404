"""Every store of reservations: never more deliveries than may be, each counted once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    FileReservations,
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
    ReservationStore,
)
from distributary.testing.memory_reservations import MemoryReservations

HELD, WAIT, USED_UP = ReservationAnswer.HELD, ReservationAnswer.WAIT, ReservationAnswer.USED_UP


def reservation(offset, route="r", index=0, checksum=7):
    """The reservation of a match."""
    return Reservation(DoneKey(offset, index, route), checksum)


def request(offset, events_max=2, route="r", **more):
    """A match that asks."""
    return ReservationRequest(reservation(offset, route, **more), events_max)


def tell(reservations, *requests, partition=0, gone=(), freed=(), counted=(), resting=()):
    """What an owner tells and asks in one change."""
    batch = ReservationBatch(list(gone), list(freed), list(counted), list(resting), list(requests))
    return reservations.exchange(partition, batch)


@pytest.fixture(params=["memory", "sqlite"])
def owners(request, tmp_path):
    """The reservations as four owners see it; nothing is counted yet."""
    if request.param == "memory":
        shared: ReservationStore = MemoryReservations()
        yield [shared] * 4
        return
    made: list[ReservationStore] = [FileReservations(tmp_path / "quota.db") for _ in range(4)]
    yield made
    for reservations in made:
        reservations.close()


@pytest.fixture
def store(owners):
    """As one of them sees it."""
    return owners[0]


def test_nothing_is_counted_where_nobody_asked(store):
    """Asking for what was counted makes nothing, nor does a route that is deleted."""
    assert (store.used_up(), store.held(0), store.delivered("r")) == ([], {}, 0)
    assert tell(store, gone=["r"], counted=[reservation(1)]) == []
    assert not store.exists


def test_reservations_are_given_to_those_who_come_first(store):
    """And to no more than there are."""
    assert tell(store, request(1), request(2), request(3)) == [HELD, HELD, WAIT]
    assert tell(store, request(1), partition=1) == [WAIT]
    assert store.used_up() == []


def test_who_holds_a_reservation_gets_the_same_one(store):
    """An attempt after a crash is the same match: it counts once."""
    assert tell(store, request(1), request(1)) == [HELD, HELD]
    assert tell(store, request(1), request(2)) == [HELD, HELD]
    assert set(store.held(0)) == {reservation(1), reservation(2)}


def test_another_record_at_the_position_is_another_match(store):
    """The log lost its tail: what was delivered then may have been."""
    tell(store, request(1))
    assert tell(store, request(1, checksum=8), request(1, checksum=9)) == [HELD, WAIT]


def test_what_was_delivered_is_counted_once(store):
    """Noting it again changes nothing."""
    tell(store, request(1), request(2))
    tell(store, counted=[reservation(1)])
    tell(store, counted=[reservation(1), reservation(5)])
    assert store.delivered("r") == 1
    assert store.held(0) == {reservation(2): False}
    assert tell(store, request(3)) == [WAIT]
    tell(store, counted=[reservation(2)])
    assert store.used_up() == ["r"]
    assert tell(store, request(3)) == [USED_UP]


def test_what_failed_for_good_is_free_again(store):
    """Once: noting it again frees nothing else, and counts nothing."""
    tell(store, request(1), request(2))
    tell(store, freed=[reservation(1)])
    tell(store, freed=[reservation(1)], counted=[reservation(1)])
    assert store.delivered("r") == 0
    assert tell(store, request(3), request(4)) == [HELD, WAIT]


def test_reservations_are_given_up_before_others_are_taken(store):
    """In one change: who gives up makes room for who asks."""
    tell(store, request(1), request(2))
    assert tell(store, request(3), freed=[reservation(1)]) == [HELD]


def test_what_is_freed_and_what_is_counted_in_one_change_are_told_apart(store):
    """Of several subscriptions at a time."""
    tell(store, *(request(n, 5, route) for n in range(4) for route in "ab"))
    freed = [reservation(0, "a"), reservation(0, "b"), reservation(1, "b")]
    tell(
        store, freed=freed, counted=[reservation(1, "a"), reservation(2, "a"), reservation(2, "b")]
    )
    assert (store.delivered("a"), store.delivered("b")) == (2, 1)
    assert set(store.held(0)) == {reservation(3, "a"), reservation(3, "b")}
    assert tell(store, *(request(n, 5, "a") for n in range(10, 14))) == [HELD, HELD, WAIT, WAIT]


def test_a_reservation_rests_until_it_is_asked_for_again(store):
    """What does not rest at a restart is in doubt."""
    tell(store, request(1), request(2))
    tell(store, resting=[reservation(1)])
    assert store.held(0) == {reservation(1): True, reservation(2): False}
    assert tell(store, request(1)) == [HELD]
    assert store.held(0) == {reservation(1): False, reservation(2): False}


def test_the_newest_limit_counts(store):
    """Raised: it goes on. Lowered below what was delivered: it is used up."""
    tell(store, request(1), request(2))
    tell(store, counted=[reservation(1), reservation(2)])
    assert tell(store, request(3, events_max=3), request(4, events_max=3)) == [HELD, WAIT]
    assert store.used_up() == []
    assert tell(store, request(4, events_max=1)) == [USED_UP]
    assert store.used_up() == ["r"]


def test_routes_are_counted_each_for_itself(store):
    """One call may ask for several."""
    assert tell(store, request(1, 1, "a"), request(1, 1, "b"), request(2, 1, "a")) == [
        HELD,
        HELD,
        WAIT,
    ]


def test_a_deleted_subscription_gets_nothing_any_more(store):
    """A partition that is behind may still ask: a count that began anew would allow more."""
    tell(store, request(1), request(2))
    tell(store, counted=[reservation(1)])
    tell(store, gone=["r", "unknown"])
    assert tell(store, request(1), request(3)) == [USED_UP, USED_UP]
    tell(store, counted=[reservation(2)])
    assert (store.used_up(), store.held(0)) == ([], {})


def test_owners_of_several_partitions_share_the_limit(owners):
    """They ask at the same time, and see what the others did."""

    def ask(partition):
        return [tell(owners[partition], request(n, 25), partition=partition)[0] for n in range(20)]

    with ThreadPoolExecutor(4) as pool:
        answers = [answer for found in pool.map(ask, range(4)) for answer in found]
    assert answers.count(HELD) == 25
    assert sum(len(owners[0].held(partition)) for partition in range(4)) == 25


def test_a_reservation_is_its_partition_s(owners):
    """The same position in another partition is another match."""
    tell(owners[0], request(1))
    tell(owners[1], freed=[reservation(1)], partition=1)
    tell(owners[1], counted=[reservation(1)], partition=1)
    assert owners[2].held(0) == {reservation(1): False}
    assert owners[2].held(1) == {}
    assert owners[3].delivered("r") == 0
