"""Whatever is done to a token, it is refused; whatever the bytes, there is an answer."""

import json
import random
import re

import pytest
from hypothesis import given, strategies

from distributary.access.issuers import Issuer
from distributary.access.jwks import ALGORITHMS, key_set, read_keys
from distributary.access.tokens import RefusedToken, TokenFault, Trusted, VerifiedToken, verify
from distributary.access.wildcards import matches
from kit.minted import AUDIENCE, NOW_S, URL, claims_of, signing_key

KEYS = [signing_key(name, name) for name in ("RS256", "PS256", "ES256", "ES384", "EdDSA")]
ISSUER = Issuer(name="shop", url=URL, audiences=(AUDIENCE,), algorithms=ALGORITHMS)
TRUSTED = {URL: Trusted(ISSUER, key_set([key.jwk() for key in KEYS]))}
TOKENS = [key.mint(claims_of(aud=[AUDIENCE, "x"], roles=["a", "b"])) for key in KEYS]
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


def mutated(token: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """*token* with one to three changes."""
    changed = bytearray(token)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.randrange(len(changed))
        kind = chance.randrange(7)
        if kind == 0:
            changed[at] = chance.choice(LETTERS)
        elif kind == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del changed[at : at + chance.choice((1, 1, 4, 40))]
        elif kind == 3:
            changed[at:at] = bytes(chance.choices(LETTERS + b".=", k=chance.choice((1, 4))))
        elif kind == 4:
            changed[at:] = chance.choice(others)[at:]
        elif kind == 5:
            parts, theirs = bytes(changed).split(b"."), chance.choice(others).split(b".")
            number = chance.randrange(3)
            parts[number % len(parts)] = theirs[number]
            changed[:] = b".".join(parts)
        else:
            end = min(len(changed), at + chance.choice((2, 8)))
            part = list(changed[at:end])
            chance.shuffle(part)
            changed[at:end] = bytes(part)
    return bytes(changed) or b"."


@pytest.mark.slow
def test_refuses_ten_thousand_mutated_tokens():
    """Of five algorithms, from one seed: bytes changed, cut, added, mixed with other tokens."""
    chance = random.Random(14)
    others = TOKENS + [key.mint(claims_of(sub="admin")) for key in KEYS]
    valid = set(others)
    tried, reached = 0, 0
    while tried < 10_000:
        token = mutated(chance.choice(TOKENS), others, chance)
        if token in valid:
            continue
        tried += 1
        found = verify(token, TRUSTED, NOW_S)
        assert isinstance(found, RefusedToken), token
        reached += found.fault is TokenFault.SIGNATURE
    assert reached > 1_000  # the others fail before


def test_accepts_the_tokens_that_are_mutated():
    """Else the refusals above would show nothing."""
    for token in TOKENS:
        assert isinstance(verify(token, TRUSTED, NOW_S), VerifiedToken)


@given(strategies.binary(max_size=400))
def test_any_bytes_are_refused(raw):
    """Never an exception."""
    assert isinstance(verify(raw, TRUSTED, NOW_S), RefusedToken)


_word = strategies.sampled_from(["", "a", "sub", "kty", "RSA", "EC", "n", "e", "AQAB", "\x00", "é"])
_leaf = strategies.sampled_from([None, True, False, 0, -1, 1.5, 1 << 60]) | _word
_json = (
    _leaf
    | strategies.lists(_leaf, max_size=3)
    | strategies.dictionaries(_word, _leaf | strategies.lists(_leaf, max_size=2), max_size=3)
)


@given(
    strategies.dictionaries(
        strategies.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "x"]), _json
    ),
    strategies.dictionaries(
        strategies.sampled_from(["alg", "kid", "typ", "crit", "jwk"]), _json, max_size=2
    ),
)
def test_signed_claims_of_any_type_have_an_answer(claims, header):
    """A trusted issuer may sign anything: no type of a claim or member is an exception."""
    token = KEYS[2].mint({**claims_of(), **claims}, header)
    assert isinstance(verify(token, TRUSTED, NOW_S), RefusedToken | VerifiedToken)


@given(strategies.dictionaries(_word, _json, max_size=6) | strategies.binary(max_size=60))
def test_any_key_set_has_an_answer(found):
    """An issuer's address may answer with anything."""
    body = found if isinstance(found, bytes) else json.dumps({"keys": [found]}).encode()
    read_keys(body)


_text = strategies.text("ab:", max_size=8)


@given(strategies.lists(_text, min_size=1, max_size=4), strategies.lists(_text, max_size=4))
def test_a_pattern_matches_what_it_was_made_of(fixed, filled):
    """Each ``*`` filled with anything."""
    fillings = [*filled, *[""] * len(fixed)]
    text = "".join(part + fill for part, fill in zip(fixed, fillings, strict=False))
    last = fillings[len(fixed) - 1]
    assert matches("*".join(fixed), text.removesuffix(last) if last else text)


@given(strategies.text("ab*", max_size=8), strategies.text("ab", max_size=8))
def test_matches_as_a_regular_expression_does(pattern, text):
    """``*`` is ``.*``, all else is itself."""
    expected = re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None
    assert matches(pattern, text) is expected
