"""Which filter is tried: every way to give one, and every fault of it where it was written."""

import json
from pathlib import Path
from typing import Any

import pytest

from distributary.cli import _filter_request
from distributary.core.errors import SettingsError
from distributary.resource import RESOURCE_BYTES_MAX
from distributary.subscriptions.resource import FilterSelection

TYPE_A = {"exact": {"type": "a"}}


def _read(*texts: Any, **more: Any) -> FilterSelection:
    given = [json.dumps(text) for text in texts]
    selection, misfits = _filter_request.read(texts=given, **more)
    assert misfits == []
    return selection


def _paths(*texts: Any, **more: Any) -> list[str]:
    given = tuple(text if isinstance(text, str) else json.dumps(text) for text in texts)
    _, misfits = _filter_request.read(texts=given, **more)
    return [f"{misfit.given} {misfit.fault.path}" for misfit in misfits]


def test_an_expression_and_an_array_of_them_are_joined() -> None:
    """All of them must hold."""
    selection = _read(TYPE_A, [{"not": TYPE_A}, {"suffix": {"id": "1"}}])
    assert selection.filters == [TYPE_A, {"not": TYPE_A}, {"suffix": {"id": "1"}}]


def test_flags_are_expressions() -> None:
    """The flags of subscribe, with the same meaning."""
    selection = _read(
        exact=("subject=x=y",),
        prefix=("type=com.",),
        suffix=("id=1",),
        types=("a", "b"),
        source="/s",
    )
    assert selection == FilterSelection(
        "/s",
        ("a", "b"),
        [{"exact": {"subject": "x=y"}}, {"prefix": {"type": "com."}}, {"suffix": {"id": "1"}}],
    )


@pytest.mark.parametrize(
    ("body", "filters"),
    [
        ({"filters": [TYPE_A]}, [TYPE_A]),
        ({"filter": TYPE_A}, [TYPE_A]),
        (
            {
                "filter": {
                    "dialect": "basic",
                    "filters": [{"type": "exact", "property": "type", "value": "a"}],
                }
            },
            [{"all": [TYPE_A]}],
        ),
    ],
    ids=["newest", "one filter", "basic"],
)
def test_a_whole_subscription_of_any_revision_is_taken(body: Any, filters: Any) -> None:
    """What it says about its sink is not looked at, right or wrong."""
    whole = {"id": "x", "sink": "amqp://x", "protocol": "AMQP", "config": {"y": 1}, "source": "/s"}
    assert _read({**whole, "types": ["a"], **body}) == FilterSelection("/s", ("a",), filters)


def test_a_file_holds_the_same(tmp_path: Path) -> None:
    """Such as ``subscriptions get`` prints."""
    path = tmp_path / "sub.json"
    path.write_text(json.dumps({"types": ["a"], "filters": [TYPE_A]}))
    assert _read(files=(path,)) == FilterSelection(None, ("a",), [TYPE_A])


def test_every_fault_is_named_where_it_was_written(tmp_path: Path) -> None:
    """By the flag or file, its number where there are several, and the path in it."""
    path = tmp_path / "f.json"
    path.write_text('{"filtres": [], "sink": "x"}')
    found = _paths(
        {"exact": {"type": ""}},
        [TYPE_A, {"any": []}],
        {"types": [], "filter": {"regex": {}}},
        files=(path,),
        prefix=("Type=x",),
    )
    assert found == [
        "--filter (1) $.exact.type",
        "--filter (2) $[1].any",
        "--filter (3) $.types",
        "--filter (3) $.filter.regex",
        f"{path} $.filtres",
        "--prefix $.prefix.Type",
    ]


@pytest.mark.parametrize("text", ["", "{", "nonsense", '{"a": 1, "a": 2}', "[" * 1_000])
def test_what_is_no_json_is_a_fault(text: str) -> None:
    """It never means a filter that passes everything."""
    assert _paths(text) == ["--filter $"]


@pytest.mark.parametrize("value", [1, None, "type = 'a'", {}, [[]]], ids=str)
def test_json_that_is_no_filter_is_a_fault(value: Any) -> None:
    """Of any type, at the place where an expression should be."""
    assert len(_paths(value)) == 1


def test_the_value_at_a_fault_is_found_again() -> None:
    """So that the place of a fault in an expression can be shown in it."""
    body = {"filters": [{"all": [TYPE_A, {"prefix": {"type": ""}}]}]}
    _, (misfit,) = _filter_request.read(texts=[json.dumps(body)])
    assert misfit.fault.path == "$.filters[0].all[1].prefix.type"
    assert misfit.value == ""
    _, (odd,) = _filter_request.read(texts=['{"exact": {"a b": "x"}}'])
    assert odd.value is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"files": (Path("missing.json"),)}, "missing.json: No such file"),
        ({"exact": ("type",)}, "--exact: expected name=text"),
        ({"source": "/t"}, "--source: a subscription has one source"),
        ({"types": ("b",)}, "--type: a subscription has one types"),
    ],
    ids=str,
)
def test_flags_that_cannot_be_used_are_refused(more: dict[str, Any], said: str) -> None:
    """The message names the flag."""
    subscription = json.dumps({"source": "/s", "types": ["a"]})
    with pytest.raises(SettingsError, match=said):
        _filter_request.read(texts=[subscription], **more)


def test_a_file_beyond_the_limit_of_a_resource_is_refused(tmp_path: Path) -> None:
    """As the server would; it is not read whole."""
    path = tmp_path / "f.json"
    path.write_bytes(b" " * (RESOURCE_BYTES_MAX + 1))
    with pytest.raises(SettingsError, match="longer than"):
        _filter_request.read(files=[path])


def test_source_types_and_filters_are_joined_by_and() -> None:
    """The first of them that is false decides (decision 9)."""
    selection = FilterSelection("/s", ("a", "b"), [{"prefix": {"subject": "x"}}])
    event: dict[str, str | int | bool] = {"source": "/s", "type": "b", "subject": "xy"}
    assert selection.explain(event).verdict is True
    for name, path in (("source", "$.source"), ("type", "$.types")):
        found = selection.explain({**event, name: "other"})
        assert found.verdict is False
        assert [part.path for part in found.deciding()] == [path]
        assert 'is "other": it is not' in next(found.deciding()).reason
    missed = selection.explain({**event, "subject": "y"})
    assert [part.path for part in missed.deciding()] == ["$.filters[0].prefix.subject"]
