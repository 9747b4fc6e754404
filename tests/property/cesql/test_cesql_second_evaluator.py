"""CESQL against a second evaluator: made from the text of the specification alone, plainly.

An expression is made together with its value (or error) for one event: no parser is needed here.
Precedence is checked by how the text is written: parentheses stand only where the text of 3.6 asks
for them, and sometimes where it does not.
"""

import re
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary import cesql

WHITE_SPACE = " \t\n\x0b\x0c\r\x85\xa0\u2003\u3000"
TEXTS = (
    *("", "a", "A", "ab", "ß", "\u0130", "\U00010400b", "a%b_c", " \u2003a\x1c ", "a\\b", "'\""),
    *("5", "05", "-5", "+5", " 5", "--5", "true", "TRUE", "fAlSe", "2147483647", "2147483648"),
    *("-2147483648", "0", "000", "-0", "1_0", "٣"),
)
INTEGERS = (0, 1, -1, 2, 5, -5, 7, 2**31 - 1, -(2**31))
NAMES = ("a", "b", "gone", "order", "notify", "inbox", "truev", "1a", "in2")
ZERO = {"S": "", "I": 0, "B": False}
LOOSE = {"AND": 1, "OR": 1, "XOR": 1}
LOOSE |= dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), 2)
LOOSE |= {"+": 3, "-": 3, "*": 4, "/": 4, "%": 4}
POSTFIX, UNARY, ATOM = 5, 6, 7


class Wrong(Exception):  # noqa: N818 - no error of the program
    """An error, what the operation that failed is worth by itself (3.3), and that operation."""

    node = None


def cast(value, target, zero=False):
    """3.7: the table of casts."""
    kind = "S" if isinstance(value, str) else "B" if isinstance(value, bool) else "I"
    if kind == target:
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


def called(name, values):
    """3.5.1 and 3.5.2."""
    x, *rest = values or [""]
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


SIGNATURES = {
    "LENGTH": ("S", "I"), "LOWER": ("S", "S"), "UPPER": ("S", "S"), "TRIM": ("S", "S"),
    "LEFT": ("SI", "S"), "RIGHT": ("SI", "S"), "SUBSTRING": ("SI", "S"), "ABS": ("I", "I"),
    "CONCAT": ("", "S"), "CONCAT_WS": ("S", "S"), "INT": ("I", "I"), "BOOL": ("B", "B"),
    "STRING": ("S", "S"),
}  # fmt: skip


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
        case ("call", name, arguments):
            kinds, result = SIGNATURES[name]
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
        return SIGNATURES[node[1]][1]
    return "I" if node[0] == "minus" or node[0] in set("+-*/%") else "B"


def worth(node, event):
    """Value and error of the whole (4.1, fail fast)."""
    try:
        return value_of(node, event), None
    except Wrong as wrong:
        name, alone = wrong.args
        return (alone if wrong.node is node else ZERO[kind(node)]), name


def written(node, case=str, spare=False, least=0):
    """The text of *node*; *least*: what binds less tightly stands in parentheses."""

    def sub(x, least):
        return written(x, case, spare, least)

    match node:
        case ("literal", str(value)):
            quote = "'" if spare else '"'
            level, text = ATOM, quote + value.replace(quote, "\\" + quote) + quote
        case ("literal", bool(value)):
            level, text = ATOM, case(str(value))
        case ("literal", value):
            level, text = ATOM, str(value)
        case ("attribute", name):
            level, text = ATOM, name
        case ("exists", name):
            level, text = ATOM, f"{case('EXISTS')} {name}"
        case ("not", x):
            level, text = UNARY, f"{case('NOT')} {sub(x, UNARY)}"
        case ("minus", x):
            level, text = UNARY, f"- ({sub(x, 0)})"
        case ("like", x, pattern, negated):
            pattern = pattern.replace("'", "\\'")
            level, text = (
                POSTFIX,
                f"{sub(x, POSTFIX)}{case(' NOT') * negated}{case(' LIKE')}\n'{pattern}'",
            )
        case ("in", x, elements, negated):
            listed = ",".join(sub(element, 0) for element in elements)
            level, text = (
                POSTFIX,
                f"{sub(x, POSTFIX)}{case(' NOT') * negated}{case(' IN')}({listed})",
            )
        case ("call", name, arguments):
            level, text = ATOM, f"{case(name)}({', '.join(sub(one, 0) for one in arguments)})"
        case (operator, x, y):
            level = LOOSE[operator]
            text = f"{sub(x, level)} {case(operator)} {sub(y, level + 1)}"
    return f"({text})" if level < least or (spare and level < ATOM) else text


literals = st.builds(lambda v: ("literal", v), st.sampled_from((*TEXTS, *INTEGERS, True, False)))
numbers = st.builds(lambda v: ("literal", v), st.sampled_from(INTEGERS))
leaves = st.one_of(
    literals,
    numbers,
    st.tuples(st.sampled_from(list(LOOSE)), numbers, numbers),
    st.builds(lambda n: ("attribute", n), st.sampled_from(NAMES)),
    st.builds(lambda n: ("exists", n), st.sampled_from(NAMES)),
)
patterns = st.lists(st.sampled_from(["%", "_", "\\%", "\\_", "a", "b", "\\b", "5", "\U00010400"]))


def larger(inner):
    """One operation more."""
    several = st.lists(inner, min_size=1, max_size=3)
    unary = st.sampled_from([n for n, (kinds, _) in SIGNATURES.items() if len(kinds) == 1])
    return st.one_of(
        st.tuples(st.sampled_from(list(LOOSE)), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("minus"), inner),
        st.tuples(st.just("like"), inner, patterns.map("".join), st.booleans()),
        st.tuples(st.just("in"), inner, several, st.booleans()),
        st.tuples(st.just("call"), unary, st.tuples(inner).map(list)),
        st.tuples(
            st.just("call"), st.sampled_from(["LEFT", "RIGHT"]), st.tuples(inner, inner).map(list)
        ),
        st.tuples(st.just("call"), st.just("SUBSTRING"), st.lists(inner, min_size=2, max_size=3)),
        st.tuples(st.just("call"), st.sampled_from(["CONCAT_WS", "CONCAT"]), several),
    )


nodes = st.recursive(leaves, larger, max_leaves=8)
events = st.dictionaries(
    st.sampled_from(NAMES[:2] + NAMES[3:]), st.sampled_from((*TEXTS, *INTEGERS, True, False))
)


@pytest.mark.slow
@settings(max_examples=600)
@given(
    nodes, st.lists(events, min_size=1, max_size=4), st.sampled_from([str, str.lower, str.title])
)
def test_two_evaluators_agree_on_value_and_error(node, some, case):
    """Of every expression, written sparely and with all parentheses, in any case."""
    for event, spare in product(some, (False, True)):
        expression = cesql.parse(written(node, case, spare))
        value, error = expression.evaluate(event)
        expected, wrong = worth(node, event)
        assert (value, type(value), error and error.kind) == (expected, type(expected), wrong)
        assert expression.test(event) is (expected is True and wrong is None)
