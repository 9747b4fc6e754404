"""Discovery and OpenAPI: what clients learn the kinds from."""

import json

import pytest

from distributary.knative.apiserver.machinery.discovery import (
    aggregated,
    api_group,
    api_groups,
    api_versions,
    resource_list,
    version,
)
from distributary.knative.apiserver.machinery.gnostic import openapi_v2_protobuf
from distributary.knative.apiserver.machinery.openapi import (
    openapi_hash,
    openapi_v2,
    openapi_v3,
    openapi_v3_index,
)
from distributary.knative.apiserver.machinery.schema_words import META
from distributary.knative.kinds import KINDS, SCHEMAS


def test_groups_and_versions_are_listed():
    """The core group stands by itself."""
    assert api_versions()["versions"] == ["v1"]
    groups = api_groups(KINDS)["groups"]
    assert [group["name"] for group in groups] == ["eventing.knative.dev", "messaging.knative.dev"]
    assert api_group("eventing.knative.dev", KINDS)["preferredVersion"] == {
        "groupVersion": "eventing.knative.dev/v1",
        "version": "v1",
    }
    assert api_group("", KINDS) is None
    assert api_group("apps", KINDS) is None


def test_resources_of_a_version_are_listed_with_their_verbs():
    """And ``/status`` where the kind has one."""
    resources = {r["name"]: r for r in resource_list("", "v1", KINDS)["resources"]}
    assert set(resources) == {
        "configmaps",
        "events",
        "namespaces",
        "namespaces/status",
        "secrets",
        "services",
        "services/status",
    }
    assert resources["services"]["shortNames"] == ["svc"]
    assert "watch" in resources["services"]["verbs"]
    assert "deletecollection" not in resources["namespaces"]["verbs"]
    assert resources["services/status"]["verbs"] == ["get", "patch", "update"]
    assert resource_list("", "v2", KINDS) is None


@pytest.mark.parametrize("number", ["v2", "v2beta1"])
def test_everything_is_discovered_at_once(number):
    """``/api`` tells the core group, ``/apis`` the others."""
    core = aggregated(KINDS, core=True, version=number)
    assert core["apiVersion"] == f"apidiscovery.k8s.io/{number}"
    assert [item["metadata"]["name"] for item in core["items"]] == [""]
    others = aggregated(KINDS, core=False, version=number)
    served, newer = others["items"][0]["versions"]
    assert (served["version"], newer["version"]) == ("v1", "v1alpha1")  # the preferred one first
    trigger = served["resources"][1]
    assert trigger["responseKind"] == {
        "group": "eventing.knative.dev",
        "version": "v1",
        "kind": "Trigger",
    }
    assert trigger["scope"] == "Namespaced"
    assert trigger["subresources"][0]["subresource"] == "status"


def test_the_version_is_all_texts():
    """The Python client refuses absent ones."""
    told = version()
    assert all(isinstance(value, str) and value for value in told.values())
    assert told["gitVersion"].startswith(f"v{told['major']}.{told['minor']}.")


def references(node):
    """Every ``$ref`` in a document."""
    if isinstance(node, list):
        return {ref for item in node for ref in references(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*(references(value) for value in node.values()))


def test_every_reference_leads_somewhere():
    """Kubectl gives up on a document with one that does not."""
    document = openapi_v2(KINDS, SCHEMAS)
    known = {f"#/definitions/{name}" for name in document["definitions"]}
    assert references(document) - known == set()
    for group in ("", "eventing.knative.dev", "messaging.knative.dev"):
        part = openapi_v3(group, "v1", KINDS, SCHEMAS)
        known = {f"#/components/schemas/{name}" for name in part["components"]["schemas"]}
        assert references(part) - known == set()


def test_operations_have_their_own_ids_and_kinds():
    """Kubectl finds the parameters that a kind takes by them."""
    document = openapi_v2(KINDS, SCHEMAS)
    told = [one for path in document["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in told}) == len(told)
    path = "/apis/eventing.knative.dev/v1/namespaces/{namespace}/triggers/{name}"
    patch = document["paths"][path]["patch"]
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "eventing.knative.dev",
        "version": "v1",
        "kind": "Trigger",
    }
    assert {"dryRun", "fieldValidation"} <= {one["name"] for one in patch["parameters"]}
    assert "application/strategic-merge-patch+json" not in patch["consumes"]


def test_each_kind_has_a_list():
    """Made from the kind itself."""
    definitions = openapi_v2(KINDS, SCHEMAS)["definitions"]
    made = definitions["dev.knative.eventing.v1.TriggerList"]
    assert made["properties"]["items"]["items"] == {
        "$ref": "#/definitions/dev.knative.eventing.v1.Trigger"
    }
    assert made["x-kubernetes-group-version-kind"][0]["kind"] == "TriggerList"


def test_v3_holds_what_its_group_needs():
    """References stand alone in their object, beside nothing."""
    document = openapi_v3("eventing.knative.dev", "v1", KINDS, SCHEMAS)
    schemas = document["components"]["schemas"]
    assert META + "ObjectMeta" in schemas
    assert "io.k8s.api.core.v1.Service" not in schemas
    spec = schemas["dev.knative.eventing.v1.Trigger"]["properties"]["spec"]
    assert spec["allOf"] == [{"$ref": "#/components/schemas/dev.knative.eventing.v1.TriggerSpec"}]
    assert "$ref" not in spec


def test_the_index_changes_with_a_document():
    """Clients keep a document as long as its hash stays."""
    document = openapi_v3("", "v1", KINDS, SCHEMAS)
    (entry,) = openapi_v3_index({"api/v1": document})["paths"].values()
    assert entry["serverRelativeURL"] == f"/openapi/v3/api/v1?hash={openapi_hash(document)}"
    assert openapi_hash(document | {"openapi": "3.0.1"}) != openapi_hash(document)


def read_varint(encoded, at):
    """A varint and where it ends."""
    value = shift = 0
    while True:
        value |= (encoded[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if encoded[at - 1] < 0x80:
            return value, at


def read_message(encoded):
    """Field number -> contents, of the wire format."""
    found, at = {}, 0
    while at < len(encoded):
        key, at = read_varint(encoded, at)
        if key & 7 == 0:
            content, at = read_varint(encoded, at)
        else:
            size, at = (8, at) if key & 7 == 1 else read_varint(encoded, at)
            content, at = encoded[at : at + size], at + size
        found.setdefault(key >> 3, []).append(content)
    return found


def test_the_protobuf_document_says_the_same():
    """Read field by field with the numbers of ``OpenAPIv2.proto``."""
    document = openapi_v2(KINDS, SCHEMAS)
    top = read_message(openapi_v2_protobuf(document))
    assert top[1] == [b"2.0"]
    named = [read_message(one) for one in read_message(top[9][0])[1]]
    schemas = {one[1][0].decode(): read_message(one[2][0]) for one in named}
    assert set(schemas) == set(document["definitions"])
    trigger = schemas["dev.knative.eventing.v1.Trigger"]
    (extension,) = map(read_message, trigger[31])
    assert extension[1] == [b"x-kubernetes-group-version-kind"]
    assert json.loads(read_message(extension[2][0])[2][0])[0]["kind"] == "Trigger"
    members = [read_message(one) for one in read_message(trigger[25][0])[1]]
    assert [one[1][0] for one in members] == [
        b"apiVersion",
        b"kind",
        b"metadata",
        b"spec",
        b"status",
    ]
    assert read_message(members[3][2][0])[1] == [
        b"#/definitions/dev.knative.eventing.v1.TriggerSpec"
    ]
    paths = [read_message(one) for one in read_message(top[8][0])[2]]
    assert {one[1][0].decode() for one in paths} == set(document["paths"])


def test_a_word_that_cannot_be_written_is_a_bug():
    """Not dropped in silence."""
    with pytest.raises(ValueError, match="oneOf"):
        openapi_v2_protobuf({"definitions": {"X": {"oneOf": []}}})


def test_numbers_and_flags_are_written():
    """Bounds as doubles, lengths as varints, choices as YAML."""
    schema = {"type": "integer", "minimum": 1, "maxLength": 300, "uniqueItems": True}
    schema |= {"enum": [1, "a"], "default": 2, "additionalProperties": False}
    encoded = openapi_v2_protobuf({"definitions": {"X": schema}})
    (one,) = read_message(read_message(encoded)[9][0])[1]
    told = read_message(read_message(one)[2][0])
    assert told[9] == [b"\x00\x00\x00\x00\x00\x00\xf0\x3f"]
    assert told[11] == [300]
    assert told[16] == [1]
    assert [read_message(choice)[2] for choice in told[20]] == [[b"1"], [b'"a"']]
    assert read_message(told[21][0]) == {2: [0]}
