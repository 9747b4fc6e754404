"""A token for the audience of a Broker or Channel counts there alone."""

import pytest

from distributary.access import Grant, IssuerRecord, Permission, Verb, audience_of
from distributary.access.audiences import target_of
from distributary.access.issuers import ClaimRule, Issuer
from distributary.access.tokens import AUDIENCES_MAX, RefusedToken, TokenVerifier
from kit.minted import AUDIENCE, NOW_S, URL, claims_of, signing_key

ONE = signing_key("ES256", "one")
SHOP, OTHER = "eventing.knative.dev/broker/shop/main", "eventing.knative.dev/broker/shop/other"
CHANNEL = "messaging.knative.dev/channel/farm/main"
RULES = (ClaimRule(may=(Verb.ADMIN,), subjects=("*:till",), namespaces=("shop", "farm")),)


def identity(audience, *, listed=(AUDIENCE,), rules=RULES):
    """Who shows a token for *audience*."""
    issuer = Issuer(name="login", url=URL, audiences=listed, algorithms=("ES256",), grants=rules)
    verifier = TokenVerifier([IssuerRecord(issuer=issuer, keys=(ONE.jwk(),))])
    return verifier.identity(ONE.mint(claims_of(aud=audience)), int(NOW_S * 1000))


def publish(namespace, name):
    """To send events there."""
    return Permission(Verb.PUBLISH, namespace, name)


@pytest.mark.parametrize("listed", [(AUDIENCE,), (AUDIENCE, SHOP)], ids=["not listed", "listed"])
@pytest.mark.parametrize("audience", [SHOP, [SHOP], ["https://elsewhere.example", 5, SHOP]])
def test_a_token_for_a_broker_counts_at_that_broker_alone(audience, listed):
    """Whether or not the setting lists its audience, and whatever else its subject may do."""
    found = identity(audience, listed=listed)
    assert found.grants == (
        Grant(may=(Verb.PUBLISH,), namespaces=("shop",), names=("brokers/main",)),
    )
    assert found.may(publish("shop", "brokers/main"))
    for refused in (
        publish("shop", "brokers/other"),
        publish("shop", "channels/main"),
        publish("farm", "brokers/main"),
        Permission(Verb.READ, "shop"),
        Permission(Verb.ADMIN, None),
    ):
        assert not found.may(refused)


def test_a_token_for_the_server_has_all_grants():
    """Also where it names a Broker as well."""
    for audience in (AUDIENCE, [SHOP, AUDIENCE]):
        assert identity(audience).may(Permission(Verb.ADMIN, "farm"))


def test_a_token_for_two_counts_at_both():
    """A Channel is like a Broker."""
    found = identity([SHOP, CHANNEL, SHOP])
    assert found.may(publish("shop", "brokers/main"))
    assert found.may(publish("farm", "channels/main"))
    assert not found.may(publish("shop", "brokers/other"))
    assert len(found.grants) == 2


def test_an_audience_gives_nobody_more_than_grants_do():
    """It narrows."""
    assert identity("eventing.knative.dev/broker/bank/main").grants == ()
    named = ClaimRule(
        may=(Verb.PUBLISH,), subjects=("*",), namespaces=("shop",), names=("brokers/main",)
    )
    reads = ClaimRule(may=(Verb.READ,), subjects=("*",), namespaces=("*",))
    assert identity(OTHER, rules=(named, reads)).grants == ()
    assert identity(SHOP, rules=(named, reads)).may(publish("shop", "brokers/main"))


@pytest.mark.parametrize(
    "audience",
    [
        SHOP.upper(),
        SHOP + "/",
        SHOP + "\n",
        "/" + SHOP,
        "eventing.knative.dev/broker/shop",
        "eventing.knative.dev/broker/shop/",
        "eventing.knative.dev/broker/*/main",
        "eventing.knative.dev/broker/shop/*",
        "eventing.knative.dev/broker/shop/a/b",
        "eventingXknative.dev/broker/shop/main",
        "eventing.knative.dev/brokers/shop/main",
        "messaging.knative.dev/broker/shop/main",
        "eventing.knative.dev/trigger/shop/main",
        [*(f"https://{number}.example" for number in range(AUDIENCES_MAX)), SHOP],
    ],
    ids=str,
)
def test_what_is_nearly_an_audience_is_none(audience):
    """Letter for letter, among the first audiences of the token."""
    found = identity(audience)
    assert isinstance(found, RefusedToken)
    assert found.fault == "wrong-audience"


def test_a_listed_audience_counts_wherever_it_stands():
    """Also behind many others."""
    many = [f"https://{number}.example" for number in range(2 * AUDIENCES_MAX)]
    assert identity([*many, AUDIENCE]).may(Permission(Verb.READ, "shop"))


@pytest.mark.parametrize("target", ["brokers/shop/main", "channels/farm/a.b-c"])
def test_each_target_has_an_audience_of_its_own(target):
    """What an address shows is what is understood."""
    assert target_of(audience_of(target)) == target
