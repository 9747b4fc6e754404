"""Clauses of routing: by content through a Broker, by topology through a Channel."""

import pytest

from distributary.knative.kinds import BROKER
from kit.answering_sinks import (
    by_turns,
    once_released,
    released,
    respond,
    respond_event,
)
from kit.knative_client import event_attributes
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BYTES = bytes(range(256)) * 8
"""Data that no code page and no JSON reader leaves alone."""

JSON = b'{ "a" : 1.0,\n  "b": [ ],"a":"\\u00e9", "n": 1e400 }\n'
"""JSON whose spaces, numbers and repeated names a reader would change."""


class Way:
    """A Broker with Triggers, or a Channel with Subscriptions: what holds for both."""

    def __init__(self, world, kind) -> None:
        self.world = world
        self.address = world.broker() if kind == "broker" else world.channel()
        self.route = world.trigger if kind == "broker" else world.subscription

    def publish(self, body: bytes = b"", **attributes) -> str:
        """One event."""
        return self.world.publish(self.address, body, **attributes)


@pytest.fixture(params=["broker", "channel"])
def way(request, world) -> Way:
    """Each of them."""
    return Way(world, request.param)


@pytest.mark.clause("knative.broker.durable")
@pytest.mark.clause("knative.channel.durable")
@pytest.mark.clause("knative.congestion.retries")
def test_an_acknowledged_event_is_delivered_long_after_the_answer(way):
    """Nobody sends it again, and yet it comes, at the fourth attempt."""
    sink = way.world.sink(by_turns(*[respond(503)] * 3, respond(200)))
    way.route(sink.url, delivery=way.world.prompt(5))
    id_ = way.publish(b"kept")
    assert [arrival.id for arrival in sink.wait(4)] == [id_] * 4
    assert sink.arrivals[3].body == b"kept"


@pytest.mark.clause("knative.broker.each-match.own-delivery")
@pytest.mark.clause("knative.broker.same-destination")
@pytest.mark.clause("knative.channel.same-destination")
def test_each_match_is_a_delivery_of_its_own_also_to_the_same_destination(way):
    """Three routes to one sink: three deliveries of each event."""
    sink = way.world.sink()
    for name in ("one", "two", "three"):
        way.route(sink.url, name)
    ids = [way.publish() for _ in range(2)]
    sink.wait(6)
    assert sorted(sink.ids) == sorted(ids * 3)


@pytest.mark.clause("knative.broker.evaluated-once")
@pytest.mark.clause("knative.channel.at-least-once")
def test_every_event_reaches_every_route(way):
    """Fifty events, three routes; without a crash each comes exactly once."""
    sinks = [way.world.sink(name=f"s{number}") for number in range(3)]
    for number, sink in enumerate(sinks):
        way.route(sink.url, f"r{number}")
    ids = way.world.publish_batch(way.address, [{}] * 25) + [way.publish() for _ in range(25)]
    for sink in sinks:
        sink.wait_for(*ids)
        assert sorted(sink.ids) == sorted(ids)


@pytest.mark.clause("knative.broker.data.unmodified")
@pytest.mark.clause("knative.channel.data.unmodified")
@pytest.mark.parametrize(
    ("body", "content_type"),
    [(BYTES, "application/octet-stream"), (JSON, "application/json"), (b"", ""), (b"\0", "")],
    ids=["bytes", "JSON", "none", "no content type"],
)
def test_data_arrives_byte_for_byte(way, body, content_type):
    """Whatever it says that it is."""
    sink = way.world.sink()
    way.route(sink.url)
    way.publish(body, **({"datacontenttype": content_type} if content_type else {}))
    (arrival,) = sink.wait()
    assert (arrival.body, arrival.headers.get("content-type", "")) == (body, content_type)


@pytest.mark.clause("knative.broker.reply.re-enqueued")
@pytest.mark.clause("knative.broker.reply.all-triggers")
@pytest.mark.clause("knative.delivery.reply.trigger")
@pytest.mark.clause("knative.response.200")
@pytest.mark.parametrize("structured", [False, True], ids=["binary", "structured"])
def test_a_reply_is_evaluated_for_every_trigger_of_the_broker(world, structured):
    """For that which caused it too, by its filter; with the same retries and data."""
    reply = respond_event(
        {"id": "r", "type": "answer", "datacontenttype": "text/plain", "x": "y"},
        b"back",
        structured=structured,
    )
    asked = world.sink(by_turns(reply, respond(200)))
    other = world.sink(by_turns(respond(503), respond(200)), "other")
    unmoved = world.sink(name="unmoved")
    address = world.broker()
    world.trigger(asked.url, "asked")
    attributes = {"attributes": {"type": "answer", "x": "y"}}
    world.trigger(other.url, "other", filter=attributes, delivery=world.prompt())
    world.trigger(unmoved.url, "unmoved", filter={"attributes": {"type": "t"}})
    id_ = world.publish(address)
    asked.wait_for(id_, "r")
    other.wait(2)
    assert other.ids == ["r", "r"]
    event = other.events[1]
    assert (event.attributes["type"], event.attributes["source"], event.data) == (
        "answer",
        "/sink",
        b"back",
    )
    unmoved.wait_for(id_)
    assert unmoved.ids == [id_]


@pytest.mark.clause("knative.broker.reply.storage-fails")
def test_a_reply_that_the_broker_does_not_store_fails_the_delivery(world):
    """The Broker is deleted while the subscriber works; made again, it takes a later reply."""
    reply = respond_event({"id": "r", "type": "answer"})
    with released() as gone, released() as back:

        def answer(arrival, number):
            return once_released(gone if number < 4 else back, reply)(arrival, number)

        asked = world.sink(answer)
        address = world.broker()
        chosen = {"attributes": {"type": "t"}}
        world.trigger(asked.url, "asked", filter=chosen, delivery=world.prompt(1000))
        id_ = world.publish(address)
        asked.wait()
        world.delete(BROKER, "b")
        gone.set()
        asked.wait(4)
        caught = world.sink(name="caught")
        world.broker()
        world.trigger(caught.url, "caught", filter={"attributes": {"type": "answer"}})
        back.set()
        caught.wait_for("r")
        assert asked.ids == [id_] * 4


@pytest.mark.clause("knative.loop.hop-limit")
def test_a_loop_of_replies_ends_at_the_hop_limit(world):
    """The event goes round as often as it has passes left; subscribers never see the count."""
    loops = world.sink(lambda _arrival, number: respond_event({"id": f"r{number}"}))
    dropped = world.metric("replies_dropped_total")
    address = world.broker()
    world.trigger(loops.url)
    world.publish(address, knativebrokerttl="5")
    wait_until(lambda: world.metric("replies_dropped_total") > dropped, 20.0, "the end")
    assert len(loops.arrivals) == 4
    assert all("ce-knativebrokerttl" not in arrival.headers for arrival in loops.arrivals)
    used_up = event_attributes(knativebrokerttl="0")
    for path in (address, "/events"):
        answer = world.post(path, used_up)
        assert (answer.status, answer.json()["code"]) == (400, "hop-limit")


@pytest.mark.clause("knative.loop.hop-limit")
def test_a_loop_through_two_brokers_ends_too(world):
    """A Trigger of each delivers to the other one's address."""
    first, second = world.broker("b1"), world.broker("b2")
    sink = world.sink()
    world.trigger(sink.url, "seen", broker="b1")
    world.trigger(world.server.url + second, "there", broker="b1", delivery=world.prompt(0))
    world.trigger(world.server.url + first, "back", broker="b2", delivery=world.prompt(0))
    id_ = world.publish(first, knativebrokerttl="6")
    other = world.publish(first, knativebrokerttl="2")
    sink.wait(4)
    fence = world.publish(first, knativebrokerttl="2")
    sink.wait_for(fence)
    assert (sink.ids.count(id_), sink.ids.count(other)) == (3, 1)


def test_the_answers_of_many_deliveries_come_in_any_order(world):
    """One subscriber that waits keeps no other route of the Broker waiting."""
    with released() as release:
        slow = world.sink(once_released(release, respond(200)), "slow")
        quick = world.sink(name="quick")
        address = world.broker()
        world.trigger(slow.url, "slow")
        world.trigger(quick.url, "quick")
        ids = [world.publish(address) for _ in range(20)]
        quick.wait_for(*ids)
        release.set()
        slow.wait_for(*ids)
