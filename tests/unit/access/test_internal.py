"""Tokens of the server itself: who shows one publishes in one namespace, and nowhere else."""

import random

import pytest

from distributary.access import (
    AccessSnapshot,
    Credentials,
    Gate,
    Permission,
    UnauthenticatedError,
    Verb,
)
from distributary.access.internal import InternalKey

KEY = InternalKey(random.Random(1).randbytes(32))
OTHER = InternalKey(random.Random(2).randbytes(32))


@pytest.fixture
def gate():
    """A gate that knows the public key."""
    found = Gate(lambda: 0)
    found.replace(AccessSnapshot(required=True, internal=KEY.public))
    return found


def shown(text: str) -> Credentials:
    """*text* as a receiver gets it."""
    return Credentials(b"Bearer " + text.encode())


def test_a_token_publishes_in_its_namespace_alone(gate):
    """To every Broker and Channel there."""
    identity = gate.identify(shown(KEY.token("shop")))
    assert identity.name == "server:shop"
    for name in ("brokers/default", "channels/x"):
        assert identity.may(Permission(Verb.PUBLISH, "shop", name))
        assert not identity.may(Permission(Verb.PUBLISH, "bank", name))
    for verb in set(Verb) - {Verb.PUBLISH}:
        assert not identity.may(Permission(verb, "shop"))


def test_a_token_is_always_the_same():
    """So that receivers remember it."""
    assert KEY.token("shop") == InternalKey(random.Random(1).randbytes(32)).token("shop")
    assert KEY.token("shop") != KEY.token("bank")


SHOP = KEY.token("shop")


@pytest.mark.parametrize(
    "text",
    [
        OTHER.token("shop"),
        SHOP.replace("shop", "bank"),
        SHOP.replace("shop", "*"),
        SHOP.replace("shop", ""),
        SHOP[:-1],
        SHOP + "A",
        SHOP[:-3] + "AAA",
        SHOP.replace("di_", "DI_"),
        "di_shop_" + "A" * 86,
        "di_shop",
        "di_",
    ],
)
def test_another_token_is_refused(gate, text):
    """Of another server, for another namespace, changed, cut."""
    with pytest.raises(UnauthenticatedError):
        gate.identify(shown(text))


def test_mutated_tokens_are_refused(gate):
    """Ten thousand of them."""
    chance = random.Random(7)
    for _ in range(10_000):
        at = chance.randrange(len(SHOP))
        text = SHOP[:at] + chr(chance.randrange(33, 127)) + SHOP[at + 1 :]
        if text == SHOP:
            continue
        with pytest.raises(UnauthenticatedError):
            gate.identify(shown(text))


def test_a_server_without_a_key_accepts_none():
    """An empty public key is no key."""
    gate = Gate(lambda: 0)
    gate.replace(AccessSnapshot(required=True))
    with pytest.raises(UnauthenticatedError):
        gate.identify(shown(SHOP))
