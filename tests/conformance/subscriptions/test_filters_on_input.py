"""Subscriptions API 3.2.4: what is refused when a subscription is created or updated."""

import pytest

BAD = {
    "exact, empty value": {"exact": {"type": ""}},
    "exact, empty name": {"exact": {"": "a"}},
    "prefix, empty value": {"prefix": {"type": ""}},
    "prefix, empty name": {"prefix": {"": "a"}},
    "suffix, empty value": {"suffix": {"type": ""}},
    "suffix, empty name": {"suffix": {"": "a"}},
    "all, not an array": {"all": {"exact": {"type": "a"}}},
    "all, empty": {"all": []},
    "any, not an array": {"any": {"exact": {"type": "a"}}},
    "any, empty": {"any": []},
    "not, an array": {"not": [{"exact": {"type": "a"}}]},
    "not, empty": {"not": {}},
}


@pytest.mark.clause(
    "subscriptions-api.3.2.4.invalid",
    "MUST",
    "names and values are not empty, all and any nest at least one expression, not nests one;"
    " anything else rejects the create or update",
)
@pytest.mark.parametrize("expression", BAD.values(), ids=BAD.keys())
def test_a_bad_expression_is_rejected(sut, expression):
    """On create and on update, with its place."""
    sut.put("mine")
    for answer in (sut.create(filters=[expression]), sut.put("mine", filters=[expression])):
        assert (answer.status, answer.json()["code"]) == (400, "invalid")
        assert all(fault["path"].startswith("$.filters[0]") for fault in answer.json()["faults"])


GOOD = [
    {"exact": {"type": "com.github.push", "subject": "https://github.com/cloudevents/spec"}},
    {"prefix": {"type": "com.github.", "subject": "https://github.com/cloudevents"}},
    {"suffix": {"type": ".created", "subject": "/cloudevents/spec"}},
    {"all": [{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "x"}}]},
    {"any": [{"exact": {"type": "com.github.push"}}, {"exact": {"subject": "x"}}]},
    {"not": {"exact": {"type": "com.github.push"}}},
]


@pytest.mark.clause(
    "subscriptions-api.3.2.4.1.1", "MUST", "the six required dialects are supported"
)
@pytest.mark.parametrize("expression", GOOD, ids=lambda expression: next(iter(expression)))
def test_the_required_dialects_are_taken_as_they_stand(sut, expression):
    """The specification's own examples come back unchanged."""
    assert sut.create(filters=[expression]).json()["filters"] == [expression]


@pytest.mark.clause(
    "subscriptions-api.3.2.1.filters.empty", "MUST", "absent or empty filters mean true"
)
def test_absent_and_empty_filters_are_the_same(sut):
    """Both are realized as an empty list."""
    assert sut.create().json()["filters"] == sut.create(filters=[]).json()["filters"] == []


@pytest.mark.clause(
    "subscriptions-api.revisions",
    "MAY",
    "earlier shapes of filters are taken on input; answers have the newest one (decision 1)",
)
@pytest.mark.parametrize(
    ("filter_", "filters"),
    [
        ({"prefix": {"type": "com.example."}}, [{"prefix": {"type": "com.example."}}]),
        (
            {
                "dialect": "basic",
                "filters": [{"type": "suffix", "property": "subject", "value": ".jpg"}],
            },
            [{"all": [{"suffix": {"subject": ".jpg"}}]}],
        ),
        ({"dialect": "basic", "conditions": []}, []),
    ],
    ids=["003", "000", "000 empty"],
)
def test_earlier_revisions_are_taken(sut, filter_, filters):
    """On create and on update."""
    for answer in (sut.create(filter=filter_), sut.put("mine", filter=filter_)):
        assert answer.status == 201
        assert answer.json()["filters"] == filters
        assert "filter" not in answer.json()
