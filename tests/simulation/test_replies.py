"""Replies of sinks: taken before their delivery is done, whatever dies on the way."""

import pytest

from distributary.core.engine import EngineLimits
from distributary.core.event import Event, record
from distributary.core.flow import Stage
from distributary.core.outcome import IN_STORE
from distributary.core.policy import BackoffPolicy, DeliveryPolicy
from kit.simulation import sinks as simulated_sinks
from kit.simulation.partition import answers, hangs, replies

SINK, DEAD = "http://sink.example/", "http://dead.example/"
BACK = "http://back.example/"
STEADY = DeliveryPolicy(
    retry=2, backoff_policy=BackoffPolicy.LINEAR, backoff_delay_s=2.0, timeout_s=1.0
)


def sent_to(partition, uri):
    """Ids of what was sent to *uri*, in order."""
    return [event for _, event, to in partition.sends if to == uri]


@pytest.fixture
def subscription(partition):
    """A partition with the route of a Subscription, whose sink replies."""
    partition.put_route("r", SINK, policy=STEADY, dead_letter=DEAD, reply=BACK)
    partition.sinks[SINK] = replies()
    partition.start()
    return partition


@pytest.fixture
def trigger(partition):
    """A partition with the route of a Trigger, whose sink replies."""
    partition.put_route("r", SINK, policy=STEADY, dead_letter=DEAD, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies()
    partition.start()
    return partition


def counter(partition, name):
    """A number of the owner that lives."""
    return partition.consumer._meter.counters[name]


def test_a_reply_is_sent_on_and_then_the_delivery_is_done(trigger):
    """One event, one reply, one outcome."""
    (event,) = trigger.publish("t")
    trigger.advance(1.0)
    assert sent_to(trigger, BACK) == [f"{event}.reply"]
    assert trigger.checker.fate(event, "r").final == "delivered"
    assert counter(trigger, "replies_total") == 1
    assert counter(trigger, "delivered_total") == 1
    trigger.rest()


def test_the_status_of_an_answer_with_an_event_is_the_last_one(trigger):
    """Not that of a failure long ago: people see it beside the subscription."""
    trigger.sinks[SINK] = answers(503)
    trigger.publish("t")
    trigger.advance(2.5)
    assert trigger.tallies.kept["r"].answer_status == 503
    trigger.sinks[SINK] = replies()
    trigger.advance(10.0)
    assert trigger.tallies.kept["r"].answer_status == 200
    trigger.rest()


def test_a_delivery_is_not_done_while_its_reply_is_under_way(trigger):
    """The cursor waits for it, and a crash makes the delivery again, with its reply."""
    trigger.sinks[BACK] = hangs
    (event,) = trigger.publish("t")
    trigger.advance(0.5)
    assert trigger.cursor < trigger.log.durable_end()
    assert counter(trigger, "delivered_total") == 0
    trigger.crash()
    trigger.sinks[BACK] = answers()
    trigger.start()
    trigger.rest()
    assert sent_to(trigger, SINK) == [event, event]
    assert sent_to(trigger, BACK) == [f"{event}.reply"] * 2


@pytest.mark.parametrize("status", [400, 413, 503])
def test_a_reply_that_a_broker_refuses_fails_the_whole_delivery(trigger, status):
    """Whatever it says: the subscriber gets the event again (decision 15)."""
    trigger.sinks[BACK] = answers(status)
    (event,) = trigger.publish("t")
    trigger.advance(1.0)
    trigger.sinks[BACK] = answers()
    trigger.rest()
    assert sent_to(trigger, SINK) == [event, event]
    assert trigger.checker.fate(event, "r").final == "delivered"


def test_the_dead_letter_of_a_trigger_is_the_event(trigger):
    """It tells of the Broker that did not take the reply."""
    trigger.sinks[BACK] = answers(507, body=b"full")
    trigger.sinks[DEAD] = answers(400)
    (event,) = trigger.publish("t")
    trigger.advance(60.0)
    assert sent_to(trigger, SINK) == [event] * 3
    assert sent_to(trigger, DEAD) == [event]
    (dead_letter,) = trigger.store.all_dead_letters.values()
    attributes = record.decode(dead_letter.event)[0].attributes
    assert attributes["id"] == event
    assert attributes["knativeerrordest"] == BACK
    assert attributes["knativeerrorcode"] == 507
    assert attributes["knativeerrordata"] == "ZnVsbA=="
    trigger.rest()


def test_a_reply_that_is_refused_for_good_is_the_dead_letter_of_a_subscription(subscription):
    """The event itself was delivered: it is not sent again."""
    subscription.sinks[BACK] = answers(400)
    (event,) = subscription.publish("t")
    subscription.advance(5.0)
    assert sent_to(subscription, SINK) == [event]
    assert sent_to(subscription, DEAD) == [f"{event}.reply"]
    assert subscription.checker.fate(event, "r").final == "dead-lettered"
    subscription.rest()


def test_a_reply_that_could_be_taken_later_is_brought_again(subscription):
    """The entire delivery is retried; used up, the reply is the dead letter."""
    subscription.sinks[BACK] = answers(503)
    (event,) = subscription.publish("t")
    subscription.advance(60.0)
    assert sent_to(subscription, SINK) == [event] * 3
    assert sent_to(subscription, DEAD) == [f"{event}.reply"]
    subscription.rest()


@pytest.mark.parametrize("held_bytes_max", [0, 1 << 20], ids=["read-again", "at-hand"])
def test_the_dead_letter_of_a_reply_survives_a_crash(subscription, held_bytes_max):
    """It never stood in the log: its bytes are in the row until it has its outcome."""
    subscription.engine_limits = EngineLimits(row_events_bytes_max=held_bytes_max)
    subscription.rollover()
    subscription.start()
    subscription.sinks[BACK] = answers(400)
    subscription.sinks[DEAD] = answers(503)
    (event,) = subscription.publish("t")
    subscription.advance(3.5)
    (row,) = subscription.store.rows()
    assert (row.stage, row.attempt, row.event) == (Stage.DEAD_LETTER, 3, IN_STORE)
    subscription.crash()
    subscription.sinks[DEAD] = answers()
    subscription.start()
    subscription.rest()
    assert sent_to(subscription, SINK) == [event]
    assert set(sent_to(subscription, DEAD)) == {f"{event}.reply"}
    assert all(row.done and row.event is None for row in subscription.store.rows())


def test_a_reply_to_the_last_pass_is_dropped_and_told(trigger):
    """Decision 17: the loop ends here, the delivery stands."""
    (event,) = trigger.publish("t", ttl=1)
    (other,) = trigger.publish("t", ttl=2)
    trigger.advance(1.0)
    assert sent_to(trigger, BACK) == [f"{other}.reply"]
    assert trigger.checker.fate(event, "r").final == "delivered"
    (fields,) = [fields for name, fields in trigger.warnings if name == "reply-dropped"]
    assert (fields["route"], fields["reason"]) == ("r", "hop-limit")
    assert counter(trigger, 'replies_dropped_total{reason="hop-limit"}') == 1
    trigger.rest()


def test_a_subscription_sends_the_reply_of_the_last_pass(subscription):
    """Its reply leaves this server: the count is for Brokers and Channels."""
    (event,) = subscription.publish("t", ttl=1)
    subscription.advance(1.0)
    assert sent_to(subscription, BACK) == [f"{event}.reply"]
    subscription.rest()


def test_a_reply_that_is_no_event_is_dropped_and_told(trigger):
    """RELIABILITY S15: no poison for the event that it answers."""
    trigger.sinks[SINK] = replies(fault="ce-type: missing")
    (event,) = trigger.publish("t")
    trigger.advance(1.0)
    assert trigger.checker.fate(event, "r").final == "delivered"
    (fields,) = [fields for name, fields in trigger.warnings if name == "reply-dropped"]
    assert (fields["reason"], fields["fault"]) == ("invalid-reply", "ce-type: missing")
    assert not sent_to(trigger, BACK)
    trigger.rest()


def test_a_reply_without_a_destination_is_dropped(partition):
    """A Subscription without ``reply``: the text wants nothing else; it is counted."""
    partition.put_route("r", SINK)
    partition.sinks[SINK] = replies()
    partition.start()
    (event,) = partition.publish("t")
    partition.advance(1.0)
    assert partition.checker.fate(event, "r").final == "delivered"
    assert counter(partition, 'replies_dropped_total{reason="no-destination"}') == 1
    partition.rest()


def test_an_accepted_answer_is_never_a_reply(trigger):
    """202 with an event in it is delivered, and nothing is routed (decision 14)."""
    trigger.sinks[SINK] = replies(202)
    (event,) = trigger.publish("t")
    trigger.advance(1.0)
    assert trigger.checker.fate(event, "r").final == "delivered"
    assert not sent_to(trigger, BACK)
    trigger.rest()


def test_a_drain_waits_for_replies(trigger):
    """The delivery is under way: what it brought is stored before the rollover."""
    trigger.sinks[BACK] = answers(after_s=0.8)
    trigger.publish("t")
    trigger.advance(0.1)
    assert trigger.rollover(5.0) == 0
    assert trigger.store.rows() == []
    assert trigger.checker.open_count == 0


def test_a_drain_sends_the_replies_that_wait(trigger):
    """Those in the queue, and those that find no room there; it starts nothing else."""
    trigger.sinks[BACK] = answers(after_s=0.3)
    for _ in range(30):
        trigger.publish("t")
    trigger.advance(0.1)
    assert trigger.consumer._engine._replies._held
    assert trigger.rollover(10.0) == 0
    done = sorted(event.removesuffix(".reply") for event in sent_to(trigger, BACK))
    assert sorted(sent_to(trigger, SINK)) == done
    trigger.start()
    trigger.rest()


def test_a_drain_waits_while_the_destination_asks_for_time(trigger):
    """Nothing is in flight then, and replies are under way all the same."""
    busy, later = answers(429, retry_after="2"), answers(after_s=0.1)
    said = [busy]
    trigger.sinks[BACK] = lambda chance: said.pop()(chance) if said else later(chance)
    for _ in range(12):
        trigger.publish("t")
    trigger.advance(0.05)
    assert trigger.rollover(10.0) == 0
    assert len(sent_to(trigger, BACK)) == 12
    trigger.start()
    trigger.rest()


def test_a_drain_does_not_wait_for_a_closed_destination(trigger):
    """Its breaker is open: the next owner makes those deliveries again."""
    trigger.sinks[BACK] = answers(503)
    for _ in range(12):
        trigger.publish(*["t"] * 5)
        trigger.advance(0.02)
    assert trigger.consumer._engine._replies._held
    begun_s = trigger.clock.monotonic_s()
    trigger.rollover(5.0)
    assert trigger.clock.monotonic_s() - begun_s < 2.0
    trigger.sinks[BACK] = answers()
    trigger.start()
    trigger.rest()


def test_a_deleted_route_drops_a_delivery_whose_reply_is_under_way(trigger):
    """As any match that waits."""
    trigger.sinks[BACK] = answers(503, after_s=0.5)
    (event,) = trigger.publish("t")
    trigger.advance(0.1)
    trigger.delete_route("r")
    trigger.advance(2.0)
    assert trigger.checker.fate(event, "r").final == "dropped"
    trigger.rest()


def test_replies_that_find_no_room_wait_and_then_all_arrive(make_partition):
    """A destination that is slower than the sinks holds its routes up, and loses nothing."""
    partition = make_partition()
    partition.put_route("r", SINK, policy=STEADY, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies(after_s=0.001)
    partition.sinks[BACK] = answers(after_s=0.3)
    partition.start()
    events = [event for _ in range(60) for event in partition.publish("t")]
    partition.advance(1.0)
    assert partition.consumer._engine._replies._held
    assert len(sent_to(partition, SINK)) < 50, "the route does not wait for its replies"
    partition.advance(30.0)
    partition.rest()
    assert sent_to(partition, BACK) == [f"{event}.reply" for event in events]
    assert sent_to(partition, SINK) == events


def test_replies_beyond_what_is_held_bring_their_deliveries_again(make_partition):
    """Memory is bounded: the rest is a failed delivery, which is retried."""
    partition = make_partition()
    partition.engine_limits = EngineLimits(reply_bytes_max=0)
    partition.put_route("r", SINK, policy=STEADY, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies(after_s=0.001)
    partition.sinks[BACK] = answers(after_s=0.3)
    partition.start()
    events = [event for _ in range(60) for event in partition.publish("t")]
    partition.advance(1.0)
    assert not partition.consumer._engine._replies._held
    partition.advance(30.0)
    partition.rest()
    assert {event.removesuffix(".reply") for event in sent_to(partition, BACK)} <= set(events)
    assert len(sent_to(partition, SINK)) > len(events)


def test_replies_go_where_the_newest_revision_says(trigger):
    """What waits for an old destination leaves for the new one."""
    trigger.sinks[BACK] = hangs
    for _ in range(20):
        trigger.publish("t")
    trigger.advance(0.5)
    assert trigger.consumer._engine._replies._held
    other = "http://other.example/"
    trigger.put_route("r", SINK, policy=STEADY, dead_letter=DEAD, reply=other, reply_kept=True)
    trigger.advance(0.5)
    assert len(sent_to(trigger, other)) + len(sent_to(trigger, BACK)) == 20
    trigger.rest()


@pytest.mark.parametrize(("kept", "told"), [(True, 7), (False, None)], ids=["broker", "sink"])
def test_a_sink_sets_no_passes(partition, monkeypatch, kept, told):
    """Our count is not the sink's to change: it would start a loop anew, or end one early."""
    seen = []
    template = "kit.simulation.sinks._TEMPLATE"
    attributes = {**simulated_sinks._TEMPLATE.attributes, "knativebrokerttl": 9_999}
    monkeypatch.setattr(template, Event(attributes, None))
    monkeypatch.setattr(
        partition.checker,
        "sent",
        lambda event, _route, stage, **_: seen.append(
            (stage, event.attributes.get("knativebrokerttl"))
        ),
    )
    partition.put_route("r", SINK, reply=BACK, reply_kept=kept)
    partition.sinks[SINK] = replies()
    partition.start()
    partition.publish("t", ttl=7)
    partition.advance(0.1)
    assert seen[:2] == [(Stage.PRIMARY, None), (Stage.REPLY, told)]


def test_a_drain_does_not_wait_for_a_destination_that_closes_meanwhile(trigger):
    """What waits in its queue is not under way any more: the next owner makes it again."""
    trigger.sinks[BACK] = answers(503, after_s=0.3)
    for _ in range(30):
        trigger.publish("t")
    trigger.advance(0.1)
    begun_s = trigger.clock.monotonic_s()
    trigger.rollover(20.0)
    assert trigger.clock.monotonic_s() - begun_s < 5.0
    trigger.sinks[BACK] = answers()
    trigger.start()
    trigger.rest()


def test_a_refused_reply_is_dropped_where_none_is_wanted_any_more(subscription):
    """The newest revision counts: there is nowhere to bring it again."""
    subscription.sinks[BACK] = answers(503, after_s=0.5)
    (event,) = subscription.publish("t")
    subscription.advance(0.1)
    subscription.put_route("r", SINK, policy=STEADY, dead_letter=DEAD)
    subscription.advance(1.0)
    assert subscription.consumer._meter.counters["delivered_total"] == 1
    assert sent_to(subscription, SINK) == [event]
    assert counter(subscription, 'replies_dropped_total{reason="no-destination"}') == 1


def test_a_sink_that_has_an_event_of_a_deleted_route_has_it_whatever_it_replies(trigger):
    """It is delivered, as without a reply; the reply alone goes nowhere, and that is told."""
    trigger.sinks[SINK] = replies(after_s=0.5)
    (event,) = trigger.publish("t")
    trigger.advance(0.1)
    trigger.delete_route("r")
    trigger.advance(1.0)
    assert trigger.checker.fate(event, "r").final == "delivered"
    (fields,) = [fields for name, fields in trigger.reports if name == "reply-dropped"]
    assert (fields["route"], fields["reason"]) == ("r", "route-deleted")
    trigger.rest()


def test_large_attributes_of_held_replies_count(make_partition, monkeypatch):
    """A sink may reply with a megabyte of them, and no data."""
    attributes = {**simulated_sinks._TEMPLATE.attributes, "large": "x" * 60_000}
    monkeypatch.setattr(simulated_sinks, "_TEMPLATE", Event(attributes, None))
    partition = make_partition()
    partition.engine_limits = EngineLimits(reply_bytes_max=100_000)
    partition.put_route("r", SINK, policy=STEADY, reply=BACK, reply_kept=True)
    partition.sinks[SINK] = replies(after_s=0.001)
    partition.sinks[BACK] = hangs
    partition.start()
    for _ in range(40):
        partition.publish("t")
    partition.advance(0.2)
    held = partition.consumer._engine._replies._held
    assert sum(map(len, held.values())) <= 1
