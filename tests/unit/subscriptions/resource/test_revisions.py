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
