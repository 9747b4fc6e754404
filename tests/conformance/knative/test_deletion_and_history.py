"""What becomes of events when objects are deleted, made again, or turn not Ready.

No acknowledged event vanishes silently: it is delivered, or its end is counted and told.
"""

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, NAMESPACE, SUBSCRIPTION, TRIGGER
from kit.answering_sinks import answered, by_turns, respond
from kit.knative_client import KnativeClient, condition, reference
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EVENT = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


class Way:
    """A Broker with Triggers, or a Channel with Subscriptions: what holds for both."""

    def __init__(self, world, param) -> None:
        self.world = world
        brokered = param == "broker"
        self.source, self.route = (BROKER, TRIGGER) if brokered else (CHANNEL, SUBSCRIPTION)
        self.make_source = world.broker if brokered else world.channel
        self.make_route = world.trigger if brokered else world.subscription
        self.name = "b" if brokered else "c"
        self.met = "BrokerReady" if brokered else "ChannelReady"


@pytest.fixture(params=["broker", "channel"])
def way(request, world) -> Way:
    """Each of them."""
    return Way(world, request.param)


def dropped(world) -> float:
    """Matches that ended because their route was deleted."""
    found = world.server.metrics()
    return sum(
        value
        for name, value in found.items()
        if name.startswith("dropped_total") and "route-deleted" in name
    )


def test_what_waits_for_a_deleted_route_is_dropped_and_counted(way):
    """Its subscriber fails; nothing more comes there after the delete was answered."""
    sink = way.world.sink(answered(respond(503)))
    address = way.make_source()
    slow = {"retry": 100, "backoffDelay": "PT0.3S", "backoffPolicy": "linear"}
    way.make_route(sink.url, "r", delivery=slow)
    for _ in range(5):
        way.world.publish(address)
    sink.wait(5)
    before = dropped(way.world)
    way.world.delete(way.route, "r")
    assert way.world.send("GET", way.world.path(way.route, "r")).status == 404
    wait_until(lambda: dropped(way.world) >= before + 5, 20.0, "all five are dropped")


def test_a_route_that_is_made_again_does_not_see_older_events(way):
    """It is another one, with another uid; what waited for the old one is not its business."""
    old, new = way.world.sink(answered(respond(503)), "old"), way.world.sink(name="new")
    address = way.make_source()
    first = way.make_route(old.url, "r", delivery=way.world.prompt(1000))
    before = [way.world.publish(address) for _ in range(3)]
    old.wait_for(*before)
    way.world.delete(way.route, "r")
    between = way.world.publish(address)
    second = way.make_route(new.url, "r")
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    after = [way.world.publish(address) for _ in range(3)]
    new.wait_for(*after)
    assert sorted(new.ids) == sorted(after)
    assert between not in old.ids


def test_what_was_accepted_before_its_source_was_deleted_is_still_delivered(way):
    """The route stays while it is not Ready; the address is gone at once."""
    sink = way.world.sink(by_turns(*[respond(503)] * 6, respond(200)))
    address = way.make_source()
    way.make_route(sink.url, "r", delivery=way.world.prompt(100))
    ids = [way.world.publish(address) for _ in range(3)]
    way.world.delete(way.source, way.name)
    assert way.world.post(address, EVENT).status == 404
    seen = way.world.wait_condition(way.route, "r", "False", way.met)
    assert condition(seen, "Ready")["status"] != "True"
    sink.wait(9)
    assert set(sink.ids[6:]) <= set(ids)
    assert set(sink.ids) == set(ids)


def test_a_source_that_is_made_again_has_its_routes_again(way):
    """They are Ready again without being touched, and see what comes from then on."""
    sink = way.world.sink()
    address = way.make_source()
    way.make_route(sink.url, "r")
    first = way.world.publish(address)
    sink.wait_for(first)
    way.world.delete(way.source, way.name)
    way.world.wait_condition(way.route, "r", "False", way.met)
    assert way.make_source() == address
    way.world.ready(way.route, "r")
    second = way.world.publish(address)
    sink.wait_for(second)
    assert sink.ids == [first, second]


def test_events_of_the_old_incarnation_are_not_offered_to_routes_of_the_new_one(way):
    """A route that is made after the source was made again sees nothing from before."""
    address = way.make_source()
    before = [way.world.publish(address) for _ in range(3)]
    way.world.delete(way.source, way.name)
    way.make_source()
    sink = way.world.sink()
    way.make_route(sink.url, "r")
    after = way.world.publish(address)
    sink.wait_for(after)
    assert not set(before) & set(sink.ids)


def test_a_route_that_never_was_ready_gets_nothing_from_before(way):
    """Its subscriber does not resolve at first; then it begins with the next event."""
    sink = way.world.sink()
    address = way.make_source()
    subscriber = {"ref": reference(BROKER, "later")}
    spec = (
        {"broker": way.name} if way.route is TRIGGER else {"channel": reference(CHANNEL, way.name)}
    )
    way.world.create(way.route, "r", {**spec, "subscriber": subscriber})
    way.world.wait_condition(way.route, "r", "False")
    before = way.world.publish(address)
    way.world.broker("later")
    way.world.trigger(sink.url, "seen", broker="later")
    way.world.ready(way.route, "r")
    after = way.world.publish(address)
    sink.wait_for(after)
    assert before not in sink.ids


def test_a_deleted_namespace_takes_everything_with_it(world):
    """Objects, addresses, routes; what waited is counted as dropped."""
    other = world.elsewhere()
    sink = other.sink(answered(respond(503)))
    address = other.broker()
    other.trigger(sink.url, delivery={"retry": 100, "backoffDelay": "PT0.3S"})
    other.publish(address)
    sink.wait()
    before = dropped(world)
    space = other.namespace
    other.delete(NAMESPACE, space)
    for path in (other.path(BROKER, "b"), other.path(TRIGGER, "t"), world.path(NAMESPACE, space)):
        wait_until(lambda path=path: world.send("GET", path).status == 404, 20.0, path)
    wait_until(lambda: other.post(address, EVENT).status == 404, 20.0, "the address is gone")
    wait_until(lambda: dropped(world) > before, 20.0, "the match is dropped")


def test_the_default_broker_can_be_deleted_and_made_again(world):
    """`/events` goes on meanwhile, for subscriptions and for the Triggers that stand."""
    default = KnativeClient(world.server, "default")
    triggered, subscribed = world.sink(name="triggered"), world.sink(name="subscribed")
    type_ = world.namespace
    chosen = {"filter": {"attributes": {"type": type_}}}
    default.trigger(triggered.url, type_, broker="default", **chosen)
    id_ = world.server.subscribe(subscribed.url, types=[type_])
    address = "/brokers/default/default"
    try:
        first = [default.publish(path, type=type_) for path in ("/events", address)]
        triggered.wait_for(*first)
        subscribed.wait_for(*first)
        default.delete(BROKER, "default")
        assert default.post(address, EVENT).status == 404
        default.wait_condition(TRIGGER, type_, "False", "BrokerReady")
        meanwhile = default.publish("/events", type=type_)
        subscribed.wait_for(meanwhile)
        triggered.wait_for(meanwhile)
        default.broker("default")
        default.ready(TRIGGER, type_)
        after = default.publish(address, type=type_)
        triggered.wait_for(after)
        subscribed.wait_for(after)
        assert set(first) | {after} <= set(triggered.ids)
    finally:
        if default.send("GET", default.path(BROKER, "default")).status == 404:
            default.broker("default")
        default.delete(TRIGGER, type_)
        world.server.request("DELETE", f"/subscriptions/{id_}")


def test_a_subscriber_that_keeps_failing_is_told_of(world):
    """By a condition that does not touch Ready, and by an event; success takes it back."""
    sink = world.sink(answered(respond(503)))
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(1000))
    world.publish(address)
    trigger = world.wait_condition(TRIGGER, "t", "False", "DeliveriesSucceeding")
    assert condition(trigger, "Ready")["status"] == "True"
    told = condition(trigger, "DeliveriesSucceeding")
    assert told["severity"] == "Warning"
    assert "503" in told["reason"] + told["message"]
    path = f"/api/v1/namespaces/{world.namespace}/events"

    def events():
        return [
            event
            for event in world.send("GET", path).json()["items"]
            if event["involvedObject"]["name"] == "t" and event["reason"] == "DeliveryFailed"
        ]

    wait_until(lambda: bool(events()), 20.0, "an event")
    assert events()[0]["type"] == "Warning"
    sink.answer = answered(respond(200))
    world.wait_condition(TRIGGER, "t", "True", "DeliveriesSucceeding")
