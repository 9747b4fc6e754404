"""The gate and bearer tokens: who shows one, what is remembered, and when keys are asked for."""

import pytest

from distributary.access import (
    AccessSnapshot,
    Credentials,
    Gate,
    IdentityKind,
    IssuerRecord,
    UnauthenticatedError,
    Verb,
    decode_snapshot,
)
from distributary.access.gate import REFUSED_TOKENS_MAX
from distributary.access.issuers import ClaimRule, Issuer
from distributary.core.errors import RequestError
from kit.minted import AUDIENCE, NOW_S, URL, SigningKey, claims_of, signing_key

ONE, TWO = signing_key("ES256", "one"), signing_key("ES256", "two")
RULE = ClaimRule(may=(Verb.PUBLISH,), subjects=("*:till",), namespaces=("shop",))
ISSUER = Issuer(name="login", url=URL, audiences=(AUDIENCE,), algorithms=("ES256",), grants=(RULE,))


class World:
    """A gate with a clock of the test's."""

    def __init__(self) -> None:
        self.now_ms = int(NOW_S * 1000)
        self.gate = Gate(lambda: self.now_ms)
        self.trust(ONE)

    def trust(self, *keys: SigningKey, asked_ms: int = 0) -> None:
        """The issuer with *keys*, as receivers read it from their file."""
        record = IssuerRecord(
            issuer=ISSUER, keys=tuple(key.jwk() for key in keys), asked_ms=asked_ms
        )
        written = AccessSnapshot(required=True, issuers=(record,)).encode()
        self.gate.replace(decode_snapshot(written))

    def refusal(self, value: bytes) -> tuple[str, str]:
        """Code and message."""
        with pytest.raises(RequestError) as caught:
            self.gate.identify(Credentials(value))
        return caught.value.request_code, str(caught.value)


@pytest.fixture
def world():
    """A gate that trusts one key of one issuer."""
    return World()


def shown(token: bytes) -> Credentials:
    """*token* as a client shows it."""
    return Credentials(b"Bearer " + token)


def test_a_token_shows_who_its_subject_is(world):
    """With the grants of its issuer's rules."""
    identity = world.gate.identify(shown(ONE.mint(claims_of())))
    assert identity.how is IdentityKind.TOKEN
    assert identity.name == "token:login:system:serviceaccount:shop:till"
    assert identity.namespaces == ("shop",)


@pytest.mark.parametrize("scheme", [b"bearer", b"BEARER", b"Bearer "])
def test_the_scheme_has_no_case(world, scheme):
    """RFC 9110, section 11.1; one space or more follows it."""
    assert world.gate.identify(Credentials(scheme + b" " + ONE.mint(claims_of())))


@pytest.mark.parametrize(
    ("before", "code"),
    [
        (b"Basic ", "unauthenticated"),
        (b"JWT ", "unauthenticated"),
        (b"Token ", "unauthenticated"),
        (b"DPoP ", "unauthenticated"),
        (b"", "unauthenticated"),
        (b"Bearer\t", "unauthenticated"),
        (b"Bearer Bearer ", "invalid-credentials"),
        (b"Bearer token=", "invalid-credentials"),
        (b"Bearer x, ", "invalid-credentials"),
    ],
)
def test_another_scheme_is_refused(world, before, code):
    """A valid token under it counts for nothing."""
    assert world.refusal(before + ONE.mint(claims_of()))[0] == code


def test_a_refusal_says_why_and_quotes_nothing(world):
    """The token may be valid elsewhere."""
    token = ONE.mint(claims_of(aud="https://other.example", sub="secret-subject"))
    code, message = world.refusal(b"Bearer " + token)
    assert code == "invalid-credentials"
    assert message == "The token is for another audience."


def test_a_token_counts_until_it_expires(world):
    """Also where it was seen before; a clock decides, not the next look at the file."""
    token = shown(ONE.mint(claims_of()))
    world.gate.identify(token)
    world.gate.admit(token, "/events", world.gate.identify(token))
    world.now_ms += 3_629_999
    assert world.gate.identify(token)
    world.now_ms += 1
    with pytest.raises(UnauthenticatedError):
        world.gate.identify(token)
    world.gate.renew()
    assert not world.gate.admitted


def test_a_withdrawn_key_counts_no_longer(world):
    """Nor does what was remembered of its tokens."""
    token = shown(ONE.mint(claims_of()))
    world.gate.admit(token, "/events", world.gate.identify(token))
    world.trust(TWO, asked_ms=world.now_ms)
    assert not world.gate.admitted
    with pytest.raises(UnauthenticatedError):
        world.gate.identify(token)


def test_an_unknown_key_is_asked_for_once(world):
    """The sender is asked to wait; after a fetch that found nothing, the token is refused."""
    value = b"Bearer " + TWO.mint(claims_of())
    assert world.refusal(value)[0] == "unavailable"
    assert world.gate.take_asked() == {URL}
    assert world.gate.take_asked() == set()
    world.trust(ONE, asked_ms=world.now_ms)
    assert world.refusal(value)[0] == "invalid-credentials"
    world.trust(ONE, TWO)
    assert world.gate.identify(Credentials(value))


def test_tokens_wait_for_the_first_keys_of_their_issuer(world):
    """A server that starts before its issuer refuses none for good."""
    world.trust()
    assert world.refusal(b"Bearer " + ONE.mint(claims_of()))[0] == "unavailable"
    assert world.gate.take_asked() == {URL}


def test_an_unknown_issuer_is_not_asked(world):
    """No address that a token names is dialled."""
    world.refusal(b"Bearer " + ONE.mint(claims_of(iss="https://evil.example"), {"kid": "x"}))
    assert world.gate.take_asked() == set()


def test_without_issuers_a_token_is_refused():
    """With what is missing."""
    gate = Gate(lambda: int(NOW_S * 1000))
    gate.replace(AccessSnapshot(required=True))
    with pytest.raises(UnauthenticatedError, match="No issuer"):
        gate.identify(shown(ONE.mint(claims_of())))


def test_refused_tokens_take_a_bounded_share_of_the_processor(world):
    """Tokens that are remembered go on; new ones wait for the next second."""
    known, new = shown(ONE.mint(claims_of())), shown(ONE.mint(claims_of(jti="new")))
    world.gate.identify(known)
    signed = ONE.mint(claims_of(jti="forged")).rpartition(b".")[0]
    forged = b"Bearer %s.%s" % (signed, new.authorization.rpartition(b".")[2])
    for _ in range(REFUSED_TOKENS_MAX):
        assert world.refusal(b"Bearer x.y.z")[0] == "invalid-credentials"  # found at no cost
    for _ in range(REFUSED_TOKENS_MAX):
        assert world.refusal(forged)[0] == "invalid-credentials"
    assert world.refusal(forged)[0] == "unavailable"
    assert world.refusal(new.authorization)[0] == "unavailable"
    assert world.gate.identify(known)
    world.now_ms += 1_000
    assert world.gate.identify(new)


def test_tokens_are_remembered_while_their_issuer_stays_as_it_is(world):
    """Whatever happens to keys; a changed rule or key of the issuer forgets them."""
    token = shown(ONE.mint(claims_of()))
    first = world.gate.identify(token)
    world.trust(ONE, asked_ms=world.now_ms)
    assert world.gate.identify(token) is first
    world.trust(ONE, TWO)
    assert world.gate.identify(token) is not first
    world.gate.replace(AccessSnapshot(required=True))
    with pytest.raises(UnauthenticatedError):
        world.gate.identify(token)
