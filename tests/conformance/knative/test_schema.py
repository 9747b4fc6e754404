"""Clauses of the resources' fields: taken, kept, shown, required, optional, of the server."""

import pytest

from distributary.knative.kinds import BROKER, CHANNEL, SERVICE, SUBSCRIPTION, TRIGGER
from kit.knative_client import condition, reference

pytestmark = [pytest.mark.spark, pytest.mark.slow]

URI = "http://127.0.0.1:9/"

DELIVERY = {
    "deadLetterSink": {"ref": reference(BROKER, "d", namespace="default"), "uri": "x"},
    "retry": 3,
    "backoffDelay": "PT1S",
    "backoffPolicy": "linear",
}

WHOLE = [
    (BROKER, {"config": reference(SERVICE, "x", namespace="default"), "delivery": DELIVERY}),
    (
        TRIGGER,
        {
            "broker": "b",
            "filter": {"attributes": {"type": "t", "source": ""}},
            "subscriber": {"ref": reference(BROKER, "x", namespace="default"), "uri": "x"},
            "delivery": DELIVERY,
        },
    ),
    (CHANNEL, {"channelTemplate": {"apiVersion": "a/v1", "kind": "K"}, "delivery": DELIVERY}),
    (
        SUBSCRIPTION,
        {
            "channel": reference(CHANNEL, "c"),
            "subscriber": {"uri": URI},
            "reply": {"ref": reference(BROKER, "x", namespace="default")},
            "delivery": DELIVERY,
        },
    ),
]
"""Every field of a spec that a client may set."""

LEAST = [
    (BROKER, {}),
    (TRIGGER, {"broker": "b", "subscriber": {"uri": URI}}),
    (CHANNEL, {}),
    (SUBSCRIPTION, {"channel": reference(CHANNEL, "c"), "reply": {"uri": URI}}),
]
"""The REQUIRED fields alone."""

NEWER = {"backoffMax": "PT1M", "timeout": "PT5S", "format": "json"}
"""Fields of Knative's newer releases."""


def kinds(cases):
    """Each case with the kind's name."""
    return [pytest.param(kind, spec, id=kind.kind) for kind, spec in cases]


@pytest.mark.clause("knative.schema.fields")
@pytest.mark.parametrize(("kind", "spec"), kinds(WHOLE))
def test_every_field_is_taken_and_shown(world, kind, spec):
    """As it was sent; the answer to the creation says the same as a later read."""
    created = world.create(kind, "x", spec)
    assert created["spec"] == spec
    assert world.read(kind, "x")["spec"] == spec
    assert (created["apiVersion"], created["kind"]) == (kind.api_version, kind.kind)
    assert created["metadata"]["creationTimestamp"].endswith("Z")


@pytest.mark.clause("knative.schema.nothing-more-required")
@pytest.mark.clause("knative.schema.optional")
@pytest.mark.clause("knative.broker.config.optional")
@pytest.mark.clause("knative.broker.delivery.optional")
@pytest.mark.clause("knative.trigger.filter.optional")
@pytest.mark.clause("knative.trigger.delivery.optional")
@pytest.mark.clause("knative.channel.template.optional")
@pytest.mark.clause("knative.channel.delivery.optional")
@pytest.mark.clause("knative.subscription.subscriber.optional")
@pytest.mark.clause("knative.subscription.delivery.optional")
def test_required_fields_are_enough(world):
    """All four kinds become Ready with nothing else; a Broker needs no spec at all."""
    world.create(BROKER, "without", None)
    world.ready(BROKER, "without")
    for (kind, spec), name in zip(LEAST, ("b", "t", "c", "s"), strict=True):
        world.create(kind, name, spec)
    for (kind, _spec), name in zip(LEAST, ("b", "t", "c", "s"), strict=True):
        world.ready(kind, name)


@pytest.mark.clause("knative.subscription.reply.optional")
@pytest.mark.clause("knative.trigger.filter.optional")
@pytest.mark.clause("knative.filter.attributes.optional")
def test_without_reply_or_filter_every_event_is_sent(world):
    """No filter, an empty one, and one without attributes are the same."""
    addresses = world.channel(), world.broker()
    subscriber = world.sink()
    world.subscription(subscriber.url)
    sinks = [world.sink(name=f"s{number}") for number in range(4)]
    filters = ({}, {"filter": {}}, {"filter": {"attributes": {}}}, {"filters": []})
    for number, (sink, chosen) in enumerate(zip(sinks, filters, strict=True)):
        world.trigger(sink.url, f"t{number}", **chosen)
    subscriber.wait_for(world.publish(addresses[0]))
    id_ = world.publish(addresses[1])
    for sink in sinks:
        sink.wait_for(id_)


@pytest.mark.clause("knative.schema.required")
@pytest.mark.clause("knative.trigger.broker.required")
@pytest.mark.clause("knative.trigger.subscriber.required")
@pytest.mark.clause("knative.subscription.channel.required")
@pytest.mark.parametrize(
    ("kind", "missing"),
    [(TRIGGER, "broker"), (TRIGGER, "subscriber"), (SUBSCRIPTION, "channel")],
    ids=lambda value: getattr(value, "kind", value),
)
@pytest.mark.parametrize("way", ["absent", "empty"])
def test_a_request_without_a_required_field_is_refused(world, kind, missing, way):
    """The field is named, and nothing is stored."""
    spec = dict(next(spec for each, spec in LEAST if each is kind))
    empty = "" if isinstance(spec.pop(missing), str) else {}
    answer = world.propose(kind, "x", spec if way == "absent" else spec | {missing: empty})
    faults = world.faulty_fields(answer)
    assert all(fault.startswith(f"spec.{missing}") for fault in faults), faults
    assert world.send("GET", world.path(kind, "x")).status == 404


@pytest.mark.clause("knative.schema.validation")
def test_every_fault_is_named_at_once(world):
    """With the path of each field."""
    spec = {
        "broker": 1,
        "subscriber": {"uri": "nowhere"},
        "filter": {"attributes": {"UPPER": "x"}},
        "delivery": {"retry": -1, "backoffPolicy": "square", "backoffDelay": "soon"},
    }
    faults = world.faulty_fields(world.propose(TRIGGER, "x", spec))
    assert {fault.partition("[")[0] for fault in faults} >= {
        "spec.broker",
        "spec.subscriber.uri",
        "spec.delivery.retry",
        "spec.delivery.backoffPolicy",
        "spec.delivery.backoffDelay",
    }
    assert any(fault.startswith("spec.filter.attributes") for fault in faults)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("retry", "3"),
        ("retry", 1.5),
        ("retry", -1),
        ("retry", True),
        ("backoffPolicy", "Linear"),
        ("backoffPolicy", ""),
        ("backoffDelay", "1s"),
        ("backoffDelay", "-PT1S"),
        ("backoffDelay", 1),
        ("timeout", "PT0S"),
        ("format", "xml"),
        ("deadLetterSink", URI),
        ("deadLetterSink", {}),
    ],
)
def test_delivery_options_that_mean_nothing_are_refused(world, member, value):
    """In all four kinds, with the path."""
    for kind, spec in LEAST:
        answer = world.propose(kind, "x", {**spec, "delivery": {member: value}})
        faults = world.faulty_fields(answer)
        assert all(fault.startswith(f"spec.delivery.{member}") for fault in faults), faults


@pytest.mark.clause("knative.schema.additional")
@pytest.mark.parametrize(("kind", "spec"), kinds(LEAST))
def test_fields_of_newer_releases_are_taken(world, kind, spec):
    """Without a warning; unknown ones are another matter."""
    answer = world.propose(kind, "x", {**spec, "delivery": NEWER})
    assert answer.status == 201
    assert "warning" not in answer.headers
    assert answer.json()["spec"]["delivery"] == NEWER


@pytest.mark.clause("knative.schema.unknown")
@pytest.mark.parametrize(("kind", "spec"), kinds(LEAST))
def test_unknown_fields_are_warned_about_or_refused(world, kind, spec):
    """As the client asks by fieldValidation; a warning is the default."""
    obj = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": "x"},
        "spec": {**spec, "delivry": {}},
    }
    strict = world.send("POST", f"{world.path(kind)}?fieldValidation=Strict", obj)
    assert strict.status == 400
    assert "spec.delivry" in strict.json()["message"]
    warned = world.send("POST", world.path(kind), obj)
    assert warned.status == 201
    assert "spec.delivry" in warned.headers["warning"]
    obj["metadata"]["name"] = "y"
    ignored = world.send("POST", f"{world.path(kind)}?fieldValidation=Ignore", obj)
    assert "warning" not in ignored.headers


@pytest.mark.clause("knative.schema.status")
@pytest.mark.parametrize(("kind", "spec"), kinds(LEAST))
def test_the_status_is_the_servers(world, kind, spec):
    """What a client sends with a creation or an update is not taken."""
    made_up = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "MadeUp"}]}}
    answer = world.propose_whole(kind, {"metadata": {"name": "x"}, "spec": spec, **made_up})
    assert answer.status == 201
    answer = world.merge(kind, "x", made_up)
    assert answer.status == 200
    seen = world.wait(kind, "x", lambda obj: bool(condition(obj, "Ready")))
    assert all(each.get("reason") != "MadeUp" for each in seen["status"]["conditions"])
    assert seen["status"]["observedGeneration"] == seen["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("kind", "spec", "type_"),
    [
        pytest.param(
            *(*LEAST[0], "DeadLetterSinkResolved"),
            marks=pytest.mark.clause("knative.broker.observed-generation"),
            id="Broker",
        ),
        pytest.param(
            *(*LEAST[1], "DeadLetterSinkResolved"),
            marks=pytest.mark.clause("knative.trigger.observed-generation"),
            id="Trigger",
        ),
        pytest.param(
            *(*LEAST[2], "DeadLetterSinkResolved"),
            marks=pytest.mark.clause("knative.channel.observed-generation"),
            id="Channel",
        ),
        pytest.param(
            *(*LEAST[3], "ReferencesResolved"),
            marks=pytest.mark.clause("knative.subscription.observed-generation"),
            id="Subscription",
        ),
    ],
)
def test_conditions_and_observed_generation_change_in_one_write(world, kind, spec, type_):
    """Every second generation has a dead letter sink that is missing.

    In whatever version a watcher sees a generation observed, the condition is of that one.
    """
    world.broker()
    world.channel()
    created = world.create(kind, "x", spec)
    world.ready(kind, "x")
    gone = {"deadLetterSink": {"ref": reference(SERVICE, "missing")}}
    for _ in range(4):
        world.patch(kind, "x", delivery=gone)
        world.patch(kind, "x", delivery=None)
    world.patch(kind, "x", delivery=gone)
    last = world.wait_condition(kind, "x", "False", type_)
    assert last["metadata"]["generation"] == 10
    versions = world.history(kind, created)
    assert versions[-1]["status"]["observedGeneration"] == 10
    for seen in versions:
        observed = seen["status"].get("observedGeneration", 1)
        if condition(seen, type_):
            resolved = condition(seen, type_)["status"]
            assert resolved == ("False" if observed % 2 == 0 else "True"), seen


@pytest.mark.clause("knative.delivery-spec.dead-letter.optional")
@pytest.mark.clause("knative.delivery-spec.retry.optional")
@pytest.mark.clause("knative.delivery-spec.backoff-delay.optional")
@pytest.mark.clause("knative.delivery-spec.backoff-policy.optional")
@pytest.mark.parametrize("left_out", [*DELIVERY, "all"])
def test_every_delivery_option_can_be_left_out(world, left_out):
    """And all of them together."""
    world.broker()
    delivery = {
        name: {"uri": URI} if name == "deadLetterSink" else value
        for name, value in DELIVERY.items()
        if left_out not in (name, "all")
    }
    for kind, spec in LEAST:
        world.create(kind, "x", {**spec, "delivery": delivery})
        assert world.read(kind, "x")["spec"]["delivery"] == delivery
    world.ready(BROKER, "x")
    world.ready(TRIGGER, "x")


@pytest.mark.clause("knative.delivery-spec.dead-letter.limits")
@pytest.mark.parametrize("uri", ["mqtt://127.0.0.1/", "file:///tmp/x", "http://user:pw@host/"])
def test_a_dead_letter_sink_is_reached_by_http(world, uri):
    """Other schemes, and passwords in a URI, are refused."""
    for kind, spec in LEAST:
        delivery = {"deadLetterSink": {"uri": uri}}
        faults = world.faulty_fields(world.propose(kind, "x", {**spec, "delivery": delivery}))
        assert faults == ["spec.delivery.deadLetterSink.uri"]
