"""The documents by which receivers verify tokens of deliveries, over HTTP."""

import asyncio

import pytest

from distributary.subscriptions.http import IssuerDocuments, create_app
from kit.asgi_client import AsgiClient

PATHS = ("/.well-known/openid-configuration", "/openid/v1/jwks")


@pytest.fixture
def client():
    """Makes a client of an application with these documents."""
    with asyncio.Runner() as runner:
        nothing: dict = dict.fromkeys(
            ("subscriptions", "health", "deliveries", "events", "statuses", "keys")
        )

        def make(documents):
            app = create_app(
                nothing["subscriptions"],
                nothing["health"],
                lambda: None,
                nothing["deliveries"],
                events=nothing["events"],
                statuses=nothing["statuses"],
                keys=nothing["keys"],
                issuer=lambda: documents,
            )
            return AsgiClient(app, runner)

        yield make


def test_an_issuer_publishes_both_for_five_minutes(client):
    """A cache that keeps them longer would not know a new key."""
    asked = client(IssuerDocuments(b'{"issuer":"x"}', b'{"keys":[]}'))
    document, keys = (asked.request("GET", path) for path in PATHS)
    assert (document.status, document.json()) == (200, {"issuer": "x"})
    assert (keys.status, keys.json()) == (200, {"keys": []})
    assert document.headers["content-type"] == "application/json"
    assert keys.headers["content-type"] == "application/jwk-set+json"
    for answer in (document, keys):
        assert answer.headers["cache-control"] == "public, max-age=300"


@pytest.mark.parametrize("path", PATHS)
def test_a_server_without_keys_has_neither(client, path):
    """And no cache remembers that."""
    answer = client(None).request("GET", path)
    assert (answer.status, answer.json()["code"]) == (404, "notfound")
    assert answer.headers["cache-control"] == "no-store"
