"""Hypothesis strategies for filter expressions of every dialect.

A CESQL expression is drawn as a tree of tuples, so that a test can evaluate it without the parser
under test. ``written`` makes the text; ``as_json`` the filter's JSON.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

__all__ = [
    "SIGNATURES",
    "Expression",
    "Node",
    "as_json",
    "events",
    "events_for",
    "expressions",
    "nodes",
    "written",
]

Node: TypeAlias = tuple[Any, ...]
"""An operation of CESQL and its operands, before them its name; leaves are ``("literal", value)``,
``("attribute", name)`` and ``("exists", name)``."""

Expression: TypeAlias = Mapping[str, Any]
"""A filter expression; the value of ``sql`` is a ``Node``."""

_SPELLED: Final = re.compile("[+-]?[0-9]+")

INTEGERS: Final = (0, 1, -1, 2, 5, -5, 7, 10, 2**31 - 1, -(2**31))

_LOOSE: Final = {
    **dict.fromkeys(("AND", "OR", "XOR"), 1),
    **dict.fromkeys(("=", "!=", "<>", "<", "<=", ">", ">="), 2),
    **dict.fromkeys(("+", "-"), 3),
    **dict.fromkeys(("*", "/", "%"), 4),
}
"""Binary operators by 3.6 of CESQL: the higher the tighter."""
_POSTFIX, _UNARY, _ATOM = 5, 6, 7

SIGNATURES: Final = {
    "LENGTH": ("S", "I"), "LOWER": ("S", "S"), "UPPER": ("S", "S"), "TRIM": ("S", "S"),
    "LEFT": ("SI", "S"), "RIGHT": ("SI", "S"), "SUBSTRING": ("SI", "S"), "ABS": ("I", "I"),
    "CONCAT": ("", "S"), "CONCAT_WS": ("S", "S"), "INT": ("I", "I"), "BOOL": ("B", "B"),
    "STRING": ("S", "S"), "IS_INT": ("A", "B"), "IS_BOOL": ("A", "B"), "NONE": ("A", "B"),
}  # fmt: skip
"""Function -> the types of its parameters and of its result: String, Integer, Boolean, Any.

There is no function ``NONE``: each call is an error.
"""

_ONE_PARAMETER: Final = [name for name, (kinds, _) in SIGNATURES.items() if len(kinds) == 1]
_PATTERNS: Final = st.lists(
    st.sampled_from(["%", "_", "\\%", "\\_", "a", "b", "\\b", "5", "0", "tr", "\U00010400"])
).map("".join)


def events(names: Sequence[str], texts: Sequence[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of events: some of *names*, with *texts*, two of them joined, or other values."""
    some = st.sampled_from(texts)
    joined = st.tuples(some, some).map("".join)
    values = st.one_of(some, some, joined, st.sampled_from(INTEGERS), st.booleans())
    return st.dictionaries(st.sampled_from(names), values)


def events_for(
    trees: Any, others: st.SearchStrategy[dict[str, Any]]
) -> st.SearchStrategy[dict[str, Any]]:
    """Events that often have what *trees* ask for: by chance alone hardly one does.

    Args:
        trees: A ``Node`` or an ``Expression``, or a sequence of such.
        others: What an event has besides.
    """
    asked = [(name, alike) for name, value in _asked(trees) for alike in _alike(value)]
    if not asked:
        return others
    some = st.lists(st.sampled_from(asked), max_size=4)
    return st.builds(lambda other, wanted: {**other, **dict(wanted)}, others, some)


def _asked(tree: Any) -> Iterator[tuple[str, Any]]:
    """Attributes with a value that a part of *tree* may be true for."""
    match tree:
        case ("=", ("attribute", name), ("literal", value)):
            yield name, value
        case ("=", ("literal", value), ("attribute", name)):
            yield name, value
        case ("like", ("attribute", name), pattern, _):
            yield name, pattern.replace("%", "").replace("\\", "")
        case ("not", ("attribute", name)):
            yield name, 5
        case ("in", ("attribute", name), elements, _):
            yield from ((name, value) for kind, value, *_ in elements if kind == "literal")
        case {"exact": compared} | {"prefix": compared} | {"suffix": compared}:
            yield from compared.items()
        case dict():
            yield from _asked(list(tree.values()))
        case tuple() | list():
            for inner in tree:
                yield from _asked(inner)


def _alike(value: str | int) -> Iterator[str | int]:
    """*value*, and what a cast makes of it: attributes have types, texts spell them."""
    yield value
    if not isinstance(value, str):
        yield str(value).lower()
    elif value.lower() in {"true", "false"}:
        yield value.lower() == "true"
    elif _SPELLED.fullmatch(value) and -(2**31) <= int(value) < 2**31:
        yield int(value)


def nodes(
    names: Sequence[str], texts: Sequence[str], *, missing: bool = False
) -> st.SearchStrategy[Node]:
    """Any expressions of CESQL; half of them such that an index can be told something.

    Args:
        names: Of attributes.
        texts: The String literals.
        missing: Whether some call ``NONE``, which there is not.
    """
    literals = st.builds(_literal, st.sampled_from((*texts, *INTEGERS, True, False)))
    numbers = st.builds(_literal, st.sampled_from(INTEGERS))
    attributes = st.builds(lambda name: ("attribute", name), st.sampled_from(names))
    exists = st.builds(lambda name: ("exists", name), st.sampled_from(names))
    calculations = st.tuples(st.sampled_from(list(_LOOSE)), numbers, numbers)
    leaves = st.one_of(literals, numbers, calculations, attributes, exists)
    functions = [name for name in _ONE_PARAMETER if missing or name != "NONE"]
    anything = st.recursive(leaves, lambda inner: _larger(inner, functions), max_leaves=8)

    ends = st.sampled_from(texts).flatmap(lambda text: st.sampled_from([f"{text}%", f"%{text}"]))
    several = st.lists(literals, min_size=1, max_size=4)
    conditions = st.one_of(
        st.tuples(st.just("="), attributes, literals),
        st.tuples(st.just("="), literals, attributes),
        st.tuples(st.just("like"), attributes, st.one_of(ends, _PATTERNS), st.just(False)),
        st.tuples(st.just("in"), attributes, several, st.just(False)),
        st.tuples(st.just("not"), attributes),
        exists,
    )
    junctions = st.sampled_from(["AND", "OR"])
    joined = st.recursive(
        conditions,
        lambda inner: st.one_of(
            st.tuples(junctions, inner, inner),
            st.tuples(st.just("AND"), inner, anything),
            st.tuples(st.just("not"), inner),
        ),
        max_leaves=4,
    )
    return st.one_of(anything, conditions, joined, st.tuples(junctions, anything, anything))


def _literal(value: str | int) -> Node:
    return ("literal", value)


def _larger(inner: st.SearchStrategy[Node], functions: Sequence[str]) -> st.SearchStrategy[Node]:
    """One operation more; *functions*: those of one parameter."""
    several = st.lists(inner, min_size=1, max_size=3)

    def call(
        names: Sequence[str], arguments: st.SearchStrategy[list[Node]]
    ) -> st.SearchStrategy[Node]:
        return st.tuples(st.just("call"), st.sampled_from(names), arguments)

    return st.one_of(
        st.tuples(st.sampled_from(list(_LOOSE)), inner, inner),
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("minus"), inner),
        st.tuples(st.just("like"), inner, _PATTERNS, st.booleans()),
        st.tuples(st.just("in"), inner, several, st.booleans()),
        call(functions, st.lists(inner, min_size=1, max_size=1)),
        call(["LEFT", "RIGHT"], st.lists(inner, min_size=2, max_size=2)),
        call(["SUBSTRING"], st.lists(inner, min_size=2, max_size=3)),
        call(["CONCAT_WS", "CONCAT"], several),
    )


def expressions(
    names: Sequence[str], texts: Sequence[str], leaves_max: int = 8
) -> st.SearchStrategy[Expression]:
    """Filter expressions of all dialects, none with a fault."""
    filled = [text for text in texts if text]
    comparisons = st.integers(1, 4).flatmap(
        lambda most: st.dictionaries(
            st.sampled_from(names), st.sampled_from(filled), min_size=1, max_size=most
        )
    )
    compared = [st.fixed_dictionaries({how: comparisons}) for how in ("exact", "prefix", "suffix")]
    sql = st.fixed_dictionaries({"sql": nodes(names, texts)})

    def larger(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        several = st.lists(inner, min_size=1, max_size=4)
        return st.one_of(
            st.fixed_dictionaries({"all": several}),
            st.fixed_dictionaries({"any": several}),
            st.fixed_dictionaries({"not": inner}),
        )

    return st.recursive(st.one_of(*compared, sql), larger, max_leaves=leaves_max)


def as_json(expression: Expression) -> dict[str, Any]:
    """*expression* as a client sends it."""
    ((dialect, value),) = expression.items()
    if dialect == "sql":
        return {"sql": written(value)}
    if dialect == "not":
        return {"not": as_json(value)}
    if dialect in {"all", "any"}:
        return {dialect: [as_json(inner) for inner in value]}
    return dict(expression)


def written(  # noqa: C901 - a table of rules
    node: Node, case: Callable[[str], str] = str, *, spare: bool = False, least: int = 0
) -> str:
    """The text of *node*.

    Args:
        node: The expression.
        case: What becomes of keywords and names of functions.
        spare: With parentheses where none is needed, and the other quotes.
        least: Operators that bind less tightly are put into parentheses.
    """

    def sub(inner: Node, least: int = 0) -> str:
        return written(inner, case, spare=spare, least=least)

    level, text = _ATOM, ""
    match node:
        case ("literal", str(value)):
            quote = "'" if spare else '"'
            text = quote + value.replace(quote, "\\" + quote) + quote
        case ("literal", bool(value)):
            text = case(str(value))
        case ("literal", value) | ("attribute", value):
            text = str(value)
        case ("exists", name):
            text = f"{case('EXISTS')} {name}"
        case ("not", x):
            level, text = _UNARY, f"{case('NOT')} {sub(x, _UNARY)}"
        case ("minus", x):
            level, text = _UNARY, f"- ({sub(x)})"
        case ("like", x, pattern, negated):
            quoted = "'" + pattern.replace("'", "\\'") + "'"
            negation = case(" NOT") * negated
            level, text = _POSTFIX, f"{sub(x, _POSTFIX)}{negation}{case(' LIKE')}\n{quoted}"
        case ("in", x, elements, negated):
            listed, negation = ",".join(map(sub, elements)), case(" NOT") * negated
            level, text = _POSTFIX, f"{sub(x, _POSTFIX)}{negation}{case(' IN')}({listed})"
        case ("call", name, arguments):
            text = f"{case(name)}({', '.join(map(sub, arguments))})"
        case (operator, x, y):
            level = _LOOSE[operator]
            text = f"{sub(x, level)} {case(operator)} {sub(y, level + 1)}"
    return f"({text})" if level < least or (spare and level < _ATOM) else text
