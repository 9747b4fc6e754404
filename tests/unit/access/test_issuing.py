"""Tokens of deliveries: their claims, the published keys, and files of keys that cannot be used."""

import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from distributary.access import issuing
from distributary.access.jwks import is_signed, read_keys
from distributary.core.errors import SettingsError

URL = "https://events.example.com"
SUBJECT = "system:serviceaccount:shop:orders-oidc-eventing.knative.dev-trigger"
NOW_S = 1_900_000_000
RSA = rsa.generate_private_key(65537, 2048)
WEAK = rsa.generate_private_key(65537, 1024)
EC = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
PKCS8 = serialization.PrivateFormat.PKCS8
TRADITIONAL = serialization.PrivateFormat.TraditionalOpenSSL


def pem(*keys, shape=PKCS8, password=None):
    """The keys, as openssl writes them."""
    sealing = serialization.NoEncryption()
    if password is not None:
        sealing = serialization.BestAvailableEncryption(password)
    return b"".join(key.private_bytes(serialization.Encoding.PEM, shape, sealing) for key in keys)


@pytest.mark.parametrize(
    ("private", "shape", "algorithm"),
    [
        (RSA, PKCS8, "RS256"),
        (RSA, TRADITIONAL, "RS256"),
        (EC, PKCS8, "ES256"),
        (EC, TRADITIONAL, "ES256"),
        (ED, PKCS8, "EdDSA"),
    ],
)
def test_a_token_is_verified_by_the_published_keys(private, shape, algorithm):
    """By PyJWT, which knows nothing of this server, and by the reader of issuers' keys here."""
    (key,) = issuing.read_private_keys(pem(private, shape=shape), "f")
    token = key.token(URL, SUBJECT, "urn:sink", NOW_S)
    published = issuing.keys_document([key])
    (found,) = jwt.PyJWKSet.from_json(published.decode()).keys
    claims = jwt.decode(
        token,
        found.key,
        [algorithm],
        audience="urn:sink",
        issuer=URL,
        options={"verify_exp": False, "verify_iat": False},
    )
    expires = {"iat": NOW_S, "exp": NOW_S + 3600}
    assert claims == {"iss": URL, "sub": SUBJECT, "aud": ["urn:sink"], **expires}
    assert jwt.get_unverified_header(token)["kid"] == found.key_id == key.key_id
    signed, _, signature = token.rpartition(".")
    ours = read_keys(published).find(key.key_id, algorithm)
    assert is_signed(ours, algorithm, signed.encode(), jwt.utils.base64url_decode(signature))


def test_the_first_key_signs_and_all_are_published():
    """So a new one is known before it signs, and an old one while its tokens live."""
    keys = issuing.read_private_keys(b"old:\n" + pem(ED) + b"new:\n" + pem(EC, RSA), "f")
    assert [key.algorithm for key in keys] == ["EdDSA", "ES256", "RS256"]
    document = json.loads(issuing.issuer_document(URL, URL + "/jwks", keys))
    assert document["issuer"] == URL
    assert document["jwks_uri"] == URL + "/jwks"
    assert document["id_token_signing_alg_values_supported"] == ["ES256", "EdDSA", "RS256"]
    published = json.loads(issuing.keys_document(keys))["keys"]
    assert [each["kid"] for each in published] == [key.key_id for key in keys]


@pytest.mark.parametrize("private", [RSA, EC, ED])
def test_nothing_private_is_published_or_shown(private):
    """Neither in the documents nor in a ``repr``."""
    (key,) = issuing.read_private_keys(pem(private), "f")
    (jwk,) = json.loads(issuing.keys_document([key]))["keys"]
    assert not {"d", "p", "q", "dp", "dq", "qi", "k", "oth"} & set(jwk)
    assert "private" not in repr(key)


def test_a_key_keeps_its_name():
    """Its id is that of RFC 7638, section 3.1: of the key, whatever file it is in."""
    (one,) = issuing.read_private_keys(pem(RSA), "f")
    (other,) = issuing.read_private_keys(pem(RSA, shape=TRADITIONAL), "g")
    assert one.key_id == other.key_id


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (b"", ["f: expected 1 to 10 private keys; got 0"]),
        (b"canary", ["f: expected 1 to 10 private keys; got 0"]),
        (pem(*[ED] * 11), ["f: expected 1 to 10 private keys; got 11"]),
        (pem(ED, ED), ["f: it has a key twice"]),
        (pem(ED, WEAK), ["f: key 2: expected an RSA key"]),
        (pem(ec.generate_private_key(ec.SECP384R1())), ["f: key 1: expected"]),
        (pem(ED, password=b"canary"), ["f: key 1: expected"]),
        (
            b"-----BEGIN PRIVATE KEY-----\ncanary\n-----END PRIVATE KEY-----\n" + pem(WEAK),
            ["f: key 1: expected", "f: key 2: expected"],
        ),
    ],
)
def test_unusable_keys_are_refused_with_every_fault(content, faults):
    """By their place; nothing of them is repeated."""
    with pytest.raises(SettingsError) as caught:
        issuing.read_private_keys(content, "f")
    lines = str(caught.value).splitlines()
    assert len(lines) == len(faults)
    assert all(line.startswith(fault) for line, fault in zip(lines, faults, strict=True))
    assert "canary" not in str(caught.value)
