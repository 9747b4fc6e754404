"""Grants: which demands they allow."""

import pytest

from distributary.access import (
    ALL_NAMESPACES,
    ANYBODY,
    LOCAL,
    NOBODY,
    Grant,
    Identity,
    IdentityKind,
    Permission,
    Verb,
    decode_identity,
    encode_identity,
    whose,
)


def identity(*grants: Grant) -> Identity:
    """An identity with *grants*."""
    return Identity(name="key:till", how=IdentityKind.KEY, grants=grants, subject="key:till")


ALLOWED = {
    Verb.PUBLISH: {Verb.PUBLISH},
    Verb.READ: {Verb.READ},
    Verb.WRITE: {Verb.READ, Verb.WRITE},
    Verb.OBSERVE: {Verb.OBSERVE},
    Verb.ADMIN: set(Verb),
}


@pytest.mark.parametrize("granted", Verb)
@pytest.mark.parametrize("asked", Verb)
def test_a_verb_includes_few_others(granted, asked):
    """Write includes read, admin everything."""
    one = identity(Grant(may=(granted,), namespaces=("shop",)))
    assert one.may(Permission(asked, "shop")) == (asked in ALLOWED[granted])


def test_a_grant_holds_in_its_namespaces_alone():
    """And what concerns all namespaces needs a grant for all."""
    one = identity(Grant(may=(Verb.READ,), namespaces=("shop", "bank")))
    found = [one.may(Permission(Verb.READ, name)) for name in ("shop", "bank", "sho", "", "*")]
    assert found == [True, True, False, False, False]
    every = identity(Grant(may=(Verb.READ,), namespaces=(ALL_NAMESPACES,)))
    assert every.may(Permission(Verb.READ, "shop"))
    assert every.may(Permission(Verb.READ, ALL_NAMESPACES))
    assert every.namespaces == ("*",)
    assert one.namespaces == ("bank", "shop")


def test_publishing_may_be_limited_to_names():
    """Names limit no other verb."""
    grant = Grant(may=(Verb.PUBLISH, Verb.READ), namespaces=("shop",), names=("brokers/default",))
    one = identity(grant)
    assert one.may(Permission(Verb.PUBLISH, "shop", "brokers/default"))
    assert not one.may(Permission(Verb.PUBLISH, "shop", "channels/default"))
    assert not one.may(Permission(Verb.PUBLISH, "bank", "brokers/default"))
    assert one.may(Permission(Verb.READ, "shop"))


def test_grants_do_not_mix():
    """A verb of one and a namespace of another are no grant."""
    one = identity(
        Grant(may=(Verb.READ,), namespaces=("shop",)),
        Grant(may=(Verb.PUBLISH,), namespaces=("bank",)),
    )
    assert one.may(Permission(Verb.READ, "shop"))
    assert not one.may(Permission(Verb.READ, "bank"))
    assert not one.may(Permission(Verb.PUBLISH, "shop"))


def test_places_are_held_by_the_namespaces_in_which_one_acts():
    """By all who act in the same ones together; who acts in all of them, or in none, holds none."""
    read = Grant(may=(Verb.READ,), namespaces=("shop", "bank"))
    write = [Grant(may=(Verb.WRITE,), namespaces=(name,)) for name in ("bank", "shop")]
    assert identity(read).holder == identity(*write).holder == "bank,shop"
    assert identity(write[1]).holder == identity(write[1]).tenant == "shop"
    every = Grant(may=(Verb.READ,), namespaces=(ALL_NAMESPACES,))
    assert [each.holder for each in (identity(every, *write), NOBODY, LOCAL, ANYBODY)] == [""] * 4
    many = Grant(may=(Verb.READ,), namespaces=tuple(f"n{number}" for number in range(9)))
    assert whose("shop") == "the namespace shop"
    assert whose(identity(read).holder) == "the namespaces bank, shop"
    assert whose(identity(many).holder) == "the namespaces n0, n1, n2, n3, n4 and 4 more"


def test_nobody_may_nothing_and_who_runs_the_server_everything():
    """The two ends."""
    for verb in Verb:
        assert not NOBODY.may(Permission(verb, "default"))
        assert LOCAL.may(Permission(verb, ALL_NAMESPACES))


def test_an_identity_survives_its_header():
    """In ASCII without a line break, whatever its name holds."""
    odd = Identity(
        name="token:gr\u00fc\u00dfe\r\nx: y",
        how=IdentityKind.TOKEN,
        grants=(Grant(may=(Verb.READ,), namespaces=("shop",), names=()),),
        subject="\u2028",
        until_ms=5,
    )
    value = encode_identity(odd)
    assert value.isascii()
    assert b"\r" not in value
    assert b"\n" not in value
    assert decode_identity(value) == odd


def test_a_demand_is_said_for_people():
    """With what was missing."""
    assert str(Permission(Verb.PUBLISH, "shop", "brokers/default")) == (
        "publish to brokers/default in namespace shop"
    )
    assert str(Permission(Verb.OBSERVE, "*")) == "observe in all namespaces"


def test_where_tells_the_namespaces_of_a_verb():
    """Of grants that include it; None: in all of them."""
    one = identity(
        Grant(may=(Verb.OBSERVE,), namespaces=("shop", "farm")),
        Grant(may=(Verb.READ,), namespaces=("*",)),
        Grant(may=(Verb.ADMIN,), namespaces=("bank",)),
    )
    assert one.where(Verb.OBSERVE) == {"shop", "farm", "bank"}
    assert one.where(Verb.WRITE) == {"bank"}
    assert one.where(Verb.READ) is None
    assert NOBODY.where(Verb.READ) == frozenset()
    assert LOCAL.where(Verb.OBSERVE) is None
