"""What Knative's own conformance features ask of a Broker, written anew."""

import base64

import pytest

from distributary.knative.kinds import BROKER, TRIGGER
from kit.answering_sinks import (
    answered,
    once_released,
    released,
    respond,
    respond_event,
)
from kit.knative_client import condition, event_attributes
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FULL = {
    "type": "com.example.FullEvent",
    "source": "http://example.com/source",
    "subject": "topic",
    "dataschema": "http://example.com/schema",
    "datacontenttype": "text/json",
    "time": "2020-03-21T12:34:56.78Z",
    "exbool": True,
    "exint": 42,
    "exstring": "exstring",
    "exurl": "http://example.com/source",
}


# -- control plane --------------------------------------------------------------------------------


def test_a_broker_has_a_ready_condition_an_address_and_its_dead_letter_sink(world):
    """All in its status when it is Ready."""
    dead = world.sink(name="dead")
    world.create(BROKER, "b", {"delivery": {"deadLetterSink": {"uri": dead.url}}})
    status = world.ready(BROKER, "b")["status"]
    assert status["address"]["url"].startswith("http://")
    assert status["deadLetterSinkUri"] == dead.url
    assert status["observedGeneration"] == 1
    ready = condition({"status": status}, "Ready")
    assert ready["lastTransitionTime"].endswith("Z")


def test_conditions_say_when_they_changed(world):
    """The time of Ready moves with the status of Ready alone."""
    world.broker()
    trigger = world.trigger(world.sink().url)
    first = condition(trigger, "Ready")["lastTransitionTime"]
    world.patch(TRIGGER, "t", filter={"attributes": {"type": "x"}})
    second = condition(world.ready(TRIGGER, "t"), "Ready")["lastTransitionTime"]
    assert first == second
    names = [each["type"] for each in trigger["status"]["conditions"]]
    assert names == sorted(names)
    world.delete(BROKER, "b")
    gone = condition(world.wait_condition(TRIGGER, "t", "False", "BrokerReady"), "Ready")
    assert gone["status"] == "False"
    assert gone["reason"]


# -- event routing --------------------------------------------------------------------------------

TYPE = {"filter": {"attributes": {"type": FULL["type"]}}}
OTHER = {"filter": {"attributes": {"type": "notmytype"}}}


@pytest.mark.parametrize(
    ("triggers", "delivered"),
    [
        ([{}], [True]),
        ([OTHER], [False]),
        ([TYPE], [True]),
        ([TYPE, TYPE], [True, True]),
        ([OTHER, TYPE], [False, True]),
        ([{}, {}], [True, True]),
    ],
    ids=["no filter", "other", "filter", "both filters", "one of two", "no filters"],
)
def test_an_event_goes_where_filters_let_it(world, triggers, delivered):
    """One event through a few Triggers; a second one of the other type shows the end."""
    address = world.broker()
    sinks = [world.sink(name=f"s{number}") for number in range(len(triggers))]
    for number, (sink, spec) in enumerate(zip(sinks, triggers, strict=True)):
        world.trigger(sink.url, f"t{number}", **spec)
    fence = world.sink(name="fence")
    world.trigger(fence.url, "fence", filter={"attributes": {"type": "fence"}})
    ids = world.publish_batch(address, [FULL, {"type": "fence"}])
    fence.wait_for(ids[1])
    for sink, expected in zip(sinks, delivered, strict=True):
        if expected:
            sink.wait_for(ids[0])
        assert (ids[0] in sink.ids) == expected


def test_a_reply_goes_to_the_trigger_that_wants_it(world):
    """The first Trigger's reply matches the second."""
    reply = respond_event(FULL | {"type": "com.example.ReplyEvent", "id": "r"}, b"{}")
    first, second = world.sink(answered(reply)), world.sink(name="second")
    address = world.broker()
    world.trigger(first.url, "first", **TYPE)
    world.trigger(second.url, "second", filter={"attributes": {"type": "com.example.ReplyEvent"}})
    id_ = world.publish(address, b"{}", **FULL)
    second.wait_for("r")
    assert (first.ids, second.ids) == ([id_], ["r"])
    assert second.events[0].attributes["exint"] == "42"


# -- delivery -------------------------------------------------------------------------------------


@pytest.mark.clause("knative.broker.delivery.ignored")
@pytest.mark.parametrize(
    "case",
    [
        (None, None, 1, 2, None),
        ((3, "broker"), None, 3, 4, None),
        ((3, "broker"), None, 4, 4, "broker"),
        ((0, None), (3, "trigger"), 3, 4, None),
        ((0, None), (1, None), 2, 2, None),
        ((1, "broker"), (3, "trigger"), 4, 4, "trigger"),
        ((1, "broker"), None, 2, 2, "broker"),
        ((1, "broker"), (0, None), 1, 1, None),
    ],
    ids=[
        "neither",
        "Broker's, in time",
        "Broker's, too late",
        "Trigger's, in time",
        "Trigger's, too late",
        "Trigger's and its dead letters",
        "Broker's and its dead letters",
        "no dead letters of the Broker for a Trigger with options",
    ],
)
def test_the_options_of_a_trigger_count_before_those_of_its_broker(world, case):
    """Whole: where it has any, none of the Broker's."""
    world.check_precedence(world.broker, world.trigger, *case)


@pytest.mark.parametrize(
    "fails",
    [
        pytest.param(lambda number: number in (2, 3, 5, 8, 13, 21), id="Fibonacci"),
        pytest.param(lambda number: number <= 6, id="first six"),
        pytest.param(lambda number: number % 3 != 0, id="two of three"),
    ],
)
def test_events_are_redelivered_by_pattern(world, fails):
    """Whatever the pattern of failures, every event arrives."""
    taken = []

    def answer(arrival, number):
        if fails(number):
            return respond(409)
        taken.append(arrival.id)
        return respond(200)

    sink = world.sink(answer)
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(12))
    ids = [world.publish(address) for _ in range(10)]
    wait_until(lambda: set(taken) == set(ids), 20.0, "all are taken")
    assert sorted(taken) == sorted(ids)


@pytest.mark.parametrize("case", ["unreachable", "without body", "with body", "long body"])
def test_a_dead_letter_says_what_went_wrong(world, case):
    """Where to, with which code, and the beginning of the answer."""
    dead = world.sink(name="dead")
    body = {"with body": b'{"message": "no"}', "long body": b"x" * 5000}.get(case, b"")
    sink = world.sink(answered(respond(422, body, content_type="application/json")))
    url = world.nowhere if case == "unreachable" else sink.url
    address = world.broker()
    world.trigger(url, delivery=world.prompt(1, deadLetterSink={"uri": dead.url}))
    id_ = world.publish(address, b"{}", **FULL)
    (dead_letter,) = dead.wait()
    attributes = dead_letter.event.attributes
    assert (dead_letter.id, dead_letter.body) == (id_, b"{}")
    assert attributes["knativeerrordest"] == url
    assert attributes.get("knativeerrorcode") == (None if case == "unreachable" else "422")
    found = base64.b64decode(str(attributes.get("knativeerrordata", "")))
    if case != "unreachable":
        assert found == body[:1024]


def test_every_delivery_to_a_subscriber_says_prefer_reply(world):
    """As Brokers do that take replies."""
    sink = world.sink()
    address = world.broker()
    world.trigger(sink.url)
    world.publish(address)
    assert sink.wait()[0].headers["prefer"] == "reply"


def test_many_triggers_each_get_what_they_asked_for(world):
    """By type, by source, by both, by an extension, by none of them."""
    address = world.broker()
    values = ("", "a", "b")
    sinks = {}
    for number, (type_, source, extension) in enumerate(
        (type_, source, extension) for type_ in values for source in values for extension in values
    ):
        wanted = {"type": type_, "source": source and f"/{source}", "x": extension}
        wanted = {name: value for name, value in wanted.items() if value}
        sinks[number] = (wanted, world.sink(name=f"s{number}"))
        spec = {"broker": "b", "subscriber": {"uri": sinks[number][1].url}}
        world.create(TRIGGER, f"t{number}", {**spec, "filter": {"attributes": wanted}})
    for number in sinks:
        world.ready(TRIGGER, f"t{number}")
    sent = [
        event_attributes(type=type_, source=f"/{source}", **({"x": x} if x else {}))
        for type_ in ("a", "b", "c")
        for source in ("a", "b")
        for x in values
    ]
    world.publish_batch(address, sent)
    for wanted, sink in sinks.values():
        ids = [event["id"] for event in sent if wanted.items() <= event.items()]
        sink.wait_for(*ids)
        assert sorted(sink.ids) == sorted(ids)


@pytest.mark.parametrize("size", [64 * 1024, 1024 * 1024 - 1024])
def test_a_long_message_arrives_whole(world, size):
    """Up to the limit of a body."""
    body = bytes(number % 251 for number in range(size))
    sink = world.sink()
    address = world.broker()
    world.trigger(sink.url)
    world.publish(address, body, datacontenttype="application/octet-stream")
    assert sink.wait()[0].body == body


@pytest.mark.parametrize("size", [64 * 1024, 1024 * 1024 - 1024])
def test_a_long_reply_arrives_whole(world, size):
    """As long as a message may be."""
    body = bytes(number % 251 for number in range(size))
    reply = respond_event({"id": "r", "type": "r", "datacontenttype": "x/y"}, body)
    asked, caught = world.sink(answered(reply)), world.sink(name="caught")
    address = world.broker()
    world.trigger(asked.url, "asked", filter={"attributes": {"type": "t"}})
    world.trigger(caught.url, "caught", filter={"attributes": {"type": "r"}})
    world.publish(address)
    assert caught.wait()[0].body == body


def test_metadata_of_events_and_replies_are_passed_on(world):
    """Extensions of tracing and partitioning, in the event and in its reply."""
    metadata = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "a=b",
        "partitionkey": "k",
    }
    reply = respond_event({"id": "r", "type": "r", **metadata})
    asked, caught = world.sink(answered(reply)), world.sink(name="caught")
    address = world.broker()
    world.trigger(asked.url, "asked", filter={"attributes": {"type": "t"}})
    world.trigger(caught.url, "caught", filter={"attributes": {"type": "r"}})
    world.publish(address, **metadata)
    for sink in (asked, caught):
        attributes = sink.wait()[0].event.attributes
        assert {name: attributes[name] for name in metadata} == metadata


def test_an_attempt_that_takes_too_long_is_given_up(world):
    """By delivery.timeout; the next attempt is answered."""
    with released() as release:
        slow = once_released(release, respond(200))

        def answer(arrival, number):
            return slow(arrival, number) if number == 1 else respond(200)

        sink = world.sink(answer)
        address = world.broker()
        world.trigger(sink.url, delivery=world.prompt(3, timeout="PT0.2S"))
        id_ = world.publish(address)
        first, second = sink.wait(2)
        assert (first.id, second.id) == (id_, id_)
        assert second.at_s - first.at_s >= 0.2
