"""JSON patch, merge patch and strategic merge patch."""

import copy

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.limits import DEPTH_MAX, OBJECT_BYTES_MAX
from distributary.knative.apiserver.machinery.patch import OPERATIONS_MAX, json_patch, merge_patch
from distributary.knative.apiserver.machinery.strategic import strategic_merge_patch
from distributary.knative.kinds import SERVICE, shape_of

SHAPE = shape_of(SERVICE)
HTTP = {"name": "http", "port": 80}
TLS = {"name": "tls", "port": 443}


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ({"op": "add", "path": "/b", "value": 1}, {"a": [1, {"x": 2}], "b": 1}),
        ({"op": "add", "path": "/a/0", "value": 0}, {"a": [0, 1, {"x": 2}]}),
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, {"x": 2}, 3]}),
        ({"op": "remove", "path": "/a/1/x"}, {"a": [1, {}]}),
        ({"op": "replace", "path": "", "value": {"c": 1}}, {"c": 1}),
        ({"op": "move", "from": "/a/0", "path": "/m~1n"}, {"a": [{"x": 2}], "m/n": 1}),
        ({"op": "copy", "from": "/a/1", "path": "/b"}, {"a": [1, {"x": 2}], "b": {"x": 2}}),
        ({"op": "test", "path": "/a/1", "value": {"x": 2}}, {"a": [1, {"x": 2}]}),
    ],
    ids=lambda value: value.get("op"),
)
def test_json_patch_does_what_it_says(op, expected):
    """Each operation of RFC 6902; the object that is patched stays."""
    obj = {"a": [1, {"x": 2}]}
    assert json_patch(obj, [op]) == expected
    assert obj == {"a": [1, {"x": 2}]}


@pytest.mark.parametrize(
    ("ops", "status"),
    [
        ({}, 400),
        ([1], 400),
        ([{"op": "jump", "path": ""}], 400),
        ([{"op": "add", "path": 1, "value": 1}], 400),
        ([{"op": "add", "path": "/b"}], 400),
        ([{"op": "move", "path": "/b"}], 400),
        ([{"op": "test", "path": "/a", "value": 1}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "add", "path": "/a/9", "value": 1}], 422),
        ([{"op": "add", "path": "/a/x", "value": 1}], 422),
        ([{"op": "add", "path": "/s/x", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "move", "from": "/o", "path": "/o/x"}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "replace", "path": "", "value": []}], 422),
        ([{"op": "test", "path": "", "value": {}}] * (OPERATIONS_MAX + 1), 413),
    ],
)
def test_json_patch_that_does_not_apply_is_refused(ops, status):
    """Malformed: 400; not applicable to this object: 422; too many operations: 413."""
    obj = {"a": [1], "s": "text", "o": {}}
    before = copy.deepcopy(obj)
    with pytest.raises(StatusError) as caught:
        json_patch(obj, ops)
    assert caught.value.status == status
    assert obj == before


def test_a_later_operation_that_fails_undoes_the_earlier_ones():
    """All or none."""
    obj = {"a": {"b": 1}}
    ops = [{"op": "remove", "path": "/a/b"}, {"op": "remove", "path": "/a/c"}]
    with pytest.raises(StatusError, match="operation 1"):
        json_patch(obj, ops)
    assert obj == {"a": {"b": 1}}


def test_a_patch_holds_up_other_writes_for_milliseconds():
    """Its operations are bounded, and the refusal names the limit: it was 0.2 s for one patch."""
    move = {"op": "move", "from": "/spec/l/0", "path": "/spec/l/39999"}
    obj = {"spec": {"l": list(range(40_000))}}
    with pytest.raises(StatusError, match="JSON patch is 1000, got 1001"):
        json_patch(obj, [move] * 1_001)
    assert json_patch(obj, [move] * 1_000)["spec"]["l"][0] == 1_000


def test_copies_cannot_multiply_without_end():
    """Thirty copies of a copy would be a terabyte."""
    ops = [{"op": "copy", "from": "/a", "path": f"/a/x{i}"} for i in range(40)]
    with pytest.raises(StatusError, match=f"at most {OBJECT_BYTES_MAX} bytes"):
        json_patch({"a": {"text": "x" * 1000}}, ops)


@pytest.mark.parametrize(
    ("obj", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch_does_what_the_rfc_says(obj, patch, expected):
    """Examples of RFC 7386, appendix A."""
    assert merge_patch(obj, patch) == expected


def nested(depth):
    """Objects in one another."""
    value = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_patches_cannot_nest_deeper_than_bodies_may():
    """What stands must be readable again."""
    with pytest.raises(StatusError, match="nest"):
        merge_patch({}, nested(DEPTH_MAX))
    with pytest.raises(StatusError, match="nest"):
        json_patch({}, [{"op": "add", "path": "/a", "value": nested(DEPTH_MAX)}])
    with pytest.raises(StatusError, match="must be an object"):
        merge_patch({}, [])


@pytest.mark.parametrize(
    ("spec", "patch", "expected"),
    [
        ({"ports": [HTTP]}, {"ports": [TLS]}, {"ports": [HTTP, TLS]}),
        (
            {"ports": [HTTP]},
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"name": "web", "port": 80}]},
        ),
        (
            {"ports": [HTTP, TLS]},
            {"ports": [{"port": 80, "$patch": "delete"}]},
            {"ports": [TLS]},
        ),
        (
            {"ports": [HTTP, TLS]},
            {"ports": [{"port": 80, "$patch": "delete"}, {"port": 80, "name": "new"}]},
            {"ports": [TLS, {"port": 80, "name": "new"}]},
        ),
        ({"ports": [HTTP, TLS]}, {"ports": [TLS, {"$patch": "replace"}]}, {"ports": [TLS]}),
        (
            {"ports": [HTTP]},
            {"ports": [TLS], "$setElementOrder/ports": [{"port": 443}, {"port": 80}]},
            {"ports": [TLS, HTTP]},
        ),
        (
            {"ports": [HTTP, HTTP | {"protocol": "UDP"}]},
            {"ports": [HTTP | {"name": "x"}, TLS]},
            {"ports": [HTTP | {"name": "x"}, HTTP | {"protocol": "UDP"}, TLS]},
        ),
        ({"ports": [1, HTTP]}, {"ports": [3, {"$patch": "replace"}]}, {"ports": [3]}),
        ({"ports": [HTTP]}, {"ports": None}, {}),
        ({"type": "A", "clusterIP": "1"}, {"type": "B"}, {"type": "B", "clusterIP": "1"}),
        ({"type": "A"}, {"$patch": "replace", "clusterIP": "1"}, {"clusterIP": "1"}),
        ({"type": "A"}, {"$patch": "delete"}, {}),
        (
            {"type": "A", "clusterIP": "1"},
            {"$retainKeys": ["type"], "type": "B"},
            {"type": "B"},
        ),
        (
            {"externalIPs": ["1", "2"]},
            {"$deleteFromPrimitiveList/externalIPs": ["1"]},
            {"externalIPs": ["2"]},
        ),
        ({"externalIPs": ["1"]}, {"externalIPs": ["2"]}, {"externalIPs": ["2"]}),
    ],
)
def test_strategic_merge_patch_merges_lists_by_their_keys(spec, patch, expected):
    """The schema says how; directives say what is left out, and in which order."""
    obj = {"spec": spec}
    before = copy.deepcopy(obj)
    assert strategic_merge_patch(obj, {"spec": patch}, SHAPE) == {"spec": expected}
    assert obj == before


def test_finalizers_are_merged_as_a_set():
    """The metadata has a schema too."""
    obj = {"metadata": {"finalizers": ["a/b"]}}
    patch = {"metadata": {"finalizers": ["c/d", "a/b"]}}
    assert strategic_merge_patch(obj, patch, SHAPE) == {"metadata": {"finalizers": ["a/b", "c/d"]}}


@pytest.mark.parametrize(
    "patch",
    [
        [],
        {"$patch": "jump"},
        {"$retainKeys": "type"},
        {"$retainKeys": [], "type": "B"},
        {"$unknown": 1},
        {"ports": [{"name": "x"}]},
        {"ports": [1]},
        {"$setElementOrder/ports": 1},
        {"$deleteFromPrimitiveList/externalIPs": "x"},
        nested(DEPTH_MAX),
    ],
)
def test_strategic_merge_patch_that_is_malformed_is_refused(patch):
    """As a bad request."""
    with pytest.raises(StatusError) as caught:
        strategic_merge_patch({"ports": [HTTP]}, patch, SHAPE.member("spec"))
    assert caught.value.status == 400
