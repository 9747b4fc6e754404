"""All three revisions of the specification are read; one is kept (decision 1)."""

import pytest

PREFIX = {"type": "prefix", "property": "type", "value": "com.example"}
EXACT = {"type": "exact", "property": "subject", "value": "x"}


def test_one_filter_of_003_becomes_a_list(parse):
    """The earlier draft had a single object."""
    assert parse(filter={"prefix": {"type": "a"}}).filters == ({"prefix": {"type": "a"}},)


@pytest.mark.parametrize("name", ["filters", "conditions"])
def test_the_basic_dialect_of_000_becomes_all(parse, name):
    """Its text and its examples name the list differently; both are read."""
    spec = parse(filter={"dialect": "basic", name: [PREFIX, EXACT]})
    assert spec.to_json()["filters"] == [
        {"all": [{"prefix": {"type": "com.example"}}, {"exact": {"subject": "x"}}]}
    ]
    assert "filter" not in spec.to_json()


def test_an_empty_basic_list_passes_everything(parse):
    """An implicit AND over nothing is true."""
    assert parse(filter={"dialect": "basic", "filters": []}).filters == ()


CASES = {
    "not an object": ([], ("$.filter", "type")),
    "null": (None, ("$.filter", "type")),
    "dialect unknown": ({"dialect": "sql", "filters": []}, ("$.filter.dialect", "unknown")),
    "dialect not text": ({"dialect": 1}, ("$.filter.dialect", "unknown")),
    "no list": ({"dialect": "basic"}, ("$.filter", "missing")),
    "both lists": ({"dialect": "basic", "filters": [], "conditions": []}, ("$.filter", "conflict")),
    "list of another type": ({"dialect": "basic", "filters": {}}, ("$.filter.filters", "type")),
    "unknown member": (
        {"dialect": "basic", "filters": [], "more": 1},
        ("$.filter.more", "unknown"),
    ),
    "condition no object": (
        {"dialect": "basic", "filters": [1]},
        ("$.filter.filters[0]", "type"),
    ),
    "condition without value": (
        {"dialect": "basic", "filters": [{"type": "exact", "property": "type"}]},
        ("$.filter.filters[0].value", "missing"),
    ),
    "condition value empty": (
        {"dialect": "basic", "conditions": [EXACT, EXACT | {"value": ""}]},
        ("$.filter.conditions[1].value", "empty"),
    ),
    "condition type unknown": (
        {"dialect": "basic", "filters": [EXACT | {"type": "all"}]},
        ("$.filter.filters[0].type", "value"),
    ),
    "condition member unknown": (
        {"dialect": "basic", "filters": [EXACT | {"x": 1}]},
        ("$.filter.filters[0].x", "unknown"),
    ),
}


@pytest.mark.parametrize(("value", "fault"), CASES.values(), ids=CASES.keys())
def test_a_wrong_filter_is_named_as_the_client_wrote_it(faults_of, value, fault):
    """Paths are those of the revision that the client speaks."""
    assert faults_of(filter=value) == [fault]


def test_an_empty_filter_object_is_invalid(faults_of):
    """Decision 7: it must not mean that everything passes."""
    assert {path for path, _ in faults_of(filter={})} == {"$.filter"}


def test_a_bad_name_in_a_filter_of_003_is_placed_in_it(faults_of):
    """Not in a list that the client never wrote."""
    (found,) = faults_of(filter={"exact": {"type": ""}})
    assert found[0].startswith("$.filter.exact")


def test_a_bad_name_in_a_basic_condition_is_placed_in_it(faults_of):
    """Not in the expression that was made of it."""
    conditions = [EXACT, EXACT | {"property": "Not-A-Name"}]
    found = faults_of(filter={"dialect": "basic", "conditions": conditions})
    assert {path for path, _ in found} == {"$.filter.conditions[1]"}


def test_both_shapes_at_once_are_invalid(faults_of):
    """Nobody can say which was meant."""
    assert faults_of(filter={"exact": {"type": "a"}}, filters=[]) == [("$.filter", "conflict")]
