"""EventPolicies: what they may hold, and what the gate makes of them."""

import pytest

from distributary.core.errors import ResourceError
from distributary.knative.apiserver.machinery import Key
from distributary.knative.kinds import BROKER, CHANNEL, EVENT_POLICY, Receivers, policy_of

REF = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}
CHANNEL_REF = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel", "name": "feed"}
TRIGGER_REF = {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "name": "t"}

FAULTY = {
    "to that is no object": ({"to": ["x"]}, ("spec.to[0]", "Invalid")),
    "from that is no object": ({"from": [1.5, {"sub": "a"}]}, ("spec.from[0]", "Invalid")),
    "to without a word": ({"to": [{}]}, ("spec.to[0]", "Required")),
    "to with both": (
        {
            "to": [
                {
                    "ref": REF,
                    "selector": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker"},
                }
            ]
        },
        ("spec.to[0]", "Required"),
    ),
    "kind that receives nothing": (
        {"to": [{"ref": {**REF, "kind": "Trigger"}}]},
        ("spec.to[0].ref.kind", "NotSupported"),
    ),
    "kind of another group": (
        {"to": [{"ref": {**REF, "kind": "Channel"}}]},
        ("spec.to[0].ref.apiVersion", "NotSupported"),
    ),
    "from without a word": ({"from": [{}]}, ("spec.from[0]", "Required")),
    "from with both": ({"from": [{"sub": "a", "ref": TRIGGER_REF}]}, ("spec.from[0]", "Required")),
    "subject empty": ({"from": [{"sub": ""}]}, ("spec.from[0].sub", "Required")),
    "star inside": ({"from": [{"sub": "a*b"}]}, ("spec.from[0].sub", "Invalid")),
    "blank": ({"from": [{"sub": "a b"}]}, ("spec.from[0].sub", "Invalid")),
    "long": ({"from": [{"sub": "a" * 513}]}, ("spec.from[0].sub", "Forbidden")),
    "filter unknown": ({"filters": [{"exat": {}}]}, ("spec.filters[0].exat", "NotSupported")),
}


@pytest.mark.parametrize(("spec", "cause"), FAULTY.values(), ids=FAULTY.keys())
def test_a_fault_is_named_with_its_place(make, causes_of, spec, cause):
    """In the words of the Kubernetes API."""
    field, reason = cause
    found = causes_of(EVENT_POLICY, make(EVENT_POLICY, **spec))
    assert any(place == field and reason in why for place, why in found), found


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"to": [{"ref": REF}, {"ref": CHANNEL_REF}]},
        {"from": [{"sub": "system:serviceaccount:shop:*"}, {"ref": TRIGGER_REF}, {"sub": "*"}]},
        {"filters": [{"prefix": {"type": "com."}}, {"cesql": "source LIKE '/s%'"}]},
    ],
)
def test_what_is_right_is_taken(make, causes_of, spec):
    """Each member may be missing."""
    assert causes_of(EVENT_POLICY, make(EVENT_POLICY, **spec)) == []


RECEIVERS = {
    Key(BROKER.resource, "shop", "orders"): {"tier": "gold"},
    Key(BROKER.resource, "shop", "other"): {},
    Key(CHANNEL.resource, "shop", "feed"): {"tier": "gold"},
}


def policy(**spec):
    """The record of a policy of namespace shop."""
    return policy_of(Key(EVENT_POLICY.resource, "shop", "p"), {"spec": spec}, Receivers(RECEIVERS))


def test_without_targets_all_of_the_namespace_is_protected():
    """Those that come later too, by one target of each kind."""
    assert policy().targets == ("brokers/shop/*", "channels/shop/*")


def selector(kind="Broker", **members):
    """A target by labels."""
    group = "eventing" if kind == "Broker" else "messaging"
    return {"selector": {"apiVersion": f"{group}.knative.dev/v1", "kind": kind, **members}}


@pytest.mark.parametrize(
    ("target", "targets"),
    [
        ({"ref": {**REF, "name": "later"}}, ("brokers/shop/later",)),
        ({"ref": CHANNEL_REF}, ("channels/shop/feed",)),
        (selector(matchLabels={"tier": "gold"}), ("brokers/shop/orders",)),
        (selector("Channel", matchLabels={"tier": "gold"}), ("channels/shop/feed",)),
        (selector(), ("brokers/shop/*",)),
        (selector(matchLabels={}, matchExpressions=[]), ("brokers/shop/*",)),
        (selector(matchLabels={"tier": "gold", "place": "north"}), ()),
        (
            selector(matchExpressions=[{"key": "tier", "operator": "DoesNotExist"}]),
            ("brokers/shop/other",),
        ),
        (
            selector(matchExpressions=[{"key": "tier", "operator": "In", "values": ["gold"]}]),
            ("brokers/shop/orders",),
        ),
        (selector(matchLabels={"tier": "lead"}), ()),
    ],
)
def test_targets_are_named_or_selected(target, targets):
    """In the policy's own namespace alone."""
    assert policy(to=[target]).targets == targets


def test_a_reference_stands_for_its_namespace():
    """What this server delivers for it shows that."""
    found = policy(
        **{
            "from": [
                {"ref": TRIGGER_REF},
                {"ref": {**TRIGGER_REF, "namespace": "bank"}},
                {"sub": "key:till"},
            ]
        }
    )
    assert found.subjects == ("system:namespace:shop", "system:namespace:bank", "key:till")
    assert policy().subjects == ()


GOLD = {"matchLabels": {"tier": "gold"}}
NO_SILVER = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["silver"]}]}


def test_selectors_are_compared_a_limited_number_of_times():
    """Those of all policies of a namespace together; what has none of the labels costs nothing."""
    brokers = {Key(BROKER.resource, "shop", f"b{number}"): {} for number in range(10)}
    receivers = Receivers(RECEIVERS | brokers, compared_max=28)
    for _ in range(2):
        assert receivers.selected("brokers", GOLD) == ["orders"]
    assert len(receivers.selected("brokers", NO_SILVER)) == 12
    with pytest.raises(ResourceError, match="more than"):
        receivers.selected("brokers", NO_SILVER)
    assert receivers.selected("brokers", GOLD) == ["orders"]
    assert receivers.selected("brokers", GOLD) == ["orders"]
    with pytest.raises(ResourceError):
        receivers.selected("brokers", GOLD)
