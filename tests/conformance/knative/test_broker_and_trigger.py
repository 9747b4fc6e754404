"""Clauses of the lives of Brokers and Triggers, over the wire."""

import pytest

from distributary.knative.kinds import BROKER, SERVICE, TRIGGER
from kit.knative_client import condition, event_attributes, reference

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CLASS = "eventing.knative.dev/broker.class"

MISSING = {"ref": reference(SERVICE, "missing")}
"""A destination that does not resolve."""


@pytest.mark.clause("knative.broker.address")
@pytest.mark.clause("knative.broker.url.published")
def test_a_broker_shows_where_events_are_taken(world):
    """An absolute URL below that of the server, with namespace and name."""
    created = world.create(BROKER, "b", {})
    assert created["metadata"]["generation"] == 1
    broker = world.ready(BROKER, "b")
    url = f"{world.server.url}/brokers/{world.namespace}/b"
    assert broker["status"]["address"]["url"] == url
    assert condition(broker, "Addressable")["status"] == "True"


@pytest.mark.clause("knative.broker.ready.address")
@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"specversion": "0.3"},
        {"subject": "é ü 漢字", "dataschema": "https://example.com/schema"},
        {"time": "2026-11-21T12:00:00.123456789Z", "datacontenttype": "text/plain"},
        {"extension": "x" * 1000, "n": 2**31 - 1, "b": True},
        {"type": "x" * 2000, "source": "urn:x:" + "y" * 2000},
    ],
    ids=["least", "older", "not ASCII", "time", "extensions", "long"],
)
def test_a_ready_broker_takes_every_valid_event(world, attributes):
    """Once it is Ready, at once; and hands on what it took."""
    sink = world.sink()
    address = world.broker()
    world.trigger(sink.url)
    sent = event_attributes(**attributes)
    assert world.post(address, sent, b"x").status == 202
    (arrival,) = sink.wait()
    assert {name: arrival.event.attributes[name] for name in sent} == {
        name: str(value).lower() if value is True else str(value) for name, value in sent.items()
    }


@pytest.mark.clause("knative.broker.triggers.by-name")
def test_triggers_listen_at_the_broker_that_they_name(world):
    """Not at another one, and not at one of that name in another namespace."""
    other = world.elsewhere()
    mine, second, theirs = world.sink(), world.sink(name="second"), other.sink()
    addresses = [world.broker(), world.broker("b2"), other.broker()]
    world.trigger(mine.url)
    world.trigger(second.url, "t2", broker="b2")
    other.trigger(theirs.url)
    ids = [world.publish(address) for address in addresses]
    for sink, id_ in zip((mine, second, theirs), ids, strict=True):
        sink.wait_for(id_)
    assert (mine.ids, second.ids, theirs.ids) == ([ids[0]], [ids[1]], [ids[2]])


@pytest.mark.clause("knative.broker.ready.forwards")
@pytest.mark.clause("knative.broker.filter.decides")
def test_a_ready_broker_offers_events_to_every_ready_trigger(world):
    """Each takes what its filter passes."""
    address = world.broker()
    sinks = {name: world.sink(name=name) for name in ("a", "b", "all")}
    for name, sink in sinks.items():
        chosen = {} if name == "all" else {"filter": {"attributes": {"type": name}}}
        world.trigger(sink.url, name, **chosen)
    ids = world.publish_batch(address, [{"type": "a"}, {"type": "c"}, {"type": "b"}])
    sinks["all"].wait_for(*ids)
    sinks["a"].wait_for(ids[0])
    sinks["b"].wait_for(ids[2])
    assert (sinks["a"].ids, sinks["b"].ids) == ([ids[0]], [ids[2]])


@pytest.mark.clause("knative.broker.class.immutable")
def test_the_class_of_a_broker_never_changes(world):
    """The field is named; a patch that says the same is none."""
    first = world.create(BROKER, "b", {})
    given = first["metadata"]["annotations"][CLASS]
    answer = world.merge(BROKER, "b", {"metadata": {"annotations": {CLASS: "Other"}}})
    (field,) = world.faulty_fields(answer)
    assert "annotations" in field
    assert CLASS in field
    same = world.merge(BROKER, "b", {"metadata": {"annotations": {CLASS: given}}})
    assert same.status == 200
    assert world.read(BROKER, "b")["metadata"]["annotations"][CLASS] == given


@pytest.mark.clause("knative.broker.config.immutable")
@pytest.mark.parametrize("changed", [{"name": "other"}, None], ids=["other", "gone"])
def test_the_config_of_a_broker_never_changes(world, changed):
    """Neither to another object nor to none."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}
    world.create(BROKER, "b", {"config": config})
    answer = world.merge(BROKER, "b", {"spec": {"config": changed}})
    assert world.faulty_fields(answer) == ["spec.config"]
    assert world.read(BROKER, "b")["spec"]["config"]["name"] == "c"


@pytest.mark.clause("knative.broker.recreate")
def test_another_config_takes_another_broker(world):
    """Deleted and made again, with another config and another uid."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c"}
    first = world.create(BROKER, "b", {"config": config})
    world.delete(BROKER, "b")
    second = world.create(BROKER, "b", {"config": config | {"name": "other"}})
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    world.ready(BROKER, "b")


@pytest.mark.clause("knative.trigger.subscriber-uri.before-ready")
def test_a_ready_trigger_says_where_it_delivers(world):
    """In no version that a watcher sees is it Ready without a URI."""
    sink = world.sink()
    world.broker()
    created = world.create(TRIGGER, "t", {"broker": "b", "subscriber": {"uri": sink.url}})
    trigger = world.ready(TRIGGER, "t")
    assert trigger["status"]["subscriberUri"] == sink.url
    versions = world.history(TRIGGER, created)
    assert versions[-1] == trigger
    for seen in versions:
        ready = condition(seen, "Ready").get("status") == "True"
        assert not ready or seen["status"]["subscriberUri"] == sink.url


@pytest.mark.clause("knative.trigger.unresolved.not-ready")
@pytest.mark.clause("knative.trigger.unresolved.reason")
@pytest.mark.clause("knative.trigger.unresolved.empty-uri")
def test_a_trigger_without_its_subscriber_is_not_ready(world):
    """Until the subscriber is there."""
    world.broker()
    world.create(TRIGGER, "t", {"broker": "b", "subscriber": MISSING})
    trigger = world.wait_condition(TRIGGER, "t", "False")
    assert trigger["status"]["subscriberUri"] == ""
    for name in ("Ready", "SubscriberResolved"):
        found = condition(trigger, name)
        assert found["status"] == "False"
        assert found["reason"]
        assert "missing" in found["message"]
    world.create(SERVICE, "missing", {"ports": [{"port": 80}]})
    trigger = world.ready(TRIGGER, "t")
    assert trigger["status"]["subscriberUri"] == f"http://missing.{world.namespace}.svc/"


@pytest.mark.clause("knative.trigger.dead-letter.resolved")
def test_a_ready_trigger_says_where_its_dead_letters_go(world):
    """Also where the sink is named by a reference."""
    sink = world.sink()
    world.broker()
    world.create(SERVICE, "dead", {"ports": [{"port": 80}]})
    by_uri = {"deadLetterSink": {"uri": sink.url}}
    by_reference = {"deadLetterSink": {"ref": reference(SERVICE, "dead")}}
    trigger = world.trigger(world.sink(name="s").url, "t", delivery=by_uri)
    assert trigger["status"]["deadLetterSinkUri"] == sink.url
    trigger = world.trigger(world.sink(name="s2").url, "t2", delivery=by_reference)
    assert trigger["status"]["deadLetterSinkUri"] == f"http://dead.{world.namespace}.svc/"


@pytest.mark.clause("knative.trigger.dead-letter.unresolved")
def test_a_trigger_without_its_dead_letter_sink_is_not_ready(world):
    """The condition of the dead letter sink says why."""
    world.broker()
    spec = {"broker": "b", "subscriber": {"uri": world.sink().url}}
    world.create(TRIGGER, "t", {**spec, "delivery": {"deadLetterSink": MISSING}})
    trigger = world.wait_condition(TRIGGER, "t", "False")
    found = condition(trigger, "DeadLetterSinkResolved")
    assert found["status"] == "False"
    assert found["reason"]
    assert trigger["status"]["deadLetterSinkUri"] == ""


@pytest.mark.clause("knative.trigger.broker.immutable")
def test_the_broker_of_a_trigger_never_changes(world):
    """By a patch or a replacement; the field is named."""
    created = world.create(TRIGGER, "t", {"broker": "b", "subscriber": {"uri": world.sink().url}})
    answer = world.merge(TRIGGER, "t", {"spec": {"broker": "b2"}})
    assert world.faulty_fields(answer) == ["spec.broker"]
    created["spec"]["broker"] = "b2"
    del created["metadata"]["resourceVersion"]
    answer = world.send("PUT", world.path(TRIGGER, "t"), created)
    assert world.faulty_fields(answer) == ["spec.broker"]
    assert world.read(TRIGGER, "t")["spec"]["broker"] == "b"


@pytest.mark.clause("knative.trigger.ready.all-future-events")
def test_an_event_after_ready_is_never_missed(world):
    """Twenty Triggers made one after the other; each gets the event that follows at once."""
    address = world.broker()
    sinks = [world.sink(name=f"s{number}") for number in range(20)]
    for number, sink in enumerate(sinks):
        world.trigger(sink.url, f"t{number}", filter={"attributes": {"type": f"t{number}"}})
        world.publish(address, type=f"t{number}", id=str(number))
    for number, sink in enumerate(sinks):
        sink.wait_for(str(number))


@pytest.mark.clause("knative.trigger.ready.all-future-events")
def test_a_trigger_before_its_broker_waits_for_it(world):
    """Not Ready with a reason; Ready when the Broker is, and then it misses nothing."""
    sink = world.sink()
    world.create(TRIGGER, "t", {"broker": "b", "subscriber": {"uri": sink.url}})
    trigger = world.wait_condition(TRIGGER, "t", "False", "BrokerReady")
    assert condition(trigger, "Ready")["status"] != "True"
    assert condition(trigger, "BrokerReady")["reason"]
    world.create(BROKER, "b", {})
    world.ready(TRIGGER, "t")
    sink.wait_for(world.publish(world.address(BROKER, "b")))


@pytest.mark.clause("knative.broker.not-ready.forwards")
def test_a_trigger_that_is_not_ready_for_a_while_misses_nothing(world):
    """What comes while its subscriber is gone is delivered when that is back."""
    sink = world.sink()
    address = world.broker()
    port = {"distributary.dev/address": f"127.0.0.1:{world.sinks.port}"}
    world.create(SERVICE, "subscriber", {"ports": [{"port": 80}]}, annotations=port)
    uri = f"/{world.namespace}/sink"
    world.create(
        TRIGGER,
        "t",
        {
            "broker": "b",
            "subscriber": {"ref": reference(SERVICE, "subscriber"), "uri": uri},
            "delivery": world.prompt(1000),
        },
    )
    world.ready(TRIGGER, "t")
    first = world.publish(address)
    sink.wait_for(first)
    world.delete(SERVICE, "subscriber")
    trigger = world.wait_condition(TRIGGER, "t", "False")
    assert trigger["status"]["subscriberUri"] == ""
    missed = [world.publish(address) for _ in range(3)]
    world.create(SERVICE, "subscriber", {"ports": [{"port": 80}]}, annotations=port)
    world.ready(TRIGGER, "t")
    sink.wait_for(*missed)
