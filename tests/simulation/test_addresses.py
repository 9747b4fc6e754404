"""Brokers and Channels: who sees what was published where, live, late, moved and after crashes."""

from distributary.core.policy import DeliveryPolicy
from kit.simulation.partition import answers, hangs

A, B, C = "http://a.example/", "http://b.example/", "http://c.example/"
PATIENT = DeliveryPolicy(retry=0, timeout_s=50.0)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def test_an_event_is_seen_at_its_own_address_alone(partition):
    """Three routes that pass everything, each at another address."""
    partition.put_route("default", A)
    partition.put_route("trigger", B, address="broker")
    partition.put_route("subscription", C, address="channel")
    partition.start()
    default = partition.publish("t", "t")
    broker = partition.publish("t", "t", address="broker", ttl=7)
    channel = partition.publish("t", address="channel")
    partition.publish("t", address="nobody")
    partition.rest()
    assert arrivals(partition, A) == default
    assert arrivals(partition, B) == broker
    assert arrivals(partition, C) == channel
    assert partition.consumer._context.meter.counters["events_read_total"] == 6


def test_a_route_sees_events_of_the_address_where_it_stood_at_their_place(partition):
    """Its Broker was recreated: what was published to the old one stays the old one's."""
    partition.put_route("trigger", A, address="old")
    partition.start()
    seen = partition.publish("t", address="old")
    partition.publish("t", address="new")
    partition.put_route("trigger", A, address="new")
    partition.publish("t", address="old")
    seen += partition.publish("t", address="new")
    partition.rest()
    assert arrivals(partition, A) == seen


def test_a_backfill_obeys_the_moves_of_its_route(partition):
    """It reads the log again later; each event counts where it stands, over crashes too."""
    partition.put_route("trigger", A, address="old", policy=PATIENT)
    partition.put_route("other", B)
    partition.sinks[A] = hangs
    partition.start()
    seen = []
    for number in range(60):
        where = "old" if number < 30 else "new"
        if number == 30:
            partition.put_route("trigger", A, address="new", policy=PATIENT)
        seen += partition.publish("t", address=where, ttl=1 + number)
        partition.publish("t", address="new" if where == "old" else "old")
        partition.publish("t")
        partition.advance(0.02)
    assert [backfill.route for backfill in partition.store.kept_backfills.values()] == ["trigger"]
    partition.crash()
    partition.sinks[A] = answers()
    partition.start()
    partition.rest()
    assert set(arrivals(partition, A)) == set(seen)


def test_a_route_that_begins_in_the_past_reads_its_own_address(partition):
    """Replay is the same mechanism."""
    seen = partition.publish("t", address="broker")
    partition.publish("t")
    partition.publish("t", address="channel")
    partition.put_route("trigger", A, address="broker", begin_ms=0)
    partition.start()
    seen += partition.publish("t", address="broker")
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(seen)


def test_a_retry_that_survives_a_crash_has_the_passes_of_its_event(partition):
    """The task is made again from the log (the partition checks its passes at each answer)."""
    partition.put_route("trigger", A, address="broker", dead_letter=B)
    partition.sinks[A] = answers(503)
    partition.start()
    first, second = partition.publish("t", "t", address="broker", ttl=3)
    partition.advance(0.1)
    partition.crash()
    partition.start()
    partition.advance(30.0)
    assert set(arrivals(partition, B)) == {first, second}
    partition.rest()
