"""Every evaluator of filters says the same, whatever the expression and the event.

The judge is written here, from the texts of the specifications alone, and needs no parser: an
expression is drawn as a tree. All others read its text or JSON: the plain walk, the explanation,
the closure, its parts, its copy in another process, and the two matchers; of CESQL the interpreter
and the closure by themselves.

Precedence is checked by how CESQL is written: parentheses stand only where the text of 3.6 asks
for them, and once wherever they may.
"""

import pickle
import re
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import cesql
from distributary.core import filter as filters
from distributary.core.event import Event
from distributary.core.flow import RouteRecord
from distributary.core.route import IndexMatcher, WalkMatcher
from kit import drawn_filters as drawn

NAMES = ("id", "source", "type", "subject", "count", "flag")
TEXTS = (
    *("a", "ab", "b", "ba", "aba", "ä", "ä\nb", "it's", 'a"b', "%", "a%", "_", "a_b", "%_"),
    *("5", "-5", "1", "0", "true", "t", "false"),
)
WORDS = ("a", "b", "other", "order", "notify", "inbox", "truev", "1a", "in2")
"""Names that begin like keywords and numbers."""
WORD_TEXTS = (
    *("", "a", "A", "ab", "ß", "\u0130", "\U00010400b", "a%b_c", " \u2003a\x1c ", "a\\b", "'\""),
    *("5", "05", "-5", "+5", " 5", "--5", "true", "TRUE", "fAlSe", "2147483647", "2147483648"),
    *("-2147483648", "0", "000", "-0", "1_0", "٣"),
)
TOKENS = (
    *("type", "id", "size", "flag", "word"),
    *("AND", "or", "XOR", "NOT", "LIKE", "EXISTS", "IN", "TRUE", "(", ")", ",", "=", "<>", "<="),
    *("+", "-", "*", "/", "%", "'a'", '"b"', "'", "5", "2147483648", "LENGTH", "CONCAT", "F_G"),
    *("\\", "ä", "\n", ".", "_", "1a", "\x00", "\ud800"),
)
WHITE_SPACE = " \t\n\x0b\x0c\r\x85\xa0\u2003\u3000"
ZERO = {"S": "", "I": 0, "B": False}

expressions = drawn.expressions(NAMES, TEXTS)
events = drawn.events(NAMES, TEXTS)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(), st.sampled_from(filters.DIALECTS)), inner),
    ),
    max_leaves=20,
)


class Wrong(Exception):  # noqa: N818 - no error of the program
    """An error, what the operation that failed is worth by itself (3.3), and that operation."""

    node = None


def cast(value, target, zero=False):
    """3.7: the table of casts."""
    kind = kind_of(value)
    if target in {kind, "A"}:
        return value
    if target == "S":
        return str(value).lower()
    if kind != "S":
        return bool(value) if target == "B" else int(value)
    if target == "B" and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    if target == "I" and re.fullmatch("[+-]?[0-9]+", value) and -(2**31) <= int(value) < 2**31:
        return int(value)
    raise Wrong("cast", zero)


def is_castable(value, target):
    """What ``IS_INT`` and ``IS_BOOL`` of the drafts tell."""
    try:
        cast(value, target)
    except Wrong:
        return False
    return True


def kind_of(value):
    """The type of a value."""
    return "S" if isinstance(value, str) else "B" if isinstance(value, bool) else "I"


def fits(number):
    """A result has 32 bits."""
    if not -(2**31) <= number < 2**31:
        raise Wrong("math", 0)
    return number


def like(text, pattern):
    """3.4.3, by trying everything: whether the pattern's pieces cover the text."""
    parts = re.findall(r"\\[%_]|.", pattern, re.DOTALL)
    places = {0}
    for part in parts:
        if part == "%":
            places = {later for at in places for later in range(at, len(text) + 1)}
        else:
            places = {
                n + 1 for n in places if n < len(text) and part in ("_", text[n], f"\\{text[n]}")
            }
    return len(text) in places


def calculated(operator, x, y):
    """3.4.2, arithmetic."""
    if operator in "/%" and y == 0:
        raise Wrong("math", 0)
    quotient = abs(x) // abs(y or 1) * (1 if (x < 0) == (y < 0) else -1)
    return fits(
        {"+": x + y, "-": x - y, "*": x * y, "/": quotient, "%": x - quotient * y}[operator]
    )


def called(name, values):  # noqa: PLR0911 - a table of rules
    """3.5.1 and 3.5.2."""
    x, *rest = values or [""]
    if name in {"IS_INT", "IS_BOOL"}:
        return is_castable(x, name[3])
    if name in {"LEFT", "RIGHT"}:
        if rest[0] < 0:
            raise Wrong("functionEvaluation", x)
        return x[: rest[0]] if name == "LEFT" else x[::-1][: rest[0]][::-1]
    if name == "SUBSTRING":
        at, length = rest[0], rest[1] if len(rest) > 1 else len(x)
        if at > len(x) or at < -len(x) or length < 0:
            raise Wrong("functionEvaluation", "")
        begin = at - 1 if at > 0 else len(x) + at
        return "".join(char for n, char in enumerate(x) if begin <= n < begin + length and at)
    if name == "ABS" and x == -(2**31):
        raise Wrong("math", 2**31 - 1)
    if name in {"LENGTH", "ABS"}:
        return len(x) if name == "LENGTH" else abs(x)
    if name in {"CONCAT", "CONCAT_WS"}:
        return "".join(values) if name == "CONCAT" else x.join(rest)
    if name in {"LOWER", "UPPER"}:
        return x.lower() if name == "LOWER" else x.upper()
    return x.strip(WHITE_SPACE) if name == "TRIM" else x


def value_of(node, event):
    """The value of *node*; raises Wrong at the first error, from left to right."""
    try:
        return operated(node, event)
    except Wrong as wrong:
        wrong.node = wrong.node or node
        raise


def operated(node, event):  # noqa: PLR0911 - a table of rules
    """The rule of each operation."""
    match node:
        case ("literal", value):
            return value
        case ("attribute", name):
            if name not in event:
                raise Wrong("missingAttribute", False)
            return event[name]
        case ("exists", name):
            return name in event
        case ("not", x):
            x = value_of(x, event)
            if kind_of(x) == "I":
                raise Wrong("cast", True)  # the kit's case, not the text's
            return not cast(x, "B", zero=True)
        case ("minus", x):
            return fits(-cast(value_of(x, event), "I", 0))
        case ("like", x, pattern, negated):
            return like(cast(value_of(x, event), "S"), pattern) is not negated
        case ("in", x, elements, negated):
            x = value_of(x, event)
            for element in elements:
                if cast(value_of(element, event), kind_of(x)) == x:
                    return not negated
            return negated
        case ("call", "NONE", _):
            raise Wrong("missingFunction", False)
        case ("call", name, arguments):
            kinds, result = drawn.SIGNATURES[name]
            values = [value_of(argument, event) for argument in arguments]
            kinds += ("I" if name == "SUBSTRING" else "S") * len(values)
            paired = zip(values, kinds, strict=False)  # kinds may be more than were needed
            return called(name, [cast(v, k, ZERO[result]) for v, k in paired])
        case ("AND" | "OR" as operator, x, y):
            if cast(value_of(x, event), "B") is (operator == "OR"):
                return operator == "OR"
            return cast(value_of(y, event), "B")
        case (operator, x, y):
            x, y = value_of(x, event), value_of(y, event)
            if operator in {"=", "!=", "<>"}:
                return (cast(x, kind_of(y)) == y) is (operator == "=")
            if operator == "XOR":
                return cast(x, "B") is not cast(y, "B")
            zero = False if operator[0] in "<>" else 0
            x, y = cast(x, "I", zero), cast(y, "I", zero)
            if operator[0] in "<>":
                return {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}[operator]
            return calculated(operator, x, y)


def kind(node):
    """The type of *node* where the text tells it; else Boolean (3.2)."""
    if node[0] == "literal":
        return kind_of(node[1])
    if node[0] == "call":
        return drawn.SIGNATURES[node[1]][1]
    return "I" if node[0] == "minus" or node[0] in set("+-*/%") else "B"


def worth(node, event):
    """Value and error of the whole (4.1, fail fast)."""
    try:
        return value_of(node, event), None
    except Wrong as wrong:
        name, alone = wrong.args
        return (alone if wrong.node is node else ZERO[kind(node)]), name


HOLDS = {"exact": str.__eq__, "prefix": str.startswith, "suffix": str.endswith}


def satisfied(how, name, text, event):
    """One comparison of the dialects: the attribute is there, and its text agrees."""
    return name in event and HOLDS[how](cast(event[name], "S"), text)


def passes(expression, event):
    """The verdict of a filter expression, by the definition of its dialect."""
    ((dialect, value),) = expression.items()
    match dialect:
        case "sql":
            value, error = worth(value, event)
            return value is True and error is None
        case "not":
            return not passes(value, event)
        case "all" | "any":
            return {"all": all, "any": any}[dialect](passes(inner, event) for inner in value)
    return all(satisfied(dialect, name, text, event) for name, text in value.items())


def as_node(expression):
    """*expression* in CESQL; None: its ``sql`` has errors, which only ``sql`` itself forgives.

    A missing attribute is a non-match in the dialects and an error in CESQL (decision 5), so every
    comparison is guarded by EXISTS. Values that are no strings compare by their canonical string
    in both (decision 6): that is what a cast to String is.
    """
    ((dialect, value),) = expression.items()
    if dialect == "sql":
        return None
    if dialect == "not":
        inner = as_node(value)
        return inner and ("not", inner)
    if dialect in {"all", "any"}:
        return joined({"all": "AND", "any": "OR"}[dialect], map(as_node, value))
    guarded = (
        ("AND", ("exists", name), compared(dialect, name, text)) for name, text in value.items()
    )
    return joined("AND", guarded)


def joined(operator, nodes):
    """One AND or OR of them all; None where one of them is."""
    first, *rest = nodes
    for node in rest:
        first = first and node and (operator, first, node)
    return first


def compared(dialect, name, text):
    """One comparison, without the guard."""
    if dialect == "exact":
        return ("=", ("attribute", name), ("literal", text))
    pattern = re.sub("([%_])", r"\\\1", text)
    pattern = f"{pattern}%" if dialect == "prefix" else f"%{pattern}"
    return ("like", ("attribute", name), pattern, False)


def matched(matcher, event):
    """Which of its routes a matcher names, each once and in their order."""
    uids = [int(uid) for uid in matcher.match(Event(event, None))]
    assert uids == sorted(set(uids))
    return [number in uids for number in range(len(matcher))]


class Evaluators:
    """All evaluators of the filters *arrays*, which are routes of one address too."""

    def __init__(self, arrays):
        self.arrays = arrays
        self.compiled = [filters.compile(array) for array in arrays]
        self.copies = pickle.loads(pickle.dumps(self.compiled))
        self.matchers = WalkMatcher(), IndexMatcher()
        for number, array in enumerate(arrays):
            route = RouteRecord(seq=0, op="put", uid=str(number), revision=1, filters=tuple(array))
            for matcher in self.matchers:
                matcher.put(route)

    def all_say(self, expected, event):
        """Each evaluator gives the verdicts *expected* of the arrays, in their order."""
        walk, index = self.matchers
        verdicts = {
            "plain walk": [filters.naive_matches(array, event) for array in self.arrays],
            "explanation": [explained(array, event) for array in self.arrays],
            "closure": [one.matches(event) for one in self.compiled],
            "parts": [all(part.test(event) for part in one.conjuncts) for one in self.compiled],
            "copy": [one.matches(event) for one in self.copies],
            "walk matcher": matched(walk, event),
            "index matcher": matched(index, event),
        }
        assert verdicts == dict.fromkeys(verdicts, expected)

    def indexes_hide_no_match(self, expected, event):
        """A match satisfies every cover; where a cover decides, nothing else satisfies it."""
        for one, verdict in zip(self.compiled, expected, strict=True):
            covered = [
                any(satisfied(p.how, p.attribute, p.text, event) for p in cover)
                for cover in one.covers
            ]
            assert all(covered) or not verdict
            assert not one.decided or covered == [verdict]

    def only_what_is_read_matters(self, expected, event, other):
        """A verdict may be kept for all events that agree in what is read."""
        for one, verdict in zip(self.compiled, expected, strict=True):
            read = {name: value for name, value in event.items() if name in one.reads}
            unread = {name: value for name, value in other.items() if name not in one.reads}
            assert one.matches(read | unread) is verdict

    def copies_lose_nothing(self):
        """Pickling goes through JSON."""
        for array, one, again in zip(self.arrays, self.compiled, self.copies, strict=True):
            assert again.json == one.json
            assert msgspec.json.decode(again.json) == array
            assert (again.covers, again.reads) == (one.covers, one.reads)


def explained(array, event):
    """The verdict; what decided are parts, and by themselves enough to decide."""
    whole = filters.explain(array, event)
    pending = [whole]
    while pending:
        found = pending.pop()
        pending += found.parts
        assert all(any(part is decider for part in found.parts) for decider in found.decided_by)
        assert bool(found.parts) is bool(found.decided_by)
        verdicts = {decider.verdict for decider in found.decided_by}
        if found.parts:
            assert verdicts == {found.verdict is not (found.dialect == "not")}
    return whole.verdict


def with_events(trees, others):
    """What is drawn of *trees*, and some events."""
    return trees.flatmap(
        lambda drawn_trees: st.tuples(
            st.just(drawn_trees),
            st.lists(drawn.events_for(drawn_trees, others), min_size=1, max_size=5),
        )
    )


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(
    with_events(st.lists(st.lists(expressions, max_size=3), min_size=1, max_size=3), events),
)
def test_every_evaluator_gives_the_same_verdict(case):
    """Of arrays of every dialect, and of the six that can be written as CESQL once more so."""
    trees, several = case
    arrays = [[drawn.as_json(tree) for tree in array] for array in trees]
    in_cesql = [array and as_node({"all": array}) for array in trees]
    arrays += [[{"sql": drawn.written(node)}] for node in in_cesql if node]
    evaluators = Evaluators(arrays)
    evaluators.copies_lose_nothing()
    for event, other in pairwise([*several, several[0]]):
        expected = [passes({"all": array}, event) for array in trees]
        expected += [one for one, node in zip(expected, in_cesql, strict=True) if node]
        evaluators.all_say(expected, event)
        evaluators.indexes_hide_no_match(expected, event)
        evaluators.only_what_is_read_matters(expected, event, other)


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(
    with_events(drawn.nodes(WORDS, WORD_TEXTS, missing=True), drawn.events(WORDS, WORD_TEXTS)),
    st.sampled_from([str, str.lower, str.title]),
)
def test_every_evaluator_of_cesql_gives_the_same_value_and_error(case, spelling):
    """Of every expression, written sparely and with all parentheses, in any case."""
    node, several = case
    for spare in (False, True):
        text = drawn.written(node, spelling, spare=spare)
        expression = cesql.parse(text)
        faults = {fault.code for fault in filters.check([{"sql": text}])}
        assert faults == ({"unknown-function"} if "NONE(" in text.upper() else set())
        evaluators = None if faults or spare else Evaluators([[{"sql": text}]])
        for event in several:
            before = dict(event)
            expected, wrong = worth(node, event)
            agrees(expression, event, expected, wrong)
            verdict = expected is True and wrong is None
            assert expression.test(event) is verdict
            if evaluators:
                evaluators.all_say([verdict], event)
                evaluators.indexes_hide_no_match([verdict], event)
            assert event == before


def agrees(expression, event, expected, wrong):
    """The interpreter gives this value and error; so it does of what is read, and what decided."""
    value, error = expression.evaluate(event)
    assert (value, type(value), error and error.kind) == (expected, type(expected), wrong)
    if expression.type is not cesql.Type.ANY:
        assert {str: "String", bool: "Boolean", int: "Integer"}[type(value)] == expression.type
    read = {name: value for name, value in event.items() if name in expression.reads}
    assert expression.evaluate(read) == (value, error)
    part = expression.deciding(event)
    if part != expression.text:
        # cast to Boolean, as an operand of AND and OR is
        alone = cesql.parse(f"BOOL({part})").evaluate(event)
        assert (alone.value, alone.error and alone.error.kind) == (value, wrong)


@pytest.mark.slow
@given(
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), min_size=1, max_size=3), events
)
def test_without_the_guard_a_missing_attribute_tells_them_apart(value, event):
    """Both agree where all attributes are there; where one is not, the dialect's NOT is true."""
    dialect = {"not": {"any": [{"exact": {name: text}} for name, text in value.items()]}}
    node = ("not", joined("OR", [compared("exact", *one) for one in value.items()]))
    ours = passes(dialect, event)
    theirs = ours and set(value) <= set(event)
    Evaluators([[dialect], [{"sql": drawn.written(node)}]]).all_say([ours, theirs], event)


@pytest.mark.slow
@given(
    st.one_of(st.text(), st.lists(st.sampled_from(TOKENS)).map(" ".join)),
    drawn.events(("type", "id", "size", "flag", "word"), TEXTS),
)
def test_any_text_is_an_expression_or_the_one_known_error(text, event):
    """The error's place is in the text; what is parsed is worth something."""
    expression, error = parsed(text)
    if expression is not None:
        assert isinstance(expression.evaluate(event).value, str | int)
        return
    assert 0 <= error.offset <= len(text)
    assert error.line == text.count("\n", 0, error.offset) + 1
    assert error.column == error.offset - text.rfind("\n", 0, error.offset)


def parsed(text):
    """The expression, or the error."""
    try:
        return cesql.parse(text), None
    except cesql.CesqlSyntaxError as error:
        return None, error


@pytest.mark.slow
@given(json_values)
def test_any_json_is_either_faulty_or_a_filter(value):
    """The check never raises, and what it lets through compiles and decides."""
    if not filters.check(value):
        assert filters.compile(value).matches({"type": "a"}) in (True, False)


@given(st.one_of(expressions.map(drawn.as_json), json_values))
def test_one_broken_expression_refuses_the_array(value):
    """There is no array in which a fault is hidden by its neighbours."""
    good = {"exact": {"type": "a"}}
    alone = filters.check([value])
    among = filters.check([good, value, good])
    assert [fault.code for fault in among] == [fault.code for fault in alone]
