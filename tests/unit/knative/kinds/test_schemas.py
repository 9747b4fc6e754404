"""The schemas are whole: every field of the text, every reference, a word about each."""

import json
import re

import pytest

from distributary.knative.kinds import API_SUBSCRIPTION, KINDS, SCHEMAS

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
NAMED = set(re.findall(r'"#/definitions/([^"]+)"', json.dumps(SCHEMAS)))


def fields(name):
    """Members of the definition *name*."""
    return set(SCHEMAS[name]["properties"])


def test_every_reference_leads_somewhere():
    """To a definition here, or to metadata."""
    assert {name for name in NAMED if name not in SCHEMAS} == {f"{META}ObjectMeta"}


def test_nothing_stands_here_that_no_kind_uses():
    """Every definition is a kind's or a part of one."""
    assert set(SCHEMAS) - NAMED == {kind.definition for kind in (*KINDS, API_SUBSCRIPTION)}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_kind_says_what_it_is(kind):
    """Clients find a kind's definition by group, version and kind."""
    schema = SCHEMAS[kind.definition]
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": kind.group, "version": kind.version, "kind": kind.kind}
    ]
    assert ("status" in schema["properties"]) == kind.has_status


@pytest.mark.parametrize("name", SCHEMAS)
def test_everything_is_described(name):
    """``kubectl explain`` shows these sentences."""
    schema = SCHEMAS[name]
    assert schema["description"].endswith(".")
    for member, inner in schema.get("properties", {}).items():
        assert inner["description"].endswith("."), member
    assert set(schema.get("required", ())) <= set(schema.get("properties", {}))


def test_knows_what_stands_in_the_statuses_of_another_cluster():
    """Clients check a whole object before they send it, and its status with it."""
    eventing, messaging = "dev.knative.eventing.v1.", "dev.knative.messaging.v1."
    addressed = {"address", "addresses", "policies", "annotations"}
    wanted = {
        f"{eventing}BrokerStatus": addressed,
        f"{eventing}TriggerStatus": {"auth", "annotations"},
        f"{messaging}ChannelStatus": {*addressed, "channel"},
        f"{messaging}SubscriptionStatus": {"auth", "annotations"},
        "dev.knative.eventing.duck.v1.SubscriberSpec": {"name"},
    }
    missing = {name: each - fields(name) for name, each in wanted.items()}
    assert not any(missing.values()), missing


def test_has_all_fields_of_the_text():
    """Knative Eventing, "Detailed Resources": implementations include all schema fields."""
    eventing, messaging = "dev.knative.eventing.v1.", "dev.knative.messaging.v1."
    duck, delivery = "dev.knative.pkg.apis.duck.v1.", "dev.knative.eventing.duck.v1."
    status = {"conditions", "observedGeneration"}
    wanted = {
        f"{eventing}BrokerSpec": {"config", "delivery"},
        f"{eventing}BrokerStatus": {*status, "address", "deadLetterSinkUri"},
        f"{eventing}TriggerSpec": {"broker", "filter", "subscriber", "delivery"},
        f"{eventing}TriggerStatus": {*status, "subscriberUri", "deadLetterSinkUri"},
        f"{eventing}TriggerFilter": {"attributes"},
        f"{messaging}ChannelSpec": {"channelTemplate", "subscribers", "delivery"},
        f"{messaging}ChannelStatus": {*status, "address", "subscribers", "deadLetterSinkUri"},
        f"{messaging}SubscriptionSpec": {"channel", "subscriber", "reply", "delivery"},
        f"{messaging}SubscriptionStatus": {*status, "physicalSubscription"},
        f"{messaging}PhysicalSubscriptionStatus": {
            "subscriberUri",
            "replyUri",
            "deadLetterSinkUri",
        },
        f"{duck}Addressable": {"url"},
        f"{duck}Destination": {"ref", "uri"},
        f"{duck}KReference": {"apiVersion", "kind", "name", "namespace"},
        f"{delivery}DeliverySpec": {"deadLetterSink", "retry", "backoffDelay", "backoffPolicy"},
        f"{delivery}SubscriberSpec": {
            "uid",
            "generation",
            "subscriberUri",
            "replyUri",
            "delivery",
        },
        f"{delivery}SubscriberStatus": {"uid", "generation", "ready", "message"},
    }
    missing = {name: each - fields(name) for name, each in wanted.items()}
    assert not any(missing.values()), missing
