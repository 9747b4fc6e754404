"""This server as an issuer: which settings make one, and which are refused before the start."""

import json

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from distributary.core.errors import SettingsError
from distributary.server.processes.pipeline.issuing import issuing_of
from distributary.server.settings import Settings

PUBLIC = "https://events.example.com"


@pytest.fixture
def file(tmp_path):
    """A key, readable by its owner alone."""
    path = tmp_path / "issuer.pem"
    path.touch(0o600)
    path.write_bytes(
        Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def test_without_a_key_nothing_is_issued():
    """Whatever the URL is."""
    found = issuing_of(Settings(issuer_url="http://events.example.com"), PUBLIC)
    assert (found.url, found.key_file, found.documents()) == ("", "", None)


@pytest.mark.parametrize(
    ("said", "public", "issuer"),
    [
        (None, PUBLIC, PUBLIC),
        ("https://issuer.example.com", PUBLIC, "https://issuer.example.com"),
        (None, "http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080", PUBLIC, "http://127.0.0.1:8080"),
        ("http://[::1]:8080", PUBLIC, "http://[::1]:8080"),
    ],
)
def test_the_issuer_is_the_public_url_unless_another_is_said(file, said, public, issuer):
    """And what it publishes says so."""
    found = issuing_of(Settings(issuer_key_file=file, issuer_url=said), public)
    assert (found.url, found.key_file) == (issuer, str(file))
    about = json.loads(found.documents().configuration)
    assert about["issuer"] == issuer
    assert about["jwks_uri"] == issuer + "/openid/v1/jwks"
    assert len(json.loads(found.documents().keys)["keys"]) == 1


@pytest.mark.parametrize("said", [None, "http://issuer.example.com"])
def test_an_issuer_in_the_clear_is_refused(file, said):
    """Who sits on the way to it could publish other keys."""
    settings = Settings(issuer_key_file=file, issuer_url=said)
    with pytest.raises(SettingsError, match=r"issuer_url: .* https"):
        issuing_of(settings, "http://events.example.com")


def test_a_key_that_others_may_read_is_refused(file):
    """As are the keys of sealed credentials."""
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 600"):
        issuing_of(Settings(issuer_key_file=file), PUBLIC)
