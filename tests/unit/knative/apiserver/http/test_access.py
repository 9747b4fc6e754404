"""Access reviews: ``kubectl auth can-i`` and ``--list`` tell the truth."""

import pytest

from distributary.access import (
    ANYBODY,
    NOBODY,
    AccessSnapshot,
    Grant,
    Identity,
    IdentityKind,
    PolicyRecord,
    Verb,
    encode_identity,
)

API = "authorization.k8s.io/v1"
ACCESS = f"/apis/{API}/selfsubjectaccessreviews"
RULES = f"/apis/{API}/selfsubjectrulesreviews"


def holder(*grants: Grant) -> Identity:
    """Who has *grants*."""
    return Identity(name="key:till", how=IdentityKind.KEY, grants=grants, subject="key:till")


READER = holder(Grant(may=(Verb.READ,), namespaces=("shop",)))
WRITER = holder(Grant(may=(Verb.WRITE,), namespaces=("shop",)))
PUBLISHER = holder(
    Grant(may=(Verb.PUBLISH,), namespaces=("shop",), names=("brokers/default", "channels/a"))
)
OPERATOR = holder(Grant(may=(Verb.ADMIN,), namespaces=("*",)))


def ask(cluster, path, kind, spec, sender):
    """The status of a review."""
    body = {"apiVersion": API, "kind": kind, "spec": spec}
    fields = {"x_distributary_identity": encode_identity(sender).decode()} if sender else {}
    answer = cluster.ask("POST", path, body, **fields)
    assert answer.status == 201, answer.body
    return answer.json()["status"]


def can_i(cluster, sender, verb, resource, namespace="", *, name="", group=""):
    """Whether *sender* may."""
    asked = {"verb": verb, "resource": resource, "namespace": namespace, "name": name}
    asked["group"] = group
    spec = {"resourceAttributes": asked}
    return ask(cluster, ACCESS, "SelfSubjectAccessReview", spec, sender)["allowed"]


@pytest.mark.parametrize("verb", ["get", "list", "watch"])
def test_who_may_read_and_who_may_write_may_read(cluster, verb):
    """In their namespace alone."""
    for sender in (READER, WRITER):
        assert can_i(cluster, sender, verb, "triggers", "shop")
        assert not can_i(cluster, sender, verb, "triggers", "bank")
        assert not can_i(cluster, sender, verb, "triggers")
    assert not can_i(cluster, PUBLISHER, verb, "triggers", "shop")
    assert not can_i(cluster, NOBODY, verb, "triggers", "shop")
    assert can_i(cluster, OPERATOR, verb, "triggers")


@pytest.mark.parametrize("verb", ["create", "update", "patch", "delete", "deletecollection"])
def test_only_who_may_write_may_change(cluster, verb):
    """In their namespace alone."""
    assert can_i(cluster, WRITER, verb, "triggers", "shop")
    assert can_i(cluster, WRITER, verb, "namespaces", "", name="shop")
    assert not can_i(cluster, READER, verb, "triggers", "shop")
    assert not can_i(cluster, WRITER, verb, "namespaces")
    assert can_i(cluster, OPERATOR, verb, "namespaces")


def test_every_verb_is_more_than_to_change(cluster):
    """Who may write may not publish."""
    admin = holder(Grant(may=(Verb.ADMIN,), namespaces=("shop",)))
    assert [can_i(cluster, who, "*", "*", "shop") for who in (WRITER, admin)] == [False, True]
    assert [can_i(cluster, who, "*", "*") for who in (admin, OPERATOR)] == [False, True]


@pytest.mark.parametrize("verb", ["impersonate", "bind", "escalate", "use", "observe", ""])
def test_a_verb_that_nothing_knows_is_allowed_to_nobody(cluster, verb):
    """Whatever the grants: a request with it would be refused."""
    assert not can_i(cluster, OPERATOR, verb, "triggers", "shop")


def test_what_needs_an_identity_alone_is_allowed_to_all_of_them(cluster):
    """Kinds are found, and questions like these asked; neither is changed."""
    kinds = {"resource": "customresourcedefinitions", "group": "apiextensions.k8s.io"}
    reviews = {"resource": "selfsubjectaccessreviews", "group": "authorization.k8s.io"}
    for who, expected in ((PUBLISHER, True), (OPERATOR, True), (NOBODY, False)):
        assert can_i(cluster, who, "list", **kinds) is expected
        assert can_i(cluster, who, "create", **reviews) is expected
        assert not can_i(cluster, who, "delete", **kinds)


def test_publishing_can_be_asked_too(cluster):
    """``kubectl auth can-i publish brokers/default -n shop``."""
    assert can_i(cluster, PUBLISHER, "publish", "brokers", "shop", name="default")
    assert not can_i(cluster, PUBLISHER, "publish", "brokers", "shop", name="other")
    assert not can_i(cluster, WRITER, "publish", "brokers", "shop", name="default")


def test_policies_are_asked_too(cluster):
    """A grant does not suffice where none lets the sender in; ``--list`` is incomplete then."""
    policies = [
        PolicyRecord(name="shop/p", targets=("brokers/shop/default",), subjects=("key:other",)),
        PolicyRecord(
            name="shop/q",
            targets=("channels/shop/a",),
            subjects=("key:*",),
            filters=({"exact": {"type": "order"}},),
        ),
    ]
    cluster.gate.replace(AccessSnapshot(required=True, policies=tuple(policies)))
    asked = {"verb": "publish", "namespace": "shop"}

    def answer(resource, name):
        spec = {"resourceAttributes": {**asked, "resource": resource, "name": name}}
        return ask(cluster, ACCESS, "SelfSubjectAccessReview", spec, PUBLISHER)

    refused = answer("brokers", "default")
    assert not refused["allowed"]
    assert refused["reason"].endswith("no EventPolicy lets key:till send")
    assert answer("channels", "a") == {
        "allowed": True,
        "reason": "key:till may publish to channels/a in namespace shop;"
        " events must pass the filters of shop/q",
    }
    told = [
        ask(cluster, RULES, "SelfSubjectRulesReview", {"namespace": name}, PUBLISHER)["incomplete"]
        for name in ("shop", "bank")
    ]
    assert told == [True, False]
    assert not ask(cluster, RULES, "SelfSubjectRulesReview", {"namespace": "shop"}, WRITER)[
        "incomplete"
    ]  # who may not publish there does not learn that anything is protected


def test_without_authentication_everybody_may_do_everything(cluster):
    """Through a receiver, and at the private socket."""
    for sender in (ANYBODY, None):
        assert can_i(cluster, sender, "create", "triggers")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/metrics", False),
        ("/cluster", False),
        ("/version", True),
        ("/apis/x/v1", True),
        ("/apisx", False),
    ],
)
def test_paths_without_resources_can_be_asked(cluster, path, allowed):
    """Metrics are for who observes."""
    spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
    kind = "SelfSubjectAccessReview"
    assert ask(cluster, ACCESS, kind, spec, READER)["allowed"] is allowed
    assert ask(cluster, ACCESS, kind, spec, OPERATOR)["allowed"] is (path != "/apisx")


def test_who_observes_one_namespace_gets_its_metrics(cluster):
    """And nothing that concerns all of them."""
    watcher = holder(Grant(may=(Verb.OBSERVE,), namespaces=("shop",)))

    def allowed(path):
        spec = {"nonResourceAttributes": {"verb": "get", "path": path}}
        return ask(cluster, ACCESS, "SelfSubjectAccessReview", spec, watcher)["allowed"]

    assert (allowed("/metrics"), allowed("/cluster")) == (True, False)
    listed = ask(cluster, RULES, "SelfSubjectRulesReview", {"namespace": "shop"}, watcher)
    (rule,) = listed["nonResourceRules"]
    assert "/metrics" in rule["nonResourceURLs"]
    assert "/cluster" not in rule["nonResourceURLs"]


def rules(cluster, sender, namespace="shop"):
    """The rules of *sender*, but for those of whoever shows an identity."""
    spec = {"namespace": namespace}
    found = ask(cluster, RULES, "SelfSubjectRulesReview", spec, sender)["resourceRules"]
    assert [rule["apiGroups"] for rule in found[-3:]] == [
        ["apiextensions.k8s.io"],
        *[["authorization.k8s.io"]] * 2,
    ]
    return found[:-3]


def test_rules_list_what_is_allowed(cluster):
    """``kubectl auth can-i --list``."""
    reading, writing = ["get", "list", "watch"], ["create", "update", "patch", "delete"]
    assert [rule["verbs"] for rule in rules(cluster, READER)] == [reading]
    assert [rule["verbs"] for rule in rules(cluster, WRITER)] == [
        [*reading, *writing, "deletecollection"]
    ]
    assert rules(cluster, READER, "bank") == []
    assert [(rule["resources"], rule["resourceNames"]) for rule in rules(cluster, PUBLISHER)] == [
        (["brokers"], ["default"]),
        (["channels"], ["a"]),
    ]
    assert [rule.get("resourceNames") for rule in rules(cluster, OPERATOR)] == [None, [], []]


@pytest.mark.parametrize("path", [ACCESS, RULES])
def test_what_is_no_review_is_refused(cluster, path):
    """With what was expected; other methods are not known."""
    kind = "SelfSubjectAccessReview" if path == ACCESS else "SelfSubjectRulesReview"
    review = {"apiVersion": API, "kind": kind}
    wrong = [
        {"kind": "Trigger"},
        review,
        {**review, "spec": 7},
        {**review, "spec": {"namespace": 7}},
    ]
    if path == ACCESS:
        attributes = {"resourceAttributes": {}, "nonResourceAttributes": {}}
        wrong += [{**review, "spec": {}}, {**review, "spec": attributes}]
        wrong += [{**review, "spec": {"resourceAttributes": {"verb": 7}}}]
    for body in wrong:
        assert cluster.ask("POST", path, body).status == 400, body
    assert cluster.ask("GET", path).status == 405
