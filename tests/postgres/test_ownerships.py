"""What an owner keeps in PostgreSQL: the contract, and what a real server does to a flush."""

import threading

import pytest

from distributary.core import database
from distributary.core.errors import FencedError, StoreAwayError, StoreError
from distributary.core.flow import DoneKey, Mark, Stage
from distributary.core.outcome import (
    Batch,
    Budgets,
    Changes,
    DeadLetter,
    Failure,
    ParkedRow,
    RetryRow,
    _numbered,
)
from distributary.core.outcome.postgres import (
    PartitionFence,
    PostgresOwnership,
    read_outcomes,
    usurp_partition,
)
from distributary.core.postgres_lease import (
    PostgresLease,
    partition_lease,
    read_leases,
)
from distributary.testing import check_ownership
from distributary.testing.memory_lease import MemoryLeases


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


class Ownerships:
    """Partitions in one database. Who holds which is in memory: leases have tests of their own."""

    places = ("rows", "cursor", "end")

    def __init__(self, url, writer):
        self._url, self._writer = url, writer
        self._leases = MemoryLeases()
        self._armed = {}
        self._held = {}

    def open(self, partition, budgets=None, away_s_max=0.0):
        lease = self._leases.take(str(partition))
        fence = PartitionFence(partition, lease.generation, "token")
        ownership = PostgresOwnership(
            self._url, fence, budgets, away_s_max=away_s_max, touch=self._touch
        )
        self._held[id(ownership)] = lease
        return ownership

    def let_go(self, ownership):
        ownership.close()
        self._held.pop(id(ownership)).release()

    def usurp(self, partition):
        self._leases.usurp(str(partition))
        with database.writing(self._writer) as connection:
            connection.exec_driver_sql("UPDATE partition_owner SET token = ''")

    def arm(self, place, error):
        self._armed[place] = error

    def _touch(self, place):
        error = self._armed.pop(place, None)
        if callable(error):
            error()
        elif error is not None:
            raise error


@pytest.fixture
def made(url, writer):
    """Partitions that nobody has owned."""
    return Ownerships(url, writer)


@pytest.mark.parametrize("check", check_ownership.CHECKS, ids=lambda check: check.__name__)
def test_passes_the_contract(check, made):
    """What the owners count on."""
    check(made)


def key(offset):
    """A match."""
    return DoneKey(offset, 0, "r")


def row(offset):
    """A match that waits."""
    return RetryRow(key(offset), offset, Stage.PRIMARY, 2, 1_000, None, done=False)


def batch(offset):
    """The cursor before *offset*, its outcome, and a row."""
    rows = {key(offset): row(offset)}
    return Batch(Mark(offset, offset), [(key(offset), offset)], Changes(rows=rows))


@pytest.mark.parametrize("place", Ownerships.places)
def test_a_server_that_is_killed_within_a_flush_delays_it(made, postgres, place):
    """``kill -9`` before, in and after the transaction: it is made once, and the next one too."""
    owner = made.open(0, away_s_max=60.0)
    owner.flush(batch(1))
    restarting = []

    def kill():
        postgres.kill()
        thread = threading.Thread(target=postgres.start)
        restarting.append(thread)
        thread.start()

    made.arm(place, kill)
    owner.flush(batch(2))
    restarting[0].join()
    owner.flush(batch(3))
    made.let_go(owner)
    new = made.open(0)
    assert new.state.mark == Mark(3, 3)
    assert [found.key.offset for found in new.store.rows()] == [1, 2, 3]


def test_a_commit_whose_answer_was_lost_is_found_out(made, reader):
    """The flush has an error after its commit: the next try finds that all of it is there."""
    owner = made.open(0, away_s_max=60.0)
    made.arm("end", StoreAwayError("the connection broke"))
    owner.flush(batch(1))
    owner.flush(batch(2))
    assert read_outcomes(reader, 0).mark == Mark(2, 2)


def test_what_a_sink_answers_may_hold_any_character(made):
    """Brokers say why they refuse; the character that PostgreSQL's text has not stops nothing."""
    owner = made.open(0, away_s_max=60.0)
    failure = Failure("rejected: no\0room", "amqp://sink.example/q")
    letter = DeadLetter(key(1), 1, failure, b"event", 1)
    parked = ParkedRow("r", 1, 0, 5, "no\0room", "amqp://sink.example/q")
    rows = {key(2): row(2)._replace(failure=failure)}
    owner.flush(
        Batch(Mark(3, 3), [], Changes(rows=rows, dead_letters=[letter], parked={"r": parked}))
    )
    shown = "rejected: no\ufffdroom"
    assert [found.failure.reason for found in owner.store.rows()] == [shown]
    assert [kept.failure.reason for kept in owner.store.dead_letters()] == [shown]
    assert [found.reason for found in owner.store.parked()] == ["no\ufffdroom"]


def test_an_owner_that_need_not_wait_gives_up_at_once(made, postgres):
    """The session ends while the database is away: its successor does the rest."""
    owner = made.open(0, away_s_max=600.0)
    owner.hurry()
    postgres.kill()
    try:
        with pytest.raises(StoreError):
            owner.flush(batch(1))
    finally:
        postgres.start()


def test_a_database_that_went_back_ends_the_ownership(made, writer):
    """A failover lost the last flushes: what is in memory is no guide any more."""
    owner = made.open(0, away_s_max=60.0)
    owner.flush(batch(1))
    owner.flush(batch(2))
    with database.writing(writer) as connection:
        connection.exec_driver_sql("UPDATE partition_owner SET n = 1")
        connection.exec_driver_sql("DELETE FROM outcome_frame WHERE n = 2")
    with pytest.raises(StoreError, match="gone back"):
        owner.flush(batch(3))
    made.let_go(owner)
    assert made.open(0).state.mark == Mark(1, 1)


def test_no_second_owner_has_the_generation_of_another(made, url):
    """Whoever says so: the first one goes on."""
    first = made.open(0)
    first.flush(batch(1))
    with pytest.raises(FencedError):
        PostgresOwnership(url, PartitionFence(0, 1, "another"), away_s_max=0.0)
    first.flush(batch(2))
    assert first.state.mark == Mark(2, 2)


def test_the_driver_ends_the_ownership_of_a_dead_executor(url, writer, reader):
    """At once, without waiting for its lease; and only of the owner that it knows to be dead."""
    lease = PostgresLease(url, partition_lease(7), renews=False)
    old = PostgresOwnership(url, PartitionFence(7, lease.generation, lease.token))
    old.flush(batch(1))
    assert usurp_partition(writer, 7, lease.generation)
    assert not usurp_partition(writer, 7, lease.generation)
    with pytest.raises(FencedError):
        old.flush(batch(2))
    assert not lease.renew()
    new = PostgresLease(url, partition_lease(7), renews=False)
    again = PostgresOwnership(url, PartitionFence(7, new.generation, new.token))
    assert again.state.mark == Mark(1, 1)
    lease.release()
    (row,) = read_leases(reader, partition_lease(7))
    assert (row.generation, row.left_s > 0) == (new.generation, True)
    new.release()


def test_what_a_start_reads_is_bounded(made, writer, monkeypatch):
    """However long an owner goes on: rows and bytes; what counts stays."""
    monkeypatch.setattr(_numbered, "FRAMES_MAX", 20)
    monkeypatch.setattr(_numbered, "PART_BYTES", 200)
    owner = made.open(0)
    own = DoneKey(3, 0, "lagging")
    owner.flush(Batch(Mark(0, 0), [(own, 1)], backfilling={"lagging": 2}))
    for offset in range(1, 100):
        owner.flush(Batch(Mark(offset, 1), [(key(offset), 1)], backfilling={"lagging": 2}))
    with database.writing(writer) as connection:
        count = connection.exec_driver_sql("SELECT count(*) FROM outcome_frame").scalar_one()
    assert count < 100
    made.let_go(owner)
    again = made.open(0, Budgets())
    assert again.state.mark == Mark(99, 1)
    assert {own, key(99)} <= set(again.state.done)


def test_a_damaged_frame_is_never_passed_over(made, writer):
    """Unlike the torn end of a file, each was durable."""
    owner = made.open(0)
    owner.flush(batch(1))
    made.let_go(owner)
    with database.writing(writer) as connection:
        connection.exec_driver_sql("UPDATE outcome_frame SET frame = 'no frame'")
    with pytest.raises(StoreError, match="damaged"):
        made.open(0)
