"""Clauses of delivery: retries, waits, dead letters, replies, and what each answer means."""

import base64
import itertools

import pytest

from distributary.knative.kinds import TRIGGER
from kit.answering_sinks import (
    answered,
    by_turns,
    cut_off,
    respond,
    respond_event,
)
from kit.running_server import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FINAL, RETRIED, SUCCESS = "final", "retried", "success"


@pytest.mark.clause("knative.response.unspecified.sender")
@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        pytest.param(101, FINAL, marks=pytest.mark.clause("knative.response.1xx")),
        pytest.param(200, SUCCESS, marks=pytest.mark.clause("knative.response.200")),
        pytest.param(202, SUCCESS, marks=pytest.mark.clause("knative.response.202")),
        pytest.param(201, SUCCESS, marks=pytest.mark.clause("knative.response.other-2xx")),
        pytest.param(204, SUCCESS, marks=pytest.mark.clause("knative.response.other-2xx")),
        pytest.param(299, SUCCESS, marks=pytest.mark.clause("knative.response.other-2xx")),
        pytest.param(300, FINAL, marks=pytest.mark.clause("knative.response.3xx")),
        pytest.param(307, FINAL, marks=pytest.mark.clause("knative.response.3xx")),
        pytest.param(400, FINAL, marks=pytest.mark.clause("knative.response.400")),
        pytest.param(404, RETRIED, marks=pytest.mark.clause("knative.response.404")),
        pytest.param(408, RETRIED, marks=pytest.mark.clause("knative.response.other-4xx")),
        pytest.param(409, RETRIED, marks=pytest.mark.clause("knative.response.409")),
        pytest.param(429, RETRIED, marks=pytest.mark.clause("knative.response.429")),
        pytest.param(401, FINAL, marks=pytest.mark.clause("knative.response.other-4xx")),
        pytest.param(410, FINAL, marks=pytest.mark.clause("knative.response.other-4xx")),
        pytest.param(499, FINAL, marks=pytest.mark.clause("knative.response.other-4xx")),
        pytest.param(500, RETRIED, marks=pytest.mark.clause("knative.response.5xx")),
        pytest.param(501, RETRIED, marks=pytest.mark.clause("knative.response.5xx")),
        pytest.param(599, RETRIED, marks=pytest.mark.clause("knative.response.5xx")),
    ],
)
def test_an_answer_means_what_the_table_says(world, status, outcome):
    """One attempt or two, dead letter or none; a redirect is not followed.

    A second event, which fails for good, shows that the first has come to its end.
    """
    followed = world.sink(name="followed")
    first = respond(status, location=followed.url)

    def answer(arrival, _number):
        return first if arrival.id == "first" else respond(418)

    sink, dead = world.sink(answer), world.sink(name="dead")
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(1, deadLetterSink={"uri": dead.url}))
    attempts = {FINAL: 1, RETRIED: 2, SUCCESS: 1}[outcome]
    world.publish(address, id="first")
    sink.wait(attempts)
    if outcome != SUCCESS:
        dead.wait_for("first")
    world.publish(address, id="fence")
    dead.wait_for("fence")
    assert sink.ids.count("first") == attempts
    assert dead.ids.count("first") == (outcome != SUCCESS)
    assert not followed.arrivals
    for event in dead.events:
        expected = status if event.attributes["id"] == "first" else 418
        assert event.attributes["knativeerrorcode"] == str(expected)
        assert event.attributes["knativeerrordest"] == sink.url


@pytest.mark.clause("knative.delivery.retries")
@pytest.mark.parametrize("retry", [0, 1, 3])
def test_a_delivery_is_attempted_once_and_retried_as_often_as_asked(world, retry):
    """1 + retry attempts, then the dead letter; a Subscription's no less."""
    dead = world.sink(name="dead")
    delivery = world.prompt(retry, deadLetterSink={"uri": dead.url})
    sinks = [world.sink(answered(respond(503)), name) for name in ("t", "s")]
    addresses = world.broker(), world.channel()
    world.trigger(sinks[0].url, delivery=delivery)
    world.subscription(sinks[1].url, delivery=delivery)
    ids = [world.publish(address) for address in addresses]
    dead.wait_for(*ids)
    assert [sink.ids for sink in sinks] == [[id_] * (1 + retry) for id_ in ids]


@pytest.mark.clause("knative.delivery.backoff")
@pytest.mark.clause("knative.delivery-spec.backoff-policy.optional")
@pytest.mark.parametrize(
    ("policy", "waits_s"),
    [
        ({"backoffPolicy": "linear"}, (0.05, 0.05, 0.05)),
        ({"backoffPolicy": "exponential"}, (0.05, 0.1, 0.2)),
        ({}, (0.05, 0.1, 0.2)),
    ],
    ids=["linear", "exponential", "left out"],
)
def test_retries_wait_at_least_as_long_as_the_policy_says(world, policy, waits_s):
    """Jitter only lengthens."""
    sink = world.sink(by_turns(*[respond(503)] * 3, respond(200)))
    address = world.broker()
    world.trigger(sink.url, delivery={"retry": 3, "backoffDelay": "PT0.05S", **policy})
    world.publish(address)
    times_s = [arrival.at_s for arrival in sink.wait(4)]
    gaps_s = [later - sooner for sooner, later in itertools.pairwise(times_s)]
    assert all(gap >= wait for gap, wait in zip(gaps_s, waits_s, strict=True)), gaps_s


@pytest.mark.clause("knative.delivery.status")
@pytest.mark.clause("knative.delivery.complete")
def test_a_delivery_is_made_to_the_urls_of_the_status(world):
    """Of the status as it stands: the subscriber is changed between two events."""
    first, second = world.sink(), world.sink(name="second")
    address = world.broker()
    trigger = world.trigger(first.url)
    ids = [world.publish(address)]
    first.wait_for(ids[0])
    assert first.url == trigger["status"]["subscriberUri"]
    world.patch(TRIGGER, "t", subscriber={"uri": second.url})
    assert world.ready(TRIGGER, "t")["status"]["subscriberUri"] == second.url
    ids.append(world.publish(address))
    second.wait_for(ids[1])
    assert (first.ids, second.ids) == ([ids[0]], [ids[1]])


@pytest.mark.clause("knative.delivery.dead-letter")
@pytest.mark.parametrize("way", ["trigger", "subscription"])
def test_what_cannot_be_delivered_goes_to_the_dead_letter_sink(world, way):
    """Whole, with data and attributes; the sink of dead letters is retried as well."""
    dead = world.sink(by_turns(respond(503), respond(200)), "dead")
    sink = world.sink(answered(respond(410, b"no more")))
    delivery = world.prompt(1, deadLetterSink={"uri": dead.url})
    if way == "trigger":
        address = world.broker()
        world.trigger(sink.url, delivery=delivery)
    else:
        address = world.channel()
        world.subscription(sink.url, delivery=delivery)
    id_ = world.publish(address, b"data", subject="kept", datacontenttype="text/plain")
    event = dead.wait(2)[1].event
    assert event.data == b"data"
    assert {name: event.attributes[name] for name in ("id", "subject", "datacontenttype")} == {
        "id": id_,
        "subject": "kept",
        "datacontenttype": "text/plain",
    }
    assert event.attributes["knativeerrordest"] == sink.url
    assert event.attributes["knativeerrorcode"] == "410"
    assert base64.b64decode(str(event.attributes["knativeerrordata"])) == b"no more"


@pytest.mark.clause("knative.delivery.no-dead-letter")
def test_without_a_dead_letter_sink_an_event_is_kept_and_counted(world):
    """It is not gone: the store has it."""
    counted = world.metric("dead_lettered_total")
    sink = world.sink(answered(respond(410)))
    address = world.broker()
    world.trigger(sink.url)
    id_ = world.publish(address, id=f"kept-{world.namespace}")
    sink.wait()
    wait_until(lambda: id_ in world.kept_ids(), 20.0, "it is kept")
    wait_until(lambda: world.metric("dead_lettered_total") > counted, 20.0, "it is counted")


@pytest.mark.clause("knative.delivery.reply.subscription")
@pytest.mark.parametrize("structured", [False, True], ids=["binary", "structured"])
def test_the_reply_of_a_subscriber_goes_to_the_reply_address(world, structured):
    """Not back to the Channel, and without asking for a reply there."""
    reply = respond_event({"id": "r", "x": "y"}, b"back", structured=structured)
    asked, answers = world.sink(answered(reply)), world.sink(name="answers")
    address = world.channel()
    world.subscription(asked.url, reply={"uri": answers.url})
    id_ = world.publish(address)
    (arrival,) = answers.wait()
    assert (arrival.event.attributes["x"], arrival.event.data) == ("y", b"back")
    assert "prefer" not in arrival.headers
    fence = world.publish(address)
    asked.wait_for(fence)
    assert asked.ids == [id_, fence]


@pytest.mark.clause("knative.delivery.reply.dropped")
def test_without_a_reply_address_an_answer_is_dropped(world):
    """Counted, and the delivery has succeeded."""
    dropped = world.metric("replies_dropped_total")
    dead = world.sink(name="dead")
    asked = world.sink(answered(respond_event({"id": "r"})))
    address = world.channel()
    world.subscription(asked.url, delivery=world.prompt(1, deadLetterSink={"uri": dead.url}))
    ids = [world.publish(address) for _ in range(2)]
    asked.wait_for(*ids)
    wait_until(lambda: world.metric("replies_dropped_total") >= dropped + 2, 20.0, "both dropped")
    assert (sorted(asked.ids), dead.ids) == (sorted(ids), [])


@pytest.mark.clause("knative.delivery.reply.retried")
def test_a_reply_that_cannot_be_delivered_for_now_repeats_the_whole_delivery(world):
    """The subscriber is asked again, and its second reply arrives."""
    asked = world.sink(lambda _arrival, number: respond_event({"id": f"r{number}"}))
    answers = world.sink(by_turns(respond(503), respond(200)), "answers")
    address = world.channel()
    world.subscription(asked.url, reply={"uri": answers.url}, delivery=world.prompt(2))
    id_ = world.publish(address)
    answers.wait(2)
    assert (asked.ids, answers.ids) == ([id_, id_], ["r1", "r2"])


@pytest.mark.clause("knative.delivery.dead-letter.reply")
@pytest.mark.parametrize(("status", "attempts"), [(503, 3), (400, 1)], ids=["retried", "final"])
def test_a_reply_that_cannot_be_delivered_at_all_is_the_dead_letter(world, status, attempts):
    """The last reply, with the address that refused it."""
    asked = world.sink(lambda _arrival, number: respond_event({"id": f"r{number}"}, b"back"))
    answers = world.sink(answered(respond(status)), "answers")
    dead = world.sink(name="dead")
    address = world.channel()
    delivery = world.prompt(2, deadLetterSink={"uri": dead.url})
    world.subscription(asked.url, reply={"uri": answers.url}, delivery=delivery)
    world.publish(address)
    (dead_letter,) = dead.wait()
    assert (dead_letter.id, dead_letter.body) == (f"r{attempts}", b"back")
    assert dead_letter.event.attributes["knativeerrordest"] == answers.url
    assert dead_letter.event.attributes["knativeerrorcode"] == str(status)
    assert (len(asked.arrivals), len(answers.arrivals)) == (attempts, attempts)


@pytest.mark.clause("knative.reply.prefer")
@pytest.mark.clause("knative.reply.prefer.sender")
def test_subscribers_are_told_that_replies_are_used(world):
    """Triggers' and Subscriptions', at every attempt; dead letter sinks are not."""
    sinks = [world.sink(answered(respond(503)), name) for name in ("t", "s")]
    dead = world.sink(name="dead")
    addresses = world.broker(), world.channel()
    delivery = world.prompt(1, deadLetterSink={"uri": dead.url})
    world.trigger(sinks[0].url, delivery=delivery)
    world.subscription(sinks[1].url, delivery=delivery)
    for address in addresses:
        world.publish(address)
    dead.wait(2)
    for sink in sinks:
        assert [arrival.headers.get("prefer") for arrival in sink.arrivals] == ["reply"] * 2
    assert all("prefer" not in arrival.headers for arrival in dead.arrivals)


@pytest.mark.clause("knative.reply.202")
@pytest.mark.clause("knative.response.202")
def test_an_event_in_a_202_answer_is_not_routed(world):
    """That in the 200 answer to the next event is, so the first would have come."""

    def answer(arrival, _number):
        if arrival.id == "waits":
            return respond_event({"id": "no", "type": "answer"}, status=202)
        return respond_event({"id": "yes", "type": "answer"})

    asked, caught = world.sink(answer), world.sink(name="caught")
    address = world.broker()
    world.trigger(asked.url, "asked", filter={"attributes": {"type": "t"}})
    world.trigger(caught.url, "caught", filter={"attributes": {"type": "answer"}})
    world.publish(address, id="waits")
    asked.wait_for("waits")
    world.publish(address, id="answers")
    caught.wait_for("yes")
    assert caught.ids == ["yes"]


def test_an_answer_that_is_no_event_is_no_reply(world):
    """The delivery has succeeded: no retry, no dead letter."""
    dead = world.sink(name="dead")
    bodies = (
        respond(200, b"thanks", content_type="text/plain"),
        respond(200, b"{not json", content_type="application/cloudevents+json"),
        respond(200, b"", ce_specversion="1.0", ce_id="1"),
    )
    sink = world.sink(by_turns(*bodies, respond(418)))
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(1, deadLetterSink={"uri": dead.url}))
    ids = []
    for number in range(4):
        ids.append(world.publish(address))
        sink.wait(number + 1)
    dead.wait_for(ids[3])
    assert (sink.ids, dead.ids) == (ids, ids[3:])


@pytest.mark.clause("knative.congestion.control")
def test_an_overloaded_subscriber_is_given_the_time_that_it_asks_for(world):
    """Retry-After counts where it is longer than the backoff."""
    sink = world.sink(by_turns(respond(429, retry_after="1"), respond(200)))
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(1))
    world.publish(address)
    first, second = sink.wait(2)
    assert second.at_s - first.at_s >= 1.0


def test_a_subscriber_that_cuts_the_connection_is_retried(world):
    """No status is made up for it in the dead letter."""
    dead = world.sink(name="dead")
    sink = world.sink(cut_off)
    address = world.broker()
    world.trigger(sink.url, delivery=world.prompt(2, deadLetterSink={"uri": dead.url}))
    world.publish(address)
    (dead_letter,) = dead.wait()
    assert len(sink.arrivals) == 3
    assert dead_letter.event.attributes["knativeerrordest"] == sink.url
    assert "knativeerrorcode" not in dead_letter.event.attributes
