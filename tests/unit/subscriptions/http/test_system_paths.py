"""Description, health, documents, and what every path has in common."""

import asyncio
import re

import pytest

from distributary.access import (
    ANYBODY,
    NOBODY,
    Grant,
    Identity,
    IdentityKind,
    Verb,
    encode_identity,
)
from distributary.core.errors import CATALOGUE
from distributary.core.filter import DIALECTS
from distributary.core.protocol import protocols
from distributary.datadir.seen import SeenNames
from distributary.subscriptions.http import build_openapi, create_app
from distributary.subscriptions.resource import CONFIG_KEYS
from distributary.subscriptions.service import PAGE_MAX, PROTOCOLS_ABSENT
from kit.asgi_client import AsgiClient

PATHS = {
    "/": "GET, HEAD, OPTIONS",
    "/subscriptions": "GET, HEAD, POST, OPTIONS",
    "/subscriptions/some-id": "GET, HEAD, PUT, DELETE, OPTIONS",
    "/subscriptions/some-id/signature/rotate": "POST, OPTIONS",
    "/subscriptions/some-id/attempts": "GET, HEAD, OPTIONS",
    "/subscriptions/some-id/status": "GET, HEAD, OPTIONS",
    "/subscriptions/some-id/pause": "POST, OPTIONS",
    "/subscriptions/some-id/resume": "POST, OPTIONS",
    "/events": "GET, HEAD, OPTIONS",
    "/events/some-position": "GET, HEAD, OPTIONS",
    "/namespaces/shop/events": "GET, HEAD, OPTIONS",
    "/namespaces/shop/events/some-position": "GET, HEAD, OPTIONS",
    "/subscriptions/some-id/disable": "POST, OPTIONS",
    "/subscriptions/some-id/enable": "POST, OPTIONS",
    "/subscriptions/some-id/retry": "POST, OPTIONS",
    "/subscriptions/some-id/replay": "POST, OPTIONS",
    "/consent/some-name": "GET, HEAD, POST, OPTIONS",
    "/status": "GET, HEAD, OPTIONS",
    "/namespaces/shop/status": "GET, HEAD, OPTIONS",
    "/dead-letters": "GET, HEAD, OPTIONS",
    "/dead-letters/redrive": "POST, OPTIONS",
    "/dead-letters/purge": "POST, OPTIONS",
    "/dead-letters/some-id": "GET, HEAD, OPTIONS",
    "/dead-letters/runs/some-run": "GET, HEAD, OPTIONS",
    "/filters/try": "POST, OPTIONS",
    "/runs": "GET, HEAD, OPTIONS",
    "/runs/some-run": "GET, HEAD, OPTIONS",
    "/runs/some-run/cancel": "POST, OPTIONS",
    "/keys": "GET, HEAD, POST, OPTIONS",
    "/keys/some-id": "GET, HEAD, DELETE, OPTIONS",
    "/whoami": "GET, HEAD, OPTIONS",
    "/can": "GET, HEAD, OPTIONS",
    "/namespaces/shop/subscriptions": "GET, HEAD, POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id": "GET, HEAD, PUT, DELETE, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/signature/rotate": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/attempts": "GET, HEAD, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/status": "GET, HEAD, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/pause": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/resume": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/disable": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/enable": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/retry": "POST, OPTIONS",
    "/namespaces/shop/subscriptions/some-id/replay": "POST, OPTIONS",
    "/namespaces/shop/dead-letters": "GET, HEAD, OPTIONS",
    "/namespaces/shop/dead-letters/redrive": "POST, OPTIONS",
    "/namespaces/shop/dead-letters/purge": "POST, OPTIONS",
    "/namespaces/shop/dead-letters/some-id": "GET, HEAD, OPTIONS",
    "/namespaces/shop/dead-letters/runs/some-run": "GET, HEAD, OPTIONS",
    "/namespaces/shop/filters/try": "POST, OPTIONS",
    "/namespaces/shop/runs": "GET, HEAD, OPTIONS",
    "/namespaces/shop/runs/some-run": "GET, HEAD, OPTIONS",
    "/namespaces/shop/runs/some-run/cancel": "POST, OPTIONS",
    "/healthz": "GET, HEAD, OPTIONS",
    "/readyz": "GET, HEAD, OPTIONS",
    "/metrics": "GET, HEAD, OPTIONS",
    "/cluster": "GET, HEAD, OPTIONS",
    "/openapi.json": "GET, HEAD, OPTIONS",
    "/docs": "GET, HEAD, OPTIONS",
    "/.well-known/openid-configuration": "GET, HEAD, OPTIONS",
    "/openid/v1/jwks": "GET, HEAD, OPTIONS",
}

TENANT = Identity(
    name="key:till",
    how=IdentityKind.KEY,
    grants=(Grant(may=(Verb.ADMIN,), namespaces=("shop",)),),
)


@pytest.mark.parametrize(("path", "allow"), PATHS.items())
def test_options_says_what_a_path_can_do(api, path, allow):
    """Decision 4: discovery of operations."""
    answer = api.request("OPTIONS", path)
    assert (answer.status, answer.headers["allow"]) == (200, allow)


@pytest.mark.parametrize(("path", "allow"), PATHS.items())
@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PROPFIND"])
def test_another_method_is_405_with_allow(api, method, path, allow):
    """RFC 9110, 15.5.6."""
    answer = api.request(method, path)
    assert (answer.status, answer.headers["allow"]) == (405, allow)
    assert answer.json()["code"] == "method-not-allowed"


@pytest.mark.parametrize(
    "path",
    [
        path + ("?verb=read&resource=keys" if path == "/can" else "")
        for path in PATHS
        if "GET" in PATHS[path] and "some-" not in path
    ],
)
def test_head_has_the_fields_of_get_and_no_body(api, path):
    """RFC 9110, 9.3.2."""
    got, head = api.request("GET", path), api.request("HEAD", path)
    assert (head.status, head.headers, head.body) == (got.status, got.headers, b"")


@pytest.mark.parametrize(
    "path", ["/nothing", "/subscriptions/", "/subscriptions/a/b", "//", "/docs/"]
)
def test_a_path_that_is_nothing_is_404(api, path):
    """No redirect either: Starlette would make it of the client's Host header."""
    answer = api.request("GET", path, headers=[("host", "evil.example")])
    assert (answer.status, answer.json()["code"]) == (404, "notfound")
    assert b"evil" not in answer.body
    assert "location" not in answer.headers


def test_the_description_says_what_the_server_can_do(api):
    """Protocols and settings, dialects, config keys, credential types, what was seen."""
    api.seen = SeenNames(types=("b", "a"), sources=("/s",), sources_truncated=True)
    body = api.request("GET", "/").json()
    assert set(body["protocols"]) == set(protocols()) - set(PROTOCOLS_ABSENT)
    settings = body["protocols"]["HTTP"]["settings"]["properties"]
    own, shared = {"headers", "method", "signature"}, {"format", "cacerts", "clientcertificate"}
    assert own | shared | {"delivery"} == set(settings)
    assert body["protocols"]["KAFKA"]["sinkschemes"] == ["kafka", "kafka+ssl"]
    assert body["protocols"]["KAFKA"]["settings"]["properties"]["acks"]["default"] == "all"
    assert {"exact", "prefix", "suffix", "all", "any", "not"} <= set(body["dialects"])
    assert body["dialects"] == list(DIALECTS)
    assert body["subscriptionconfig"]["interval"]["type"] == "number"
    assert set(body["subscriptionconfig"]) == set(CONFIG_KEYS)
    assert body["credentialtypes"] == ["PLAIN", "ACCESSTOKEN", "REFRESHTOKEN"]
    assert (body["eventtypes"], body["eventtypes_truncated"]) == (["a", "b"], False)
    assert (body["eventsources"], body["eventsources_truncated"]) == (["/s"], True)
    assert body["limits"]["page"] == PAGE_MAX
    assert body["operations"] == ["create", "retrieve", "query", "update", "delete"]


def test_browsers_are_led_to_the_page_that_is_mounted():
    """They say that they take HTML; programs get the description, as they always did."""

    async def page(_scope, _receive, _send):
        raise AssertionError

    with asyncio.Runner() as runner:
        app = create_app(
            None, None, SeenNames, None, {"/console": page}, events=None, statuses=None, keys=None
        )
        client = AsgiClient(app, runner)
        browser = client.request("GET", "/", headers=[("accept", "text/html,*/*;q=0.8")])
        assert (browser.status, browser.headers["location"]) == (303, "/console")
        for accept in ("*/*", "application/json"):
            answer = client.request("GET", "/", headers=[("accept", accept)])
            assert (answer.status, answer.json()["name"]) == (200, "distributary")
            assert answer.headers["vary"] == browser.headers["vary"] == "accept"


def test_every_link_of_the_description_leads_somewhere(api):
    """The path that publishes is one of a search too; the server mounts the console."""
    for name, path in api.request("GET", "/").json()["links"].items():
        expected = 404 if name == "console" else 200
        assert api.request("GET", path).status == expected


def test_liveness_does_not_depend_on_readiness(api):
    """A restart would not bring the log back."""
    api.health.reasons = ["log closed"]
    assert api.request("GET", "/healthz").status == 200


def test_readiness_gives_its_reasons(api):
    """503 until the pipeline runs and the log accepts."""
    assert api.request("GET", "/readyz").status == 200
    api.health.reasons = ["the pipeline is starting", "the log is full"]
    answer = api.request("GET", "/readyz")
    assert (answer.status, answer.json()["code"]) == (503, "unavailable")
    assert answer.json()["detail"] == "the pipeline is starting; the log is full"
    assert "retry-after" in answer.headers


def test_what_concerns_all_is_told_to_who_observes_alone(api):
    """Names in events, and why the server is not ready; the rest of both is for everybody."""
    api.seen = SeenNames(types=("canary-type",), sources=("/canary",))
    api.health.reasons = ["the disk is full"]
    for sender, told in ((NOBODY, False), (TENANT, False), (ANYBODY, True)):
        headers = [("x-distributary-identity", encode_identity(sender).decode())]
        description = api.request("GET", "/", headers=headers)
        readiness = api.request("GET", "/readyz", headers=headers)
        assert (description.status, readiness.status) == (200, 503)
        assert (b"canary" in description.body) is told
        assert (b"disk" in readiness.body) is told


def test_metrics_are_prometheus_text(api):
    """As they are given."""
    answer = api.request("GET", "/metrics")
    assert answer.body == b"up 1\n"
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


def test_metrics_are_those_of_the_namespaces_that_the_sender_observes(api):
    """Of the whole server for who may observe in all."""

    def asked(*grants: Grant) -> bytes:
        sender = Identity(name="key:x", how=IdentityKind.KEY, grants=grants)
        headers = [("x-distributary-identity", encode_identity(sender).decode())]
        return api.request("GET", "/metrics", headers=headers).body

    shop = Grant(may=(Verb.OBSERVE, Verb.READ), namespaces=("shop",))
    assert asked(shop) == b"shop"
    assert asked(Grant(may=(Verb.READ,), namespaces=("*",)), shop) == b"shop"
    assert asked(shop, Grant(may=(Verb.ADMIN,), namespaces=("bank",))) == b"bank shop"
    assert asked(Grant(may=(Verb.OBSERVE,), namespaces=("*",)), shop) == b"up 1\n"


def test_a_bug_is_a_500_that_tells_nothing(api, monkeypatch):
    """Tracebacks stay in the log."""

    def fail(_namespaces):
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(api.health, "metrics", fail)
    answers = []
    original = api.client._app

    async def catching(scope, receive, send):
        async def remember(message):
            answers.append(message)
            await send(message)

        try:
            await original(scope, receive, remember)
        except ZeroDivisionError:  # raised again for the server to log
            answers.append("raised")

    api.client._app = catching
    answer = api.request("GET", "/metrics")
    assert (answer.status, answer.json()["code"]) == (500, "internal")
    assert b"canary" not in answer.body
    assert answers[-1] == "raised"


def references(node):
    """Every $ref in *node*."""
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_the_api_description_holds_together(api):
    """OpenAPI 3.1: every reference resolves, operation ids are unique, parameters are declared."""
    document = api.request("GET", "/openapi.json").json()
    assert document == build_openapi()
    assert document["openapi"].startswith("3.1")
    for reference in references(document):
        node = document
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    known = {
        operation["operationId"]
        for item in document["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    }
    ids = []
    for path, item in document["paths"].items():
        declared = {p["name"] for p in item.get("parameters", ()) if p["in"] == "path"}
        assert declared == set(re.findall(r"\{(\w+)\}", path))
        for method, operation in item.items():
            if method != "parameters":
                ids.append(operation["operationId"])
                assert all(answer["description"] for answer in operation["responses"].values())
                for answer in operation["responses"].values():
                    links = answer.get("links", {}).values()
                    assert {link["operationId"] for link in links} <= known
    assert len(ids) == len(set(ids))


def test_the_api_description_names_what_exists(api):
    """Each path and method of it is answered, and no path is left out."""
    document = api.request("GET", "/openapi.json").json()
    described = {
        path.format(
            id="some-id",
            run="some-run",
            position="some-position",
            namespace="shop",
            name="some-name",
        ): item
        for path, item in document["paths"].items()
    }
    for path in ("/events", "/namespaces/shop/events"):
        assert described[path].pop("post")  # the receiver's
    assert set(described) == set(PATHS)
    for path, item in described.items():
        methods = {method.upper() for method in item if method != "parameters"}
        assert methods == set(PATHS[path].split(", "))


def test_the_problem_schema_knows_every_code(api):
    """One catalogue for answers and documents."""
    document = api.request("GET", "/openapi.json").json()
    codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    assert set(codes) == set(CATALOGUE)


def test_the_documents_page_needs_nothing_from_elsewhere(api):
    """No scripts, no other hosts."""
    answer = api.request("GET", "/docs")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert b"<script" not in answer.body
    assert b"src=" not in answer.body
    assert b"POST /subscriptions" in answer.body
