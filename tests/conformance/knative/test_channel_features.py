"""What Knative's own conformance features ask of Channels and Subscriptions, written anew."""

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION
from kit.answering_sinks import answered, by_turns, respond, respond_event
from kit.knative_client import condition, reference

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_a_channel_has_a_ready_condition_an_address_and_its_dead_letter_sink(world):
    """All in its status when it is Ready."""
    dead = world.sink(name="dead")
    world.create(CHANNEL, "c", {"delivery": {"deadLetterSink": {"uri": dead.url}}})
    channel = world.ready(CHANNEL, "c")
    assert channel["status"]["address"]["url"].startswith("http://")
    assert channel["status"]["deadLetterSinkUri"] == dead.url
    assert condition(channel, "Addressable")["status"] == "True"


def test_channels_are_namespaced_and_in_their_category(world):
    """As discovery says."""
    kinds = world.send("GET", "/apis/messaging.knative.dev/v1").json()["resources"]
    (channel,) = (kind for kind in kinds if kind["name"] == "channels")
    assert channel["namespaced"] is True
    assert "channel" in channel["categories"]
    assert any(kind["name"] == "channels/status" for kind in kinds)


@pytest.mark.clause("knative.channel.delivery.ignored")
@pytest.mark.parametrize(
    "case",
    [
        ((3, "channel"), None, 3, 4, None),
        ((1, "channel"), None, 2, 2, "channel"),
        ((1, "channel"), (3, "subscription"), 4, 4, "subscription"),
        ((3, "channel"), (1, None), 2, 2, None),
    ],
    ids=["in time", "the Channel's", "the Subscription's", "none of the Channel's"],
)
def test_the_options_of_a_subscription_count_before_those_of_its_channel(world, case):
    """Whole: where it has any, none of the Channel's."""
    world.check_precedence(world.channel, world.subscription, *case)


def test_a_chain_of_channels_passes_events_through_replies(world):
    """Subscriber, reply to the next Channel, and so on; each sees what the one before made."""
    addresses = [world.channel(f"c{number}") for number in range(4)]
    sinks = []
    for number in range(3):
        reply = respond_event({"id": f"step{number + 1}", "type": "t"}, f"{number + 1}".encode())
        sinks.append(world.sink(answered(reply), f"s{number}"))
        world.create(
            SUBSCRIPTION,
            f"s{number}",
            {
                "channel": reference(CHANNEL, f"c{number}"),
                "subscriber": {"uri": sinks[-1].url},
                "reply": {"ref": reference(CHANNEL, f"c{number + 1}")},
            },
        )
        world.ready(SUBSCRIPTION, f"s{number}")
    last = world.sink(name="last")
    world.subscription(last.url, "last", channel="c3")
    world.publish(addresses[0], id="step0")
    last.wait_for("step3")
    assert [sink.ids for sink in sinks] == [["step0"], ["step1"], ["step2"]]
    assert last.arrivals[0].body == b"3"


def test_a_reply_to_a_broker_is_filtered_there(world):
    """A Subscription's reply may be a Broker; and a Trigger's subscriber a Channel."""
    asked = world.sink(answered(respond_event({"id": "r", "type": "answer"})))
    caught, channelled = world.sink(name="caught"), world.sink(name="channelled")
    address = world.channel()
    world.broker()
    world.channel("end")
    world.subscription(asked.url, reply={"ref": reference(BROKER, "b")})
    world.trigger(caught.url, "caught", filter={"attributes": {"type": "answer"}})
    world.trigger(caught.url, "other", filter={"attributes": {"type": "other"}})
    world.create(
        SUBSCRIPTION,
        "pass",
        {"channel": reference(CHANNEL, "c"), "subscriber": {"ref": reference(CHANNEL, "end")}},
    )
    world.ready(SUBSCRIPTION, "pass")
    world.subscription(channelled.url, "end", channel="end")
    id_ = world.publish(address)
    caught.wait_for("r")
    channelled.wait_for(id_)
    assert caught.ids == ["r"]


def test_a_service_can_be_subscriber_reply_and_dead_letter_sink(world):
    """By reference, each with a path of its own."""
    place = {"distributary.dev/address": f"127.0.0.1:{world.sinks.port}"}
    world.create(SERVICE, "svc", {"ports": [{"port": 80}]}, annotations=place)

    def at(sink):
        return {"ref": reference(SERVICE, "svc"), "uri": f"/{world.namespace}/{sink}"}

    asked = world.sink(
        by_turns(respond_event({"id": "r"}), respond(400), respond(400)), "subscriber"
    )
    answers, dead = world.sink(name="reply"), world.sink(name="dead")
    address = world.channel()
    world.create(
        SUBSCRIPTION,
        "s",
        {
            "channel": reference(CHANNEL, "c"),
            "subscriber": at("subscriber"),
            "reply": at("reply"),
            "delivery": {"deadLetterSink": at("dead")},
        },
    )
    world.ready(SUBSCRIPTION, "s")
    first = world.publish(address)
    answers.wait_for("r")
    second = world.publish(address)
    dead.wait_for(second)
    assert asked.ids == [first, second]
