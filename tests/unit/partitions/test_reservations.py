"""What the reservation store is asked and told, when, and what happens while it fails."""

from types import SimpleNamespace

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.engine.reservations import Reservations
from distributary.core.errors import StoreError
from distributary.core.flow import DoneKey, Stage
from distributary.core.outcome import Reservation, ReservationAnswer, RetryRow
from distributary.partitions._reservations import RETRY_S, ReservationClient
from distributary.testing.memory_reservations import MemoryReservations

ROUTE = "r"


def reservation(offset):
    """A reservation."""
    return Reservation(DoneKey(offset, 0, ROUTE), 7)


def row(offset):
    """An open row."""
    return RetryRow(reservation(offset).key, 7, Stage.PRIMARY, 1, 0, None, done=False)


class Bench:
    """Counts in memory, and a thread that works when the test lets it."""

    def __init__(self, timers):
        self.counts = MemoryReservations()
        self.error = None
        self.works = []
        self.reports = []
        self.answers = []
        self.engine = Reservations(EngineLimits())
        context = SimpleNamespace(
            partition=3,
            reservations=self,
            aside=self,
            timers=timers,
            report=lambda name, _fields: self.reports.append(name),
            warn=lambda name, _fields: self.reports.append(name),
        )
        self.client = ReservationClient(
            context, lambda _batch, answers: self.answers.append(answers)
        )

    exists = property(lambda self: self.counts.exists)

    def exchange(self, partition, batch):
        if self.error:
            raise self.error
        return self.counts.exchange(partition, batch)

    def held(self, partition):
        return self.counts.held(partition)

    def run(self, work, done):
        self.works.append((work, done))

    def thread(self):
        """Let the work under way be done, and the loop learn of it."""
        work, done = self.works.pop(0)
        try:
            work()
        except StoreError as error:
            done(error)
        else:
            done(None)

    def load(self, *rows):
        self.client.load(self.engine, {row.key: row for row in rows})

    def flush(self):
        """A flush that succeeds."""
        batch = self.client.take()
        self.client.before(batch)
        self.client.after(batch)

    def hold(self, number):
        """A match holds a reservation."""
        self.engine.ask(reservation(number), 5, 0.0)
        self.flush()
        self.thread()
        self.engine.answered(self.request(number), ReservationAnswer.HELD, 0.0)

    def request(self, number):
        return SimpleNamespace(reservation=reservation(number), events_max=5)


@pytest.fixture
def bench(timers):
    """Nothing is counted yet."""
    return Bench(timers)


def test_nobody_is_asked_before_the_rows_are_durable(bench):
    """The flush that begins takes along what there is; the store hears of it after the flush."""
    bench.load()
    bench.engine.ask(reservation(1), 5, 0.0)
    batch = bench.client.take()
    bench.client.before(batch)
    assert not bench.works
    assert not bench.counts.exists
    bench.client.after(batch)
    bench.thread()
    assert bench.answers == [[ReservationAnswer.HELD]]
    assert bench.client.idle


def test_nobody_gets_an_answer_before_what_the_last_owner_left_is_read(bench):
    """A reservation whose row is not open any more counts first."""
    bench.counts.exchange(
        3, bench.client.take()._replace(requests=[bench.request(n) for n in (1, 2)])
    )
    bench.load(row(2))
    bench.engine.ask(reservation(4), 5, 0.0)
    assert not bench.client.waiting
    bench.flush()
    assert len(bench.works) == 1
    bench.thread()
    bench.flush()
    bench.thread()
    assert bench.answers == [[], [ReservationAnswer.HELD]]
    assert bench.counts.delivered(ROUTE) == 1
    assert bench.counts.held(3) == {reservation(2): False, reservation(4): False}


def test_a_failure_is_told_before_the_flush_writes_and_a_delivery_after_it(bench):
    """A crash between leaves a reservation too few, or a match that asks again."""
    bench.load()
    bench.hold(1)
    bench.hold(2)
    bench.engine.end(reservation(1).key, delivered=False)
    bench.engine.end(reservation(2).key, delivered=True)
    batch = bench.client.take()
    bench.client.before(batch)
    assert (set(bench.counts.held(3)), bench.counts.delivered(ROUTE)) == (
        {reservation(2)},
        0,
    )
    bench.client.after(batch)
    bench.thread()
    assert (bench.counts.held(3), bench.counts.delivered(ROUTE)) == ({}, 1)


def test_counts_that_fail_are_told_later_and_hold_no_flush(bench, timers):
    """Once every while, until they answer; people hear of it once."""
    bench.load()
    bench.hold(1)
    bench.error = StoreError("locked")
    bench.engine.end(reservation(1).key, delivered=False)
    bench.flush()
    bench.thread()
    assert bench.client.idle
    bench.engine.ask(reservation(2), 5, 0.0)
    bench.flush()
    assert not bench.works
    for _ in range(2):
        timers.advance(RETRY_S)
        bench.thread()
    bench.error = None
    timers.advance(RETRY_S)
    bench.thread()
    assert bench.counts.held(3) == {}
    assert bench.client.waiting
    bench.flush()
    bench.thread()
    assert bench.answers[-1] == [ReservationAnswer.HELD]
    assert bench.reports == ["counts-unavailable", "counts-again"]


def test_after_the_end_nothing_is_tried_again(bench, timers):
    """What was not told leaves deliveries in doubt, as after a crash."""
    bench.load()
    bench.error = StoreError("locked")
    bench.engine.ask(reservation(1), 5, 0.0)
    bench.flush()
    bench.client.stop()
    bench.thread()
    timers.advance(10 * RETRY_S)
    assert not bench.works
    assert bench.client.idle
