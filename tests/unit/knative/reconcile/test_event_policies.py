"""EventPolicies reach the gate before anything is received, and say in their status what holds."""

import msgspec
import pytest
import structlog

from distributary.core import filter as filter_room
from distributary.core.errors import StoreError
from distributary.knative.kinds import BROKER, EVENT_POLICY, Receivers
from distributary.knative.reconcile import _policies
from distributary.knative.reconcile._policies import EventPolicies

POLICY = {
    "to": [{"ref": {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "name": "orders"}}],
    "from": [{"sub": "key:till"}],
}


class Gatekeeper:
    """Keeps what it is told."""

    def __init__(self, *, required: bool = True) -> None:
        self.required = required
        self.told: list = []
        self.failing = False

    def change_policies(self, policies) -> int:
        if self.failing:
            raise StoreError("a full disk")
        self.told.append({policy.name: policy for policy in policies})
        return len(self.told)

    def decided(self) -> int:
        return len(self.told)


def test_the_gate_is_told_what_changes(world):
    """Once for each change; a failed telling is told again."""
    gatekeeper = Gatekeeper()
    policies = EventPolicies(world.objects, gatekeeper)
    policies.tell()
    assert gatekeeper.told == [{}]
    world.apply("EventPolicy", "p", POLICY, namespace="shop")
    gatekeeper.failing = True
    with pytest.raises(StoreError):
        policies.tell()
    gatekeeper.failing = False
    policies.tell()
    policies.tell()
    _, told = gatekeeper.told
    assert told["shop/p"].targets == ("brokers/shop/orders",)
    assert told["shop/p"].subjects == ("key:till",)
    world.delete("EventPolicy", "p", namespace="shop")
    policies.tell()
    assert gatekeeper.told[-1] == {}


def test_a_new_broker_is_protected_by_what_selects_it(world):
    """By its labels, and by a policy of the whole namespace."""
    gatekeeper = Gatekeeper()
    policies = EventPolicies(world.objects, gatekeeper)
    selector = {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Broker",
        "matchLabels": {"tier": "gold"},
    }
    world.apply("EventPolicy", "gold", {"to": [{"selector": selector}]}, namespace="shop")
    world.apply("EventPolicy", "all", {}, namespace="shop")
    policies.tell()
    assert gatekeeper.told[-1]["shop/gold"].targets == ()
    world.apply("Broker", "b", {}, namespace="shop", labels={"tier": "gold"})
    policies.tell()
    assert gatekeeper.told[-1]["shop/gold"].targets == ("brokers/shop/b",)
    assert gatekeeper.told[-1]["shop/all"].targets == ("brokers/shop/*", "channels/shop/*")
    (broker,) = world.objects.list(BROKER, "shop")[0]
    _, members = policies.applied(broker)
    assert [each["name"] for each in members["policies"]] == ["all", "gold"]


def test_policies_are_made_anew_where_something_has_changed(world):
    """Not for a Broker whose labels no selector looks at, nor in another namespace."""
    gatekeeper = Gatekeeper()
    policies = EventPolicies(world.objects, gatekeeper)
    selector = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker"}
    gold = {"to": [{"selector": {**selector, "matchLabels": {"tier": "gold"}}}]}
    world.apply("EventPolicy", "all", {}, namespace="shop")
    world.apply("EventPolicy", "gold", gold, namespace="bank")
    policies.tell()
    world.apply("Broker", "b", {}, namespace="shop", labels={"tier": "gold"})
    world.settle()
    policies.tell()
    world.apply("Broker", "b", {}, namespace="bank", labels={"tier": "gold"})
    policies.tell()
    before, now = gatekeeper.told
    assert now["bank/gold"].targets == ("brokers/bank/b",)
    assert now["shop/all"] is before["shop/all"]


def test_a_change_checks_the_filters_of_no_other_policy(world, monkeypatch):
    """Of its namespace neither: who changes one often makes nobody wait for all of them."""
    gatekeeper = Gatekeeper()
    policies = EventPolicies(world.objects, gatekeeper)
    labels = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker", "matchLabels": {"a": "b"}}
    filters = [{"exact": {"type": "t"}}]
    for name in ("p", "q"):
        world.apply("EventPolicy", name, {**POLICY, "filters": filters}, namespace="shop")
    selecting = {"to": [{"selector": labels}], "filters": filters}
    world.apply("EventPolicy", "r", selecting, namespace="shop")
    policies.tell()
    checked, plain = [], filter_room.check
    with monkeypatch.context() as patch:
        patch.setattr(filter_room, "check", lambda *of: checked.append(of) or plain(*of))
        (stored, *_) = world.objects.list(EVENT_POLICY)[0]
        edit = world.objects.edit(stored.key, lambda old: {**old, "spec": POLICY})
        world.runner.run(edit)
        world.apply("Broker", "later", {}, namespace="shop", labels={"a": "b"})
        policies.tell()
        for each in world.objects.list(EVENT_POLICY)[0]:
            policies.findings(each)
    assert set(checked) == {((),)}
    before, now = gatekeeper.told[0], gatekeeper.told[-1]
    assert now["shop/p"].filters == ()
    assert now["shop/q"] is before["shop/q"]
    assert now["shop/r"].filters is before["shop/r"].filters
    assert now["shop/r"].targets == ("brokers/shop/later",)


def test_policies_of_an_older_version_that_are_too_large_go_on_and_are_told(world, monkeypatch):
    """Once for each namespace."""
    gatekeeper = Gatekeeper()
    for name in ("p", "q"):
        world.apply("EventPolicy", name, POLICY, namespace="shop")
    world.apply("EventPolicy", "p", POLICY, namespace="bank")
    size = len(msgspec.json.encode(POLICY))
    monkeypatch.setattr(_policies, "POLICY_BYTES_MAX", 2 * size - 1)
    policies = EventPolicies(world.objects, gatekeeper)
    with structlog.testing.capture_logs() as log:
        policies.tell()
    (told,) = [line for line in log if line["event"] == "policies-too-large"]
    assert (told["namespace"], told["bytes"], told["bytes_max"]) == ("shop", 2 * size, 2 * size - 1)
    world.apply("EventPolicy", "r", {}, namespace="shop")
    with structlog.testing.capture_logs() as log:
        policies.tell()
    assert log == []
    assert gatekeeper.told[-1]["shop/q"].subjects == ("key:till",)


def test_each_broker_is_looked_at_again_where_a_policy_of_all_comes_or_goes(world):
    """And each Channel; a Broker of another namespace is not."""
    world.apply("Broker", "a", {}, namespace="shop")
    world.apply("Broker", "b", {}, namespace="bank")
    world.apply("Channel", "c", {}, namespace="shop")
    policies = EventPolicies(world.objects, Gatekeeper())
    assert policies.tell() == []
    world.apply("EventPolicy", "all", {}, namespace="shop")
    assert sorted(key.name for key in policies.tell()) == ["a", "c"]
    world.delete("EventPolicy", "all", namespace="shop")
    assert sorted(key.name for key in policies.tell()) == ["a", "c"]


def test_a_policy_whose_selectors_cost_too_much_closes_its_namespace(world, monkeypatch):
    """Nobody is let in by what it would have allowed, and its status says why."""
    world.gatekeeper = Gatekeeper()
    world.restart()
    monkeypatch.setattr(_policies, "Receivers", lambda labels=None: Receivers(labels, 1))
    selector = {"apiVersion": "eventing.knative.dev/v1", "kind": "Broker"}
    wide = {**selector, "matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}
    world.apply("EventPolicy", "wide", {"to": [{"selector": wide}], "from": [{"sub": "*"}]})
    assert world.condition(world.get("EventPolicy", "wide"), "SubjectsResolved")[0] == "True"
    with structlog.testing.capture_logs() as log:
        world.apply("Broker", "orders", {})
        world.settle()
        world.apply("Broker", "more", {})
        world.settle()
    closed = [line for line in log if line["event"] == "policy-closes-its-namespace"]
    assert [line["policy"] for line in closed] == ["default/wide"]
    told = world.gatekeeper.told[-1]["default/wide"]
    assert (told.subjects, told.targets) == ((), ("brokers/default/*", "channels/default/*"))
    found = world.get("EventPolicy", "wide")
    assert world.condition(found, "SubjectsResolved") == ("False", "TooManySelected")
    assert found["status"]["from"] == []
    broker = world.get("Broker", "orders")
    assert world.condition(broker, "EventPoliciesReady") == ("False", "EventPoliciesNotReady")


def test_a_broker_lists_the_policies_in_force_for_it(world):
    """Those that name it; without one it says who may send; others are not touched."""
    policies = EventPolicies(world.objects, Gatekeeper())
    for name in ("orders", "other"):
        world.apply("Broker", name, {}, namespace="shop")
    world.apply("EventPolicy", "p", POLICY, namespace="shop")
    brokers = {stored.key.name: stored for stored in world.objects.list(BROKER, "shop")[0]}
    assert policies.tell() == [brokers["orders"].key]
    assert policies.tell() == []
    finding, members = policies.applied(brokers["orders"])
    assert (finding.status, finding.reason) == ("True", "")
    assert members == {"policies": [{"apiVersion": "eventing.knative.dev/v1alpha1", "name": "p"}]}
    finding, members = policies.applied(brokers["other"])
    assert (finding.status, finding.reason, members) == ("True", "DefaultAuthorizationMode", {})
    world.delete("EventPolicy", "p", namespace="shop")
    assert policies.tell() == [brokers["orders"].key]
    assert policies.applied(brokers["orders"])[1] == {}


def test_a_broker_says_that_no_policy_counts_without_authentication(world):
    """It stays ready: its Triggers go on."""
    policies = EventPolicies(world.objects, Gatekeeper(required=False))
    world.apply("Broker", "orders", {})
    world.apply("EventPolicy", "p", POLICY)
    policies.tell()
    (broker,) = (one for one in world.objects.list(BROKER)[0] if one.key.name == "orders")
    finding, members = policies.applied(broker)
    assert (finding.status, finding.reason, members) == ("True", "AuthenticationDisabled", {})


def test_the_status_of_a_broker_follows_its_policies(world):
    """The reconciler writes it when a policy comes, and when it goes."""
    world.gatekeeper = Gatekeeper()
    world.restart()
    world.apply("Broker", "orders", {})
    world.apply("EventPolicy", "p", POLICY)
    world.settle()
    found = world.get("Broker", "orders")
    assert [each["name"] for each in found["status"]["policies"]] == ["p"]
    assert world.condition(found, "EventPoliciesReady")[0] == "True"
    world.delete("EventPolicy", "p")
    world.settle()
    assert "policies" not in world.get("Broker", "orders")["status"]


@pytest.mark.parametrize("required", [True, False])
def test_the_status_says_whether_it_counts(world, required):
    """Without authentication no policy does; its subjects are resolved all the same."""
    world.apply("EventPolicy", "p", POLICY)
    (stored,) = world.objects.list(EVENT_POLICY)[0]
    policies = EventPolicies(world.objects, Gatekeeper(required=required))
    policies.tell()
    findings, members = policies.findings(stored)
    assert members == {"from": ["key:till"]}
    assert findings["AuthenticationEnabled"].status == ("True" if required else "False")
    assert findings["SubjectsResolved"].status == "True"


def test_the_reconciler_writes_the_status(world):
    """Without a gate that asks, an EventPolicy is not ready."""
    content = world.apply("EventPolicy", "p", POLICY)
    assert content["status"]["from"] == ["key:till"]
    assert world.condition(content, "AuthenticationEnabled") == ("False", "AuthenticationDisabled")
    assert world.ready(content) == "False"


@pytest.mark.parametrize("damage", [{"from": [{}]}, {"filters": [{"sql": "f(1)"}]}, {"to": [1]}])
def test_a_policy_that_cannot_be_read_closes_its_namespace_and_no_other(world, monkeypatch, damage):
    """Damage: nobody is let in by it, and the gate hears of all others."""
    world.apply("Broker", "b", {}, namespace="shop")
    world.apply("EventPolicy", "good", POLICY, namespace="bank")
    world.apply("EventPolicy", "bad", POLICY, namespace="shop")
    stored = {each.key.namespace: each for each in world.objects.list(EVENT_POLICY)[0]}
    for member, value in damage.items():
        monkeypatch.setitem(stored["shop"].content["spec"], member, value)
    gatekeeper = Gatekeeper()
    policies = EventPolicies(world.objects, gatekeeper)
    policies.tell()
    (told,) = gatekeeper.told
    assert told["bank/good"].subjects == ("key:till",)
    assert told["shop/bad"].subjects == ()
    assert "brokers/shop/*" in told["shop/bad"].targets
    findings, members = policies.findings(stored["shop"])
    assert findings["SubjectsResolved"].reason == "NotUnderstood"
    assert members == {"from": []}
    (broker,) = world.objects.list(BROKER, "shop")[0]
    assert policies.applied(broker)[0].reason == "EventPoliciesNotReady"
