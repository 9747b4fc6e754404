"""Discovery, OpenAPI, version."""

import pytest

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
PROTOBUF_OLD = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"

GROUPS = ["eventing.knative.dev", "messaging.knative.dev", "subscriptions.distributary.dev"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api", "APIVersions"),
        ("/api/", "APIVersions"),
        ("/apis", "APIGroupList"),
        ("/apis/eventing.knative.dev", "APIGroup"),
        ("/apis/eventing.knative.dev/v1", "APIResourceList"),
        ("/apis/messaging.knative.dev/v1", "APIResourceList"),
        ("/api/v1", "APIResourceList"),
        (
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            "CustomResourceDefinitionList",
        ),
    ],
)
def test_discovery(cluster, path, kind):
    """Groups, versions and resources."""
    assert cluster.get(path)["kind"] == kind


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_everything_is_discovered_at_once(cluster, version):
    """Where the client asks for it first; the content type says which form it is."""
    accept = AGGREGATED.format(version) + ",application/json"
    for path, groups in (
        ("/api", [""]),
        ("/apis", [*GROUPS, "apiextensions.k8s.io"]),
    ):
        answer = cluster.ask("GET", path, accept=accept)
        assert answer.headers["content-type"] == AGGREGATED.format(version)
        found = answer.json()
        assert found["kind"] == "APIGroupDiscoveryList"
        assert [item["metadata"].get("name", "") for item in found["items"]] == groups


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_the_kinds_are_defined(cluster):
    """Clients look there for what a server knows, and wait until it is established."""
    listed = cluster.get(DEFINITIONS)["items"]
    assert [each["metadata"]["name"] for each in listed] == [
        "apisubscriptions.subscriptions.distributary.dev",
        "brokers.eventing.knative.dev",
        "channels.messaging.knative.dev",
        "eventpolicies.eventing.knative.dev",
        "subscriptions.messaging.knative.dev",
        "triggers.eventing.knative.dev",
    ]
    for each in listed:
        assert cluster.get(f"{DEFINITIONS}/{each['metadata']['name']}") == each
        conditions = {one["type"]: one["status"] for one in each["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert each["spec"]["versions"][0]["name"] in each["status"]["storedVersions"]
    assert cluster.ask("GET", f"{DEFINITIONS}/others.example").status == 404


def test_definitions_are_selected_and_shown_as_a_table(cluster):
    """What can be subscribed to has the label by which Knative's client looks for it."""
    query = "labelSelector=messaging.knative.dev%2Fsubscribable%3Dtrue"
    (channel,) = cluster.get(f"{DEFINITIONS}?{query}")["items"]
    assert channel["spec"]["names"]["kind"] == "Channel"
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    rows = cluster.ask("GET", DEFINITIONS, accept=accept).json()["rows"]
    assert rows[1]["cells"][0] == "brokers.eventing.knative.dev"


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH"])
def test_definitions_cannot_be_changed(cluster, method):
    """They are a part of the program."""
    for path in (DEFINITIONS, f"{DEFINITIONS}/brokers.eventing.knative.dev"):
        assert cluster.ask(method, path).status == 405


@pytest.mark.parametrize(
    "accept",
    [
        "application/json," + AGGREGATED.format("v2"),
        AGGREGATED.format("v9") + ",application/json",
        "*/*",
    ],
)
def test_others_get_the_plain_list(cluster, accept):
    """Old clients, and clients of versions that are not there."""
    answer = cluster.ask("GET", "/apis", accept=accept)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["kind"] == "APIGroupList"


def test_the_version_is_one_that_kubectl_reads(cluster):
    """Major and minor are numbers."""
    version = cluster.get("/version")
    assert int(version["major"]) == 1
    assert int(version["minor"]) >= 20


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("application/json", "application/json"),
        ("*/*", "application/json"),
        (PROTOBUF, PROTOBUF),
        (PROTOBUF_OLD, PROTOBUF),
        (f"{PROTOBUF},application/json;q=0.5", PROTOBUF),
    ],
)
def test_openapi_2_in_json_and_protobuf(cluster, accept, content_type):
    """By what the client takes; old spellings too."""
    answer = cluster.ask("GET", "/openapi/v2", accept=accept)
    assert (answer.status, answer.headers["content-type"]) == (200, content_type)
    assert len(answer.body) > 10_000


def test_openapi_in_a_form_that_is_not_there_is_406(cluster):
    """Clients of version 3 fall back to JSON."""
    cluster.get("/openapi/v2", 406, accept="text/plain")
    path = "/openapi/v3/apis/eventing.knative.dev/v1"
    accept = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"
    cluster.get(path, 406, accept=accept)


def test_every_document_of_openapi_3_stands_where_its_index_says(cluster):
    """Under its hash it may be kept for ever."""
    index = cluster.get("/openapi/v3")["paths"]
    assert set(index) == {
        "api/v1",
        "apis/eventing.knative.dev/v1",
        "apis/eventing.knative.dev/v1alpha1",
        "apis/messaging.knative.dev/v1",
        "apis/subscriptions.distributary.dev/v1",
    }
    for entry in index.values():
        answer = cluster.ask("GET", entry["serverRelativeURL"])
        assert answer.json()["openapi"].startswith("3.")
        assert "immutable" in answer.headers["cache-control"]
        plain = cluster.ask("GET", entry["serverRelativeURL"].partition("?")[0])
        assert plain.body == answer.body
        assert "cache-control" not in plain.headers


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_a_document_that_the_client_has_is_304(cluster, path):
    """By its ``ETag``."""
    tag = cluster.ask("GET", path).headers["etag"]
    answer = cluster.ask("GET", path, if_none_match=tag)
    assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    assert cluster.ask("GET", path, if_none_match='"x"').status == 200
