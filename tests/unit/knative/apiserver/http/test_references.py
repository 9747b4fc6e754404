"""References into another namespace: nobody learns by one what stands in it."""

import pytest

from distributary.access import (
    AccessSnapshot,
    Grant,
    Identity,
    IdentityKind,
    PolicyRecord,
    Verb,
    encode_identity,
)

EVENTING = "/apis/eventing.knative.dev/v1/namespaces/shop"
SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/shop/subscriptions"
MERGE_PATCH = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
URI = {"uri": "https://example.com/"}


def holder(*grants: Grant) -> bytes:
    """Who has *grants*, as a receiver tells it."""
    made = Identity(name="key:till", how=IdentityKind.KEY, grants=grants, subject="key:till")
    return encode_identity(made).decode()


OF_SHOP = holder(Grant(may=(Verb.ADMIN,), namespaces=("shop",)))
OF_BOTH = holder(
    Grant(may=(Verb.WRITE,), namespaces=("shop",)), Grant(may=(Verb.READ,), namespaces=("bank",))
)


def abroad(kind="Broker", namespace="bank", name="default"):
    """A destination there."""
    versions = {"Broker": "eventing.knative.dev/v1", "Channel": "messaging.knative.dev/v1"}
    version = versions.get(kind, "v1")
    return {
        "ref": {"apiVersion": version, "kind": kind, "name": name, "namespace": namespace},
    }


def trigger(subscriber=URI, **more):
    """A Trigger."""
    return {"metadata": {"name": "t"}, "spec": {"broker": "b", "subscriber": subscriber, **more}}


def ask(cluster, method, path, body, by, *content_type):
    """Status and message of the response."""
    answer = cluster.ask(method, path, body, *content_type, x_distributary_identity=by)
    return answer.status, answer.json().get("message", "")


@pytest.mark.parametrize("kind", ["Broker", "Channel", "Service", "ConfigMap"])
@pytest.mark.parametrize("there", [True, False])
def test_a_reference_needs_read_where_it_leads(cluster, kind, there):
    """Whether anything is there makes no difference."""
    if there:
        kinds = {"Broker": EVENTING, "Channel": "/apis/messaging.knative.dev/v1/namespaces/shop"}
        folder = kinds.get(kind, "/api/v1/namespaces/shop").replace("shop", "bank")
        made = {"metadata": {"name": "default"}}
        assert cluster.ask("POST", f"{folder}/{kind.lower()}s", made).status == 201
    found = ask(cluster, "POST", f"{EVENTING}/triggers", trigger(abroad(kind)), OF_SHOP)
    assert found == (
        403,
        (
            'triggers.eventing.knative.dev "t" is forbidden: spec.subscriber.ref: '
            "key:till may not read in namespace bank"
        ),
    )
    cluster.get(f"{EVENTING}/triggers/t", 404)
    path = f"{EVENTING}/triggers"
    assert ask(cluster, "POST", path, trigger(abroad(kind)), OF_BOTH)[0] == 201


def test_each_place_of_a_reference_is_asked(cluster):
    """Dead letters, replies, and the configuration of a Broker."""
    dead = {"delivery": {"deadLetterSink": abroad()}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "namespace": "bank"}
    channel = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "c"}

    def of_channel(**more):
        return {"metadata": {"name": "s"}, "spec": {"channel": channel, **more}}

    asked = {
        "spec.delivery.deadLetterSink.ref": [
            (f"{EVENTING}/triggers", trigger(**dead)),
            (f"{EVENTING}/brokers", {"metadata": {"name": "b"}, "spec": dead}),
            (SUBSCRIPTIONS, of_channel(subscriber=URI, **dead)),
        ],
        "spec.reply.ref": [(SUBSCRIPTIONS, of_channel(reply=abroad()))],
        "spec.config": [
            (f"{EVENTING}/brokers", {"metadata": {"name": "b"}, "spec": {"config": config}})
        ],
    }
    for place, objects in asked.items():
        for path, obj in objects:
            status, message = ask(cluster, "POST", path, obj, OF_SHOP)
            assert (status, place in message) == (403, True), message
            assert ask(cluster, "POST", f"{path}?dryRun=All", obj, OF_BOTH)[0] == 201


@pytest.mark.parametrize("namespace", ["", "shop"])
def test_references_at_home_are_not_asked(cluster, namespace):
    """Named or not."""
    obj = trigger(abroad(namespace=namespace))
    assert ask(cluster, "POST", f"{EVENTING}/triggers", obj, OF_SHOP)[0] == 201


def test_what_is_stored_is_not_asked_again(cluster):
    """Who may write changes the rest of an object; another reference is asked in every way."""
    path = f"{EVENTING}/triggers/t"
    stored = {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", **trigger(abroad())}
    assert ask(cluster, "POST", f"{EVENTING}/triggers", stored, OF_BOTH)[0] == 201
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert ask(cluster, "PATCH", path, labels, OF_SHOP, MERGE_PATCH)[0] == 200
    other = {**stored, "spec": {**stored["spec"], "subscriber": abroad(name="other")}}
    merged = {"spec": {"subscriber": abroad(name="other")}}
    assert ask(cluster, "PUT", path, other, OF_SHOP)[0] == 403
    assert ask(cluster, "PATCH", path, merged, OF_SHOP, MERGE_PATCH)[0] == 403
    apply = f"{path}?fieldManager=m&force=true"
    assert ask(cluster, "PATCH", apply, other, OF_SHOP, APPLY)[0] == 403
    assert ask(cluster, "PATCH", path, merged, OF_BOTH, MERGE_PATCH)[0] == 200


def test_another_path_or_place_of_a_stored_reference_is_asked(cluster):
    """It may lead to what nobody meant to open: another path of the same Service."""
    path = f"{EVENTING}/triggers/t"
    subscriber = abroad() | {"uri": "/hook"}
    stored = {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", **trigger(subscriber)}
    assert ask(cluster, "POST", f"{EVENTING}/triggers", stored, OF_BOTH)[0] == 201
    for spec in (
        {"subscriber": {"uri": "/admin"}},
        {"delivery": {"deadLetterSink": subscriber}},
    ):
        assert ask(cluster, "PATCH", path, {"spec": spec}, OF_SHOP, MERGE_PATCH)[0] == 403
        assert ask(cluster, "PATCH", path, {"spec": spec}, OF_BOTH, MERGE_PATCH)[0] == 200


def test_a_policy_there_opens_a_broker_for_references_too(cluster):
    """One that lets deliveries of the namespace in; nothing else there."""
    policy = PolicyRecord(
        name="bank/p", targets=("brokers/bank/default",), subjects=("system:namespace:shop",)
    )
    cluster.gate.replace(AccessSnapshot(required=True, policies=(policy,)))
    path = f"{EVENTING}/triggers"
    for other in (abroad(name="other"), abroad("Channel"), abroad(namespace="till")):
        assert ask(cluster, "POST", path, trigger(other), OF_SHOP)[0] == 403
    assert ask(cluster, "POST", path, trigger(abroad()), OF_SHOP)[0] == 201


def test_without_authentication_references_lead_anywhere(cluster):
    """As before there was any."""
    assert cluster.ask("POST", f"{EVENTING}/triggers", trigger(abroad())).status == 201
