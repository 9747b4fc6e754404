"""What a sink gets of a Secret, and what is said where it gets nothing."""

import base64

import pytest

from distributary.core.deliver.origins import origin_of
from distributary.resource import (
    CA_CERTS,
    KeptSecret,
    Withheld,
    credential_of,
    signing_keys_of,
    withheld_from,
)
from kit.certificates import Authority

SINK = "https://a.example/hook"
ORIGIN = origin_of(SINK)
SIGNING = "whsec_" + base64.b64encode(bytes(32)).decode()
SEED = "whsk_" + base64.b64encode(bytes([1]) * 32).decode()
OURS, THEIRS = (Authority(name).pem for name in ("Ours", "Theirs"))


def secret(sinks=(SINK,), **values):
    """A Secret with *values*."""
    found = {
        key: each if isinstance(each, bytes) else each.encode() for key, each in values.items()
    }
    return KeptSecret(values=found, sinks=sinks)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, 'the Secret "s" has neither the key "token" nor both keys "username" and "password"'),
        ({"password": "canary"}, 'has neither the key "token" nor both keys'),
        ({"token": ""}, 'the key "token" of the Secret "s" is empty: expected 1 to 8192 printable'),
        ({"token": "canary\ncanary"}, 'the key "token" of the Secret "s" cannot be used: expected'),
        ({"token": b"canary\xff"}, 'the key "token" of the Secret "s" cannot be used'),
        ({"username": "canary:", "password": "x"}, 'the key "username" of the Secret "s" cannot'),
        ({"username": "me", "password": ""}, 'the key "password" of the Secret "s" is empty'),
        ({"username": "me", "password": "canary\0"}, 'the key "password" of the Secret "s" cannot'),
        ({"token": "canary ", "username": "me", "password": ""}, 'the key "password"'),
    ],
    ids=[
        "nothing",
        "half an account",
        "empty token",
        "two lines",
        "no text",
        "a colon",
        "empty password",
        "NUL",
        "neither of both",
    ],
)
def test_a_credential_that_cannot_be_sent_is_told_by_its_key(values, message):
    """With the form that is wanted, and no value."""
    found = credential_of("s", secret(**values), ORIGIN)
    assert isinstance(found, Withheld)
    assert found.reason == "SecretUnusable"
    assert message in found.message
    assert "canary" not in found.message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, 'the Secret "k" has no key "secret"'),
        ({"token": "canary"}, 'the Secret "k" has no key "secret"'),
        ({"secret": ""}, 'the key "secret" of the Secret "k" is empty: expected whsec_ and Base64'),
        ({"previous": ""}, 'the key "previous" of the Secret "k" is empty'),
        (
            {"secret": "canary"},
            'the key "secret" of the Secret "k" cannot be used: expected whsec_',
        ),
        ({"secret": "whsec_canary!"}, 'the key "secret" of the Secret "k" cannot be used'),
        ({"secret": "whsec_eA=="}, 'the key "secret" of the Secret "k" cannot be used'),
        ({"secret": "whsk_" + SIGNING[6:-8]}, 'the key "secret" of the Secret "k" cannot be used'),
        ({"secret": SIGNING, "previous": "canary"}, 'the key "previous" of the Secret "k" cannot'),
        ({"secret": b"whsec_\xff"}, 'the key "secret" of the Secret "k" cannot be used'),
    ],
)
def test_a_key_that_cannot_sign_is_told_by_its_key(values, message):
    """With the form that is wanted, and no value."""
    found = signing_keys_of("k", secret(**values))
    assert isinstance(found, Withheld)
    assert found.reason == "SecretUnusable"
    assert message in found.message
    assert "canary" not in found.message


def test_what_can_be_used_is_used():
    """A token before an account; a line end after a value is no part of it."""
    assert credential_of("s", secret(token="t\n"), ORIGIN).access_token == "t"
    both = secret(token="t", username="me", password="p")
    assert credential_of("s", both, ORIGIN).type == "ACCESSTOKEN"
    account = secret(token="", username="", password="p\r\n")
    assert credential_of("s", account, ORIGIN).secret == "p"
    keys = signing_keys_of("k", secret(secret=SEED, previous=SIGNING))
    assert [key.scheme for key in keys] == ["v1a", "v1"]
    assert [key.scheme for key in signing_keys_of("k", secret(secret="", previous=SIGNING))] == [
        "v1"
    ]


def withheld(ca_certs, **values):
    """Why a sink that is trusted by *ca_certs* gets nothing; None: it gets the Secret."""
    text = None if ca_certs is None else ca_certs.decode()
    return withheld_from("s", secret(**values), SINK, None, text)


def test_a_sink_with_certificates_gets_a_secret_that_has_them():
    """All of them; how they are written does not count, nor what the Secret has more."""
    assert withheld(None) is None
    assert withheld(None, **{CA_CERTS: THEIRS}) is None
    assert withheld(OURS, **{CA_CERTS: OURS.replace(b"\n", b"\r\n")}) is None
    assert withheld(OURS, **{CA_CERTS: THEIRS + OURS}) is None


@pytest.mark.parametrize(
    ("brought", "values"),
    [(OURS, {}), (OURS, {CA_CERTS: THEIRS}), (OURS + THEIRS, {CA_CERTS: OURS})],
    ids=["none", "another", "one of two"],
)
def test_a_sink_with_other_certificates_gets_nothing(brought, values):
    """What to do is said."""
    found = withheld(brought, **values)
    assert found.reason == "SecretNotForCACerts"
    assert "write them there, in PEM, together with its other values" in found.message
    assert 'the key "caCerts" of the Secret "s"' in found.message


@pytest.mark.parametrize(
    "value",
    [b"", b"canary", OURS + b"-----BEGIN canary", OURS + b"\xff", OURS + b" " * 65_536],
    ids=["empty", "words", "more", "no ASCII", "too long"],
)
def test_certificates_of_a_secret_that_cannot_be_read_are_told(value):
    """And let it go nowhere."""
    found = withheld(OURS, **{CA_CERTS: value})
    assert found.reason == "SecretUnusable"
    assert 'the key "caCerts" of the Secret "s"' in found.message
    assert "canary" not in found.message


def test_what_openssl_could_read_otherwise_gets_nothing():
    """A certificate under another label is trusted by OpenSSL, and not seen here."""
    hidden = THEIRS.replace(b"CERTIFICATE", b"X509 CERTIFICATE")
    found = withheld(OURS + hidden, **{CA_CERTS: OURS})
    assert found.reason == "SecretNotForCACerts"
    assert "CACerts of the sink must be certificates in PEM" in found.message


def test_a_secret_for_other_sinks_says_nothing_of_what_it_holds():
    """Neither keys nor certificates."""
    found = withheld_from("s", secret(sinks=()), SINK, None, OURS.decode())
    assert found.reason == "SecretNotForSink"
    assert CA_CERTS not in found.message
