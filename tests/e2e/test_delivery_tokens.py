"""A sink verifies the tokens of deliveries by the documents that the server publishes."""

from collections.abc import Iterator
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from distributary.knative.kinds import TRIGGER
from kit.answering_sinks import AnsweringSinks
from kit.knative_client import KnativeClient
from kit.running_server import RunningServer

pytestmark = [pytest.mark.spark, pytest.mark.slow]

DOCUMENT = "/.well-known/openid-configuration"


def pem(private) -> bytes:
    """A private key, as openssl writes it."""
    return private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


@pytest.fixture(scope="module")
def keys() -> bytes:
    """The key that signs, and one on its way out."""
    signing, former = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
    return pem(signing) + pem(former)


@pytest.fixture(scope="module")
def issuer(tmp_path_factory, keys) -> Iterator[RunningServer]:
    """A server with a key."""
    folder: Path = tmp_path_factory.mktemp("issuer")
    file = folder / "issuer.pem"
    file.write_bytes(keys)
    file.chmod(0o600)
    flags = ["--issuer-key-file", str(file)]
    with RunningServer(folder / "data", flags=flags) as server:
        yield server


def test_a_sink_verifies_who_delivers_and_for_whom(issuer, keys):
    """With PyJWT and what the server publishes; a sink without an audience is shown nothing."""
    client = KnativeClient(issuer, "shop")
    broker = client.broker()
    with AnsweringSinks() as sinks:
        guarded, plain = sinks.sink("/guarded"), sinks.sink("/plain")
        for name, sink, more in (("orders", guarded, {"audience": "urn:books"}), ("p", plain, {})):
            spec = {"broker": "b", "subscriber": {"uri": sink.url, **more}}
            client.create(TRIGGER, name, spec)
            client.ready(TRIGGER, name)
        client.publish(broker)
        (arrival,), (other,) = guarded.wait(), plain.wait()
    assert "authorization" not in other.headers
    scheme, _, token = arrival.headers["authorization"].partition(" ")
    assert scheme == "Bearer"
    document = issuer.request("GET", DOCUMENT)
    assert document.headers["cache-control"] == "public, max-age=300"
    about = document.json()
    published = issuer.request("GET", about["jwks_uri"].removeprefix(about["issuer"]))
    signing, former = jwt.PyJWKSet.from_dict(published.json()).keys
    assert (signing.algorithm_name, former.algorithm_name) == ("ES256", "RS256")
    assert jwt.get_unverified_header(token)["kid"] == signing.key_id
    claims = jwt.decode(token, signing.key, ["ES256"], audience="urn:books", issuer=about["issuer"])
    account = "orders-oidc-eventing.knative.dev-trigger"
    assert claims["sub"] == f"system:serviceaccount:shop:{account}"
    secret = keys.splitlines()[1]
    assert secret not in published.body + document.body
    for path in issuer.data_dir.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
            assert token.encode() not in path.read_bytes(), path
