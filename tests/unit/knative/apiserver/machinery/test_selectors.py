"""Selectors: which objects a list or a watch is about."""

import pytest

from distributary.knative.apiserver.machinery import StatusError
from distributary.knative.apiserver.machinery.selector import (
    REQUIREMENTS_MAX,
    SELECTOR_CHARS_MAX,
    field_selector,
    label_selector,
)
from distributary.knative.kinds import EVENT, TRIGGER

OBJ = {"metadata": {"name": "t", "namespace": "ns", "labels": {"a": "b", "n": "5", "e": ""}}}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", True),
        (" ", True),
        ("a=b", True),
        ("a==b", True),
        ("a = b", True),
        ("a=c", False),
        ("a=", False),
        ("e=", True),
        ("a!=b", False),
        ("a!=c", True),
        ("x!=c", True),
        ("a in (b, c)", True),
        ("a in (c)", False),
        ("x in (c)", False),
        ("a notin (b)", False),
        ("x notin (b)", True),
        ("a", True),
        ("x", False),
        ("!x", True),
        ("! a", False),
        ("n>4", True),
        ("n>5", False),
        ("n<6", True),
        ("a>1", False),
        ("a=b,n=5", True),
        ("a=b , x", False),
        ("in in (x)", False),
        ("example.com/x notin (y),a", True),
    ],
)
def test_labels_are_selected(text, meant):
    """Every requirement must hold; an absent label is unequal to every value."""
    assert label_selector(text)(OBJ) is meant


def test_an_object_without_labels_has_none():
    """Absent and null mean the same."""
    assert label_selector("!a")({"metadata": {"labels": None}})
    assert label_selector("!a")({"metadata": {}})


@pytest.mark.parametrize(
    "text",
    [
        "a,",
        ",a",
        "a=b c",
        "a in b",
        "a in (b",
        "=b",
        "!",
        "a=b=c",
        "a&b",
        "-a=b",
        "a=-b",
        "a>x",
        "x" * 64,
        "a=" + "x" * 64,
        ",".join(["a"] * (REQUIREMENTS_MAX + 1)),
        "a" * (SELECTOR_CHARS_MAX + 1),
    ],
)
def test_what_is_no_label_selector_is_a_bad_request(text):
    """Never everything by mistake."""
    with pytest.raises(StatusError) as caught:
        label_selector(text)
    assert caught.value.status == 400


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("", True),
        ("metadata.name=t", True),
        ("metadata.name==t,metadata.namespace=ns", True),
        ("metadata.name!=t", False),
        ("metadata.name=x", False),
        ("metadata.name=t,metadata.namespace!=ns", False),
        (r"metadata.name!=a\,b", True),
    ],
)
def test_fields_are_selected(text, meant):
    """Name and namespace of every kind."""
    assert field_selector(text, TRIGGER)(OBJ) is meant


def test_events_are_selected_by_what_they_are_about():
    """What ``kubectl describe`` asks for."""
    event = {"metadata": {}, "involvedObject": {"name": "t", "uid": "u"}, "type": "Warning"}
    event["source"] = {"component": "distributary"}
    text = "involvedObject.name=t,involvedObject.uid=u,type=Warning,source=distributary,reason="
    assert field_selector(text, EVENT)(event)
    assert not field_selector("involvedObject.name=x", EVENT)(event)


@pytest.mark.parametrize("text", ["spec.broker=x", "metadata.name", "a", "metadata.name=x,", "=x"])
def test_what_is_no_field_selector_is_a_bad_request(text):
    """Unknown fields too: they must not select everything."""
    with pytest.raises(StatusError) as caught:
        field_selector(text, TRIGGER)
    assert caught.value.status == 400
