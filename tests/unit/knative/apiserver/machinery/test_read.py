"""Bodies: any bytes give an object or one clear refusal."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.limits import BODY_BYTES_MAX, DEPTH_MAX
from distributary.knative.apiserver.machinery.read import read_object, read_value

YAML = "application/yaml"
JSON = "application/json"


def test_json_names_what_stands_twice():
    """The last one counts; paths say where."""
    body = b'{"a": 1, "b": [{"c": 1, "c": 2}], "a": 3}'
    assert read_object(body, JSON) == ({"a": 3, "b": [{"c": 2}]}, ["a", "b[0].c"])


def test_yaml_is_read_as_the_api_server_does():
    """Booleans of YAML 1.1, but times and sexagesimal numbers are text, and keys too."""
    body = b"""
    on: [yes, off, ~, 1, 1.5, 0x10, "1", 2026-01-02, 12:30:00, 12:30.5]
    1: {2026-01-02: |
        text
      }
    """
    value, _ = read_object(body.replace(b"|\n        text\n      ", b"text"), YAML)
    listed = [True, False, None, 1, 1.5, 16, "1", "2026-01-02", "12:30:00", "12:30.5"]
    assert value == {"on": listed, "1": {"2026-01-02": "text"}}


def test_yaml_anchors_and_merges_are_expanded():
    """What stands beside a merge wins over it."""
    body = b"a: &a {x: 1, y: 1}\nb: {<<: *a, x: 2}\nc: {<<: [*a, {z: 3}]}\nd: [*a]"
    value, _ = read_object(body, YAML)
    assert value["b"] == {"x": 2, "y": 1}
    assert value["c"] == {"x": 1, "y": 1, "z": 3}
    assert value["d"] == [{"x": 1, "y": 1}]


def test_yaml_names_what_stands_twice():
    """As in JSON."""
    assert read_object(b"a: 1\nb: [{c: 1, c: 2}]\na: 2\n", YAML)[1] == ["b[0].c", "a"]


def test_what_is_called_yaml_may_be_json():
    """Kubectl sends it so; tabs and duplicates as in JSON."""
    assert read_object(b'{\t"a": 1}', "application/apply-patch+yaml")[0] == {"a": 1}
    assert read_object(b"{a: [1, 2]}", "application/apply-patch+yaml; charset=utf-8")[0] == {
        "a": [1, 2]
    }


def test_a_json_patch_is_a_list():
    """Only an object must be one."""
    assert read_value(b"[]", "application/json-patch+json") == ([], [])
    with pytest.raises(StatusError, match="one object"):
        read_object(b"[]", JSON)


def bomb(levels):
    """Aliases that multiply by ten on each level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, levels)]
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"", JSON),
        (b"{", JSON),
        (b'{"a": NaN}', JSON),
        (b'{"a": "\\ud800"}', JSON),
        (b'{"a": 1e999}', JSON),
        (b'{"a": ' + b"1" * 5000 + b"}", JSON),
        (b'{"a": "\xff"}', JSON),
        (b"[" * 40_000, JSON),
        (b'{"a":' * DEPTH_MAX + b"[]" + b"}" * DEPTH_MAX, JSON),
        (b"", YAML),
        (b"# nothing", YAML),
        (b"a: [", YAML),
        (b"a: \xff", YAML),
        (b"a: 1\n---\nb: 1", YAML),
        (b"a: .nan", YAML),
        (b"a: !!binary aGVsbG8=", YAML),
        (b"a: !!set {x}", YAML),
        (b"a: !!python/object:os.system {}", YAML),
        (b"a: &a [*a]", YAML),
        (b"a: *nobody", YAML),
        (b"? [a]\n: 1", YAML),
        (b"a: {<<: 1}", YAML),
        (b"[" * 40_000, YAML),
        (b"a: 0x" + b"f" * 5000, YAML),
        (b"- " * 200 + b"a", YAML),
        (bomb(8), YAML),
        (b"a0: &a0 [x]\n" + b"\n".join(b"a%d: &a%d [*a%d]" % (i, i, i - 1) for i in range(1, 150)),
         YAML),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_a_bad_request(body, content_type):
    """Nothing else comes out, however hostile."""
    with pytest.raises(StatusError) as caught:
        read_object(body, content_type)
    assert caught.value.status == 400
    assert len(str(caught.value)) < 1000


def test_the_deepest_that_fits_is_read():
    """The bound is exact, in both formats."""
    body = b'{"a":' * (DEPTH_MAX - 1) + b"[]" + b"}" * (DEPTH_MAX - 1)
    assert read_object(body, JSON) == read_object(b"# \n" + body, YAML)


def test_other_types_and_larger_bodies_are_refused():
    """Each with its own status."""
    with pytest.raises(StatusError) as caught:
        read_object(b"{}", "text/html")
    assert caught.value.status == 415
    with pytest.raises(StatusError) as caught:
        read_object(b" " * (BODY_BYTES_MAX + 1), JSON)
    assert caught.value.status == 413


@pytest.mark.parametrize("content_type", ["", ";charset=utf-8", "text/plain", "text/json"])
def test_a_body_that_does_not_say_its_type_is_no_object(content_type):
    """Any web page can have a browser send such a body, without asking the server first."""
    for read in (read_object, read_value):
        with pytest.raises(StatusError) as caught:
            read(b'{"kind": "Trigger"}', content_type)
        assert caught.value.status == 415
