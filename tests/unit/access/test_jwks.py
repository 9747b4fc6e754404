"""Keys of an issuer: which of a set can verify tokens."""

import json

import pytest

from distributary.access.jwks import ALGORITHMS, KEYS_MAX, read_keys
from kit.minted import encode, signing_key

ES = signing_key("ES256")
RS = signing_key("RS256")
ED = signing_key("EdDSA")


def read(*jwks: object) -> list[tuple[str | None, tuple[str, ...]]]:
    """``kid`` and algorithms of each usable key."""
    keys = read_keys(json.dumps({"keys": jwks}).encode())
    assert keys is not None
    return [(key.key_id, key.fits) for key in keys.keys]


def without(jwk: dict, *names: str) -> dict:
    """*jwk* less some members."""
    return {name: value for name, value in jwk.items() if name not in names}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_reads_keys_of_all_algorithms(algorithm):
    """Each fits its algorithm alone, as its ``alg`` says."""
    assert read(signing_key(algorithm).jwk()) == [("one", (algorithm,))]


def test_a_key_without_alg_fits_what_its_type_allows():
    """RSA keys sign with either padding; the curve decides the hash."""
    rsa = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    assert read(without(RS.jwk(), "alg", "use", "kid")) == [(None, rsa)]
    assert read(without(ES.jwk(), "alg")) == [("one", ("ES256",))]
    assert read(without(ED.jwk(), "alg")) == [("one", ("EdDSA",))]


@pytest.mark.parametrize(
    "jwk",
    [
        None,
        5,
        "key",
        [],
        {},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "one"},
        {"kty": ["RSA"]},
        RS.jwk(use="enc"),
        RS.jwk(key_ops=["sign"]),
        RS.jwk(key_ops="verify"),
        RS.jwk(alg="RS1"),
        RS.jwk(alg="HS256"),
        RS.jwk(alg=5),
        RS.jwk(kid=5),
        RS.jwk(kid=""),
        RS.jwk(kid="x" * 257),
        RS.jwk(n="AQAB"),
        RS.jwk(n="!"),
        RS.jwk(n=5),
        RS.jwk(e="AA"),
        RS.jwk(e="A"),
        RS.jwk(kty="EC"),
        RS.jwk(e=encode(((1 << 32) + 1).to_bytes(5)).decode()),
        RS.jwk(e=RS.jwk()["n"][:-2]),
        without(RS.jwk(), "n"),
        signing_key("RS256", "weak", 1024).jwk(),
        ES.jwk(alg="ES384"),
        ES.jwk(crv="P-384"),
        ES.jwk(crv="secp256k1"),
        ES.jwk(crv=5),
        ES.jwk(x=signing_key("ES256", "two").jwk()["x"]),
        ES.jwk(y="AA"),
        ED.jwk(crv="X25519"),
        ED.jwk(crv="Ed448"),
        ED.jwk(x="AA"),
    ],
)
def test_leaves_out_keys_that_cannot_verify_tokens(jwk):
    """Other types and uses, weak and malformed ones; the others of the set count."""
    assert read(jwk, signing_key("EdDSA", "good").jwk()) == [("good", ("EdDSA",))]


def test_names_the_keys_that_it_left_out():
    """For the log; what is no ``kid`` of ours is not repeated."""
    jwks = [RS.jwk(), RS.jwk(kid="slow", e=RS.jwk()["n"][:-2]), RS.jwk(kid=5), RS.jwk(kid=""), None]
    keys = read_keys(json.dumps({"keys": jwks}).encode())
    assert keys is not None
    assert [key.key_id for key in keys.keys] == ["one"]
    assert keys.left_out == ("slow", None, None, None)


def test_the_exponents_of_issuers_count():
    """The smallest, the usual one, and the longest that is read."""
    for exponent in (3, 65_537, (1 << 32) - 1):
        text = encode(exponent.to_bytes(5).lstrip(b"\0")).decode()
        assert len(read(RS.jwk(e=text))) == 1


def test_does_not_read_the_private_members_of_a_key():
    """An issuer that publishes them by mistake: they get into no file of ours."""
    private = ES.jwk(d="c2VjcmV0c2VjcmV0", x5c=["x"], extra="y")
    keys = read_keys(json.dumps({"keys": [private]}).encode())
    assert keys is not None
    assert set(keys.keys[0].jwk) == {"kty", "crv", "x", "y", "kid", "alg"}


def test_reads_again_what_it_keeps_of_a_key():
    """Receivers get the kept members, and make the same keys of them."""
    for algorithm in ALGORITHMS:
        for jwk in (signing_key(algorithm).jwk(), without(signing_key(algorithm).jwk(), "alg")):
            first = read_keys(json.dumps({"keys": [jwk]}).encode())
            assert first is not None
            assert read(first.keys[0].jwk) == read(jwk)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[],"keys":[]}',
        b"<html>",
        b"[" * 100_000,
        json.dumps({"keys": [ES.jwk()] * (KEYS_MAX + 1)}).encode(),
    ],
)
def test_refuses_what_is_no_key_set(body):
    """Then the old keys stay."""
    assert read_keys(body) is None


def test_reads_a_set_without_keys():
    """An issuer may withdraw them all."""
    assert read() == []
