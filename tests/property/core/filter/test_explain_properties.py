"""An explanation says what the filter says, whatever the filter and the event."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core import filter as filters

NAMES = ("id", "source", "type", "subject", "count", "flag")
TEXTS = ("a", "ab", "b", "ba", "5", "-5", "true", "1", "ä")
SQL = (
    "type = 'a'",
    "subject LIKE '%b' AND EXISTS count",
    "count > 3 OR source = 'a'",
    "NOT (flag) AND 10 / count = 2",
    "type IN ('a', 'b')",
    "LENGTH(subject) = 2 XOR flag",
)

comparisons = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=3
)
leaves = st.one_of(
    *(st.fixed_dictionaries({d: comparisons}) for d in ("exact", "prefix", "suffix")),
    *([st.fixed_dictionaries({"sql": st.sampled_from(SQL)})] if "sql" in filters.DIALECTS else []),
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
arrays = st.lists(expressions, max_size=3)
values = st.one_of(st.sampled_from(TEXTS), st.sampled_from([5, -5, 1, 0]), st.booleans())
events = st.dictionaries(st.sampled_from(NAMES), values)


@pytest.mark.slow
@settings(max_examples=300)
@given(arrays, st.lists(events, min_size=1, max_size=4))
def test_the_verdict_is_that_of_the_filter(array, several):
    """Of the plain walk and of the compiled form."""
    compiled = filters.compile(array)
    for attributes in several:
        verdict = filters.explain(array, attributes).verdict
        assert verdict is filters.naive_matches(array, attributes)
        assert verdict is compiled.matches(attributes)


@pytest.mark.slow
@settings(max_examples=300)
@given(arrays, events)
def test_what_decided_is_enough_to_decide(array, attributes):
    """Deciders are parts of what they decide, and by themselves give the same verdict."""
    pending = [filters.explain(array, attributes)]
    while pending:
        found = pending.pop()
        pending += found.parts
        assert all(any(part is decider for part in found.parts) for decider in found.decided_by)
        assert bool(found.parts) is bool(found.decided_by)
        verdicts = {decider.verdict for decider in found.decided_by}
        if found.dialect == "not":
            assert verdicts == {not found.verdict}
        elif found.parts:
            assert verdicts == {found.verdict}
