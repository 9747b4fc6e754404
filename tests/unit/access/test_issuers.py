"""Claims to grants: which tokens fit a rule, and what it grants them."""

import pytest

from distributary.access.identity import Grant, IdentityKind, Permission, Verb
from distributary.access.issuers import NAMESPACES_MAX, ClaimRule, Issuer
from kit.minted import AUDIENCE, URL, claims_of

PUBLISH = (Verb.PUBLISH,)


def grant(brought: dict, **rule: object) -> Grant | None:
    """What a rule grants to a token with *claims* besides the usual ones."""
    given = {"may": PUBLISH, "namespaces": ("shop",), **rule}
    return ClaimRule(**given).grant(claims_of(**brought))


@pytest.mark.parametrize(
    ("subjects", "expected"),
    [
        (("system:serviceaccount:shop:till",), True),
        (("system:serviceaccount:shop:*",), True),
        (("system:serviceaccount:*:till",), True),
        (("*",), True),
        ((), True),
        (("someone", "*:till"), True),
        (("system:serviceaccount:sho",), False),
        (("system:serviceaccount:shop:",), False),
        (("System:*",), False),
        (("?ystem:serviceaccount:shop:till",), False),
        (("someone",), False),
    ],
    ids=str,
)
def test_a_rule_is_for_subjects_that_fit_a_pattern(subjects, expected):
    """``*`` stands for any characters; nothing else is special."""
    assert (grant({}, subjects=subjects) is not None) is expected


@pytest.mark.parametrize(
    ("expected", "found", "fits"),
    [
        ({"role": "till"}, {"role": "till"}, True),
        ({"role": "till"}, {"role": ["clerk", "till"]}, True),
        ({"role": ["boss", "t*"]}, {"role": ["clerk", "till"]}, True),
        ({"role": "till"}, {"role": "clerk"}, False),
        ({"role": "till"}, {"role": [["till"]]}, False),
        ({"role": "till"}, {"role": []}, False),
        ({"role": "till"}, {}, False),
        ({"role": "*"}, {"role": 5}, False),
        ({"role": []}, {"role": "till"}, False),
        ({"email_verified": True}, {"email_verified": True}, True),
        ({"email_verified": True}, {"email_verified": 1}, False),
        ({"email_verified": True}, {"email_verified": "true"}, False),
        ({"level": 1}, {"level": True}, False),
        ({"level": [1, 2]}, {"level": 2}, True),
        ({"realm_access": {"roles": "till"}}, {"realm_access": {"roles": ["till"]}}, True),
        ({"realm_access": {"roles": "till"}}, {"realm_access": "till"}, False),
        ({"realm_access": {"roles": "till"}}, {"realm_access.roles": "till"}, False),
        ({"a": "1", "b": "2"}, {"a": "1"}, False),
    ],
    ids=str,
)
def test_a_rule_is_for_claims_that_fit(expected, found, fits):
    """Texts by pattern, one member of an array suffices, other values by type and value."""
    assert (grant(found, claims=expected) is not None) is fits


@pytest.mark.parametrize(
    ("found", "namespaces"),
    [
        ("till", ("shop", "till")),
        (["a", "b", "a"], ("shop", "a", "b")),
        (["*", "", "A", "a/b", "-a", 5, None, "x" * 64, "ok"], ("shop", "ok")),
        ("*", ("shop",)),
        ({"a": 1}, ("shop",)),
        (None, ("shop",)),
    ],
    ids=str,
)
def test_a_claim_may_name_namespaces(found, namespaces):
    """Names alone: a token cannot bring a pattern for all of them."""
    granted = grant({"tenants": found}, namespaces_claim=("tenants",))
    assert granted is not None
    assert granted.namespaces == namespaces


def test_a_claim_inside_another_may_name_the_namespace():
    """As in the tokens of Kubernetes, whose claim has a dot in its name."""
    claims = {"kubernetes.io": {"namespace": "shop"}}
    path = ("kubernetes.io", "namespace")
    granted = grant(claims, namespaces=(), namespaces_claim=path)
    assert granted == Grant(may=PUBLISH, namespaces=("shop",))
    assert grant({}, namespaces=(), namespaces_claim=path) is None
    assert grant({"kubernetes.io": "shop"}, namespaces=(), namespaces_claim=path) is None


def test_a_claim_names_a_bounded_number_of_namespaces():
    """Each is compared with every request."""
    claims = {"tenants": [f"n{number}" for number in range(1_000)]}
    granted = grant(claims, namespaces=(), namespaces_claim=("tenants",))
    assert granted is not None
    assert len(granted.namespaces) == NAMESPACES_MAX


def test_an_identity_has_the_grants_of_all_rules_that_fit():
    """And no other; a token that fits none may do nothing."""
    issuer = Issuer(
        name="cluster",
        url=URL,
        audiences=(AUDIENCE,),
        grants=(
            ClaimRule(may=PUBLISH, subjects=("*:till",), namespaces=("shop",)),
            ClaimRule(may=(Verb.READ,), claims={"role": "clerk"}, namespaces=("shop",)),
            ClaimRule(may=(Verb.ADMIN,), subjects=("root",), namespaces=("*",)),
        ),
    )
    identity = issuer.identity(claims_of(role="clerk"), 5)
    assert identity.name == "token:cluster:system:serviceaccount:shop:till"
    assert identity.subject == "system:serviceaccount:shop:till"
    assert (identity.how, identity.until_ms) == (IdentityKind.TOKEN, 5)
    assert identity.may(Permission(Verb.PUBLISH, "shop", "brokers/default"))
    assert identity.may(Permission(Verb.READ, "shop"))
    assert not identity.may(Permission(Verb.WRITE, "shop"))
    assert not identity.may(Permission(Verb.READ, "other"))
    assert issuer.identity(claims_of(sub="nobody"), 5).grants == ()
