"""The compiled filter as a value."""

import dataclasses
import pickle

import pytest

from distributary.core import filter as filters
from distributary.core.errors import ResourceError


def test_what_cannot_be_understood_is_never_compiled():
    """An unknown dialect is an error with every fault, not a filter that passes all."""
    with pytest.raises(ResourceError) as raised:
        filters.compile([{"sparkle": {}}, {"any": []}])
    assert [fault.path for fault in raised.value.faults] == [
        "$.filters[0].sparkle",
        "$.filters[1].any",
    ]


def test_a_filter_is_immutable():
    """Neither its members nor the array it came from change what it says."""
    array = [{"exact": {"type": "a"}}]
    compiled = filters.compile(array)
    array[0]["exact"]["type"] = "b"
    array.append({"exact": {"type": "c"}})
    assert compiled.matches({"type": "a"}) is True
    assert pickle.loads(pickle.dumps(compiled)).matches({"type": "a"}) is True
    with pytest.raises(dataclasses.FrozenInstanceError):
        compiled.matches = filters.compile([]).matches
    with pytest.raises(TypeError):
        compiled.covers[0] = ()


def test_a_nested_expression_does_not_follow_the_array_either():
    """Deeper texts and lists are copied as well."""
    array = [{"any": [{"prefix": {"type": "a"}}, {"not": {"exact": {"id": "1", "x": "y"}}}]}]
    compiled = filters.compile(array)
    array[0]["any"][1]["not"]["exact"]["id"] = "2"
    array[0]["any"].clear()
    assert compiled.matches({"type": "b", "id": "1", "x": "y"}) is False
    assert compiled.matches({"type": "ab", "id": "1", "x": "y"}) is True


def test_a_filter_survives_pickling():
    """Spark may carry it to a worker."""
    array = [{"any": [{"prefix": {"type": "a"}}, {"exact": {"n": "5"}}]}]
    compiled = filters.compile(array)
    again = pickle.loads(pickle.dumps(compiled))
    assert again.json == compiled.json
    assert again.comparisons_max == compiled.comparisons_max
    for attributes in ({"type": "ab"}, {"type": "b"}, {"n": 5}):
        assert again.matches(attributes) is compiled.matches(attributes)


@pytest.mark.parametrize(
    ("array", "comparisons"),
    [
        ([], 0),
        ([{"exact": {"a": "1"}}], 1),
        ([{"exact": {"a": "1", "b": "2"}}, {"not": {"prefix": {"c": "3"}}}], 3),
        ([{"any": [{"exact": {"a": "1"}}, {"all": [{"suffix": {"b": "2", "c": "3"}}]}]}], 3),
    ],
)
def test_the_cost_is_known_before_any_event(array, comparisons):
    """A route may be refused for its cost without running it."""
    assert filters.compile(array).comparisons_max == comparisons


def exact(**texts):
    """An exact filter expression."""
    return {"exact": texts}


def is_(attribute, text):
    """The predicate that an attribute is a text."""
    return filters.Predicate("exact", attribute, text)


@pytest.mark.parametrize(
    ("array", "covers"),
    [
        ([], []),
        ([exact(a="1", b="2")], [[is_("a", "1")], [is_("b", "2")]]),
        ([exact(a="1"), exact(b="2")], [[is_("a", "1")], [is_("b", "2")]]),
        ([exact(a="1"), exact(a="1")], [[is_("a", "1")]]),
        (
            [{"prefix": {"a": "1"}}, {"suffix": {"b": "2"}}],
            [[filters.Predicate("prefix", "a", "1")], [filters.Predicate("suffix", "b", "2")]],
        ),
        ([{"not": exact(a="1")}], []),
        ([{"not": {"not": exact(a="1")}}], []),
        ([{"all": [{"not": exact(a="1")}, exact(b="2")]}], [[is_("b", "2")]]),
        ([{"any": [exact(a="1"), exact(a="2")]}], [[is_("a", "1"), is_("a", "2")]]),
        ([{"any": [exact(a="1"), exact(a="1", b="2")]}], [[is_("a", "1")]]),
        (
            [{"any": [exact(datacontenttype="x", a="1"), {"all": [{"prefix": {"a": "1"}}]}]}],
            [[is_("a", "1"), filters.Predicate("prefix", "a", "1")]],
        ),
        ([{"any": [exact(a="1"), {"not": exact(a="2")}]}], []),
    ],
    ids=str,
)
def test_what_covers_every_match_is_known(array, covers):
    """An index may go by any of these."""
    assert filters.compile(array).covers == tuple(map(tuple, covers))


@pytest.mark.parametrize(
    ("array", "decided"),
    [
        ([], False),
        ([exact(a="1")], True),
        ([{"suffix": {"a": "1"}}], True),
        ([exact(a="1", b="2")], False),
        ([exact(a="1"), exact(b="2")], False),
        ([{"any": [exact(a="1"), {"prefix": {"b": "2"}}]}], True),
        ([{"any": [exact(a="1"), exact(a="2", b="2")]}], False),
        ([{"all": [{"any": [exact(a="1")]}]}], True),
        ([{"not": exact(a="1")}], False),
    ],
    ids=str,
)
def test_where_a_cover_decides_is_known(array, decided):
    """An index need not test what it found by such a cover."""
    assert filters.compile(array).decided is decided


def test_which_attributes_are_read_is_known():
    """So that a verdict can be kept for other events with the same values."""
    array = [{"any": [exact(a="1", b="2"), {"not": {"prefix": {"c": "3"}}}]}, exact(d="4")]
    assert filters.compile(array).reads == {"a", "b", "c", "d"}
    assert filters.compile([]).reads == frozenset()


@pytest.mark.parametrize(
    ("narrower", "broader"),
    [
        ([is_("a", "1")], [is_("datacontenttype", "application/json")]),
        ([is_("a", "1")], [is_("a", "1"), is_("a", "2")]),
        ([is_("a", "1")], [filters.Predicate("prefix", "a", "com.example.orders.created")]),
        (
            [filters.Predicate("prefix", "a", "com.example")],
            [filters.Predicate("prefix", "a", "c")],
        ),
    ],
)
def test_a_cover_that_fewer_events_satisfy_is_taken_for_narrower(narrower, broader):
    """Exact before prefix, long before short, few before many, and no common attribute."""
    assert filters.selectivity(tuple(narrower)) < filters.selectivity(tuple(broader))
