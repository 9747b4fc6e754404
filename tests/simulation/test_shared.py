"""Owners on several machines: leases that run out, former owners, a database that is away."""

import pytest

from distributary.core.errors import StoreError
from distributary.core.policy import DeliveryPolicy
from distributary.core.postgres_lease import MARGIN_S, TTL_S
from kit.simulation.partition import answers
from kit.simulation.shared import SharedPartition

SINK = "http://sink.example/"
DOWN = "http://down.example/"
PAST = "http://past.example/"


@pytest.fixture
def partition(tmp_path):
    """One that machines may own, with a route; nobody owns it yet."""
    made = SharedPartition(tmp_path)
    made.put_route("r", SINK)
    yield made
    made.close()


def generation(partition):
    """Of the newest owner."""
    return partition.database.holder.generation


def publish(partition, count):
    """Events, one after the other."""
    for _ in range(count):
        partition.publish("a")


def test_an_owner_that_was_stopped_for_a_minute_writes_nothing(partition):
    """It wakes with answers, queues and a flush of its own; another one has gone on long ago."""
    partition.sinks[SINK] = answers(after_s=0.2)
    partition.start()
    publish(partition, 40)
    partition.advance(0.5)
    old = generation(partition)
    partition.stop(60.0)
    assert generation(partition) == old + 1
    partition.rest()
    number, marks = partition.database.number, list(partition.database.kept_frames)
    assert partition.copies == 0
    partition.advance(61.0)
    assert partition.formers_ended
    assert (partition.database.number, partition.database.kept_frames) == (number, marks)


def test_a_lease_that_runs_out_within_a_flush_ends_the_flush(partition):
    """The machine stands still between the collecting of outcomes and their transaction."""
    partition.start()
    publish(partition, 5)
    partition.advance(0.006)  # the flush has begun, and its work is to come
    number = partition.database.number
    partition.stop(TTL_S + 1.0)
    assert partition.database.number == number
    partition.rest()
    partition.advance(TTL_S)
    assert partition.formers_ended


def test_an_owner_that_is_believed_dead_ends_with_its_next_renewal(partition):
    """Its attempts until then are copies, which are all that it can do."""
    partition.sinks[SINK] = answers(after_s=0.1)
    partition.start()
    publish(partition, 100)
    partition.advance(0.3)
    partition.believe_dead()
    partition.rest()
    assert partition.database.refusals


def test_a_short_absence_of_the_database_stops_no_delivery(partition):
    """What is in memory is sent; its outcomes are durable once the database is back."""
    partition.sinks[SINK] = answers(after_s=0.02)
    partition.start()
    publish(partition, 400)
    partition.advance(0.3)
    old, sent, cursor = generation(partition), len(partition.sends), partition.cursor
    back_s = partition.clock.monotonic_s() + TTL_S - 2 * MARGIN_S - 1.0
    partition.database.away_until_s = back_s
    partition.advance(0.5)
    # By their times: a flush that waits for the database passes the time within ``advance``.
    assert [at for at, _, _ in partition.sends[sent:] if at < back_s]
    partition.rest()
    assert partition.cursor > cursor
    assert generation(partition) == old
    assert partition.failures == []


def test_a_long_absence_holds_deliveries_and_ends_no_owner(partition):
    """Nothing begins once the lease may have run out; the same owner goes on within a second."""
    partition.start()
    publish(partition, 3)
    partition.advance(1.0)
    old, back_s = generation(partition), partition.clock.monotonic_s() + 30.0
    partition.database.away_until_s = back_s
    published_s = []

    def publish_later():
        published_s.append(partition.clock.monotonic_s())
        publish(partition, 3)

    # Not after ``advance``: a flush that waits for the database passes the time within it.
    partition.timers.call_later(TTL_S, publish_later)
    began = len(partition.sends)
    while partition.clock.monotonic_s() < back_s + 2.0:
        partition.advance(0.5)
    assert published_s[0] < back_s - TTL_S
    assert len(partition.sends) == began + 3
    assert min(at for at, _, _ in partition.sends[began:]) >= back_s
    partition.rest()
    assert generation(partition) == old


@pytest.mark.parametrize("made", [True, False], ids=["made", "not made"])
def test_a_commit_in_doubt_is_found_out(partition, made):
    """Whichever it was: each outcome is durable once, and the same owner goes on."""
    partition.start()
    publish(partition, 3)
    partition.database.doubt = made
    partition.rest()
    assert partition.database.doubt is None
    assert partition.failures == []
    assert generation(partition) == 1


def test_an_owner_whose_database_refuses_is_replaced(partition):
    """For another reason than being away: repeating it would not help."""
    partition.start()
    publish(partition, 3)
    partition.store.failing = True
    partition.advance(1.0)
    (failure,) = partition.failures
    assert isinstance(failure, StoreError)
    partition.replace()
    partition.rest()


def test_records_that_the_log_does_not_show_yet_are_nobody_s(partition):
    """Not even those of the owner's own replies; they are delivered once they are shown."""
    partition.start()
    partition.log.lag()
    publish(partition, 3)
    partition.advance(5.0)
    assert partition.sends == []
    partition.log.catch_up()
    partition.rest()
    assert len(partition.sends) == 3


def test_a_change_of_a_route_that_is_in_the_log_twice_is_made_once(partition):
    """A produce timed out, and was stored after all."""
    partition.start()
    partition.twice = True
    partition.put_route("q", "http://other.example/", types=["b"])
    publish(partition, 2)
    partition.twice = True
    partition.delete_route("q")
    partition.publish("b")
    partition.rest()
    assert len(partition.sends) == 3


# -- reads of older records ------------------------------------------------------------------------


def fall_behind(partition, count):
    """A route whose sink was down gets *count* events that only the log has yet."""
    partition.put_route("slow", DOWN, policy=DeliveryPolicy(retry=2, timeout_s=1.0))
    partition.sinks[DOWN] = answers(503)
    partition.start()
    publish(partition, count)
    partition.advance(30.0)
    assert partition.store.kept_backfills or partition.store.kept_rows


def test_a_read_that_takes_long_holds_up_nobody_else(partition):
    """What is in memory is delivered, and the lease renewed, while a backfill waits for the log."""
    fall_behind(partition, 60)
    partition.read_s_max = 40.0
    del partition.sinks[DOWN]
    for _ in range(20):
        partition.advance(1.0)
        (event,) = partition.publish("a")
        partition.advance(0.2)
        assert [uri for _, found, uri in partition.sends if found == event] == [SINK]
    assert generation(partition) == 1
    partition.rest()
    assert partition.failures == []


def test_a_log_that_cannot_be_read_ends_no_owner(partition):
    """Backfills, retries and routes that begin in the past wait for it; the rest goes on."""
    fall_behind(partition, 60)
    partition.log.away_until_s = partition.clock.monotonic_s() + 60.0
    del partition.sinks[DOWN]
    partition.put_route("past", PAST, begin_ms=0)
    partition.advance(30.0)
    assert "log-unreadable" in [name for name, _ in partition.warnings]
    assert PAST not in [uri for _, _, uri in partition.sends]
    partition.advance(40.0)
    assert "log-readable" in [name for name, _ in partition.reports]
    partition.rest()
    assert partition.failures == []
    assert generation(partition) == 1
    assert len([uri for _, _, uri in partition.sends if uri == PAST]) == 60


@pytest.mark.parametrize("seconds", [0.5, 5.0, 25.0])
def test_an_owner_hands_over_while_a_read_is_under_way(partition, seconds):
    """The next one reads anew; what the former one still reads is nobody's."""
    fall_behind(partition, 60)
    partition.read_s_max = 40.0
    del partition.sinks[DOWN]
    partition.advance(seconds)
    begun_s = partition.clock.monotonic_s()
    partition.rollover(1.0)
    assert partition.clock.monotonic_s() - begun_s < 3.0
    partition.start()
    partition.advance(seconds)
    partition.believe_dead()
    partition.rest()
    assert partition.failures == []
