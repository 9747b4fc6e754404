"""The dialect sql: what is refused, what an index is told, and why an event passes or not."""

import pickle

import pytest

from distributary.core import filter as filters
from distributary.core.filter import Predicate

REFUSED = {
    "no string": (5, "type", "expected a string"),
    "null": (None, "type", "expected a string"),
    "an object": ({"type": "x"}, "type", "expected a string"),
    "empty": ("", "empty", "expected a CloudEvents SQL expression"),
    "blank": (" \n", "empty", "expected a CloudEvents SQL expression"),
    "no expression": ("type =", "syntax", "line 1, column 7: "),
    "second line": ("type = 'x'\nAND", "syntax", "line 2, column 4: "),
    "open parenthesis": ("ABC(", "syntax", "line 1, column 5: "),
    "too deep": ("(" * 60 + "flag" + ")" * 60, "syntax", "nest at most 50 deep"),
    "too long": ("flag".ljust(70_000), "syntax", "at most 65536 characters"),
    "too costly": (" OR ".join(["a = 'x'"] * 600), "syntax", "at most 1000 comparisons"),
    "a lone surrogate": ("type = '\ud800'", "syntax", "surrogate"),
    "unknown function": ("flag AND LEN(type) = 1", "unknown-function", "line 1, column 10: "),
    "number of arguments": ("LENGTH(id, type) = 1", "unknown-function", "LENGTH of 2"),
}


@pytest.mark.parametrize(("value", "code", "words"), REFUSED.values(), ids=REFUSED)
def test_what_is_no_filter_is_refused_with_path_and_position(value, code, words):
    """One fault, at the member's path; the message holds line and column of the text."""
    (fault,) = filters.check([{"exact": {"type": "x"}}, {"not": {"sql": value}}])
    assert (fault.path, fault.code) == ("$.filters[1].not.sql", code)
    assert words in fault.message


def test_every_unknown_function_is_named():
    """All faults at once."""
    faults = filters.check([{"sql": "F(type) AND G(id)"}, {"sql": "H()"}])
    assert [(fault.path, fault.message) for fault in faults] == [
        ("$.filters[0].sql", "line 1, column 1: there is no function F of 1 arguments"),
        ("$.filters[0].sql", "line 1, column 13: there is no function G of 1 arguments"),
        ("$.filters[1].sql", "line 1, column 1: there is no function H of 0 arguments"),
    ]


def test_what_an_expression_costs_counts_for_the_resource():
    """A thousand expressions and comparisons in all, however they are written."""
    text = " OR ".join(["a = 'x'"] * 200)
    assert filters.check([{"sql": text}] * 2) == []
    (fault,) = filters.check([{"sql": text}] * 3)
    assert fault.code == "too-many"
    assert filters.compile([{"sql": text}]).comparisons_max == 399


@pytest.mark.parametrize(
    "text",
    ["(" * 4_000, "a IN (" + ",".join(["1"] * 3_900) + ")", "flag = " + "(" * 40 + "1" + ")" * 40],
    ids=["refused", "a list", "parentheses"],
)
def test_what_parsing_costs_counts_for_the_resource(text):
    """However cheap an evaluation is: the server's time belongs to others as well."""
    assert not any(fault.code == "too-many" for fault in filters.check([{"sql": text}]))
    faults = filters.check([{"any": [{"sql": text + " " * number} for number in range(100)]}])
    assert (faults[-1].path, faults[-1].code) == ("$.filters", "too-many")
    assert len(faults) < 10


@pytest.mark.parametrize(
    ("text", "attributes", "passes"),
    [
        ("type = 'x'", {"type": "x"}, True),
        ("type = 'x'", {"type": "y"}, False),
        ("type = 'x'", {}, False),
        ("NOT (type = 'x')", {}, False),
        ("type != 'x'", {}, False),
        ("NOT EXISTS subject", {}, True),
        ("flag", {"flag": True}, True),
        ("flag", {"flag": "true"}, False),
        ("size", {"size": 1}, False),
        ("1 + 1", {}, False),
        ("UPPER(flag)", {"flag": True}, False),
        ("size > 3 AND size / 0 = 1", {"size": 5}, False),
    ],
)
def test_an_event_passes_where_the_expression_is_true(text, attributes, passes):
    """Compiled and walked plainly; a missing attribute is an error, under NOT too (decision 5)."""
    assert filters.compile([{"sql": text}]).matches(attributes) is passes
    assert filters.naive_matches([{"sql": text}], attributes) is passes


def test_an_error_is_false_for_the_dialects_around_it():
    """``not`` of an expression that fails is true: the error ends where the expression does."""
    array = [{"not": {"sql": "missing = 1"}}, {"any": [{"sql": "1 / 0 = 1"}, {"sql": "TRUE"}]}]
    assert filters.compile(array).matches({}) is True
    assert filters.naive_matches(array, {}) is True


def exact(attribute, *texts):
    """A cover of exact predicates."""
    return tuple(Predicate("exact", attribute, text) for text in texts)


A, B = exact("type", "a"), exact("id", "b")
COVERS = [
    ("type = 'a'", [A], True),
    ("'a' = type", [A], True),
    ("type LIKE 'a'", [A], True),
    ("type LIKE 'a%'", [(Predicate("prefix", "type", "a"),)], True),
    ("type LIKE '%a'", [(Predicate("suffix", "type", "a"),)], True),
    (
        "type LIKE 'a%b'",
        [(Predicate("prefix", "type", "a"),), (Predicate("suffix", "type", "b"),)],
        False,
    ),
    ("type LIKE 'a_%'", [(Predicate("prefix", "type", "a"),)], False),
    ("type LIKE 'a%b%'", [(Predicate("prefix", "type", "a"),)], False),
    ("type LIKE 'a\\%'", [exact("type", "a%")], True),
    ("type IN ('a', 'b', 'a')", [exact("type", "a", "b")], True),
    ("type IN ('5')", [exact("type", "5")], True),
    # an Integer fails at 'a', before it would be equal to the other
    ("type IN ('a', '5')", [exact("type", "a", "5")], False),
    ("(type = 'a')", [A], True),
    ("type = 'a' AND id = 'b'", [A, B], False),
    ("type = 'a' AND size > 5 AND NOT flag", [A], False),
    ("type = 'a' OR type = 'c'", [exact("type", "a", "c")], True),
    # an event without the left attribute is an error, whatever the right one is
    ("type = 'a' OR id = 'b'", [A + B], False),
    ("type = 'a' OR 'c' = type", [exact("type", "a", "c")], False),
    ("type = 'a' OR type IN ('c')", [exact("type", "a", "c")], False),
    ("type = 'a' OR (id = 'b' AND type LIKE 'c%')", [A + B], False),
    ("type = 'a' AND (id = 'b' OR size = 5)", [A], False),
    # no cover: the canonical string does not tell
    ("size = 5", [], False),
    ("flag = TRUE", [], False),
    ("5 = size", [], False),
    ("'05' = size", [], False),
    ("'+5' = size", [], False),
    ("'TRUE' = flag", [], False),
    ("size IN ('05')", [], False),
    ("size IN (5)", [], False),
    ("type IN ('a', id)", [], False),
    ("type IN ('a', '')", [], False),
    ("type = ''", [], False),
    ("type LIKE ''", [], False),
    ("type LIKE '%'", [], False),
    ("type LIKE '%a%'", [], False),
    ("type != 'a'", [], False),
    ("type NOT LIKE 'a'", [], False),
    ("type NOT IN ('a')", [], False),
    ("NOT type = 'a'", [], False),
    ("type = 'a' XOR id = 'b'", [], False),
    ("type = 'a' OR flag", [], False),
    ("UPPER(type) = 'A'", [], False),
    ("EXISTS type", [], False),
    ("type = id", [], False),
]


@pytest.mark.parametrize(("text", "covers", "decided"), COVERS, ids=[text for text, *_ in COVERS])
def test_an_index_is_told_what_every_match_carries(text, covers, decided):
    """String literals alone: other literals are equal to more texts than their own."""
    compiled = filters.compile([{"sql": text}])
    assert list(compiled.covers) == covers
    assert compiled.decided is decided


def test_a_filter_tells_which_attributes_it_reads():
    """EXISTS too, and operands that are not always evaluated."""
    compiled = filters.compile([{"sql": "EXISTS a OR UPPER(b) IN (c, 'x') OR -d LIKE '5'"}])
    assert compiled.reads == {"a", "b", "c", "d"}


def test_a_filter_is_pickled_as_its_text():
    """And parsed again where it arrives."""
    text = "type LIKE '%ä_c%' OR size * 2 > 10"
    again = pickle.loads(pickle.dumps(filters.compile([{"sql": text}])))
    assert again.matches({"type": "x", "size": 6}) is True


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("type = 'a' AND size > 3", '"size > 3" makes it FALSE'),
        ("type = 'a'", "\"type = 'a'\" makes it TRUE"),
        ("type = 'a' AND gone = 1", '"gone = 1": the event has no attribute gone'),
        ("size / 0 = 1", '"size / 0 = 1": 2 / 0: division by zero (math error)'),
        ("type", '"type" is "a", which is no Boolean'),
    ],
)
def test_an_explanation_quotes_the_part_that_decided(text, reason):
    """And tells its value or its error."""
    event = {"type": "a", "size": 2}
    (part,) = filters.explain([{"sql": text}], event).parts
    assert (part.dialect, part.path) == ("sql", "$.filters[0].sql")
    assert part.reason.startswith(reason)
    assert part.verdict is filters.naive_matches([{"sql": text}], event)
