"""Counts of deliveries: never more than may be, each counted once, across processes."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    FileReservations,
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
)
from distributary.core.outcome._file_reservations import CLOSED_KEPT_MS
from distributary.testing.virtual import VirtualClock

HELD, WAIT, USED_UP = ReservationAnswer.HELD, ReservationAnswer.WAIT, ReservationAnswer.USED_UP


def reservation(offset, route="r", index=0, checksum=7):
    """The reservation of a match."""
    return Reservation(DoneKey(offset, index, route), checksum)


def request(offset, events_max=2, route="r", **more):
    """A match that asks."""
    return ReservationRequest(reservation(offset, route, **more), events_max)


def tell(store, *requests, partition=0, gone=(), counted=()):
    """What an owner tells and asks in one change."""
    return store.exchange(
        partition, ReservationBatch(list(gone), [], list(counted), [], list(requests))
    )


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
    made = FileReservations(path, clock)
    yield made
    made.close()


def test_a_system_that_counts_nothing_makes_no_file(store, path):
    """Asking for what was counted is no reason either."""
    assert (store.used_up(), store.held(0), store.delivered("r")) == ([], {}, 0)
    tell(store, gone=["r"])
    assert not store.exists
    assert not path.exists()


def test_the_file_is_private(store, path):
    """As every store is."""
    tell(store, request(1))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_deleted_subscription_is_remembered_for_long(store, clock):
    """Then nobody is so far behind that it asks."""
    tell(store, request(1))
    tell(store, counted=[reservation(1)])
    tell(store, gone=["r"])
    clock.move_to(CLOSED_KEPT_MS / 1000 + 1)
    tell(store, gone=["other"])
    assert store.delivered("r") == 0


def test_what_was_taken_is_there_for_the_next_owner(path, store):
    """A restart finds it."""
    tell(store, request(1), request(2, index=4), partition=3)
    again = FileReservations(path)
    assert set(again.held(3)) == {reservation(1), reservation(2, index=4)}
    assert again.held(0) == {}
    again.close()


def test_a_file_of_a_newer_version_is_refused(path):
    """Nothing is guessed."""
    first = FileReservations(path)
    tell(first, request(1))
    first.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE quota_schema SET version = 99")
    newer = FileReservations(path)
    with pytest.raises(StoreError, match="upgrade"):
        tell(newer, request(2))
    newer.close()


def test_a_file_that_is_no_store_is_an_error_of_ours(path):
    """Damage: said as such, never passed for an empty count."""
    path.write_bytes(b"no database" * 100)
    store = FileReservations(path)
    with pytest.raises(StoreError, match="reservation store"):
        tell(store, request(1))
    with pytest.raises(StoreError, match="reservation store"):
        store.used_up()
    store.close()


@pytest.mark.slow
def test_many_may_make_the_file_at_once(tmp_path):
    """The switch to a write-ahead log is one that SQLite does not wait for by itself."""
    for number in range(20):
        stores = [FileReservations(tmp_path / f"quota{number}.db") for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            made = pool.map(
                lambda each: tell(each[1], request(1, 25), partition=each[0]), enumerate(stores)
            )
            assert list(made) == [[HELD]] * 8
        for store in stores:
            store.close()
