"""A paused route gets nothing, and loses nothing: what waits is one row, whatever crashes."""

import dataclasses

import pytest

from distributary.core.policy import DeliveryPolicy
from distributary.datadir import StatusField
from kit.simulation.partition import answers, hangs

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
POLICY = DeliveryPolicy(retry=2, backoff_delay_s=1.0, timeout_s=1.0)
SOON_S = 1.0
"""Within this time nothing new starts once a route is paused."""


def sent_to(partition, uri):
    """Ids of the events that were sent there, in order."""
    return [event for _, event, to in partition.sends if to == uri]


@pytest.fixture
def two(make_partition):
    """A partition with two routes."""
    partition = make_partition(seed=7)
    partition.put_route("r", A, types=["t"], policy=POLICY, dead_letter=DEAD)
    partition.put_route("q", B, policy=POLICY)
    partition.start()
    return partition


def publish(partition, count):
    """Publish this many events; their ids."""
    return [event for _ in range(count) for event in partition.publish("t")]


def waiting_rows(partition):
    """Durable rows that wait."""
    return [row for row in partition.store.kept_rows.values() if not row.done]


def test_what_comes_while_a_route_is_paused_waits_as_one_row(two):
    """The committed offset passes, the other route gets everything at once, and then so does it."""
    first = publish(two, 1)
    two.advance(1.0)
    two.targets.halt("r")
    two.advance(SOON_S)
    events = publish(two, 300)
    two.advance(60.0)
    assert sent_to(two, A) == first
    assert sent_to(two, B) == first + events
    assert waiting_rows(two) == []
    assert two.status_page[StatusField.BACKFILLING] == 1
    assert two.cursor == two.log.durable_end()
    two.targets.unhalt("r")
    two.advance(60.0)
    assert sent_to(two, A) == first + events
    two.rest()


def test_nothing_starts_soon_after_a_route_is_paused(two):
    """Neither what was queued, nor a retry, nor a dead letter; what is under way may end."""
    two.sinks[A] = answers(503, after_s=0.2)
    two.sinks[DEAD] = answers(503, after_s=0.2)
    publish(two, 40)
    two.advance(3.0)
    two.targets.halt("r")
    two.advance(SOON_S)
    before = sent_to(two, A), sent_to(two, DEAD)
    two.advance(600.0)
    assert (sent_to(two, A), sent_to(two, DEAD)) == before
    two.sinks.clear()
    two.targets.unhalt("r")
    two.rest()


def test_a_paused_route_stays_paused_over_a_crash(two):
    """Nothing is sent by any owner, and everything by the one that sees it resumed."""
    two.sinks[A] = answers(204, after_s=0.3)
    events = publish(two, 30)
    two.advance(0.4)
    two.targets.halt("r")
    two.advance(SOON_S)
    before = len(sent_to(two, A))
    for _ in range(5):
        two.crash()
        two.start()
        events += publish(two, 5)
        two.advance(5.0)
    assert len(sent_to(two, A)) == before
    two.crash()
    two.targets.unhalt("r")
    two.start()
    two.advance(60.0)
    assert set(sent_to(two, A)) == set(events)
    two.rest()


def test_pauses_may_follow_one_another_quickly(two):
    """Each resume goes on where the pause before began; no event goes twice."""
    events = []
    for _ in range(20):
        two.targets.halt("r")
        events += publish(two, 10)
        two.advance(0.3)
        two.targets.unhalt("r")
        events += publish(two, 10)
        two.advance(0.3)
    two.advance(60.0)
    assert sorted(sent_to(two, A)) == sorted(events)
    two.rest()


def test_another_route_of_the_same_sink_is_not_held_up(make_partition):
    """What it has in the queue is sent."""
    partition = make_partition(seed=8)
    partition.put_route("r", A, types=["t"], policy=POLICY)
    partition.put_route("q", A, types=["u"], policy=POLICY)
    partition.sinks[A] = answers(204, after_s=0.2)
    partition.start()
    for _ in range(50):
        partition.publish("t", "u")
    partition.targets.halt("r")
    partition.advance(60.0)
    fates = [fate for fate in partition.checker.fates() if fate.route == "q"]
    assert {fate.final for fate in fates} == {"delivered"}
    partition.rest()


def test_a_neighbour_whose_queued_events_find_less_room_gets_each_once(make_partition):
    """One that is put back counts its attributes too: it starts a backfill, which has the rest."""
    partition = make_partition(seed=8)
    partition.put_route("r", A, types=["never"], policy=POLICY)
    partition.put_route("q", A, policy=POLICY)
    partition.sinks[A] = answers(204, after_s=0.5)
    partition.start()
    wide = "t" * 600_000
    names = ["t"] * 4 + [wide, wide, "t", "t"]
    events = [event for name in names for event in partition.publish(name)]
    partition.advance(0.2)
    partition.targets.halt("r")
    partition.advance(60.0)
    assert "route-lags" in [name for name, _ in partition.reports]
    assert sorted(sent_to(partition, A)) == events
    partition.rest()


def test_a_new_sink_gets_what_waited_while_the_route_was_paused(two):
    """A move without a gap: nothing is lost, and nothing goes to both."""
    first = publish(two, 5)
    two.advance(1.0)
    two.targets.halt("r")
    two.advance(SOON_S)
    events = publish(two, 50)
    two.put_route("r", DEAD, types=["t"], policy=POLICY)
    two.advance(5.0)
    assert sent_to(two, DEAD) == []
    two.targets.unhalt("r")
    two.advance(30.0)
    assert sent_to(two, A) == first
    assert sent_to(two, DEAD) == events
    two.rest()


def test_a_counted_route_makes_as_many_deliveries_over_a_pause(two):
    """A match that had its reservation and waited has it still, also over a crash."""
    two.put_route("n", DEAD, types=["t"], policy=POLICY, events_max=20)
    two.sinks[DEAD] = answers(204, after_s=0.2)
    publish(two, 30)
    two.advance(0.5)
    two.targets.halt("n")
    two.advance(SOON_S)
    two.crash()
    two.start()
    two.advance(5.0)
    two.targets.unhalt("n")
    two.advance(30.0)
    assert two.reservations.delivered("n") == 20
    two.rest()


def test_what_waits_for_a_paused_route_goes_with_it(two):
    """It is deleted: nothing holds the log any more."""
    two.targets.halt("r")
    two.advance(SOON_S)
    publish(two, 5)
    two.advance(1.0)
    two.delete_route("r")
    two.advance(5.0)
    assert sent_to(two, A) == []
    two.rest()


def test_a_dead_letter_never_goes_to_the_sink_of_its_events(make_partition):
    """Its dead letter sink is taken away in the same look that halts another route of that sink."""
    partition = make_partition(seed=8)
    policy = DeliveryPolicy(retry=0, timeout_s=60.0)
    partition.put_route("b", B, types=["b"], policy=policy, dead_letter=DEAD)
    partition.put_route("a", DEAD, types=["a"], policy=policy)
    partition.sinks[B], partition.sinks[DEAD] = answers(400), hangs
    partition.start()
    for _ in range(10):
        partition.publish("a")  # They take all places of the sink.
    partition.advance(0.5)
    refused = [event for _ in range(3) for event in partition.publish("b")]
    partition.advance(1.0)
    now = partition.targets.now["b"]
    changed = dataclasses.replace(now, revision=now.revision + 1, dead_letter=None)
    partition.targets.put("b", changed)
    partition.targets.halt("a")
    partition.advance(2.0)
    assert sent_to(partition, B) == refused
