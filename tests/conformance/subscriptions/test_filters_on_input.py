"""Subscriptions API 3.2.4: what is refused when a subscription is created or updated.

Every malformed filter of the reliability matrix (poison expressions, hostile shapes) has a row in
``kit.subscription_faults``: where the fault is and which code it has. A filter that is not
understood never passes all.
"""

import pytest

from kit.subscription_faults import TABLE, Mark, deep

EXACT = {"exact": {"type": "a"}}


def refused(sut, **filters):
    """Path -> code on create; on update too, which leaves the subscription as it was."""
    before = sut.put("mine", filters=[EXACT], filter=...).json()
    found = sut.faults(sut.create(**filters))
    assert sut.faults(sut.put("mine", **filters)) == found
    assert sut.ask("GET", "/subscriptions/mine").json() == before
    assert len(sut.ask("GET", "/subscriptions").json()) == 1
    return found


def refuses(sut, *groups):
    """Assert that each document of these groups of the table is refused for just its faults."""
    cases = [case for group in groups for case in TABLE[group] if Mark.PYTHON not in case.marks]
    assert {case.name: refused(sut, **case.body) for case in cases} == {
        case.name: dict(case.faults) for case in cases
    }


@pytest.mark.clause("subscriptions-api.create.invalid")
@pytest.mark.clause("subscriptions-api.update.rejected")
def test_a_malformed_filter_is_refused_with_path_and_code(sut):
    """On create and on update; nothing is stored, the old subscription stays at work."""
    refuses(sut, "filters")


@pytest.mark.clause("subscriptions-api.filters.exact.non-empty")
@pytest.mark.clause("subscriptions-api.filters.prefix.non-empty")
@pytest.mark.clause("subscriptions-api.filters.suffix.non-empty")
def test_names_and_values_of_comparisons_are_not_empty(sut):
    """Neither is the comparison itself."""
    refuses(sut, "comparisons")


@pytest.mark.clause("subscriptions-api.filters.all.array")
@pytest.mark.clause("subscriptions-api.filters.any.array")
def test_all_and_any_take_an_array(sut):
    """Nothing else, not even a single expression."""
    refuses(sut, "all and any")


@pytest.mark.clause("subscriptions-api.filters.all.non-empty")
@pytest.mark.clause("subscriptions-api.filters.any.non-empty")
def test_all_and_any_nest_one_expression_at_least(sut):
    """An empty one is neither true nor false, but a mistake."""
    refuses(sut, "all and any, empty")


@pytest.mark.clause("subscriptions-api.filters.not.one")
def test_not_takes_one_expression(sut):
    """One, not in an array."""
    refuses(sut, "not")


@pytest.mark.clause("subscriptions-api.filters.unsupported")
def test_an_unsupported_dialect_refuses_create_and_update(sut):
    """In the array, nested, and in the earlier shape."""
    refuses(sut, "dialects", "earlier dialects")


@pytest.mark.clause("subscriptions-api.filters.basic.dialect")
def test_a_filter_of_the_first_revision_names_its_dialect(sut):
    """And has one list of conditions, and nothing else."""
    refuses(sut, "earlier filter")


@pytest.mark.clause("subscriptions-api.filters.basic.type")
@pytest.mark.clause("subscriptions-api.filters.basic.type.values")
@pytest.mark.clause("subscriptions-api.filters.basic.property")
@pytest.mark.clause("subscriptions-api.filters.basic.value")
def test_a_condition_is_whole(sut):
    """Type, property and value, each a text that is not empty."""
    refuses(sut, "conditions")


def test_both_shapes_in_one_body_are_refused(sut):
    """Even where they say the same (decision 1)."""
    refuses(sut, "both filters")


@pytest.mark.parametrize("name", ["filtres", "Filters", "filter ", "condition"])
def test_a_misspelt_member_never_means_that_everything_passes(sut, name):
    """On update as well: the old filters stay at work (decision 7)."""
    assert list(refused(sut, **{name: [EXACT]}).values()) == ["unknown"]


def test_a_filter_at_the_limits_is_taken_and_one_beyond_is_refused(sut):
    """32 levels, a thousand parts; the path leads to the first expression that is too deep."""
    assert sut.put("mine", filters=[deep(32)]).status == 201
    assert list(refused(sut, filters=[deep(200)]).values()) == ["too-deep"]  # by any JSON we read
    refuses(sut, "filters, limits")


def test_a_filter_of_a_mebibyte_is_refused(sut):
    """Before it is looked at, or at its limit; nothing of it is repeated."""
    answer = sut.create(filters=[{"any": [{"exact": {"type": "x" * 1_000}}] * 1_049}])
    assert answer.status in (400, 413)
    assert len(answer.body) < 2_000
    assert sut.ask("GET", "/subscriptions").json() == []


def test_a_comparison_with_a_huge_text_is_refused(sut):
    """A text longer than any attribute can be; the refusal does not repeat it."""
    answer = sut.create(filters=[{"exact": {"type": "x" * 70_000}}])
    assert sut.faults(answer) == {"$.filters[0].exact.type": "too-long"}
    assert len(answer.body) < 2_000


@pytest.mark.parametrize(
    "text", ['{"filters": [NaN]}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}', "[[[", ""]
)
def test_what_is_no_json_is_refused(sut, text):
    """NaN, a lone surrogate, a member twice, half a body, none."""
    answer = sut.ask_raw("POST", "/subscriptions", text.encode())
    assert answer.status == 400
    assert answer.json()["code"] in ("invalid", "bad-request")
    assert sut.ask("GET", "/subscriptions").json() == []


@pytest.mark.clause("subscriptions-api.filters.sql.string")
def test_sql_takes_a_text(sut):
    """One that is not empty."""
    refuses(sut, "SQL texts")


@pytest.mark.clause("subscriptions-api.filters.sql.invalid")
def test_an_expression_that_is_not_valid_is_refused_with_its_position(sut):
    """Path, code, line and column; nested as well."""
    refuses(sut, "SQL")
    for case in TABLE["SQL"]:
        ((message),) = [fault["message"] for fault in sut.create(**case.body).json()["faults"]]
        assert [part for part in case.says if part not in message] == [], case.name


GOOD = [
    {"exact": {"type": "com.example.push", "subject": "https://example.com/spec"}},
    {"prefix": {"type": "com.example.", "subject": "https://example.com/"}},
    {"suffix": {"type": ".created", "subject": "/spec"}},
    {"all": [{"exact": {"type": "com.example.push"}}, {"exact": {"subject": "x"}}]},
    {"any": [{"exact": {"type": "com.example.push"}}, {"exact": {"subject": "x"}}]},
    {"not": {"exact": {"type": "com.example.push"}}},
]


@pytest.mark.clause("subscriptions-api.filters.dialects")
@pytest.mark.parametrize("expression", GOOD, ids=lambda expression: next(iter(expression)))
def test_the_six_dialects_are_taken_as_they_stand(sut, expression):
    """Advertised, and returned unchanged."""
    assert next(iter(expression)) in sut.ask("GET", "/").json()["dialects"]
    assert sut.create(filters=[expression]).json()["filters"] == [expression]


@pytest.mark.clause("subscriptions-api.filters.names")
def test_every_dialect_has_a_name_of_its_own(sut):
    """As the service description lists them."""
    names = sut.ask("GET", "/").json()["dialects"]
    assert len(names) == len(set(names))


@pytest.mark.clause("subscriptions-api.filters.absent")
@pytest.mark.clause("subscriptions-api.filters.optional")
def test_absent_and_empty_filters_are_the_same(sut):
    """Both are realized as an empty list."""
    assert sut.create().json()["filters"] == sut.create(filters=[]).json()["filters"] == []


JPG = {"type": "suffix", "property": "subject", "value": ".jpg"}


@pytest.mark.clause("subscriptions-api.revisions")
@pytest.mark.clause("subscriptions-api.filters.basic")
@pytest.mark.parametrize(
    ("filter_", "filters"),
    [
        ({"prefix": {"type": "com.example."}}, [{"prefix": {"type": "com.example."}}]),
        ({"any": GOOD[:2]}, [{"any": GOOD[:2]}]),
        ({"dialect": "basic", "filters": [JPG]}, [{"all": [{"suffix": {"subject": ".jpg"}}]}]),
        ({"dialect": "basic", "conditions": [JPG]}, [{"all": [{"suffix": {"subject": ".jpg"}}]}]),
        ({"dialect": "basic", "conditions": []}, []),
        ({"dialect": "basic", "filters": []}, []),
    ],
    ids=["003", "003 nested", "000 filters", "000 conditions", "000 none", "000 no filters"],
)
def test_earlier_revisions_are_taken_and_answered_in_the_newest_shape(sut, filter_, filters):
    """On create and on update, and when read again."""
    for answer in (sut.create(filter=filter_), sut.put("mine", filter=filter_)):
        assert answer.status == 201
        assert answer.json()["filters"] == filters
        assert "filter" not in answer.json()
        read = sut.ask("GET", f"/subscriptions/{answer.json()['id']}")
        assert read.json() == answer.json()
