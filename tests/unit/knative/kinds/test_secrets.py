"""The kind Secret: defaults and faults, which repeat no value."""

import base64

import pytest

from distributary.core import filter as filter_room
from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.kinds import SECRET, TRIGGER, admit, defaulted
from distributary.knative.kinds._defaulted import LAST_APPLIED
from distributary.resource import SINKS


def secret(annotations=None, **members):
    """A Secret."""
    metadata = {"name": "s", "namespace": "shop", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **members}


def refused(obj, kind=SECRET):
    """The message of its refusal."""
    with pytest.raises(StatusError) as caught:
        admit(kind, defaulted(kind, obj, None), None, filter_room.check)
    return str(caught.value)


def test_texts_become_values_and_no_copy_of_them_is_kept():
    """As in Kubernetes, but for what ``kubectl apply`` leaves in an annotation."""
    obj = secret({LAST_APPLIED: "canary", "a": "b"}, data={"x": "eA=="}, stringData={"y": "y"})
    found = defaulted(SECRET, obj, None)
    assert found["data"] == {"x": "eA==", "y": base64.b64encode(b"y").decode()}
    assert (found["type"], found["metadata"]["annotations"]) == ("Opaque", {"a": "b"})
    assert "stringData" not in found
    admit(SECRET, found, None, filter_room.check)
    assert defaulted(SECRET, found, None) == found


@pytest.mark.parametrize(
    "members",
    [
        {"data": {"token": "canary!"}},
        {"data": {"token": 70_707}},
        {"data": ["canary"]},
        {"stringData": {"token": 70_707}},
    ],
)
def test_a_fault_repeats_no_value(members):
    """It names the place."""
    told = refused(secret(**members))
    assert "data" in told or "stringData" in told
    assert "canary" not in told
    assert "70707" not in told


def test_keys_and_sinks_are_checked():
    """With their places."""
    assert 'data["a b"]' in refused(secret(data={"a b": "eA=="}))
    assert SINKS in refused(secret({SINKS: "https://a.example ftp://b.example"}))
    assert "at most 32" in refused(secret({SINKS: " ".join(["https://a.example"] * 33)}))


def test_names_of_secrets_are_checked():
    """In the annotations of a Trigger."""
    spec = {"broker": "default", "subscriber": {"uri": "http://127.0.0.1:9/"}}
    metadata = {"name": "t", "namespace": "shop", "annotations": {}}
    metadata["annotations"]["distributary.dev/sink-credential"] = "Not A Name"
    assert "distributary.dev/sink-credential" in refused(
        {"metadata": metadata, "spec": spec}, TRIGGER
    )
