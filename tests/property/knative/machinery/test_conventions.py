"""Patches, ownership and decoders hold for any input."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.apply import apply, note_update
from distributary.knative.apiserver.machinery.patch import json_patch, merge_patch
from distributary.knative.apiserver.machinery.read import read_value
from distributary.knative.apiserver.machinery.selector import label_selector

NAMES = st.sampled_from(["a", "b", "c", "d"])
SCALARS = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["", "x", "y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)
POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~", ""]), max_size=3).map(
    lambda steps: "".join(f"/{step}" for step in steps)
)
OPS = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
            "path": POINTERS,
            "from": POINTERS,
            "value": VALUES,
        }
    ),
    max_size=4,
)


def rfc_7386(target, patch):
    """The pseudo code of the RFC, section 2."""
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = rfc_7386(target.get(name), value)
    return target


def attempt(function, *arguments):
    """What a function gives, and 200; or nothing, and the status of its refusal."""
    try:
        return function(*arguments), 200
    except StatusError as error:
        return None, error.status


@pytest.mark.slow
@given(OBJECTS, OBJECTS)
def test_merge_patch_is_that_of_the_rfc(obj, patch):
    """And leaves the object as it was."""
    before = copy.deepcopy(obj)
    assert merge_patch(obj, patch) == rfc_7386(obj, patch)
    assert obj == before


@pytest.mark.slow
@given(OBJECTS, OPS)
def test_json_patch_gives_an_object_or_a_refusal(obj, ops):
    """Nothing else comes out, and the object stays."""
    before = copy.deepcopy(obj)
    value, status = attempt(json_patch, obj, ops)
    assert isinstance(value, dict) or status in (400, 422)
    assert obj == before


@given(st.binary(max_size=60) | st.text("{}[]:,-&*a1 \n\"'<?!|>~", max_size=40).map(str.encode))
def test_any_bytes_are_a_value_or_a_refusal(body):
    """What is read can be written as JSON."""
    for content_type in ("application/json", "application/yaml"):
        value, status = attempt(read_value, body, content_type)
        assert status in (200, 400)
        json.dumps(value, allow_nan=False).encode()


@given(st.text("ab!=<>(), in-/", max_size=12))
def test_any_text_is_a_selector_or_a_refusal(text):
    """And a selector answers."""
    selector, status = attempt(label_selector, text)
    assert status == 400 or selector({"metadata": {"labels": {"a": "b"}}}) in (True, False)


def wanted(spec):
    """What somebody applies: *spec* in an object."""
    return {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec}


def applied(current, spec, manager):
    """The object after *manager* has applied *spec*, by force."""
    return apply(current, wanted(spec), manager=manager, force=True, now="2026-01-01T00:00:00Z")


def without_nulls(value):
    """Nulls mean absent."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.slow
@given(OBJECTS, OBJECTS)
def test_an_apply_gives_what_was_applied_and_again_nothing_new(first, second):
    """One manager alone always has just what it applied last."""
    made = applied(applied(None, first, "a"), second, "a")
    left = {**made, "metadata": {"name": "x"}}
    expected = without_nulls(wanted(second))
    assert left.get("spec", {}) == expected["spec"]
    assert applied(made, second, "a") == made


@pytest.mark.slow
@given(OBJECTS, OBJECTS, OBJECTS)
def test_two_managers_never_lose_one_anothers_fields(ours, theirs, next_ours):
    """Whatever one applies next, the other's own members stay as they are."""
    mine = {f"m{name}": value for name, value in ours.items()}
    next_mine = {f"m{name}": value for name, value in next_ours.items()}
    made = applied(applied(None, mine, "a"), theirs, "b")
    made = applied(made, next_mine, "a")
    expected = without_nulls(next_mine) | without_nulls(theirs)
    assert made.get("spec", {}) == expected


@pytest.mark.slow
@given(OBJECTS, OBJECTS)
def test_what_an_update_changed_conflicts_with_an_apply(before, after):
    """A field that somebody edited is never overwritten unasked."""
    made = applied(None, before, "a")
    changed = note_update(made, {**made, "spec": without_nulls(after)}, "edit", "2026")
    edited = any(
        entry["manager"] == "edit" and entry["fieldsV1"]
        for entry in changed["metadata"]["managedFields"]
    )
    other = wanted("all of it is something else")
    _, status = attempt(
        lambda: apply(changed, other, manager="b", force=False, now="2026-01-01T00:00:00Z")
    )
    assert status == 409 or not edited
