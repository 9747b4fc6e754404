"""Subscriptions that deliver so many events and no more, whatever crashes (``maxevents``)."""

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.flow import DoneKey
from distributary.core.outcome import (
    Reservation,
    ReservationAnswer,
    ReservationBatch,
    ReservationRequest,
)
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from kit.simulation.partition import answers, hangs

A, B, DEAD = "http://a.example/", "http://b.example/", "http://dead.example/"
STEADY = DeliveryPolicy(
    retry=50, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=0.2, timeout_s=0.5
)


def arrivals(partition, uri):
    """Ids of the events that were sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


def publish(partition, count, type_="t"):
    """So many records of one event; their ids."""
    return [event for _ in range(count) for event in partition.publish(type_)]


def told(partition, number, *, freed=(), counted=(), requests=()):
    """What the counts answer to the owner of partition *number*."""
    batch = ReservationBatch([], list(freed), list(counted), [], list(requests))
    return partition.reservations.exchange(number, batch)


def delivered(partition, route):
    """Matches of *route* that were delivered."""
    fates = partition.checker.fates()
    return [fate for fate in fates if fate.route == route and fate.final == "delivered"]


def test_a_route_delivers_as_many_events_as_it_may_and_ends(partition):
    """The others end with it, dropped for that reason; another route gets them all."""
    partition.put_route("counted", A, events_max=10)
    partition.put_route("free", B)
    partition.start()
    events = publish(partition, 100)
    partition.advance(5.0)
    assert partition.reservations.used_up() == ["counted"]
    partition.end_used_up()
    partition.rest()
    assert len(set(arrivals(partition, A))) == len(delivered(partition, "counted")) == 10
    assert arrivals(partition, B) == events
    dropped = [fields for name, fields in partition.reports if name == "dropped"]
    assert {fields["reason"] for fields in dropped} == {"maxevents"}


def test_a_counted_route_may_begin_in_the_past(partition):
    """``start: earliest`` with ``maxevents``: the oldest events, and then it ends."""
    partition.start()
    events = publish(partition, 50)
    partition.put_route("counted", A, events_max=10, begin_ms=0)
    partition.advance(5.0)
    partition.end_used_up()
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(events[:10])


def test_what_fails_for_good_does_not_count(partition):
    """Its reservation is another event's: ten are delivered however many the sink refuses."""
    refusals = iter([400] * 7)

    def refuses_some(chance):
        return answers(next(refusals, 204))(chance)

    partition.put_route("counted", A, events_max=10, dead_letter=DEAD)
    partition.sinks[A] = refuses_some
    partition.start()
    publish(partition, 60)
    partition.advance(30.0)
    assert partition.reservations.delivered("counted") == 10
    partition.end_used_up()
    partition.rest()
    assert len(delivered(partition, "counted")) == 10
    assert len(set(arrivals(partition, DEAD))) == 7


def test_a_match_keeps_its_reservation_over_its_retries(partition):
    """While the one event that may be delivered waits for a retry, no other one is sent."""
    partition.put_route("counted", A, events_max=1, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    events = publish(partition, 20)
    partition.advance(10.0)
    assert set(arrivals(partition, A)) == {events[0]}
    partition.sinks[A] = answers()
    partition.advance(5.0)
    partition.end_used_up()
    partition.rest()
    assert [fate.event.attributes["id"] for fate in delivered(partition, "counted")] == [events[0]]


@pytest.mark.parametrize("seed", range(6))
def test_no_crash_lets_more_be_delivered(make_partition, seed):
    """Twenty lives of a few milliseconds each; a delivery in doubt counts as one."""
    partition = make_partition(seed=seed)
    partition.put_route("counted", A, events_max=5, policy=STEADY)
    partition.sinks[A] = answers(after_s=0.02)
    partition.start()
    for _ in range(20):
        publish(partition, 3)
        partition.advance(0.03)
        partition.crash()
        partition.start()
    partition.advance(5.0)
    acknowledged = partition.checker._acknowledged["counted"]
    assert 0 < len(acknowledged) <= 5
    partition.rest()


def test_an_attempt_that_nobody_wrote_down_counts_even_if_the_next_one_fails(partition):
    """It was acknowledged, then the owner died; after the restart the sink refuses the event."""
    partition.put_route("counted", A, events_max=1)
    partition.start()
    partition.publish("t")
    while not partition.checker._acknowledged:
        partition.advance(0.001)
    partition.crash()
    partition.sinks[A] = answers(400)
    partition.start()
    partition.advance(1.0)
    partition.sinks[A] = answers()
    publish(partition, 5)
    partition.advance(5.0)
    assert partition.reservations.delivered("counted") == 1
    assert len(set(arrivals(partition, A))) == 1
    partition.rest()


def test_a_restart_in_good_order_puts_no_delivery_in_doubt(partition):
    """The sink is down over many rollovers, and refuses at last: nothing of that counts."""
    partition.put_route("counted", A, events_max=2, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    publish(partition, 10)
    partition.advance(1.0)
    for _ in range(4):
        partition.rollover()
        partition.start()
        partition.advance(0.5)
    partition.sinks[A] = answers(400)
    partition.advance(2.0)
    partition.sinks[A] = answers()
    partition.advance(20.0)
    assert len(delivered(partition, "counted")) == 2 or not partition.reservations.used_up()
    partition.rest()


def test_what_a_rollover_did_not_start_is_not_in_doubt(partition):
    """It waited with its reservation; the next owner's attempts fail, and nothing counts."""
    partition.put_route("counted", A, events_max=12, policy=DeliveryPolicy(retry=0))
    partition.sinks[A] = answers(after_s=1.0)
    partition.start()
    publish(partition, 12)
    partition.advance(0.1)
    assert partition.consumer.dispatcher.queued
    partition.rollover()
    assert all(resting for resting in partition.reservations.held(0).values())
    partition.sinks[A] = answers(400)
    partition.start()
    partition.advance(10.0)
    assert partition.reservations.delivered("counted") == len(delivered(partition, "counted")) < 12
    partition.rest()


def test_what_waits_for_its_queue_is_not_uncertain_after_a_rollover(partition):
    """Their rows were deferred with reservations; the next owner's attempts fail."""
    partition.put_route("counted", A, events_max=12, policy=STEADY)
    partition.sinks[A] = hangs
    partition.start()
    publish(partition, 40)
    partition.advance(4.0)
    in_flight = partition.consumer.dispatcher.in_flight
    assert 12 - in_flight > 4
    partition.rollover()
    reservations = partition.reservations.held(0)
    assert len(reservations) == 12
    assert sum(not resting for resting in reservations.values()) <= in_flight
    partition.sinks[A] = answers()
    partition.start()
    partition.advance(10.0)
    partition.end_used_up()
    partition.rest()
    assert len(delivered(partition, "counted")) == 12


@pytest.mark.slow
def test_a_thousand_rows_without_a_reservation_do_not_all_ask_again_and_again(partition):
    """Some of them do, so one is sent once a reservation is free; the loop is others' too."""
    partition.put_route("counted", A, events_max=1, policy=STEADY)
    partition.sinks[A] = answers(503)
    partition.start()
    publish(partition, 1_500)
    partition.advance(2.0)
    asked = []
    exchange = partition.reservations.exchange

    def counts(number, batch):
        asked.extend(batch.requests)
        return exchange(number, batch)

    partition.reservations.exchange = counts
    partition.advance(5.0)
    assert 16 <= len(asked) <= 5 * 4 * 16 + 100
    partition.reservations.exchange = exchange
    partition.put_route("counted", A)
    partition.sinks[A] = answers()
    partition.rest()


def test_raising_the_limit_goes_on_where_the_route_stood(partition):
    """Nothing was lost meanwhile: what had no reservation waited."""
    partition.put_route("counted", A, events_max=3)
    partition.start()
    events = publish(partition, 8)
    partition.advance(2.0)
    assert len(arrivals(partition, A)) == 3
    partition.put_route("counted", A, events_max=8)
    partition.advance(5.0)
    assert sorted(arrivals(partition, A)) == sorted(events)
    partition.end_used_up()
    partition.rest()


def test_taking_the_limit_away_lets_everything_go(partition):
    """What waited for a reservation needs none."""
    partition.put_route("counted", A, events_max=1)
    partition.start()
    events = publish(partition, 8)
    partition.advance(2.0)
    partition.put_route("counted", A)
    partition.rest()
    assert sorted(arrivals(partition, A)) == sorted(events)


def test_reservations_that_others_hold_are_waited_for(partition):
    """Another partition has them; one fails there, and one more event goes here."""
    partition.put_route("counted", A, events_max=2)
    held = [Reservation(DoneKey(offset, 0, "counted"), 1) for offset in range(2)]
    requests = [ReservationRequest(reservation, 2) for reservation in held]
    assert told(partition, 7, requests=requests) == [ReservationAnswer.HELD, ReservationAnswer.HELD]
    partition.start()
    events = publish(partition, 5)
    partition.advance(3.0)
    assert not partition.sends
    told(partition, 7, freed=held[:1])
    partition.advance(3.0)
    (sent,) = arrivals(partition, A)
    assert sent in events[:2]  # the row that waits, or the backfill behind it: whoever asks first
    told(partition, 7, counted=held[1:])
    partition.end_used_up()
    partition.rest()


def test_counts_that_cannot_be_read_hold_counted_routes_alone(partition):
    """Nobody is sent without a reservation; the others go on, and so do these when it is over."""
    partition.put_route("counted", A, events_max=50)
    partition.put_route("free", B)
    partition.reservations.failing = True
    partition.start()
    events = publish(partition, 10)
    partition.advance(3.0)
    assert arrivals(partition, B) == events
    assert not arrivals(partition, A)
    assert not partition.failures
    partition.reservations.failing = False
    partition.advance(3.0)
    assert sorted(arrivals(partition, A)) == sorted(events)
    names = [name for name, _ in partition.warnings + partition.reports]
    assert names.count("counts-unavailable") == names.count("counts-again") == 1
    partition.rest()


def test_counts_that_cannot_be_written_stop_nobody(partition):
    """They fail while attempts are under way: their outcomes are kept, and told when it is over."""
    partition.put_route("counted", A, events_max=50)
    partition.put_route("free", B)
    partition.sinks[A] = answers(after_s=0.3)
    partition.start()
    events = publish(partition, 5)
    partition.advance(0.1)
    partition.reservations.failing = True
    partition.advance(1.0)
    events += publish(partition, 5)
    partition.advance(1.0)
    assert arrivals(partition, B) == events
    assert not partition.failures
    assert partition.reservations.delivered("counted") == 0
    partition.reservations.failing = False
    partition.advance(3.0)
    assert partition.reservations.delivered("counted") == len(arrivals(partition, A)) == 10
    partition.rest()


def test_a_match_whose_route_is_deleted_while_it_asks_is_dropped(partition):
    """Each with its reason, and no row stays behind."""
    partition.start()
    events = publish(partition, 5)
    partition.reservations.failing = True
    partition.put_route("counted", A, events_max=3, begin_ms=0)
    partition.advance(0.5)
    partition.delete_route("counted")
    partition.advance(0.5)
    partition.reservations.failing = False
    partition.advance(5.0)
    assert not partition.store.kept_rows
    assert not partition.sends
    dropped = [fields for name, fields in partition.reports if name == "dropped"]
    assert {fields["reason"] for fields in dropped} == {"route-deleted"}
    assert sum(fields.get("count", 1) for fields in dropped) == len(events)
    partition.rest()


def test_a_reservation_uncertain_that_lies_too_far_ahead_counts(partition):
    """A backfill without room for rows would wait for ever for a reservation further on."""
    partition.engine_limits = EngineLimits(rows_per_route_max=4)
    partition.put_route("counted", A, events_max=1)
    partition.sinks[A] = hangs
    for _ in range(3):
        publish(partition, 10)
    last = partition.log.durable_end() - 1
    (record,) = partition.log.read(last, last + 1)
    reservation = Reservation(DoneKey(last, 0, "counted"), record.checksum)
    told(partition, 0, requests=[ReservationRequest(reservation, 1)])
    partition.start()
    partition.sinks[A] = answers()
    partition.rest()
    assert len(set(arrivals(partition, A))) <= 1
