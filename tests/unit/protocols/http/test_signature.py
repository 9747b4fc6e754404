"""Signatures of deliveries, by the vectors of Standard Webhooks."""

import base64

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from distributary.core.deliver import Destination
from distributary.core.deliver.origins import origin_of
from distributary.core.deliver.signing import SigningKey, SigningKeys
from distributary.protocols.http.sink._signature import RequestSigner

BODY = b'{"test": 2432232314}'
SECRET = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
SEED = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
"""The first key of RFC 8032, section 7.1."""

ORIGIN = origin_of("https://example.com/")


def signed(*keys, identity="msg_p5jXN8AQM9LWM0D4loKWxJek", wall_ms=1_614_265_330_999, body=BODY):
    """The header fields of an attempt, by name."""
    lines = RequestSigner(SigningKeys(ORIGIN, keys)).lines(identity, wall_ms, body)
    assert lines.endswith(b"\r\n")
    return dict(line.split(": ", 1) for line in lines.decode("ascii").splitlines())


def test_the_vector_of_standard_webhooks():
    """The one that all its libraries are tested with."""
    assert signed(SigningKey("v1", SECRET, 0)) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_an_ed25519_signature_verifies_with_the_public_key():
    """And with no byte changed."""
    found = signed(SigningKey("v1a", SEED, 0))
    scheme, _, text = found["webhook-signature"].partition(",")
    assert scheme == "v1a"
    public = Ed25519PrivateKey.from_private_bytes(SEED).public_key()
    assert public.public_bytes_raw() == PUBLIC
    content = b"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330." + BODY
    public.verify(base64.b64decode(text), content)
    with pytest.raises(InvalidSignature):
        public.verify(base64.b64decode(text), content + b" ")


def test_the_id_has_no_full_stop():
    """It separates the parts of what is signed."""
    found = signed(SigningKey("v1", SECRET, 0), identity="0af.0.17.0.9c.1")
    assert found["webhook-id"] == "0af-0-17-0-9c-1"


def test_each_key_signs_until_its_overlap_ends():
    """The newest first; the clock of the attempt decides."""
    new, old = SigningKey("v1a", SEED, 5), SigningKey("v1", SECRET, 0, until_ms=2_000)
    both = signed(new, old, wall_ms=1_999)["webhook-signature"].split(" ")
    assert [each.partition(",")[0] for each in both] == ["v1a", "v1"]
    assert signed(old, wall_ms=1_999)["webhook-signature"] == both[1]
    (alone,) = signed(new, old, wall_ms=2_000)["webhook-signature"].split(" ")
    assert alone.startswith("v1a,")


def test_no_key_shows_where_something_is_printed():
    """Destinations are printed in logs of failures."""
    keys = SigningKeys(ORIGIN, (SigningKey("v1", b"canary" * 5, 0),))
    destination = Destination("https://example.com/", signing=keys)
    for text in (repr(keys), repr(destination), str(destination)):
        assert "canary" not in text
    assert destination != Destination("https://example.com/")
    assert not destination.plain
