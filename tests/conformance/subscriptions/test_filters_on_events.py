"""Subscriptions API 3.2.1, 3.2.4: which events are sent to the sink, and which never are.

Each subscription is made over HTTP; a real owner of a partition matches and sends.
"""

import pytest

PUSH = "com.example.push"
JPG = {"subject": "photos/cat.jpg"}
PNG = {"subject": "photos/cat.png"}


def types(*names: str) -> list[dict[str, str]]:
    """An event of each type."""
    return [{"type": name} for name in names]


@pytest.mark.clause("subscriptions-api.filters.false")
@pytest.mark.clause("subscriptions-api.filters.true")
@pytest.mark.clause("subscriptions-api.sink.used")
def test_an_event_is_sent_where_every_filter_is_true_and_never_else(deliveries):
    """One false filter is enough to withhold it, whichever it is."""
    filters = [{"prefix": {"type": "com.example."}}, {"suffix": {"subject": ".jpg"}}]
    deliveries.check(
        {"filters": filters, "sink": "https://sink.example/in"},
        sent=[{"type": PUSH} | JPG],
        withheld=[{"type": PUSH} | PNG, {"type": "t"} | JPG, {"type": PUSH}, {"type": "t"} | PNG],
    )


@pytest.mark.clause("subscriptions-api.filters.absent")
@pytest.mark.clause("subscriptions-api.filters.optional")
@pytest.mark.clause("subscriptions-api.types.optional")
@pytest.mark.clause("subscriptions-api.source.optional")
@pytest.mark.parametrize("members", [{}, {"filters": []}], ids=["absent", "empty"])
def test_without_filters_every_event_is_sent(deliveries, members):
    """Whatever its source and type."""
    deliveries.check(members, sent=[{"source": "/a", "type": "x"}, {"source": "urn:b"} | JPG])


@pytest.mark.clause("subscriptions-api.source.matches")
def test_every_event_has_the_source_of_the_subscription(deliveries):
    """The source as it stands: not what lies below it, not what resolves to it."""
    deliveries.check(
        {"source": "/sensors/tn-1234567/alerts"},
        sent=[{"source": "/sensors/tn-1234567/alerts"}],
        withheld=[
            {"source": "/sensors/tn-1234567/alerts/1"},
            {"source": "/sensors/TN-1234567/alerts"},
        ],
    )


@pytest.mark.clause("subscriptions-api.types.matches")
def test_every_event_has_one_of_the_types_of_the_subscription(deliveries):
    """Any of them; a type that only begins like one is another type."""
    deliveries.check(
        {"types": ["a.opened", "a.closed"]},
        sent=types("a.closed", "a.opened"),
        withheld=types("a.opened.again", "A.opened", "a"),
    )


def test_source_types_and_filters_all_hold(deliveries):
    """Each of them can withhold an event (decision 9)."""
    good = {"source": "/here", "type": "a"} | JPG
    deliveries.check(
        {"source": "/here", "types": ["a", "b"], "filters": [{"suffix": {"subject": ".jpg"}}]},
        sent=[good, good | {"type": "b"}],
        withheld=[good | {"source": "/there"}, good | {"type": "c"}, good | PNG],
    )


DIALECTS = {
    "exact": ({"exact": {"type": "a.B"}}, types("a.B"), types("a.b", "a.B ", "a", "xa.B")),
    "prefix": ({"prefix": {"type": "a.B"}}, types("a.B", "a.B.c"), types("a.b", "xa.B", "a")),
    "suffix": ({"suffix": {"type": "B.a"}}, types("B.a", "x.B.a"), types("b.a", "B.a.x", "a")),
}


@pytest.mark.parametrize(
    ("expression", "sent", "withheld"),
    [
        pytest.param(
            *DIALECTS["exact"],
            marks=pytest.mark.clause("subscriptions-api.filters.exact.matches"),
            id="exact",
        ),
        pytest.param(
            *DIALECTS["prefix"],
            marks=pytest.mark.clause("subscriptions-api.filters.prefix.matches"),
            id="prefix",
        ),
        pytest.param(
            *DIALECTS["suffix"],
            marks=pytest.mark.clause("subscriptions-api.filters.suffix.matches"),
            id="suffix",
        ),
    ],
)
def test_comparisons_are_exact_and_case_sensitive(deliveries, expression, sent, withheld):
    """Case, blanks and the other end of the text all count."""
    deliveries.check({"filters": [expression]}, sent, withheld)


@pytest.mark.clause("subscriptions-api.filters.exact.matches")
@pytest.mark.clause("subscriptions-api.filters.prefix.matches")
@pytest.mark.clause("subscriptions-api.filters.suffix.matches")
@pytest.mark.clause("subscriptions-api.filters.one-attribute")
@pytest.mark.parametrize("name", ["exact", "prefix", "suffix"])
@pytest.mark.parametrize("member", ["filters", "filter"])
def test_all_the_attributes_of_a_comparison_match(deliveries, name, member):
    """Several attributes in one expression: each has to match, and to be there."""
    expression = {name: {"type": "t", "subject": "s"}}
    deliveries.check(
        {member: [expression] if member == "filters" else expression},
        sent=[{"subject": "s"}],
        withheld=[{"subject": "x"}, {"type": "u", "subject": "s"}, {}],
    )


@pytest.mark.clause("subscriptions-api.filters.all.true")
def test_all_is_true_where_every_nested_expression_is(deliveries):
    """One that is false makes it false."""
    nested = [{"exact": {"type": "a"}}, {"prefix": {"subject": "photos/"}}]
    deliveries.check(
        {"filters": [{"all": nested}]},
        sent=[{"type": "a"} | JPG],
        withheld=[{"type": "b"} | JPG, {"type": "a"}, {"type": "b", "subject": "x"}],
    )


@pytest.mark.clause("subscriptions-api.filters.any.true")
def test_any_is_true_where_one_nested_expression_is(deliveries):
    """One, or several; none is not enough."""
    nested = [{"exact": {"type": "a"}}, {"prefix": {"subject": "photos/"}}]
    deliveries.check(
        {"filters": [{"any": nested}]},
        sent=[{"type": "a"}, JPG, {"type": "a"} | JPG],
        withheld=[{}, {"subject": "x"}],
    )


@pytest.mark.clause("subscriptions-api.filters.not.inverse")
def test_not_is_the_inverse_of_its_expression(deliveries):
    """A missing attribute matches nothing, so its inverse is true (decision 5)."""
    deliveries.check(
        {"filters": [{"not": {"exact": {"subject": "x"}}}]},
        sent=[{}, {"subject": "y"}],
        withheld=[{"subject": "x"}],
    )
    deliveries.check(
        {"filters": [{"not": {"not": {"exact": {"type": "a"}}}}]}, types("a"), types("b")
    )


@pytest.mark.clause("subscriptions-api.filters.order")
@pytest.mark.clause("subscriptions-api.filters.any.stops")
@pytest.mark.parametrize("name", ["all", "any"])
def test_the_order_of_nested_expressions_changes_nothing(deliveries, name):
    """Whatever comes first, the same events arrive (decision 8)."""
    nested = [
        {"exact": {"type": "a"}},
        {"not": {"exact": {"subject": "x"}}},
        {"prefix": {"id": "c"}},
    ]
    events = [{"type": t} | s for t in "ab" for s in ({}, {"subject": "x"}, {"subject": "y"})]
    sent = [e for e in events if name == "any" or (e["type"] == "a" and e.get("subject") != "x")]
    withheld = [event for event in events if event not in sent]
    for order in (nested, nested[::-1], nested[1:] + nested[:1]):
        deliveries.check({"filters": [{name: order}]}, sent, withheld)


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (False, "false"), (-7, "-7"), (2147483647, "2147483647"), ("7", "7")],
    ids=repr,
)
def test_values_are_compared_by_their_canonical_strings(deliveries, value, text):
    """Booleans and Integers have one each (decision 6)."""
    deliveries.check(
        {"filters": [{"exact": {"level": text}}]},
        sent=[{"level": value}],
        withheld=[{"level": "x"}],
    )


BASIC = [
    {"type": "exact", "property": "type", "value": "a"},
    {"type": "suffix", "property": "subject", "value": ".jpg"},
    {"type": "prefix", "property": "subject", "value": "photos/"},
]


@pytest.mark.clause("subscriptions-api.filters.basic")
@pytest.mark.clause("subscriptions-api.filters.basic.and")
@pytest.mark.parametrize("member", ["filters", "conditions"])
def test_every_condition_of_a_basic_filter_has_to_hold(deliveries, member):
    """Its text names the list conditions, its examples filters: both are taken."""
    deliveries.check(
        {"filter": {"dialect": "basic", member: BASIC}},
        sent=[{"type": "a"} | JPG],
        withheld=[{"type": "b"} | JPG, {"type": "a"} | PNG, {"type": "a", "subject": "x.jpg"}],
    )


@pytest.mark.clause("subscriptions-api.filters.basic.property")
@pytest.mark.clause("subscriptions-api.filters.basic.value")
def test_a_condition_matches_extensions_by_their_string_form(deliveries):
    """An Integer extension against its digits."""
    condition = {"type": "prefix", "property": "level", "value": "4"}
    deliveries.check(
        {"filter": {"dialect": "basic", "conditions": [condition]}},
        sent=[{"level": 42}, {"level": "4"}],
        withheld=[{"level": 24}, {}],
    )


SQL_TRUE = {"sql": "source LIKE '%cloudevents%' AND EXISTS subject"}


@pytest.mark.clause("subscriptions-api.filters.sql.optional")
@pytest.mark.clause("subscriptions-api.filters.sql.true")
def test_sql_passes_events_for_which_its_expression_is_true(deliveries):
    """Alone, and within the other dialects."""
    sent = [{"source": "/cloudevents/spec", "subject": "x"}]
    withheld = [{"source": "/cloudevents/spec"}, {"source": "/other", "subject": "x"}]
    deliveries.check({"filters": [SQL_TRUE]}, sent, withheld)
    deliveries.check({"filters": [{"all": [SQL_TRUE, {"exact": {"type": "t"}}]}]}, sent, withheld)
    deliveries.check({"filters": [{"not": SQL_TRUE}]}, withheld, sent)


@pytest.mark.clause("subscriptions-api.filters.sql.false")
@pytest.mark.parametrize(
    "expression",
    [
        "FALSE",
        "type = 'other'",
        "missing = 'x'",
        "NOT (missing = 'x')",
        "1 / 0 = 1",
        "INT(subject) = 1",
        "ABS('x') = 1",
    ],
)
def test_sql_withholds_events_where_it_is_false_or_fails(deliveries, expression):
    """A missing attribute is an error too, under NOT as well (decision 5)."""
    deliveries.check({"filters": [{"sql": expression}]}, sent=[], withheld=[{}, {"subject": "abc"}])


@pytest.mark.clause("subscriptions-api.filters.sql.false")
@pytest.mark.parametrize("expression", ["subject", "level", "1 + 1", "'text'", "LENGTH(type)"])
def test_sql_withholds_events_where_the_result_is_no_boolean(deliveries, expression):
    """Text and numbers are not true, whatever they say."""
    withheld = [{}, {"subject": "true"}, {"level": 1}, {"subject": "TRUE", "level": 0}]
    deliveries.check({"filters": [{"sql": expression}]}, sent=[], withheld=withheld)
