"""What holds for every filter and every event."""

import pickle

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core import filter as filters
from distributary.core.event import canonical

NAMES = ("id", "source", "type", "subject", "count", "flag")
TEXTS = ("a", "ab", "b", "ba", "aba", "5", "-5", "true", "t", "false", "1", "0", "ä")

comparisons = st.dictionaries(
    st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=4
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
arrays = st.lists(expressions, max_size=3)
values = st.one_of(st.sampled_from(TEXTS), st.sampled_from([5, -5, 1, 0]), st.booleans())
events = st.dictionaries(st.sampled_from(NAMES), values)

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(), st.sampled_from(filters.DIALECTS)), inner),
    ),
    max_leaves=20,
)


@pytest.mark.slow
@settings(max_examples=500)
@given(arrays, st.lists(events, min_size=1, max_size=8))
def test_the_compiled_filter_says_what_the_plain_walk_says(array, several):
    """Compiled closures against the obvious recursion."""
    compiled = filters.compile(array)
    for attributes in several:
        assert compiled.matches(attributes) is filters.naive_matches(array, attributes)


def satisfies(predicate, attributes):
    """Whether an event satisfies a predicate, by its definition."""
    if predicate.attribute not in attributes:
        return False
    value = canonical(attributes[predicate.attribute])
    if predicate.how == "exact":
        return value == predicate.text
    if predicate.how == "prefix":
        return value.startswith(predicate.text)
    return value.endswith(predicate.text)


@pytest.mark.slow
@settings(max_examples=500)
@given(arrays, st.lists(events, min_size=1, max_size=8))
def test_an_index_by_any_cover_hides_no_match(array, several):
    """A match satisfies every cover; and where a cover decides, nothing else satisfies it."""
    compiled = filters.compile(array)
    for attributes in several:
        covered = [any(satisfies(one, attributes) for one in cover) for cover in compiled.covers]
        if compiled.matches(attributes):
            assert all(covered)
        elif compiled.decided:
            assert covered == [False]


@pytest.mark.slow
@given(arrays, events, events)
def test_what_a_filter_does_not_read_changes_nothing(array, attributes, others):
    """A verdict may be kept for all events that agree in what is read."""
    compiled = filters.compile(array)
    read = {name: value for name, value in attributes.items() if name in compiled.reads}
    unread = {name: value for name, value in others.items() if name not in compiled.reads}
    assert compiled.matches(read | unread) is compiled.matches(attributes)


@pytest.mark.slow
@given(arrays)
def test_a_filter_is_rebuilt_from_its_json(array):
    """Pickling goes through JSON and loses nothing."""
    compiled = filters.compile(array)
    again = pickle.loads(pickle.dumps(compiled))
    assert again.json == compiled.json
    assert msgspec.json.decode(again.json) == array
    assert (again.covers, again.reads) == (compiled.covers, compiled.reads)


@pytest.mark.slow
@given(json_values)
def test_any_json_is_either_faulty_or_a_filter(value):
    """The check never raises, and what it lets through compiles and decides."""
    if not filters.check(value):
        assert filters.compile(value).matches({"type": "a"}) in (True, False)


@given(st.recursive(leaves, lambda inner: st.one_of(inner, json_values), max_leaves=3))
def test_one_broken_expression_refuses_the_array(value):
    """There is no array in which a fault is hidden by its neighbours."""
    good = {"exact": {"type": "a"}}
    alone = filters.check([value])
    among = filters.check([good, value, good])
    assert [fault.code for fault in among] == [fault.code for fault in alone]
