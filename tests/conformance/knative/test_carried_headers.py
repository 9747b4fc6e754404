"""Header fields that go along with events, as Knative's own Brokers and Channels pass them on.

Source:
    knative/eventing 1.22: ``test/conformance/header_test.go``; ``rekt/features`` (the namespace).
"""

import pytest

from kit.answering_sinks import answered, respond, respond_event
from kit.knative_client import event_attributes

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TRACE = {
    "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "tracestate": "a=1",
    "x-b3-traceid": "0af7651916cd43dd8448eb211c80319c",
}
ALONG = {"knative-hello": "world", "x-request-id": "r1", **TRACE}
OTHERS = dict.fromkeys(
    ("authorization", "cookie", "proxy-authorization", "x-custom", "kn-namespace"), "canary"
)
OF_REPLY = b"\r\nknative-answer: 1\r\nauthorization: canary\r\nx-custom: canary\r\n"


def along(arrival):
    """What went along, beside the namespace."""
    return {name: value for name, value in arrival.headers.items() if name in {*ALONG, *OTHERS}}


def publish(world, path, headers, **attributes):
    """One event with header fields of its sender."""
    fields = {f"ce-{name}": str(value) for name, value in event_attributes(**attributes).items()}
    assert world.server.request("POST", path, b"", fields | headers).status == 202


@pytest.mark.parametrize("kind", ["broker", "channel"])
def test_knative_and_tracing_headers_reach_subscriber_and_dead_letter_sink(world, kind):
    """With the namespace in each request; nothing else of the publisher's header does."""
    route = world.trigger if kind == "broker" else world.subscription
    address = world.broker() if kind == "broker" else world.channel()
    sink, dead = world.sink(answered(respond(400))), world.sink(name="dead")
    route(sink.url, delivery={"retry": 0, "deadLetterSink": {"uri": dead.url}})
    publish(world, address, ALONG | OTHERS)
    for each in (sink, dead):
        (arrival,) = each.wait()
        assert along(arrival) == ALONG | {"kn-namespace": world.namespace}
        assert "canary" not in arrival.headers.values()


@pytest.mark.parametrize("kind", ["broker", "channel"])
def test_the_namespace_is_said_where_the_publisher_sent_no_such_header(world, kind):
    """It is the server's to say."""
    address = world.broker() if kind == "broker" else world.channel()
    sink = world.sink()
    (world.trigger if kind == "broker" else world.subscription)(sink.url)
    world.publish(address)
    (arrival,) = sink.wait()
    assert along(arrival) == {"kn-namespace": world.namespace}


@pytest.mark.parametrize("kind", ["broker", "channel"])
def test_a_reply_takes_headers_of_its_own_along_and_belongs_to_the_same_trace(world, kind):
    """To another Trigger by way of the Broker, or to the Subscription's reply."""
    reply = respond_event({"type": "answer"}).replace(b"\r\n", OF_REPLY, 1)
    asked, told = world.sink(answered(reply)), world.sink(name="told")
    if kind == "broker":
        address = world.broker()
        world.trigger(asked.url, name="asked", filter={"attributes": {"type": "question"}})
        world.trigger(told.url, name="told", filter={"attributes": {"type": "answer"}})
    else:
        address = world.channel()
        world.subscription(asked.url, reply={"uri": told.url})
    publish(world, address, ALONG | OTHERS, type="question")
    (arrival,) = told.wait()
    assert arrival.event.attributes["type"] == "answer"
    assert along(arrival) == TRACE | {"kn-namespace": world.namespace}
    assert arrival.headers["knative-answer"] == "1"
    assert "canary" not in arrival.headers.values()


def test_headers_stay_with_an_event_that_is_delivered_late(world):
    """A retry has what the first attempt had."""
    address = world.broker()
    sink = world.sink(answered(respond(503)))
    world.trigger(sink.url, delivery=world.prompt(3))
    publish(world, address, ALONG)
    assert [along(arrival) for arrival in sink.wait(3)] == [
        ALONG | {"kn-namespace": world.namespace}
    ] * 3


def test_subscriptions_of_the_subscriptions_api_get_none_of_them(world):
    """They are no kind of Knative's: their sinks get the event and what they asked for."""
    sink = world.sink()
    wanted = {"sink": sink.url, "protocol": "HTTP", "types": [world.namespace]}
    made = world.send("POST", "/subscriptions", wanted)
    assert made.status == 201, made.body
    publish(world, "/events", ALONG | OTHERS, type=world.namespace)
    (arrival,) = sink.wait()
    assert along(arrival) == {}
    assert world.send("DELETE", f"/subscriptions/{made.json()['id']}").status == 200
