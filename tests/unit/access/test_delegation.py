"""What one identity may pass on: never more than it has."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.access import (
    ANYBODY,
    LOCAL,
    Grant,
    Identity,
    IdentityKind,
    Permission,
    Verb,
    beyond,
    oversees,
)


def who(*grants: Grant) -> Identity:
    """An identity with *grants*."""
    return Identity(name="key:boss", how=IdentityKind.KEY, grants=grants)


def grant(may: str, namespaces: str, names: str = "") -> Grant:
    """A grant from words."""
    verbs = tuple(map(Verb, may.split()))
    return Grant(may=verbs, namespaces=tuple(namespaces.split()), names=tuple(names.split()))


SHOP_ADMIN = who(grant("admin", "shop"))
ONE_BROKER = who(grant("admin", "shop", "brokers/a"))


@pytest.mark.parametrize(
    ("giver", "given_away"),
    [
        (SHOP_ADMIN, grant("publish", "shop")),
        (SHOP_ADMIN, grant("admin", "shop")),
        (SHOP_ADMIN, grant("publish", "shop", "brokers/a channels/b")),
        (ONE_BROKER, grant("publish", "shop", "brokers/a")),
        (ONE_BROKER, grant("read write observe", "shop")),
        (ONE_BROKER, grant("admin", "shop", "brokers/a")),
        (who(grant("admin", "shop"), grant("admin", "farm")), grant("read", "farm shop")),
        (LOCAL, grant("admin", "*")),
        (ANYBODY, grant("admin", "*")),
    ],
)
def test_an_administrator_gives_what_it_has(giver, given_away):
    """In its namespaces."""
    assert beyond(giver, (given_away,)) == []


@pytest.mark.parametrize(
    ("giver", "given_away", "missing"),
    [
        (SHOP_ADMIN, grant("publish", "farm"), "administer keys in namespace farm"),
        (SHOP_ADMIN, grant("publish", "shop farm"), "administer keys in namespace farm"),
        (SHOP_ADMIN, grant("read", "*"), "administer keys in all namespaces"),
        (ONE_BROKER, grant("publish", "shop"), "publish in namespace shop"),
        (ONE_BROKER, grant("admin", "shop"), "publish in namespace shop"),
        (
            ONE_BROKER,
            grant("publish", "shop", "brokers/a brokers/b"),
            "publish to brokers/b in namespace shop",
        ),
        (who(grant("write", "shop")), grant("read", "shop"), "administer keys in namespace shop"),
        (who(), grant("read", "shop"), "administer keys in namespace shop"),
    ],
)
def test_nobody_gives_more_than_it_has(giver, given_away, missing):
    """The first thing that is missing is named."""
    assert str(beyond(giver, (given_away,))[0]) == missing


NAMESPACES = ("shop", "farm", "*")
NAMES = ("brokers/a", "brokers/b")
GRANTS = st.builds(
    Grant,
    may=st.lists(st.sampled_from(Verb), min_size=1, max_size=2).map(tuple),
    namespaces=st.lists(st.sampled_from(NAMESPACES), min_size=1, max_size=2).map(tuple),
    names=st.lists(st.sampled_from(NAMES), max_size=2).map(tuple),
)
EVERY_DEMAND = [
    Permission(verb, namespace, name)
    for verb, namespace, name in itertools.product(
        Verb, (*NAMESPACES, "third", None), ("", *NAMES, "brokers/c")
    )
]


@given(st.lists(GRANTS, max_size=3), GRANTS)
def test_whoever_holds_a_given_key_may_nothing_that_its_giver_may_not(own, given_away):
    """Whatever is asked of it."""
    giver = who(*own)
    if beyond(giver, (given_away,)):
        return
    holder = who(given_away)
    assert [each for each in EVERY_DEMAND if holder.may(each) and not giver.may(each)] == []


@pytest.mark.parametrize(
    ("grants", "seen"),
    [
        ((grant("publish", "shop"),), True),
        ((grant("publish", "farm"),), False),
        ((grant("publish", "shop farm"),), False),
        ((grant("publish", "shop"), grant("publish", "farm")), False),
        ((grant("publish", "*"),), False),
    ],
)
def test_an_administrator_oversees_keys_that_lie_in_its_namespaces(grants, seen):
    """All of them."""
    assert oversees(SHOP_ADMIN, grants) is seen
    assert oversees(LOCAL, grants)
