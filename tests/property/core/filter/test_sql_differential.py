"""The six dialects written as CESQL: two engines that share no code say the same.

A missing attribute is a non-match in the dialects and an error in CESQL (decision 5), so every
comparison is guarded by EXISTS. Values that are no strings compare by their canonical string in
both (decision 6): that is what a cast to String is.
"""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core import filter as filters

NAMES = ("id", "source", "type", "subject", "count", "flag")
TEXTS = (
    "a",
    "ab",
    "ba",
    "5",
    "-5",
    "true",
    "t",
    "%",
    "a%",
    "_",
    "a_b",
    "it's",
    'a"b',
    "ä\nb",
    "%_",
)

comparisons = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=3
)
leaves = st.one_of(
    *(st.fixed_dictionaries({d: comparisons}) for d in ("exact", "prefix", "suffix"))
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"all": st.lists(inner, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"any": st.lists(inner, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"not": inner}),
    ),
    max_leaves=8,
)
values = st.one_of(
    st.sampled_from(TEXTS),
    st.tuples(st.sampled_from(TEXTS), st.sampled_from(TEXTS)).map("".join),
    st.sampled_from([5, -5, 55, 0]),
    st.booleans(),
)
events = st.dictionaries(st.sampled_from(NAMES), values)


def as_cesql(expression) -> str:
    """*expression* in CESQL."""
    ((dialect, value),) = expression.items()
    if dialect == "not":
        return f"NOT ({as_cesql(value)})"
    if dialect in {"all", "any"}:
        operator = {"all": " AND ", "any": " OR "}[dialect]
        return operator.join(f"({as_cesql(inner)})" for inner in value)
    return " AND ".join(
        f"EXISTS {name} AND {name} {_compared(dialect, text)}" for name, text in value.items()
    )


def _compared(dialect: str, text: str) -> str:
    quoted = text.replace("'", "\\'")
    if dialect == "exact":
        return f"= '{quoted}'"
    literal = re.sub("([%_])", r"\\\1", quoted)
    return f"LIKE '{literal}%'" if dialect == "prefix" else f"LIKE '%{literal}'"


@pytest.mark.slow
@settings(max_examples=500)
@given(expressions, st.lists(events, min_size=1, max_size=8))
def test_the_six_dialects_mean_the_same_in_cesql(expression, several):
    """Compiled and walked plainly, for events with and without the attributes."""
    ours = filters.compile([expression])
    theirs = filters.compile([{"sql": as_cesql(expression)}])
    for attributes in several:
        verdict = ours.matches(attributes)
        assert theirs.matches(attributes) is verdict
        assert filters.naive_matches([{"sql": as_cesql(expression)}], attributes) is verdict


@pytest.mark.slow
@given(comparisons, events)
def test_without_the_guard_a_missing_attribute_tells_them_apart(value, attributes):
    """Both agree where all attributes are there; where one is not, the dialect's NOT is true."""
    alternatives = " OR ".join(f"{name} {_compared('exact', text)}" for name, text in value.items())
    dialect = {"not": {"any": [{"exact": {name: text}} for name, text in value.items()]}}
    ours = filters.compile([dialect]).matches(attributes)
    theirs = filters.compile([{"sql": f"NOT ({alternatives})"}]).matches(attributes)
    complete = set(value) <= set(attributes)
    assert theirs is (ours and complete)
