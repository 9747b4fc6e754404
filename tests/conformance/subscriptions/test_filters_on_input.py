"""Subscriptions API 3.2.4: what is refused when a subscription is created or updated.

Every malformed filter of the reliability matrix (poison expressions, hostile shapes) has a row
here: where the fault is and which code it has. A filter that is not understood never passes all.
"""

import pytest

EXACT = {"exact": {"type": "a"}}


def deep(levels):
    """An expression that stands *levels* deep."""
    expression = EXACT
    for _ in range(levels - 1):
        expression = {"not": expression}
    return expression


# what stands in ``filters`` -> the faults
MALFORMED = {
    "no array": (EXACT, {"$.filters": "type"}),
    "null": (None, {"$.filters": "type"}),
    "text": ("exact", {"$.filters": "type"}),
    "an element that is no object": ([EXACT, "x"], {"$.filters[1]": "type"}),
    "an array in the array": ([[EXACT]], {"$.filters[0]": "type"}),
    "an empty expression": ([{}], {"$.filters[0]": "empty"}),
    "two dialects": ([EXACT | {"prefix": {"type": "a"}}], {"$.filters[0]": "one-dialect"}),
    "an unknown dialect": ([{"like": {"type": "a"}}], {"$.filters[0].like": "unknown-dialect"}),
    "a dialect in capitals": (
        [{"EXACT": {"type": "a"}}],
        {"$.filters[0].EXACT": "unknown-dialect"},
    ),
    "basic is no dialect of 004": (
        [{"dialect": "basic", "filters": []}],
        {
            "$.filters[0]": "one-dialect",
            "$.filters[0].dialect": "unknown-dialect",
            "$.filters[0].filters": "unknown-dialect",
        },
    ),
    "every fault at once": (
        [{"exact": {}}, EXACT, {"any": []}, {"not": {"suffix": {"a": 1}}}],
        {
            "$.filters[0].exact": "empty",
            "$.filters[2].any": "empty",
            "$.filters[3].not.suffix.a": "type",
        },
    ),
    "a number as value": ([{"exact": {"level": 4}}], {"$.filters[0].exact.level": "type"}),
    "null as value": ([{"prefix": {"type": None}}], {"$.filters[0].prefix.type": "type"}),
    "an object as value": ([{"suffix": {"type": {}}}], {"$.filters[0].suffix.type": "type"}),
    "not no object": ([{"exact": "type"}], {"$.filters[0].exact": "type"}),
    "null as dialect": ([{"exact": None}], {"$.filters[0].exact": "type"}),
}


def refused(sut, **filters):
    """Path -> code on create; on update too, which leaves the subscription as it was."""
    before = sut.put("mine", filters=[EXACT], filter=...).json()
    found = sut.faults(sut.create(**filters))
    assert sut.faults(sut.put("mine", **filters)) == found
    assert sut.ask("GET", "/subscriptions/mine").json() == before
    assert len(sut.ask("GET", "/subscriptions").json()) == 1
    return found


@pytest.mark.clause("subscriptions-api.create.invalid")
@pytest.mark.clause("subscriptions-api.update.rejected")
@pytest.mark.parametrize(("filters", "faults"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_filter_is_refused_with_path_and_code(sut, filters, faults):
    """On create and on update; nothing is stored, the old subscription stays at work."""
    assert refused(sut, filters=filters) == faults


@pytest.mark.clause("subscriptions-api.filters.exact.non-empty")
@pytest.mark.clause("subscriptions-api.filters.prefix.non-empty")
@pytest.mark.clause("subscriptions-api.filters.suffix.non-empty")
@pytest.mark.parametrize("name", ["exact", "prefix", "suffix"])
def test_names_and_values_of_comparisons_are_not_empty(sut, name):
    """Neither is the comparison itself."""
    at = f"$.filters[0].{name}"
    assert refused(sut, filters=[{name: {"type": ""}}]) == {f"{at}.type": "empty"}
    assert refused(sut, filters=[{name: {"": "a"}}]) == {f'{at}[""]': "empty"}
    assert refused(sut, filters=[{name: {}}]) == {at: "empty"}


@pytest.mark.clause("subscriptions-api.filters.all.array")
@pytest.mark.clause("subscriptions-api.filters.any.array")
@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("nested", [EXACT, "x", None, {}, 1], ids=repr)
def test_all_and_any_take_an_array(sut, name, nested):
    """Nothing else, not even a single expression."""
    assert refused(sut, filters=[{name: nested}]) == {f"$.filters[0].{name}": "type"}


@pytest.mark.clause("subscriptions-api.filters.all.non-empty")
@pytest.mark.clause("subscriptions-api.filters.any.non-empty")
@pytest.mark.parametrize("name", ["all", "any"])
def test_all_and_any_nest_one_expression_at_least(sut, name):
    """An empty one is neither true nor false, but a mistake."""
    assert refused(sut, filters=[{name: []}]) == {f"$.filters[0].{name}": "empty"}


@pytest.mark.clause("subscriptions-api.filters.not.one")
@pytest.mark.parametrize(
    ("nested", "code"),
    [([EXACT], "type"), ({}, "empty"), (EXACT | {"any": [EXACT]}, "one-dialect"), (None, "type")],
    ids=["an array", "empty", "two", "null"],
)
def test_not_takes_one_expression(sut, nested, code):
    """One, not in an array."""
    assert refused(sut, filters=[{"not": nested}]) == {"$.filters[0].not": code}


@pytest.mark.clause("subscriptions-api.filters.unsupported")
@pytest.mark.parametrize("name", ["https://example.com/dialect", "cesql", "Exact", "basic"])
def test_an_unsupported_dialect_refuses_create_and_update(sut, name):
    """In the array, nested, and in the earlier shape."""
    (path,) = refused(sut, filters=[EXACT, {name: {"type": "a"}}])
    assert path.startswith("$.filters[1]")
    (path,) = refused(sut, filters=[{"not": {name: "x"}}])
    assert path.startswith("$.filters[0].not")
    (path,) = refused(sut, filter={name: {"type": "a"}})
    assert path.startswith("$.filter")


@pytest.mark.clause("subscriptions-api.filters.basic.dialect")
@pytest.mark.parametrize(
    ("filter_", "faults"),
    [
        ({}, {"$.filter": "empty"}),
        ({"dialect": "sql", "filters": []}, {"$.filter.dialect": "unknown"}),
        ({"dialect": None}, {"$.filter.dialect": "unknown"}),
        ({"conditions": []}, {"$.filter.conditions": "unknown-dialect"}),
        ({"dialect": "basic"}, {"$.filter": "missing"}),
        ({"dialect": "basic", "filters": [], "conditions": []}, {"$.filter": "conflict"}),
        ({"dialect": "basic", "filters": {}}, {"$.filter.filters": "type"}),
        ({"dialect": "basic", "filters": [], "more": 1}, {"$.filter.more": "unknown"}),
        ([], {"$.filter": "type"}),
    ],
    ids=lambda value: str(value) if "$" not in str(value) else "",
)
def test_a_filter_of_the_first_revision_names_its_dialect(sut, filter_, faults):
    """And has one list of conditions, and nothing else."""
    assert refused(sut, filter=filter_) == faults


@pytest.mark.clause("subscriptions-api.filters.basic.type")
@pytest.mark.clause("subscriptions-api.filters.basic.type.values")
@pytest.mark.clause("subscriptions-api.filters.basic.property")
@pytest.mark.clause("subscriptions-api.filters.basic.value")
@pytest.mark.parametrize(
    ("changes", "faults"),
    [
        ({"type": ...}, {"type": "missing"}),
        ({"property": ...}, {"property": "missing"}),
        ({"value": ...}, {"value": "missing"}),
        ({"type": "contains"}, {"type": "value"}),
        ({"type": "EXACT"}, {"type": "value"}),
        ({"property": ""}, {"property": "empty"}),
        ({"value": ""}, {"value": "empty"}),
        ({"value": 1}, {"value": "type"}),
        ({"case": "no"}, {"case": "unknown"}),
        ({"type": ..., "value": 1}, {"type": "missing", "value": "type"}),
    ],
    ids=repr,
)
def test_a_condition_is_whole(sut, changes, faults):
    """Type, property and value, each a text that is not empty."""
    whole = {"type": "exact", "property": "type", "value": "a"} | changes
    condition = {name: value for name, value in whole.items() if value is not ...}
    good = {"type": "prefix", "property": "type", "value": "a"}
    for member in ("filters", "conditions"):
        found = refused(sut, filter={"dialect": "basic", member: [good, condition]})
        assert found == {f"$.filter.{member}[1].{name}": code for name, code in faults.items()}


def test_both_shapes_in_one_body_are_refused(sut):
    """Even where they say the same (decision 1)."""
    assert refused(sut, filters=[EXACT], filter=EXACT) == {"$.filter": "conflict"}
    assert refused(sut, filters=[], filter={}) == {"$.filter": "conflict"}


@pytest.mark.parametrize("name", ["filtres", "Filters", "filter ", "condition"])
def test_a_misspelt_member_never_means_that_everything_passes(sut, name):
    """It is named (decision 7)."""
    ((path, code),) = refused(sut, **{name: [EXACT]}).items()
    assert (name in path, code) == (True, "unknown")


def test_a_filter_that_is_too_deep_is_refused_at_the_limit(sut):
    """The path leads to the first expression that is; 200 levels are beyond any JSON we read."""
    assert sut.put("mine", filters=[deep(32)]).status == 201
    path = "$.filters[0]" + ".not" * 32
    assert refused(sut, filters=[deep(33)]) == {path: "too-deep"}
    assert list(refused(sut, filters=[deep(200)]).values()) == ["too-deep"]


def test_a_filter_of_many_parts_is_refused_at_the_limit(sut):
    """A thousand comparisons and no more, however they are nested."""
    many = [{"any": [{"exact": {"type": str(n)}} for n in range(600)]} for _ in range(2)]
    assert refused(sut, filters=many) == {"$.filters": "too-many"}


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


SQL_MALFORMED = {
    "no text": (7, "type"),
    "null": (None, "type"),
    "an object": ({}, "type"),
    "empty": ("", "empty"),
}


@pytest.mark.clause("subscriptions-api.filters.sql.string")
@pytest.mark.parametrize(("value", "code"), SQL_MALFORMED.values(), ids=SQL_MALFORMED)
def test_sql_takes_a_text(sut, value, code):
    """One that is not empty."""
    assert refused(sut, filters=[{"sql": value}]) == {"$.filters[0].sql": code}


@pytest.mark.clause("subscriptions-api.filters.sql.invalid")
@pytest.mark.parametrize(
    ("expression", "column"),
    [
        ("type = ", None),
        ("type = 'a' ANDD source = 'b'", 12),
        ("type == 'a'", 7),
        ("type = 'a", 8),
        ("(type = 'a'", None),
        ("type = 'a')", 11),
        ("subject LIKE 5", None),
        ("$type = 'a'", 1),
        ("type IN ()", None),
        ("NO_SUCH_FUNCTION(type) = 'a'", None),
        ("(" * 2000 + "TRUE" + ")" * 2000, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_an_expression_that_is_not_valid_is_refused_with_its_position(sut, expression, column):
    """Path, code, line and column; nested as well."""
    for filters, path in (
        ([{"sql": expression}], "$.filters[0].sql"),
        ([EXACT, {"not": {"sql": expression}}], "$.filters[1].not.sql"),
    ):
        answer = sut.create(filters=filters)
        assert list(sut.faults(answer)) == [path]
        ((message),) = [fault["message"] for fault in answer.json()["faults"]]
        assert "line 1" in message
        assert "column" in message
        if column is not None:
            assert f"column {column}" in message
        assert refused(sut, filters=filters)


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
