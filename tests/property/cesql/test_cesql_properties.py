"""CESQL for random texts, random expressions and random events."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distributary import cesql
from distributary.core import filter as filters
from distributary.core.event import canonical

NAMES = ("type", "id", "size", "flag", "word")
TEXTS = ("a", "ab", "b", "", "5", "05", "-5", "+5", "true", "TRUE", "false", "1", "0", "%", "a_b")
INTEGERS = (0, 1, -1, 5, -5, 10, 2**31 - 1, -(2**31))
PATTERNS = ("a%", "%b", "%a%", "a_b", "_", "%", "5", "tr%", "%a_%", "a\\_b", "0_", "")

attributes = st.dictionaries(
    st.sampled_from(NAMES),
    st.one_of(st.sampled_from(TEXTS), st.sampled_from(INTEGERS), st.booleans()),
)
TOKENS = (
    *NAMES,
    *("AND", "or", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "(", ")", ",", "=", "<>", "<="),
    *("+", "-", "*", "/", "%", "'a'", '"b"', "'", "5", "2147483648", "LENGTH", "CONCAT", "F_G"),
    *("\\", "ä", "\n", ".", "_", "1a", "\x00", "\ud800"),
)

literals = st.one_of(
    st.sampled_from(TEXTS).map(lambda text: f"'{text}'"),
    st.sampled_from(INTEGERS).map(str),
    st.sampled_from(["TRUE", "false"]),
)
leaves = st.one_of(literals, st.sampled_from(NAMES), st.sampled_from(NAMES).map("EXISTS {}".format))
BINARY = ("=", "!=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "AND", "OR", "XOR")
UNARY = ("INT", "BOOL", "STRING", "LENGTH", "UPPER", "TRIM", "ABS", "IS_INT", "IS_BOOL", "NONE")


def _larger(inner):
    """One operation more, in parentheses or not."""
    operands = st.one_of(inner, inner.map("({})".format))
    several = st.lists(operands, min_size=1, max_size=4).map(", ".join)
    negation = st.sampled_from(["", "NOT "])
    return st.one_of(
        st.builds("{} {} {}".format, operands, st.sampled_from(BINARY), operands),
        st.builds("{} {}LIKE '{}'".format, operands, negation, st.sampled_from(PATTERNS)),
        st.builds("{} {}IN ({})".format, operands, negation, several),
        st.builds("NOT {}".format, operands),
        st.builds("- {}".format, inner.map("({})".format)),
        st.builds("{}({})".format, st.sampled_from(UNARY), operands),
        st.builds("CONCAT({})".format, several),
        st.builds("SUBSTRING({}, {})".format, operands, operands),
        st.builds("LEFT({}, {})".format, operands, operands),
    )


expressions = st.recursive(leaves, _larger, max_leaves=10)
names = st.sampled_from(NAMES)
conditions = st.one_of(
    st.builds("{} = {}".format, names, literals),
    st.builds("{} = {}".format, literals, names),
    st.builds("{} LIKE '{}'".format, names, st.sampled_from(PATTERNS)),
    st.builds("{} IN ({})".format, names, st.lists(literals, min_size=1).map(", ".join)),
)
indexable = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["AND", "OR"]), inner),
        expressions,
    ),
    max_leaves=5,
)
"""Expressions of which an index can often be told something."""


@pytest.mark.slow
@given(st.one_of(st.text(), st.lists(st.sampled_from(TOKENS)).map(" ".join)), attributes)
def test_any_text_is_an_expression_or_the_one_known_error(text, event):
    """The error's place is in the text; what is parsed is worth something."""
    expression, error = _parsed(text)
    if expression is not None:
        assert isinstance(expression.evaluate(event).value, str | int)
        return
    assert 0 <= error.offset <= len(text)
    assert error.line == text.count("\n", 0, error.offset) + 1
    assert error.column == error.offset - text.rfind("\n", 0, error.offset)


def _parsed(text):
    """The expression, or the error."""
    try:
        return cesql.parse(text), None
    except cesql.CesqlSyntaxError as error:
        return None, error


@pytest.mark.slow
@settings(max_examples=500)
@given(expressions, st.lists(attributes, min_size=1, max_size=5))
def test_the_fast_path_says_what_the_evaluation_says(text, events):
    """Neither raises; values keep to their types and to 32 bits; nothing of the event changes."""
    expression = cesql.parse(text)
    for event in events:
        before = dict(event)
        value, error = expression.evaluate(event)
        assert expression.test(event) is (value is True and error is None)
        assert isinstance(value, str) or -(2**31) <= value < 2**31
        if expression.type is not cesql.Type.ANY:
            kinds = {str: "String", bool: "Boolean", int: "Integer"}
            assert kinds[type(value)] == expression.type
        assert event == before


@pytest.mark.slow
@settings(max_examples=500)
@given(indexable, st.lists(attributes, min_size=1, max_size=8))
def test_an_index_misses_no_match(text, events):
    """Each cover holds for each match; where it decides, it holds for nothing else."""
    array = [{"sql": text}]
    assume(not filters.check(array))
    compiled = filters.compile(array)
    for event in events:
        held = [any(_holds(one, event) for one in cover) for cover in compiled.covers]
        matches = compiled.matches(event)
        assert all(held) or not matches
        assert not compiled.decided or (len(held) == 1 and held[0] is matches)


def _holds(predicate, event):
    """What a predicate means, word for word."""
    if predicate.attribute not in event:
        return False
    text = canonical(event[predicate.attribute])
    if predicate.how == "exact":
        return text == predicate.text
    if predicate.how == "prefix":
        return text.startswith(predicate.text)
    return text.endswith(predicate.text)


@pytest.mark.slow
@given(expressions, attributes)
def test_attributes_that_are_not_read_do_not_matter(text, event):
    """A memo may go by those that are."""
    expression = cesql.parse(text)
    read = {name: value for name, value in event.items() if name in expression.reads}
    assert expression.evaluate(read) == expression.evaluate(event)


@pytest.mark.slow
@given(
    st.builds("{} {} {}".format, expressions, st.sampled_from(["AND", "OR"]), expressions),
    attributes,
)
def test_the_deciding_part_is_worth_what_the_whole_is(text, event):
    """Cast to Boolean, as an operand of AND and OR is, it has the same value and error."""
    expression = cesql.parse(text)
    part = expression.deciding(event)
    assume(part != text)
    whole, alone = expression.evaluate(event), cesql.parse(f"BOOL({part})").evaluate(event)
    assert whole.value == alone.value
    assert (whole.error and whole.error.kind) == (alone.error and alone.error.kind)
