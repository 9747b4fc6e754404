"""What the server fills in, and what it leaves out."""

import pytest

from distributary.knative.kinds import (
    BROKER,
    BROKER_CLASS,
    CHANNEL,
    NAMESPACE,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
    defaulted,
    unknown_fields,
)


def test_a_broker_gets_a_class(make):
    """Unless it names one; an empty one is none."""
    assert defaulted(BROKER, make(BROKER), None)["metadata"]["annotations"] == {
        BROKER_CLASS: "Distributary"
    }
    kafka = make(BROKER)
    kafka["metadata"]["annotations"] = {BROKER_CLASS: "Kafka", "a": "b"}
    assert defaulted(BROKER, kafka, None)["metadata"] == kafka["metadata"]


def test_the_subscribers_of_a_channel_are_the_servers(make):
    """What a client sends is dropped; what stands stays."""
    sent = make(CHANNEL, subscribers=[{"uid": "forged"}])
    assert "subscribers" not in defaulted(CHANNEL, sent, None)["spec"]
    standing = make(CHANNEL, subscribers=[{"uid": "real"}])
    assert defaulted(CHANNEL, sent, standing)["spec"]["subscribers"] == [{"uid": "real"}]
    without = {"metadata": {"name": "x"}}
    assert defaulted(CHANNEL, without, standing)["spec"]["subscribers"] == [{"uid": "real"}]


def test_a_channel_gets_a_template_and_says_how_it_is_subscribed_to(make):
    """Clients of Knative's read both without asking whether they are there."""
    template = {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}
    for sent in (make(CHANNEL), {"metadata": {"name": "x"}}):
        filled = defaulted(CHANNEL, sent, None)
        assert filled["spec"] == {"channelTemplate": template}
        assert filled["metadata"]["annotations"] == {"messaging.knative.dev/subscribable": "v1"}
        assert defaulted(CHANNEL, filled, filled) == filled


def test_a_trigger_gets_a_filter_and_the_namespace_of_its_subscriber(make):
    """As Knative fills them in; what is there stays."""
    ref = {"apiVersion": "v1", "kind": "Service", "name": "s"}
    filled = defaulted(TRIGGER, make(TRIGGER, subscriber={"ref": ref}), None)
    assert filled["spec"]["filter"] == {}
    assert filled["spec"]["subscriber"] == {"ref": {**ref, "namespace": "default"}}
    chosen = make(TRIGGER, filter={"attributes": {"type": "a"}}, subscriber={
        "ref": {**ref, "namespace": "other"}, "uri": "/x"
    })  # fmt: skip
    assert defaulted(TRIGGER, chosen, None)["spec"] == chosen["spec"]


def test_a_service_gets_what_tables_and_patches_rely_on(make):
    """Type, protocol and target port, as the API server fills them in."""
    sent = make(SERVICE, ports=[{"port": 80}, {"port": 1, "protocol": "UDP", "targetPort": "a"}])
    assert defaulted(SERVICE, sent, None)["spec"] == {
        "type": "ClusterIP",
        "ports": [
            {"port": 80, "protocol": "TCP", "targetPort": 80},
            {"port": 1, "protocol": "UDP", "targetPort": "a"},
        ],
    }


def test_a_namespace_is_active_and_labelled():
    """As kubectl shows it and selectors use it."""
    filled = defaulted(NAMESPACE, {"metadata": {"name": "shop"}}, None)
    assert filled["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert filled["status"] == {"phase": "Active"}
    ending = {"metadata": {"name": "shop"}, "status": {"phase": "Terminating"}}
    assert defaulted(NAMESPACE, ending, None)["status"] == {"phase": "Terminating"}


def test_delivery_stays_as_it_was_sent(make):
    """Which options were set decides whether the Broker's count."""
    sent = make(TRIGGER, delivery={"retry": 3})
    assert defaulted(TRIGGER, sent, None)["spec"]["delivery"] == {"retry": 3}


def test_nulls_are_left_out(make):
    """A null stands for an absent member, in structs and maps alike."""
    sent = make(TRIGGER, delivery=None, filter=None)
    assert defaulted(TRIGGER, sent, None)["spec"] == {**make(TRIGGER)["spec"], "filter": {}}
    service = make(SERVICE, selector={"a": None, "b": "c"}, type=None)
    assert defaulted(SERVICE, service, None)["spec"] == {
        "selector": {"b": "c"},
        "type": "ClusterIP",
    }


UNKNOWN = {
    "at the top": ({"specs": {}}, "specs"),
    "in the spec": ({"spec": {"filtr": 1}}, "spec.filtr"),
    "in a reference": (
        {"spec": {"subscriber": {"ref": {"group": "a"}}}},
        "spec.subscriber.ref.group",
    ),
    "in the delivery": ({"spec": {"delivery": {"retries": 1}}}, "spec.delivery.retries"),
    "in the status": ({"status": {"conditions": [{"kind": 1}]}}, "status.conditions[0].kind"),
    "with an odd name": ({"spec": {"a b": 1}}, 'spec["a b"]'),
}


@pytest.mark.parametrize(("obj", "path"), UNKNOWN.values(), ids=UNKNOWN)
def test_unknown_members_are_named_and_left_out(obj, path):
    """As the API server warns of them and drops them."""
    assert unknown_fields(TRIGGER, obj) == [path]
    assert unknown_fields(TRIGGER, defaulted(TRIGGER, obj, None)) == []


def test_filters_are_never_made_wider(make, causes_of):
    """What is not understood in a filter is a fault, not a warning."""
    sent = make(TRIGGER, filter={"attribute": {"type": "a"}}, filters=[{"exat": {"type": "a"}}])
    assert unknown_fields(TRIGGER, sent) == []
    assert causes_of(TRIGGER, sent) == [
        ("spec.filter.attribute", "Forbidden"),
        ("spec.filters[0].exat", "NotSupported"),
    ]


def test_what_a_channel_template_holds_is_nobodys_business(make):
    """It is kept as it is, nulls and all."""
    template = {"kind": "X", "spec": {"deep": [None, {"a": None}]}}
    sent = make(CHANNEL, channelTemplate=template)
    assert unknown_fields(CHANNEL, sent) == []
    assert defaulted(CHANNEL, sent, None)["spec"]["channelTemplate"] == template


def test_a_fault_is_left_for_admission(make, causes_of):
    """Filling in never hides what is wrong."""
    assert causes_of(SERVICE, make(SERVICE, ports="80")) == [("spec.ports", "TypeInvalid")]
    assert causes_of(SUBSCRIPTION, {"spec": []}) == [("spec", "TypeInvalid")]


def test_what_was_sent_is_not_changed(make):
    """Objects in the store are shared by all readers."""
    sent = make(SERVICE, ports=[{"port": 80}])
    before = make(SERVICE, ports=[{"port": 80}])
    defaulted(SERVICE, sent, None)
    assert sent == before
