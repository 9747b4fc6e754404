"""Clauses of the lives of Channels and Subscriptions, over the wire."""

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION
from kit.answering_sinks import answered, respond_event
from kit.knative_client import condition, event_attributes, reference

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MISSING = {"ref": reference(SERVICE, "missing")}
"""A destination that does not resolve."""

HERE = {"channel": reference(CHANNEL, "c")}


@pytest.mark.clause("knative.channel.address")
@pytest.mark.clause("knative.channel.url.published")
def test_a_channel_shows_where_events_are_taken(world):
    """An absolute URL below that of the server, with namespace and name."""
    world.create(CHANNEL, "c", {})
    channel = world.ready(CHANNEL, "c")
    url = f"{world.server.url}/channels/{world.namespace}/c"
    assert channel["status"]["address"]["url"] == url
    assert condition(channel, "Addressable")["status"] == "True"


@pytest.mark.clause("knative.channel.ready.address")
@pytest.mark.parametrize(
    "attributes", [{}, {"specversion": "0.3"}, {"subject": "é ü 漢字", "extension": "x" * 1000}]
)
def test_a_ready_channel_takes_every_valid_event(world, attributes):
    """Once it is Ready, at once; and hands on what it took."""
    sink = world.sink()
    address = world.channel()
    world.subscription(sink.url)
    sent = event_attributes(**attributes)
    assert world.post(address, sent, b"x").status == 202
    (arrival,) = sink.wait()
    assert {name: arrival.event.attributes[name] for name in sent} == sent


@pytest.mark.clause("knative.channel.subscriptions.by-name")
@pytest.mark.clause("knative.channel.ready.forwards")
@pytest.mark.clause("knative.channel.ready.forward")
def test_subscriptions_listen_at_the_channel_that_they_name(world):
    """All events of it go to all of them; a Broker of the same name is another address."""
    address, other = world.channel(), world.channel("c2")
    sinks = [world.sink(name=name) for name in ("one", "two", "other")]
    world.subscription(sinks[0].url, "one")
    world.subscription(sinks[1].url, "two")
    world.subscription(sinks[2].url, "other", channel="c2")
    here = [world.publish(address, type=type_) for type_ in ("a", "b")]
    there = [world.publish(other), world.publish(world.broker("c")), world.publish(other)]
    sinks[0].wait_for(*here)
    sinks[1].wait_for(*here)
    sinks[2].wait_for(there[0], there[2])
    assert [sorted(sink.ids) for sink in sinks] == [here, here, [there[0], there[2]]]


@pytest.mark.clause("knative.channel.template.immutable")
@pytest.mark.parametrize("changed", [{"kind": "Other"}, None], ids=["other", "gone"])
def test_the_template_of_a_channel_never_changes(world, changed):
    """Neither to another one nor to none; the field is named."""
    template = {"apiVersion": "messaging.knative.dev/v1beta1", "kind": "KafkaChannel"}
    world.create(CHANNEL, "c", {"channelTemplate": template})
    answer = world.merge(CHANNEL, "c", {"spec": {"channelTemplate": changed}})
    assert {field.split(".")[1] for field in world.faulty_fields(answer)} == {"channelTemplate"}
    assert world.read(CHANNEL, "c")["spec"]["channelTemplate"] == template


@pytest.mark.clause("knative.channel.recreate")
def test_another_template_takes_another_channel(world):
    """Deleted and made again, with another template and another uid."""
    first = world.create(CHANNEL, "c", {"channelTemplate": {"kind": "A", "apiVersion": "a/v1"}})
    world.delete(CHANNEL, "c")
    second = world.create(CHANNEL, "c", {"channelTemplate": {"kind": "B", "apiVersion": "a/v1"}})
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    world.ready(CHANNEL, "c")


@pytest.mark.clause("knative.subscription.channel.same-namespace")
def test_a_subscription_cannot_name_a_namespace(world):
    """Not even its own; empty is as good as unset."""
    world.channel()
    for namespace in ("default", world.namespace):
        spec = {"channel": reference(CHANNEL, "c", namespace=namespace), "subscriber": MISSING}
        answer = world.propose(SUBSCRIPTION, "s", spec)
        assert world.faulty_fields(answer) == ["spec.channel.namespace"]
    spec = {"channel": reference(CHANNEL, "c", namespace=""), "reply": {"uri": world.sink().url}}
    world.create(SUBSCRIPTION, "s", spec)
    world.ready(SUBSCRIPTION, "s")


@pytest.mark.clause("knative.subscription.channel.missing")
@pytest.mark.clause("knative.subscription.channel.missing.reason")
@pytest.mark.clause("knative.subscription.ready.all-future-events")
def test_a_subscription_before_its_channel_waits_for_it(world):
    """Not Ready, for the Channel's sake; Ready when that is, and then it misses nothing."""
    sink = world.sink()
    created = world.create(SUBSCRIPTION, "s", {**HERE, "subscriber": {"uri": sink.url}})
    subscription = world.wait_condition(SUBSCRIPTION, "s", "False", "ChannelReady")
    assert condition(subscription, "Ready")["status"] != "True"
    found = condition(subscription, "ChannelReady")
    assert "Channel" in found["reason"] + found["message"]
    world.create(CHANNEL, "c", {})
    world.ready(SUBSCRIPTION, "s")
    sink.wait_for(world.publish(world.address(CHANNEL, "c")))
    ready = [condition(each, "Ready")["status"] for each in world.history(SUBSCRIPTION, created)]
    assert ready[-1] == "True"
    assert ready.index("True") > 0


@pytest.mark.clause("knative.subscription.ready.all-future-events")
def test_an_event_after_ready_is_never_missed(world):
    """Twenty Subscriptions made one after the other; each gets the event that follows at once."""
    address = world.channel()
    sinks = [world.sink(name=f"s{number}") for number in range(20)]
    for number, sink in enumerate(sinks):
        world.subscription(sink.url, f"s{number}")
        world.publish(address, id=str(number))
    for number, sink in enumerate(sinks):
        sink.wait_for(*map(str, range(number, 20)))
        assert str(number - 1) not in sink.ids


@pytest.mark.clause("knative.subscription.uris.resolved")
def test_a_ready_subscription_says_where_everything_goes(world):
    """Subscriber, reply and dead letter sink, by URI or by reference."""
    sink = world.sink()
    world.channel()
    world.broker()
    world.create(SERVICE, "dead", {"ports": [{"port": 80}]})
    subscription = world.subscription(
        sink.url,
        reply={"ref": reference(BROKER, "b")},
        delivery={"deadLetterSink": {"ref": reference(SERVICE, "dead")}},
    )
    assert subscription["status"]["physicalSubscription"] == {
        "subscriberUri": sink.url,
        "replyUri": f"{world.server.url}/brokers/{world.namespace}/b",
        "deadLetterSinkUri": f"http://dead.{world.namespace}.svc/",
    }


@pytest.mark.clause("knative.subscription.unresolved.not-ready")
@pytest.mark.clause("knative.subscription.unresolved.reason")
@pytest.mark.clause("knative.subscription.unresolved.empty-uri")
@pytest.mark.parametrize("member", ["subscriber", "reply", "deadLetterSink"])
def test_a_subscription_without_one_of_its_destinations_is_not_ready(world, member):
    """The others are shown all the same; it becomes Ready when the last one is there."""
    uris = {name: world.sink(name=name).url for name in ("subscriber", "reply", "deadLetterSink")}
    spec = {name: {"uri": uri} for name, uri in uris.items()} | {member: MISSING}
    world.channel()
    delivery = {"deadLetterSink": spec.pop("deadLetterSink")}
    world.create(SUBSCRIPTION, "s", {**HERE, **spec, "delivery": delivery})
    subscription = world.wait_condition(SUBSCRIPTION, "s", "False")
    expected = {f"{name}Uri": "" if name == member else uri for name, uri in uris.items()}
    assert subscription["status"]["physicalSubscription"] == expected
    assert "missing" in condition(subscription, "Ready")["message"]
    assert condition(subscription, "ReferencesResolved")["reason"]
    world.create(SERVICE, "missing", {"ports": [{"port": 80}]})
    shown = world.ready(SUBSCRIPTION, "s")["status"]["physicalSubscription"]
    assert shown[f"{member}Uri"] == f"http://missing.{world.namespace}.svc/"


@pytest.mark.clause("knative.subscription.subscriber-or-reply")
def test_a_subscription_has_a_subscriber_or_a_reply(world):
    """Neither is refused."""
    answer = world.propose(SUBSCRIPTION, "s", HERE)
    assert world.faulty_fields(answer)


@pytest.mark.clause("knative.subscription.reply-only.delivers")
@pytest.mark.clause("knative.subscription.reply-only.no-prefer")
@pytest.mark.clause("knative.subscription.subscriber.optional")
@pytest.mark.clause("knative.reply.prefer.sender")
def test_without_a_subscriber_events_go_to_the_reply_address(world):
    """No reply is asked for there, and an event in the answer is dropped."""
    sink = world.sink(answered(respond_event({"id": "never"})))
    address = world.channel()
    world.subscription(None, reply={"uri": sink.url})
    ids = [world.publish(address) for _ in range(2)]
    sink.wait_for(*ids)
    assert sorted(sink.ids) == sorted(ids)
    assert all("prefer" not in arrival.headers for arrival in sink.arrivals)


@pytest.mark.clause("knative.subscription.channel.immutable")
def test_the_channel_of_a_subscription_never_changes(world):
    """By a patch or a replacement; the field is named."""
    created = world.create(SUBSCRIPTION, "s", {**HERE, "subscriber": {"uri": world.sink().url}})
    answer = world.merge(SUBSCRIPTION, "s", {"spec": {"channel": {"name": "c2"}}})
    assert {field.split(".")[1] for field in world.faulty_fields(answer)} == {"channel"}
    created["spec"]["channel"]["name"] = "c2"
    del created["metadata"]["resourceVersion"]
    answer = world.send("PUT", world.path(SUBSCRIPTION, "s"), created)
    assert {field.split(".")[1] for field in world.faulty_fields(answer)} == {"channel"}
    assert world.read(SUBSCRIPTION, "s")["spec"]["channel"]["name"] == "c"


@pytest.mark.clause("knative.subscription.recreate")
def test_another_channel_takes_another_subscription(world):
    """Deleted and made again, it listens at the other one alone."""
    sink = world.sink()
    addresses = [world.channel(), world.channel("c2")]
    world.subscription(sink.url)
    world.delete(SUBSCRIPTION, "s")
    world.subscription(sink.url, channel="c2")
    ids = [world.publish(address) for address in (*addresses, addresses[1])]
    sink.wait_for(ids[1], ids[2])
    assert ids[0] not in sink.ids


@pytest.mark.clause("knative.channel.subscribers")
@pytest.mark.clause("knative.channel.subscribers.dead-letter-uri")
def test_a_channel_shows_its_subscriptions(world):
    """Resolved, in spec and status, as long as they are there; what a client writes is not kept."""
    sink = world.sink()
    world.channel()
    subscription = world.subscription(
        sink.url,
        reply={"uri": f"{sink.url}/reply"},
        delivery={"deadLetterSink": {"uri": f"{sink.url}/dead"}, "retry": 3},
    )
    uid = subscription["metadata"]["uid"]
    channel = world.wait(
        CHANNEL,
        "c",
        lambda seen: any(each["ready"] == "True" for each in seen["status"].get("subscribers", [])),
    )
    (shown,) = channel["spec"]["subscribers"]
    assert (shown["uid"], shown["generation"]) == (uid, 1)
    assert (shown["subscriberUri"], shown["replyUri"]) == (sink.url, f"{sink.url}/reply")
    assert shown["delivery"]["deadLetterSink"] == {"uri": f"{sink.url}/dead"}
    assert shown["delivery"]["retry"] == 3
    (status,) = channel["status"]["subscribers"]
    assert (status["uid"], status["generation"]) == (uid, 1)
    patched = world.patch(CHANNEL, "c", subscribers=[{"uid": "x", "subscriberUri": "http://x/"}])
    assert patched["spec"]["subscribers"] == [shown]
    world.delete(SUBSCRIPTION, "s")
    world.wait(
        CHANNEL,
        "c",
        lambda seen: not seen["spec"].get("subscribers") and not seen["status"].get("subscribers"),
    )
