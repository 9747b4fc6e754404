"""Policies: who may send to what, and which events."""

import random

import pytest

from distributary.access import (
    AccessSnapshot,
    Credentials,
    ForbiddenError,
    Gate,
    Grant,
    KeyRecord,
    Permission,
    Policies,
    PolicyRecord,
    Verb,
    make_key,
)
from distributary.access.internal import InternalKey
from distributary.access.policies import JUDGED_MAX

TARGET = "brokers/shop/default"
PERMISSION = Permission(Verb.PUBLISH, "shop", "brokers/default")
KEY = make_key(random.Random(3).randbytes)
OWN = InternalKey(bytes(32))
FILTER = ({"exact": {"type": "order"}},)


def policy(*subjects: str, filters: tuple = (), target: str = TARGET) -> PolicyRecord:
    """A policy of one target."""
    return PolicyRecord(name="shop/p", targets=(target,), subjects=subjects, filters=filters)


def gate(*policies: PolicyRecord, namespaces: tuple[str, ...] = ("shop",)) -> Gate:
    """A gate that knows one key."""
    grant = Grant(may=(Verb.PUBLISH,), namespaces=namespaces)
    record = KeyRecord(id=KEY.id, name="till", sha256=KEY.sha256, grants=(grant,))
    found = Gate(lambda: 0)
    found.replace(
        AccessSnapshot(required=True, keys=(record,), internal=OWN.public, policies=policies)
    )
    return found


def send(asked: Gate, text: str = KEY.text) -> tuple[PolicyRecord, ...]:
    """What a publisher who shows *text* is told."""
    identity = asked.identify(Credentials(b"Bearer " + text.encode()))
    return asked.check_publisher(identity, PERMISSION, TARGET)


@pytest.mark.parametrize(
    ("subject", "named"),
    [("key:till", True), ("key:*", True), ("*", True), ("key:til", False), ("key:tillx", False)],
)
def test_a_subject_is_named_or_not(subject, named):
    """A star stands for anything at the end."""
    found = Policies([policy(subject)]).judge(TARGET, "key:till")
    assert (found.applies, bool(found.allowed)) == (True, named)


def test_without_a_policy_grants_decide():
    """One of another target is none."""
    assert send(gate()) == ()
    assert send(gate(policy(target="brokers/shop/other"))) == ()


def test_a_policy_narrows():
    """To who is named; a policy without anybody closes the target."""
    assert send(gate(policy("key:till"))) == ()
    for closed in (policy("key:other"), policy()):
        with pytest.raises(ForbiddenError, match="no EventPolicy lets key:till send"):
            send(gate(closed))
    assert send(gate(policy("key:other"), policy("key:till"))) == ()


def test_a_policy_gives_nobody_a_grant():
    """But the server itself, which sends on behalf of another namespace."""
    with pytest.raises(ForbiddenError):
        send(gate(policy("key:till"), namespaces=("bank",)))
    with pytest.raises(ForbiddenError):
        send(gate(), OWN.token("bank"))
    assert send(gate(policy("system:namespace:bank")), OWN.token("bank")) == ()
    with pytest.raises(ForbiddenError):
        send(gate(policy("system:namespace:shop")), OWN.token("bank"))


@pytest.mark.parametrize("shown", [KEY.text, OWN.token("bank")], ids=["key", "server"])
def test_who_has_no_grant_learns_of_no_policy(shown):
    """The answer is the same where nothing is: a policy of the whole namespace tells no names."""
    refusals = []
    for policies in ((), (policy(),), (policy("key:other"),)):
        asked = gate(*policies, namespaces=("elsewhere",))
        with pytest.raises(ForbiddenError) as refused:
            send(asked, shown)
        identity = asked.identify(Credentials(b"Bearer " + shown.encode()))
        refusals += [str(refused.value), asked.decide(identity, PERMISSION).refusal]
    assert len(set(refusals)) == 1
    assert "EventPolicy" not in refusals[0]


def test_filters_are_of_the_policies_that_name_the_sender():
    """One without filters lets every event pass."""
    filtered = policy("key:till", filters=FILTER)
    assert send(gate(filtered, policy("key:other"))) == (filtered,)
    assert send(gate(filtered, policy("key:*"))) == ()


def test_policies_are_found_by_target():
    """All of them."""
    one, other = policy("a"), policy("a", "b")
    judgement = Policies([one, other]).judge(TARGET, "a")
    assert judgement.allowed == (one, other)
    assert not Policies([one]).judge("channels/shop/default", "a").applies


def test_a_policy_of_a_whole_kind_protects_what_comes_later():
    """Each Broker of its namespace, beside the policies that name it, in the order of them all."""
    whole, named = policy("a", target="brokers/shop/*"), policy("a", "b")
    for order in ([whole, named], [named, whole]):
        found = Policies(order)
        assert found.judge(TARGET, "a").allowed == tuple(order)
        assert found.judge(TARGET, "b").allowed == (named,)
        assert found.judge("brokers/shop/later", "a").allowed == (whole,)
        assert found.judge("brokers/shop/later", "b") == (True, ())
        for other in ("channels/shop/default", "brokers/bank/default", "services/shop/default"):
            assert not found.judge(other, "a").applies
        assert found.protect("shop")
        assert not found.protect("bank")


def test_a_judgement_is_of_its_subject_and_target():
    """Also after the memory of judgements has begun anew."""
    found = Policies([policy("a"), policy("b", target="brokers/shop/*")])
    for _ in range(2):
        assert found.judge(TARGET, "a").allowed
        assert not found.judge("brokers/shop/x", "a").allowed
        assert found.judge("brokers/shop/x", "b").allowed
        for number in range(JUDGED_MAX):
            found.judge(TARGET, str(number))


def test_who_has_no_grant_costs_no_look_at_policies(monkeypatch):
    """Whatever they hold: a name that somebody makes up is a new question each time."""
    asked = gate(policy("key:till"), namespaces=("elsewhere",))
    with monkeypatch.context() as patch:
        patch.setattr(Policies, "judge", lambda *_asked: pytest.fail("policies were asked"))
        with pytest.raises(ForbiddenError):
            send(asked)


def test_what_is_remembered_of_a_namespace_is_its_own():
    """One that has many senders, or changes its policies, makes no other forget anything."""
    bank = PolicyRecord(name="bank/p", targets=("brokers/bank/a",), subjects=("a",))
    policies = Policies([policy("a"), bank])
    found = policies.judge("brokers/bank/a", "a")
    for number in range(JUDGED_MAX + 1):
        policies.judge(TARGET, str(number))
    assert policies.judge("brokers/bank/a", "a") is found
    changed = Policies([policy("b"), bank], policies)
    assert changed.judge("brokers/bank/a", "a") is found
    assert changed.judge(TARGET, "b").allowed
    assert not changed.judge(TARGET, "a").allowed
    assert not Policies([policy("b")], changed).judge("brokers/bank/a", "a").applies


def test_names_that_somebody_makes_up_are_not_remembered():
    """Whoever has no grant may ask for any namespace."""
    policies = Policies([PolicyRecord(name="shop/p", targets=("brokers/shop/a",))])
    answers = {id(policies.judge(f"brokers/{number}/x", "key:evil")) for number in range(100)}
    assert len(answers) == 1
    assert not policies.judge("brokers/0/x", "key:evil").applies
