"""Triggers: when they are ready, where their routes listen, and what a route outlives."""

import pytest

from distributary.core.policy import BackoffPolicy, DeliveryPolicy

SINK = "http://127.0.0.1:9/"


def trigger(world, name="t", **spec):
    """Apply a Trigger of the default broker."""
    return world.apply("Trigger", name, {"broker": "default", "subscriber": world.to(), **spec})


def test_a_trigger_becomes_a_route_and_is_ready(world):
    """Filters in the log, everything else in the store; the status tells where it delivers."""
    made = trigger(world, filter={"attributes": {"type": "a", "source": ""}})
    assert world.ready(made) == "True"
    assert made["status"]["subscriberUri"] == "http://127.0.0.1:9/in"
    assert made["status"]["observedGeneration"] == 1
    (record,) = world.records()
    assert (record.uid, record.address, record.revision) == (made["metadata"]["uid"], "", 1)
    assert (record.filters, record.present) == (({"exact": {"type": "a"}},), ("source",))
    settings = world.settings(made)
    assert settings.sink.uri == "http://127.0.0.1:9/in"
    assert (settings.wants_reply, settings.reply_kept, settings.unusable) == (True, True, None)
    assert settings.reply.uri == "http://events.example:8080/brokers/default/default"
    assert (settings.reply.own, settings.reply.dial) == (True, "127.0.0.1:8080")
    assert settings.policy == DeliveryPolicy(10, BackoffPolicy.EXPONENTIAL, 0.2, 300.0, 30.0)


def test_a_trigger_may_come_before_its_broker(world):
    """It waits, says for what, and gets its route when the Broker stands."""
    early = world.apply("Trigger", "t", {"broker": "later", "subscriber": world.to()})
    assert world.condition(early, "BrokerReady") == ("False", "BrokerDoesNotExist")
    assert world.condition(early, "Ready") == ("False", "BrokerDoesNotExist")
    assert world.records() == []
    broker = world.apply("Broker", "later")
    assert world.ready(world.get("Trigger", "t")) == "True"
    (record,) = world.records()
    assert record.address == broker["metadata"]["uid"]


def test_a_broker_that_is_not_ready_keeps_new_triggers_waiting(world):
    """Its dead letter sink leads nowhere: what it does not hold, its Triggers do not get."""
    dead = {"delivery": {"deadLetterSink": world.at("Service", "dead")}}
    broker = world.apply("Broker", "b", dead)
    assert world.condition(broker, "DeadLetterSinkResolved") == ("False", "NotFound")
    assert broker["status"]["deadLetterSinkUri"] == ""
    waiting = world.apply("Trigger", "t", {"broker": "b", "subscriber": world.to()})
    assert world.condition(waiting, "BrokerReady") == ("False", "BrokerNotReady")
    assert world.records() == []
    world.service("dead")
    now = world.get("Trigger", "t")
    assert world.ready(now) == "True"
    assert now["status"]["deadLetterSinkUri"] == "http://dead.default.svc/"


@pytest.mark.parametrize(
    ("destination", "reason"),
    [
        ({"ref": {"apiVersion": "v1", "kind": "Service", "name": "none"}}, "NotFound"),
        ({"ref": {"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}}, "NotFound"),
        ({"ref": {"apiVersion": "apps/v1", "kind": "Thing", "name": "x"}}, "KindNotFound"),
        ({"ref": {"apiVersion": "v1", "kind": "Namespace", "name": "default"}}, "KindNotFound"),
        ({"ref": {"apiVersion": "v1", "kind": "Namespace", "name": "none"}}, "KindNotFound"),
        (
            {"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "name": "t"}},
            "NotAddressable",
        ),
        ({"uri": "http://169.254.169.254/latest"}, "BlockedAddress"),
    ],
    ids=[
        "no such object",
        "no such kind's object",
        "unknown kind",
        "a Namespace",
        "no Namespace",
        "no address",
        "metadata",
    ],
)
def test_a_subscriber_that_leads_nowhere_is_told(world, destination, reason):
    """Not ready, with the reason, and the URI is the empty string."""
    made = trigger(world, subscriber=destination)
    assert world.condition(made, "SubscriberResolved") == ("False", reason)
    assert world.condition(made, "Ready") == ("False", reason)
    assert made["status"]["subscriberUri"] == ""
    assert world.records() == []


def test_a_dead_letter_sink_that_leads_nowhere_is_told(world):
    """As the subscriber; the others' conditions stay."""
    made = trigger(world, delivery={"deadLetterSink": world.at("Service", "none")})
    assert world.condition(made, "DeadLetterSinkResolved") == ("False", "NotFound")
    assert world.condition(made, "SubscriberResolved") == ("True", "")
    assert world.ready(made) == "False"
    assert made["status"]["deadLetterSinkUri"] == ""


def test_a_subscriber_that_goes_leaves_the_route_standing(world):
    """Attempts fail and are made again, at the place that is known last; then it comes back."""
    world.service("s")
    made = trigger(world, subscriber=world.at("Service", "s"))
    before = world.settings(made)
    world.delete("Service", "s")
    gone = world.get("Trigger", "t")
    assert (world.ready(gone), gone["status"]["subscriberUri"]) == ("False", "")
    assert world.condition(gone, "RouteReady") == ("True", "")
    settings = world.settings(made)
    assert settings.sink == before.sink
    assert "not found" in settings.unusable
    assert list(world.standing()) == [made["metadata"]["uid"]]
    world.service("s")
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert world.settings(made) == before


def test_a_dead_letter_sink_that_goes_keeps_its_place(world):
    """What fails meanwhile goes where it went before."""
    world.service("d")
    made = trigger(world, delivery={"deadLetterSink": world.at("Service", "d"), "retry": 1})
    before = world.settings(made)
    world.delete("Service", "d")
    assert world.ready(world.get("Trigger", "t")) == "False"
    assert world.settings(made) == before


def test_the_brokers_delivery_counts_where_the_trigger_has_none(world):
    """And not at all where it has any (MUST)."""
    options = {"retry": 3, "backoffPolicy": "linear", "deadLetterSink": world.to("http://a.b/d")}
    world.apply("Broker", "b", {"delivery": options})
    plain = world.apply("Trigger", "plain", {"broker": "b", "subscriber": world.to()})
    own = world.apply(
        "Trigger", "own", {"broker": "b", "subscriber": world.to(), "delivery": {"retry": 1}}
    )
    settings = world.settings(plain)
    assert (settings.policy.retry, settings.policy.backoff_policy) == (3, "linear")
    assert settings.dead_letter.uri == "http://a.b/d"
    assert plain["status"]["deadLetterSinkUri"] == "http://a.b/d"
    settings = world.settings(own)
    assert (settings.policy.retry, settings.policy.backoff_policy) == (1, "exponential")
    assert settings.dead_letter is None
    assert "deadLetterSinkUri" not in own["status"]
    world.apply("Broker", "b", {"delivery": {**options, "retry": 4}})
    assert world.settings(plain).policy.retry == 4
    assert world.settings(own).policy.retry == 1


def test_a_trigger_waits_for_what_its_annotation_names(world):
    """It is not Ready before that is; as in Knative its events are delivered all the same."""

    def depend(text):
        spec = {"broker": "default", "subscriber": world.to()}
        annotations = {"knative.dev/dependency": text}
        return world.apply("Trigger", "t", spec, annotations=annotations)

    source = '{"apiVersion":"sources.knative.dev/v1","kind":"PingSource","name":"none"}'
    made = depend(source)
    assert world.condition(made, "DependencyReady") == ("False", "DependencyDoesNotExist")
    assert world.ready(made) == "False"
    assert list(world.standing()) == [made["metadata"]["uid"]]
    broker = '{"apiVersion":"eventing.knative.dev/v1","kind":"Broker","name":"b"}'
    assert world.condition(depend(broker), "DependencyReady")[0] == "False"
    world.apply("Broker", "b")
    assert world.ready(world.get("Trigger", "t")) == "True"
    world.apply("Broker", "b", {"delivery": {"deadLetterSink": world.at("Service", "none")}})
    made = world.get("Trigger", "t")
    assert world.condition(made, "DependencyReady") == ("False", "DependencyNotReady")
    world.service("s")
    service = '{"apiVersion":"v1","kind":"Service","name":"s"}'
    made = depend(service)
    assert world.condition(made, "DependencyReady") == ("Unknown", "DependencyUnknown")
    world.apply("Trigger", "t", {"broker": "default", "subscriber": world.to()}, annotations={})
    assert world.ready(world.get("Trigger", "t")) == "True"


def test_a_dead_letter_sink_alone_gets_at_once_what_fails(world):
    """A delivery that says nothing of ``retry`` makes none; without one there are ten retries."""
    assert world.settings(trigger(world)).policy.retry == 10
    made = trigger(world, delivery={"deadLetterSink": world.to("http://a.b/d")})
    assert world.settings(made).policy.retry == 0
    world.apply("Broker", "b", {"delivery": {"timeout": "PT5S"}})
    plain = world.apply("Trigger", "plain", {"broker": "b", "subscriber": world.to()})
    assert (world.settings(plain).policy.retry, world.settings(plain).policy.timeout_s) == (0, 5.0)


def test_what_the_brokers_dead_letter_sink_dials_reaches_the_triggers(world):
    """Also where the Broker's own status does not change by it."""
    world.service("d", type="ExternalName", externalName="one.example")
    world.apply("Broker", "b", {"delivery": {"deadLetterSink": world.at("Service", "d")}})
    made = world.apply("Trigger", "t", {"broker": "b", "subscriber": world.to()})
    assert world.settings(made).dead_letter.dial == "one.example:8081"
    world.service("d", type="ExternalName", externalName="two.example")
    assert world.settings(made).dead_letter.dial == "two.example:8081"


def test_a_changed_filter_is_a_new_revision(world):
    """And the status says which generation it tells about."""
    made = trigger(world)
    changed = trigger(world, filters=[{"prefix": {"type": "x."}}])
    assert [record.revision for record in world.records()] == [1, 2]
    assert world.records()[1].filters == ({"prefix": {"type": "x."}},)
    assert changed["status"]["observedGeneration"] == 2
    assert changed["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_label_changes_no_route(world):
    """What has nothing to do with routes appends nothing to the log."""
    made = trigger(world)
    world.runner.run(
        world.objects.edit(
            world.objects.list(world.kinds["Trigger"])[0][0].key,
            lambda old: {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}},
        )
    )
    world.settle()
    assert len(world.records()) == 1
    assert world.get("Trigger", "t")["status"] == made["status"]


def test_a_deleted_trigger_has_no_route(world):
    """Its record stands in the log when the delete has settled; a recreated one is another."""
    made = trigger(world)
    world.delete("Trigger", "t")
    assert world.standing() == {}
    assert world.settings(made) is None
    again = trigger(world)
    assert list(world.standing()) == [again["metadata"]["uid"]]
    assert again["metadata"]["uid"] != made["metadata"]["uid"]


def test_a_deleted_broker_leaves_its_triggers_routes_where_they_were(world):
    """What was accepted before is still delivered, by the settings that were known last."""
    old = world.apply("Broker", "b", {"delivery": {"retry": 7, "deadLetterSink": world.to()}})
    made = world.apply("Trigger", "t", {"broker": "b", "subscriber": world.to()})
    before = world.settings(made)
    world.delete("Broker", "b")
    orphan = world.get("Trigger", "t")
    assert world.condition(orphan, "Ready") == ("False", "BrokerDoesNotExist")
    assert world.settings(made) == before
    assert world.standing()[made["metadata"]["uid"]].address == old["metadata"]["uid"]
    assert "brokers/default/b" not in world.ingress.known

    new = world.apply("Broker", "b")
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert world.standing()[made["metadata"]["uid"]].address == new["metadata"]["uid"]
    assert (world.settings(made).policy.retry, world.settings(made).dead_letter) == (10, None)


def test_the_default_broker_has_the_empty_address_in_every_life(world):
    """So that what is published to ``/events`` finds its Triggers."""
    made = trigger(world)
    world.delete("Broker", "default")
    assert world.ready(world.get("Trigger", "t")) == "False"
    world.apply("Broker", "default")
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert world.standing()[made["metadata"]["uid"]].address == ""


def test_a_status_that_a_client_forged_is_written_anew(world):
    """And no route moves by it."""
    made = trigger(world)
    world.forge("Trigger", "t", {"subscriberUri": "http://evil.example/", "conditions": []})
    assert world.get("Trigger", "t")["status"] == made["status"]
    good = world.get("Broker", "default")["status"]
    world.forge("Broker", "default", {"address": {"url": "http://evil.example/"}})
    assert world.get("Broker", "default")["status"] == good
    assert len(world.records()) == 1


def test_routes_listen_at_a_recreated_broker_before_events_come_there(world, monkeypatch):
    """Else what is accepted at once is matched by nobody."""
    world.apply("Broker", "b")
    made = world.apply("Trigger", "t", {"broker": "b", "subscriber": world.to()})
    world.delete("Broker", "b")
    look_again = world.ingress.look_again
    listening = []

    async def look():
        listening.append(world.standing()[made["metadata"]["uid"]].address)
        await look_again()

    monkeypatch.setattr(world.ingress, "look_again", look)
    new = world.apply("Broker", "b")
    assert listening == [new["metadata"]["uid"]]
    assert world.ready(world.get("Trigger", "t")) == "True"
    assert len(world.records()) == 2


def test_a_trigger_of_the_servers_own_broker_is_ready_without_an_object(world):
    """It listens where the server tells of subscriptions; replies would come to nobody."""
    made = trigger(world, broker="lifecycle")
    assert world.ready(made) == "True"
    (record,) = world.records()
    assert record.address == "!default"
    settings = world.settings(made)
    assert (settings.wants_reply, settings.reply) == (False, None)


@pytest.mark.parametrize(("text", "asked"), [("true", True), ("false", False), (None, False)])
def test_an_annotation_asks_for_events_about_the_trigger_itself(world, text, asked):
    """Its subscriber gets them, as the sink of a subscription with ``config.lifecycle``."""
    annotations = {} if text is None else {"distributary.dev/lifecycle": text}
    spec = {"broker": "default", "subscriber": world.to()}
    made = world.apply("Trigger", "t", spec, annotations=annotations)
    assert world.settings(made).lifecycle is asked
