"""Leases in PostgreSQL: the contract, and what clocks, breaks and restarts do to a holder."""

import contextlib
import threading
import time

import pytest

from distributary.core import database
from distributary.core.errors import FencedError, LogLockedError, StoreError
from distributary.core.postgres_lease import (
    MARGIN_S,
    TTL_S,
    PostgresLease,
    read_leases,
    usurp,
)
from distributary.testing import check_leases


class PostgresLeases:
    """Leases of one database, each holder with a clock that stands until it is moved."""

    def __init__(self, url, writer, reader):
        self._url, self._writer, self._reader = url, writer, reader
        self._taken = []
        self.now_s = 1_000.0

    def take(self, name, **more):
        more.setdefault("renews", False)
        lease = PostgresLease(self._url, name, now_s=lambda: self.now_s, **more)
        self._taken.append(lease)
        return lease

    def usurp(self, name):
        """The lease of a machine that was stopped runs out, by the database's clock and its own."""
        with database.writing(self._writer) as connection:
            usurp(connection, name, read_leases(self._reader, name)[0].generation)
        self.now_s += TTL_S

    def close(self):
        for lease in self._taken:
            lease.release()


@pytest.fixture
def url(tables):
    """A database in which nobody owns anything."""
    return tables.url


@pytest.fixture
def writer(tables):
    """An engine that writes to it."""
    return tables.writer


@pytest.fixture
def reader(tables):
    """An engine that reads from it."""
    return tables.reader


@pytest.fixture
def leases(url, writer, reader):
    """Nobody holds any."""
    made = PostgresLeases(url, writer, reader)
    yield made
    made.close()


@pytest.mark.parametrize("check", check_leases.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, leases):
    """Leases keep what consumers and stores count on."""
    check(leases)


def test_the_database_s_clock_alone_ends_a_lease(leases, reader):
    """However far the clocks of others are off."""
    lease = leases.take("a", ttl_s=0.2)
    leases.now_s -= 1_000_000.0
    deadline_s = time.monotonic() + 10
    while read_leases(reader, "a")[0].left_s > 0 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    new = leases.take("a")
    assert new.generation == lease.generation + 1
    assert not lease.renew()
    with pytest.raises(FencedError):
        lease.check()


def test_a_holder_starts_nothing_in_the_last_second(leases):
    """And goes on once a renewal has come through, also after the end: nobody has taken it."""
    lease = leases.take("a")
    assert not lease.lapsing
    leases.now_s += TTL_S - MARGIN_S
    assert lease.lapsing
    lease.check()
    leases.now_s += MARGIN_S
    with pytest.raises(FencedError):
        lease.check()
    assert lease.renew()
    assert not lease.lapsing
    lease.check()


def test_who_lost_a_lease_is_told_once(leases, reader):
    """By the renewal, in its thread; a late release changes nothing."""
    told = []
    lease = leases.take("a", lost=lambda: told.append(1))
    leases.usurp("a")
    assert not lease.renew()
    assert not lease.renew()
    assert told == [1]
    new = leases.take("a")
    lease.release()
    assert read_leases(reader, "a")[0].left_s > 0
    new.check()


def test_others_see_whether_a_lease_was_ended_or_ran_out(leases, reader):
    """Who has fallen silent did not release it."""
    leases.take("late", ttl_s=0.1)
    leases.take("released").release()
    leases.take("usurped")
    leases.usurp("usurped")
    deadline_s = time.monotonic() + 10
    while any(row.left_s > 0 for row in read_leases(reader)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    found = {row.name: (row.left_s <= 0, row.released) for row in read_leases(reader)}
    assert found == {"late": (True, False), "released": (True, True), "usurped": (True, True)}


def test_others_see_whether_the_connection_of_a_holder_is_there(leases, reader, writer):
    """It ends with the process of the holder; a renewal connects anew."""
    lease = leases.take("a")
    leases.take("before the upgrade")
    with database.writing(writer) as connection:
        forget = "UPDATE lease SET backend = NULL WHERE name = 'before the upgrade'"
        connection.exec_driver_sql(forget)
        held = "SELECT pg_terminate_backend(backend) FROM lease WHERE name = 'a'"
        assert {row.connected for row in read_leases(reader)} == {True}
        connection.exec_driver_sql(held)
    deadline_s = time.monotonic() + 10
    while read_leases(reader, "a")[0].connected and time.monotonic() < deadline_s:
        time.sleep(0.05)
    found = {row.name: row.connected for row in read_leases(reader)}
    assert found == {"a": False, "before the upgrade": True}
    with contextlib.suppress(StoreError):
        lease.renew()
    assert lease.renew()
    assert read_leases(reader, "a")[0].connected


def test_a_thread_renews(url, reader):
    """For as long as the holder wants it: longer than the lease alone would hold."""
    lost = threading.Event()
    lease = PostgresLease(url, "a", ttl_s=3.0, holder='{"node": "n1"}', lost=lost.set)
    assert not lost.wait(4.0)
    (row,) = read_leases(reader)
    assert (row.name, row.generation, row.holder) == ("a", lease.generation, '{"node": "n1"}')
    with pytest.raises(LogLockedError, match="n1"):
        PostgresLease(url, "a", renews=False)
    lease.release()
    PostgresLease(url, "a", renews=False).release()


def test_a_lease_that_no_thread_can_renew_is_released(url, reader, monkeypatch):
    """At once, with its connection: its row would keep others waiting, and nobody has it."""

    def cannot(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", cannot)
        with pytest.raises(RuntimeError):
            PostgresLease(url, "a")
    (row,) = read_leases(reader)
    assert (row.released, row.left_s <= 0) == (True, True)
    deadline_s = time.monotonic() + 10
    while read_leases(reader)[0].connected and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not read_leases(reader)[0].connected


def test_a_restart_of_the_server_loses_no_lease(url, postgres):
    """``kill -9``: the holder goes on once it is back, without another generation."""
    lease = PostgresLease(url, "a")
    postgres.kill()
    with pytest.raises(StoreError):
        lease.renew()
    postgres.start()
    assert lease.renew()
    lease.check()
    lease.release()


def test_names_and_holders_have_limits(url):
    """They are rows of a table that everybody reads."""
    with pytest.raises(StoreError, match="100 characters"):
        PostgresLease(url, "a" * 101)
    with pytest.raises(StoreError, match="2000"):
        PostgresLease(url, "a", holder="h" * 2_001)


def test_one_of_many_takes_it(url):
    """At the same time, from several connections."""
    taken, refused = [], []

    def take():
        try:
            taken.append(PostgresLease(url, "a", renews=False))
        except LogLockedError:
            refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (1, 5)
    taken[0].release()
