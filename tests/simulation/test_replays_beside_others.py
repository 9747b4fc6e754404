"""Replays beside slow sinks of others, which hold the cursor back, and over a kill there."""

from distributary.core.deliver import Limits
from distributary.core.demand import DemandDetails
from distributary.core.policy import DeliveryPolicy
from kit.simulation.partition import answers

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
POLICY = DeliveryPolicy(retry=2, backoff_delay_s=0.1, timeout_s=1.0)


def arrivals(partition, uri):
    """Ids of the events that were sent there, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def replay(partition, route, **more):
    """Ask for a replay of all that the log has now; returns the number of its demand."""
    partition.checker.replayed(route)
    run = partition.targets.ask("replay", route, DemandDetails(**more), partition.clock.wall_ms())
    return next(demand.seq for demand in partition.targets.asked if demand.run == run)


def test_after_a_crash_a_replay_goes_by_the_newest_filters_too(make_partition):
    """The next owner begins where the cursor stands, before the record that has changed them."""
    past = make_partition(seed=21)
    past.put_route("r", A, policy=POLICY)
    past.put_route("q", B, policy=POLICY)
    past.start()
    first = [event for _ in range(200) for event in past.publish("t")]
    past.advance(10.0)
    past.sinks[B] = answers(204, after_s=0.9)  # holds the cursor back
    later = [event for _ in range(400) for event in past.publish("t")]
    past.advance(0.5)
    past.put_route("r", DEAD, types=["other"], policy=POLICY)
    past.advance(0.1)
    replay(past, "r", rate=20.0)
    past.advance(0.5)
    past.crash()
    past.start()
    past.advance(60.0)
    assert not set(first) & set(arrivals(past, DEAD))
    assert set(later) < set(arrivals(past, B))
    past.rest()


def test_what_waits_for_the_rate_of_others_holds_up_no_replay(make_partition):
    """It holds the cursor back, which a replay stays below: what is open for long gets rows."""
    partition = make_partition(seed=21, limits=Limits())
    partition.put_route("r", A, policy=POLICY)
    partition.put_route("slow", B, policy=DeliveryPolicy(rate_limit_per_s=2.0))
    partition.start()
    events = [event for _ in range(100) for event in partition.publish("t")]
    partition.advance(1.0)
    run = replay(partition, "r")
    partition.advance(5.0)
    row = partition.store.runs([run])[run]
    assert (row.selected, row.handled, row.passed, row.done) == (100, 100, 0, True)
    assert sorted(arrivals(partition, A)) == sorted(events * 2)
    assert len(arrivals(partition, B)) < 20
    partition.advance(60.0)
    assert sorted(arrivals(partition, B)) == sorted(events)
    partition.rest()
