"""Bodies in Kubernetes' protobuf, as kubectl 1.32 sends them."""

import base64

import pytest

from distributary.knative.apiserver.http._protobuf import PROTOBUF, read_protobuf
from distributary.knative.apiserver.machinery import StatusError


def field(number, value):
    """A field of a message: a number, or what has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    encoded = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(encoded)) + encoded


def varint(number):
    """A number in groups of seven bits."""
    head = b""
    while number > 0x7F:
        head += bytes([number & 0x7F | 0x80])
        number >>= 7
    return head + bytes([number])


def body(kind, *fields, version="v1"):
    """An object in its envelope, with what the Go library adds."""
    type_ = field(1, version) + field(2, kind)
    return b"k8s\0" + field(1, type_) + field(2, b"".join(fields)) + field(3, "") + field(4, "")


def meta(*fields):
    """Metadata with the empty fields that clients send along."""
    return field(1, b"".join(fields) + field(3, "") + field(7, 0) + field(8, b""))


def test_a_config_map():
    """Text and bytes; empty fields count as absent."""
    entries = (
        field(2, field(1, "a") + field(2, "b")),
        field(2, field(1, "empty") + field(2, "")),
        field(3, field(1, "bin") + field(2, b"\xff\xfe")),
    )
    found = read_protobuf(body("ConfigMap", meta(field(1, "x")), *entries))
    assert found == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "x"},
        "data": {"a": "b", "empty": ""},
        "binaryData": {"bin": base64.b64encode(b"\xff\xfe").decode()},
    }


def test_a_secret():
    """Values are bytes, texts are texts."""
    entries = (
        field(2, field(1, "a") + field(2, b"\xff")),
        field(3, "Opaque"),
        field(4, field(1, "b") + field(2, "c")),
        field(5, 1),
    )
    found = read_protobuf(body("Secret", meta(field(1, "x")), *entries))
    assert (found["data"], found["stringData"]) == ({"a": "/w=="}, {"b": "c"})
    assert (found["type"], found["immutable"]) == ("Opaque", True)


def test_a_service():
    """Ports by number and by name; nested messages and lists."""
    number = field(1, 0) + field(2, 8080) + field(3, "")
    name = field(1, 1) + field(2, 0) + field(3, "http")
    ports = (
        field(1, field(1, "web") + field(2, "TCP") + field(3, 80) + field(4, number)),
        field(1, field(3, 81) + field(4, name) + field(5, 0)),
    )
    spec = field(2, b"".join(ports) + field(3, "") + field(4, "ExternalName") + field(10, "a.b"))
    found = read_protobuf(body("Service", meta(field(1, "x")), spec, field(3, field(1, b""))))
    assert found["spec"] == {
        "ports": [
            {"name": "web", "protocol": "TCP", "port": 80, "targetPort": 8080},
            {"port": 81, "targetPort": "http"},
        ],
        "type": "ExternalName",
        "externalName": "a.b",
    }
    assert "status" not in found


def test_metadata_of_a_namespace():
    """Labels, finalizers and owners; what is the server's is left out."""
    owner = field(1, "Trigger") + field(3, "t") + field(4, "u") + field(5, "v1") + field(6, 1)
    sent = meta(
        field(1, "x"),
        field(5, "uid"),
        field(9, field(1, 5)),
        field(11, field(1, "a") + field(2, "b")),
        field(13, owner),
        field(14, "example.com/x"),
        field(17, field(1, "m")),
    )
    assert read_protobuf(body("Namespace", sent))["metadata"] == {
        "name": "x",
        "uid": "uid",
        "labels": {"a": "b"},
        "ownerReferences": [
            {"kind": "Trigger", "name": "t", "uid": "u", "apiVersion": "v1", "controller": True}
        ],
        "finalizers": ["example.com/x"],
    }


AUTHORIZATION = "authorization.k8s.io/v1"


def test_reviews_of_access():
    """As ``kubectl auth can-i`` sends them, with the status that is ours."""
    attributes = field(1, "shop") + field(2, "list") + field(5, "triggers") + field(7, "")
    spec = field(1, attributes)
    sent = body(
        "SelfSubjectAccessReview",
        field(1, meta()),
        field(2, spec),
        field(3, field(1, 0)),
        version=AUTHORIZATION,
    )
    assert read_protobuf(sent)["spec"] == {
        "resourceAttributes": {"namespace": "shop", "verb": "list", "resource": "triggers"}
    }
    path = field(2, field(1, "/metrics") + field(2, "get"))
    sent = body("SelfSubjectAccessReview", field(2, path), version=AUTHORIZATION)
    assert read_protobuf(sent)["spec"] == {
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"}
    }
    sent = body("SelfSubjectRulesReview", field(2, field(1, "shop")), version=AUTHORIZATION)
    assert read_protobuf(sent)["spec"] == {"namespace": "shop"}


def test_negative_numbers():
    """Ten bytes, as two's complement."""
    found = read_protobuf(body("DeleteOptions", field(1, 2**64 - 1)))
    assert found["gracePeriodSeconds"] == -1


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"k8s",
        b"k8s\0\xff",
        b"k8s\0" + b"\xff" * 20,
        b"k8s\0" + field(1, "x")[:-1],
        b"k8s\0" + field(1, 1),
        body("ConfigMap", field(1, 1)),
        body("ConfigMap", meta(field(1, b"\xff"))),
        body("ConfigMap", varint(1 << 3 | 5) + b"abcd"),
        body("DeleteOptions", field(1, "x")),
        body("Namespace", field(2, field(1, 7))),
    ],
    ids=range(11),
)
def test_what_is_no_such_body_is_400(sent):
    """Any bytes give an object or a refusal."""
    with pytest.raises(StatusError) as caught:
        read_protobuf(sent)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "sent",
    [body("Pod"), body("Service", version="v2"), body("ConfigMap", field(99, "x")), b"k8s\0"],
)
def test_what_is_not_read_is_415_and_not_dropped(sent):
    """The client can send JSON."""
    with pytest.raises(StatusError) as caught:
        read_protobuf(sent)
    assert caught.value.status == 415


def test_objects_are_made_from_it(cluster):
    """Over HTTP; the answer is JSON."""
    sent = body("ConfigMap", meta(field(1, "x")), field(2, field(1, "a") + field(2, "b")))
    target = "/api/v1/namespaces/default/configmaps"
    accept = f"{PROTOBUF},application/json"
    answer = cluster.ask("POST", target, sent, PROTOBUF, accept=accept)
    assert (answer.status, answer.json()["data"]) == (201, {"a": "b"})
    options = body("DeleteOptions", field(5, "All"))
    assert cluster.ask("DELETE", f"{target}/x", options, PROTOBUF).status == 200
    cluster.get(f"{target}/x")
