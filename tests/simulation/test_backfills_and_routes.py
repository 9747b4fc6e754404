"""Rules 3 to 5: lagging sinks and changing routes, each rule broken on purpose."""

import pytest

from distributary.core.deliver import Limits
from distributary.core.engine import EngineLimits
from distributary.core.flow import Stage
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from distributary.datadir import StatusField
from kit.simulation.partition import answers, hangs

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
STEADY = DeliveryPolicy(
    retry=3, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0, timeout_s=1.0
)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


# -- rule 3: backfills --------------------------------------------------------------------------


def test_a_sink_that_takes_no_more_is_backfilled_alone_and_joins_again(partition):
    """One row replaces its matches, the cursor passes, the others are served; it catches up."""
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=0, timeout_s=50.0))
    partition.put_route("fast", B)
    partition.sinks[A] = hangs
    partition.start()
    events = []
    for _ in range(60):
        events += partition.publish("t")
        partition.advance(0.02)
    partition.advance(1.0)
    assert arrivals(partition, B) == events
    (backfill,) = partition.store.kept_backfills.values()
    assert (backfill.route, backfill.to_offset) == ("slow", None)
    assert partition.status_page[StatusField.BACKFILLING] == 1
    assert partition.status_page[StatusField.KEEP_FROM] <= backfill.from_offset
    partition.sinks[A] = answers()
    partition.advance(120.0)
    assert not partition.store.kept_backfills
    sent = len(partition.sends)
    more = partition.publish("t")
    partition.advance(0.02)
    assert [event for _, event, _ in partition.sends[sent:]] == more * 2  # live again
    partition.rest()
    partition.retain()
    assert partition.log.start() > 50


def test_a_backfill_survives_a_crash_wherever_it_stands(make_partition):
    """Before it joined, while it joins, and once it has ended: nothing lost, nothing twice."""
    partition = make_partition(seed=3)
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=9, timeout_s=0.5))
    partition.put_route("fast", B)
    partition.sinks[A] = answers(after_s=0.4)
    partition.start()
    for _ in range(25):
        for _ in range(9):
            partition.publish("t", "t")
        partition.advance(0.31)
        partition.crash()
        partition.start()
    assert partition.store.kept_backfills
    partition.rest()


def test_a_backfill_judges_by_the_filters_that_stood_at_each_event(partition):
    """Filters change during a backfill, and while matches wait in a queue (promise 2)."""
    partition.put_route("r", A, types=["a"], policy=DeliveryPolicy(retry=9, timeout_s=0.4))
    partition.sinks[A] = hangs
    partition.start()
    for types in (["b"], ["a", "b"], ["a"]):
        for _ in range(10):
            partition.publish("a")
            partition.publish("b")
        partition.advance(0.1)
        partition.put_route("r", A, types=types, policy=DeliveryPolicy(retry=9, timeout_s=0.4))
    partition.advance(3.0)
    partition.crash()
    partition.start()
    partition.rest()
    assert {fate.final for fate in partition.checker.fates()} == {"delivered"}


def test_a_backfill_never_begins_where_other_filters_stood(make_partition):
    """The filters change while matches wait in a queue, and then its breaker opens."""
    partition = make_partition(limits=Limits(queued_max=50))
    policy = DeliveryPolicy(retry=0, timeout_s=0.5)
    partition.put_route("r", A, types=["a"], policy=policy)
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(30):
        partition.publish("a")
    partition.advance(0.1)
    partition.put_route("r", A, types=["b"], policy=policy)
    partition.publish("a")
    partition.publish("b")
    partition.advance(10.0)
    partition.rest()
    assert len(partition.checker.fates()) == 31


def test_more_rows_than_one_slice_leave_a_sink_that_came_back(partition):
    """Rows parked behind an open breaker all go on when it closes; none waits for the next."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=20, backoff_delay_s=0.01))
    partition.sinks[A] = answers(503)
    partition.start()
    for _ in range(200):
        partition.publish("t")
        partition.advance(0.05)
    partition.sinks.clear()
    partition.advance(60.0)
    assert not partition.checker.open_count
    partition.rest()


def test_what_moves_to_a_full_new_sink_is_not_read_again_with_what_came_later(partition):
    """Later events are on their way to the new sink when the older ones come from the old queue."""
    policy = DeliveryPolicy(retry=0, timeout_s=60.0)
    partition.put_route("r", A, policy=policy)
    partition.sinks[A] = hangs
    partition.sinks[B] = answers(after_s=1.0)
    partition.start()
    for _ in range(10):
        partition.publish("t")
    partition.advance(0.31)
    partition.put_route("r", B, types=["t"], policy=policy)
    for _ in range(10):
        partition.publish("t")
    partition.advance(20.0)
    assert len(arrivals(partition, B)) == 16
    partition.rest()


def test_a_rate_limit_of_one_subscription_does_not_slow_another_of_the_same_sink(make_partition):
    """The others get 500 events in a second while 100 wait for 1/s; a crash changes no pace."""
    partition = make_partition(limits=Limits())
    partition.put_route("limited", A, types=["l"], policy=DeliveryPolicy(rate_limit_per_s=1.0))
    partition.put_route("other", A, types=["o"])
    partition.start()
    slow = [event for _ in range(100) for event in partition.publish("l")]
    quick = [event for _ in range(500) for event in partition.publish("o")]
    partition.advance(1.0)
    got = arrivals(partition, A)
    assert set(quick) <= set(got)
    assert len(set(slow) & set(got)) <= 2
    partition.crash()
    partition.start()
    partition.advance(120.0)
    assert set(slow) <= set(arrivals(partition, A))
    partition.rest()


def test_a_rate_limit_with_more_events_than_its_queue_holds_up_nobody(make_partition):
    """Its route is backfilled; the reader of the partition does not wait for its pace."""
    partition = make_partition()
    partition.put_route("limited", A, types=["l"], policy=DeliveryPolicy(rate_limit_per_s=0.5))
    partition.put_route("other", A, types=["o"])
    partition.start()
    for _ in range(100):
        partition.publish("l")
    quick = partition.publish("o")
    partition.advance(1.0)
    assert set(quick) <= set(arrivals(partition, A))
    assert partition.status_page[StatusField.BACKFILLING] == 1
    partition.rest()


# -- rules 4 and 5: routes ----------------------------------------------------------------------


def test_a_damaged_route_record_is_restored_from_the_store(partition):
    """Never skipped: the events behind it go to the route that it created."""
    partition.put_route("r", A)
    (event,) = partition.publish("t")
    partition.log.damage(0)
    partition.start()
    partition.advance(1.0)
    assert arrivals(partition, A) == [event]


def test_retention_leaves_the_routes_that_stood_at_the_cut(partition):
    """The record that created the route is deleted; the route is not."""
    partition.put_route("r", A)
    partition.start()
    for _ in range(5):
        partition.publish("t")
    partition.rest()
    partition.advance(1.0)
    partition.retain()
    assert partition.log.start() > 0
    partition.rollover()
    (partition._folder / "routes").unlink(missing_ok=True)
    (event,) = partition.publish("t")
    partition.start()
    partition.rest()
    assert event in arrivals(partition, A)


def test_what_waits_for_a_deleted_route_is_dropped_with_the_reason(partition):
    """In a queue, in a row and in a backfill alike."""
    partition.put_route("r", A, policy=DeliveryPolicy(retry=5, timeout_s=0.5))
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(30):
        partition.publish("t")
    partition.advance(2.0)
    assert partition.store.kept_rows
    assert partition.store.kept_backfills
    partition.delete_route("r")
    partition.rest()
    dropped = [fields for name, fields in partition.reports if name == "dropped"]
    assert {fields["reason"] for fields in dropped} == {"route-deleted"}
    assert not [fate for fate in partition.checker.fates() if fate.final == "delivered"]


def test_an_update_of_the_sink_applies_to_the_next_attempt(partition):
    """A row that waits goes to the sink of the newest revision, with its attempt number."""
    partition.put_route("r", A, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    partition.put_route("r", B, policy=STEADY)
    partition.advance(3.0)
    assert arrivals(partition, B) == [event]
    fate = partition.checker.fate(event, "r")
    assert (fate.final, fate.numbers[Stage.PRIMARY]) == ("delivered", [(1, 1), (1, 2)])
    partition.rest()


@pytest.mark.parametrize("types", [[], ["t"]], ids=["sink-alone", "with-filters"])
def test_an_update_of_the_sink_applies_to_what_waits_in_its_queue(make_partition, types):
    """Tasks that were not started do not go to a sink that the subscriber has left."""
    partition = make_partition(limits=Limits(queued_max=50))
    partition.put_route("r", A, policy=DeliveryPolicy(timeout_s=60.0))
    partition.sinks[A] = hangs
    partition.start()
    events = [event for _ in range(20) for event in partition.publish("t")]
    partition.advance(0.5)
    under_way = arrivals(partition, A)
    partition.put_route("r", B, types=types, policy=DeliveryPolicy(timeout_s=60.0))
    partition.advance(5.0)
    assert arrivals(partition, A) == under_way
    assert sorted(arrivals(partition, B) + under_way) == sorted(events)
    partition.rest()


def test_a_route_with_too_many_rows_is_backfilled_instead_of_making_more(partition):
    """A sink that refuses fast, and a dead letter sink that is down: memory stays bounded."""
    partition.engine_limits = EngineLimits(rows_per_route_max=6)
    slow = DeliveryPolicy(
        retry=1_000, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=30.0, timeout_s=1.0
    )
    partition.put_route("refused", A, dead_letter=DEAD, policy=slow)
    partition.put_route("good", B)
    partition.sinks[A] = answers(400)
    partition.sinks[DEAD] = answers(503)
    partition.start()
    events = []
    for _ in range(60):
        events += partition.publish("t")
        partition.advance(0.02)
    partition.advance(5.0)
    waiting = [row for row in partition.store.kept_rows.values() if not row.done]
    assert len(waiting) < 60
    assert [backfill.route for backfill in partition.store.kept_backfills.values()] == ["refused"]
    assert arrivals(partition, B) == events
    partition.sinks[DEAD] = answers()
    partition.advance(100.0)
    assert sorted(set(arrivals(partition, DEAD))) == sorted(events)
    partition.rest()


def test_a_backfill_restores_a_damaged_change_of_its_route(partition):
    """Rule 4 holds for the backfill too: what comes after the hole meets the new filter."""
    partition.put_route("slow", A, policy=DeliveryPolicy(retry=0, timeout_s=50.0))
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(30):
        partition.publish("old")
        partition.advance(0.02)
    assert partition.store.kept_backfills
    hole = partition.log.durable_end()
    partition.put_route("slow", A, types=("new",), policy=DeliveryPolicy(retry=0, timeout_s=50.0))
    partition.log.damage(hole)
    later = partition.publish("old") + partition.publish("new")
    partition.advance(0.1)
    partition.sinks[A] = answers()
    partition.rest()
    assert later[1] in arrivals(partition, A)
    assert later[0] not in arrivals(partition, A)


def test_a_deleted_route_lets_its_queue_go_without_reading_it_again(partition):
    """What waited ends at once, with its reason; a row for each would stall the others."""
    partition.put_route("gone", A, policy=DeliveryPolicy(timeout_s=50.0))
    partition.sinks[A] = hangs
    partition.start()
    for _ in range(8):
        partition.publish("t")
    partition.advance(0.3)
    queued = partition.consumer.dispatcher.queued
    assert queued
    partition.delete_route("gone")
    partition.advance(0.5)
    dropped = [fields for name, fields in partition.reports if name == "dropped"]
    assert sum(fields.get("count", 1) for fields in dropped) >= queued
    assert {fields["reason"] for fields in dropped} == {"route-deleted"}
    assert partition.consumer.dispatcher.queued == 0
    assert not partition.store.kept_rows
    partition.rest()
