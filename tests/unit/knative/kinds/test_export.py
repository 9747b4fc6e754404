"""What an export of a real cluster becomes, object by object."""

import pytest

from distributary.knative.kinds.export import converted

EVENTING, MESSAGING = "eventing.knative.dev/v1", "messaging.knative.dev/v1"


def exported(kind, api_version, *, spec=None, status=None, **metadata):
    """One object as it stands in an export."""
    metadata = {"name": "x", "namespace": "n", **metadata}
    obj = {"apiVersion": api_version, "kind": kind, "metadata": metadata}
    return (
        obj
        | ({} if spec is None else {"spec": spec})
        | ({} if status is None else {"status": status})
    )


def one(obj):
    """What becomes of a single object."""
    (found,) = converted([obj])
    return found


def test_what_the_old_cluster_wrote_is_left_out_and_named():
    """Finalizers would hold every delete; versions and uids belong to the other server."""
    found = one(
        exported(
            "Broker",
            EVENTING,
            spec={},
            status={"conditions": []},
            uid="u",
            resourceVersion="7",
            generation=2,
            creationTimestamp="2026-01-01T00:00:00Z",
            finalizers=["brokers.eventing.knative.dev"],
            ownerReferences=[{"kind": "Namespace", "uid": "o"}],
            labels={"team": "red"},
            annotations={
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "eventing.knative.dev/broker.class": "MTChannelBasedBroker",
            },
        )
    )
    assert found.obj == {
        "apiVersion": EVENTING,
        "kind": "Broker",
        "metadata": {
            "name": "x",
            "namespace": "n",
            "labels": {"team": "red"},
            "annotations": {"eventing.knative.dev/broker.class": "MTChannelBasedBroker"},
        },
        "spec": {},
    }
    (change,) = found.changes
    for word in ("uid", "resourceVersion", "finalizers", "ownerReferences", "status"):
        assert word in change


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        (
            exported(
                "Subscription",
                MESSAGING,
                ownerReferences=[{"kind": "Trigger", "name": "t", "uid": "u"}],
                spec={"channel": {"kind": "InMemoryChannel", "name": "b-kne-trigger"}},
            ),
            "Broker made it",
        ),
        (exported("InMemoryChannel", MESSAGING, name="b-kne-trigger"), "Broker made it"),
        (
            exported("InMemoryChannel", MESSAGING, ownerReferences=[{"kind": "Channel"}]),
            "Channel made it",
        ),
        (exported("Sequence", "flows.knative.dev/v1"), "a chain of Subscriptions"),
        (exported("PingSource", "sources.knative.dev/v1"), "a timer"),
        (exported("Deployment", "apps/v1"), "no such kind"),
        (exported("Trigger", EVENTING, deletionTimestamp="2026-01-01T00:00:00Z"), "deleted"),
        (exported("Service", "v1", name="kubernetes"), "old cluster"),
        ({"apiVersion": "v1", "kind": "Broker", "metadata": {}}, "addressed"),
        ("words", "no object"),
        ([1], "no object"),
        ({"kind": "Broker", "metadata": 3}, "no object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_place_here_is_left_with_its_reason(obj, reason):
    """Nothing is left without a word."""
    found = one(obj)
    assert found.kind is None
    assert reason in found.left


def test_a_reference_to_a_kind_that_is_not_here_becomes_the_uri_of_the_status():
    """The old cluster has resolved it; otherwise the object is left, for nobody would be asked."""
    ref = {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "name": "books"}
    spec = {"broker": "b", "subscriber": {"ref": dict(ref), "uri": "/in"}}
    status = {"subscriberUri": "http://books.n.svc/in"}
    found = one(exported("Trigger", EVENTING, spec=spec, status=status))
    assert found.obj["spec"]["subscriber"] == {"uri": "http://books.n.svc/in"}
    left = one(exported("Trigger", EVENTING, spec=spec))
    assert "subscriber.uri" in left.left


def test_physical_channels_become_channels():
    """A Subscription follows its InMemoryChannel, which is a Channel here."""
    channel = one(exported("InMemoryChannel", MESSAGING, spec={"subscribers": [{"uid": "u"}]}))
    assert (channel.obj["kind"], channel.obj["spec"]) == ("Channel", {})
    spec = {"channel": {"apiVersion": MESSAGING, "kind": "InMemoryChannel", "name": "c"}}
    found = one(exported("Subscription", MESSAGING, spec=spec))
    assert found.obj["spec"]["channel"]["kind"] == "Channel"


def test_lists_are_taken_apart_and_ordered_by_what_refers_to_what():
    """A Trigger comes after its Broker, whatever the export's order; the export is not changed."""
    objects = [exported("Trigger", EVENTING, spec={}), exported("Broker", EVENTING, uid="u")]
    found = converted([{"kind": "List", "items": [{"items": objects}]}, None])
    assert [each.kind.kind for each in found] == ["Broker", "Trigger"]
    assert objects[1]["metadata"]["uid"] == "u"


@pytest.mark.parametrize(
    "odd",
    [
        {"spec": [1]},
        {"spec": {"channel": "c"}},
        {"spec": {"channel": {"name": 3}}},
        {"spec": {"subscriber": {"ref": {"apiVersion": "v1", "kind": ["x"]}}}},
        {"status": "s"},
        {"labels": 7},
        {"ownerReferences": 5},
    ],
)
def test_what_is_of_another_type_is_no_end_of_the_import(odd):
    """It is sent as it stands, and the server names the fault; or it is left with a reason."""
    found = one(exported("Subscription", MESSAGING, **odd))
    assert found.label == "Subscription n/x"
    assert found.left or found.obj["metadata"]["name"] == "x"
