"""Compiles a tree to closures: the fast path of ``Expression.test``.

A closure returns the value of its part, or None for any error: a filter needs no details, and a
missing attribute is None already. ``_truth`` is for filters, and ANDs directly below them, where an
error is the same as FALSE.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from distributary.cesql import _tree as tree
from distributary.cesql._arithmetic import ARITHMETIC, ORDER, negative
from distributary.cesql._equality import equality, equals_text, membership
from distributary.cesql._functions import CallFailure, Function
from distributary.cesql._interpret import Attributes
from distributary.cesql._types import (
    Type,
    Value,
    to_boolean,
    to_integer,
    to_string,
    type_of,
)

Test: TypeAlias = Callable[[Attributes], bool]
"""Whether an expression is TRUE, without an error."""

_Fast: TypeAlias = Callable[[Attributes], Value | None]
_Truth: TypeAlias = Callable[[Attributes], bool | None]
_Number: TypeAlias = Callable[[Attributes], int | None]
_Text: TypeAlias = Callable[[Attributes], str | None]


def compiled(root: tree.Node) -> Test:
    """Returns a test whether *root* is the Boolean TRUE (1.2), without an error."""
    if tree.static_type(root) is Type.BOOLEAN:
        return _truth(root)
    found = _value(root)
    return lambda attributes: found(attributes) is True


def conjuncts(root: tree.Node) -> tuple[tuple[Test, tree.Node], ...]:
    """Returns the operands of an AND, each with its test; none: *root* is no AND."""
    if isinstance(root, tree.Logic) and root.operator == "AND":
        return tuple((_truth(operand), operand) for operand in root.operands)
    return ()


def _truth(node: tree.Node) -> Test:
    """Returns a test whether *node*, cast to Boolean, is TRUE, without an error."""
    if isinstance(node, tree.Logic) and node.operator == "AND":
        return _all_true([_truth(operand) for operand in node.operands])
    if isinstance(node, tree.Logic):
        return _any_true(node.operands)
    if isinstance(node, tree.Exists):
        return _exists(node)
    if isinstance(node, tree.Like) and isinstance(node.operand, tree.Attribute):
        return _attribute_like(node, node.operand.name)
    if isinstance(node, tree.Binary) and node.operator == "=":
        return _equal(node)
    found = _boolean(node)
    return lambda attributes: found(attributes) is True


def _equal(node: tree.Binary) -> Test:
    left, right = node.left, node.right
    if isinstance(left, tree.Attribute) and isinstance(right, tree.Literal):
        text = right.value
        if isinstance(text, str):
            return equals_text(left.name, text)
    found = _binary(node)
    return lambda attributes: found(attributes) is True


def _all_true(tests: Sequence[Test]) -> Test:
    if len(tests) == 2:
        first, second = tests
        return lambda attributes: first(attributes) and second(attributes)
    if len(tests) == 3:
        first, second, third = tests
        return lambda attributes: first(attributes) and second(attributes) and third(attributes)
    each = tuple(tests)

    def test(attributes: Attributes) -> bool:
        for one in each:  # noqa: SIM110 - all() with a generator costs three times as much
            if not one(attributes):
                return False
        return True

    return test


def _any_true(operands: Sequence[tree.Node]) -> Test:
    """OR: an error before the first TRUE one is an error of the whole."""
    before = tuple(_boolean(operand) for operand in operands[:-1])
    last = _truth(operands[-1])

    def test(attributes: Attributes) -> bool:
        for one in before:
            found = one(attributes)
            if found is not False:
                return found is True
        return last(attributes)

    return test


def _attribute_like(node: tree.Like, name: str) -> Test:
    matches, wanted = node.pattern.matches, not node.negated

    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        if isinstance(value, str):
            return matches(value) is wanted
        return value is not None and matches(to_string(value)) is wanted

    return test


def _value(node: tree.Node) -> _Fast:
    """Returns the closure of *node*: its value, or None for an error."""
    return _RULES[type(node)](node)


def _literal(node: tree.Literal) -> _Fast:
    value = node.value
    return lambda _attributes: value


def _attribute(node: tree.Attribute) -> _Fast:
    name = node.name
    return lambda attributes: attributes.get(name)


def _exists(node: tree.Exists) -> Test:
    name = node.name
    return lambda attributes: name in attributes


def _boolean(node: tree.Node) -> _Truth:
    return cast("_Truth", _cast(node, Type.BOOLEAN))


def _number(node: tree.Node) -> _Number:
    return cast("_Number", _cast(node, Type.INTEGER))


def _text(node: tree.Node) -> _Text:
    return cast("_Text", _cast(node, Type.STRING))


def _cast(node: tree.Node, target: Type) -> _Fast:
    """Returns the closure of *node*, cast to *target*; omits the cast for a known type."""
    found = _value(node)
    if target is Type.ANY or tree.static_type(node) is target:
        return found
    to_target = _CASTS[target]

    def value(attributes: Attributes) -> Value | None:
        one = found(attributes)
        return None if one is None else to_target(one)

    return value


_CASTS: Final[dict[Type, Callable[[Value], Value | None]]] = {
    Type.STRING: to_string,
    Type.INTEGER: to_integer,
    Type.BOOLEAN: to_boolean,
}


def _unary(node: tree.Unary) -> _Fast:
    return _not(node.operand) if node.operator == "NOT" else _negative(node.operand)


def _not(operand: tree.Node) -> _Truth:
    found = _value(operand)

    def value(attributes: Attributes) -> bool | None:
        one = found(attributes)
        if isinstance(one, str):
            one = to_boolean(one)
        # an Integer (which no cast saves here) and an error end alike
        return (not one) if isinstance(one, bool) else None

    return value


def _negative(operand: tree.Node) -> _Number:
    found = _number(operand)

    def value(attributes: Attributes) -> int | None:
        one = found(attributes)
        return None if one is None else negative(one)

    return value


def _binary(node: tree.Binary) -> _Fast:
    if node.operator in {"=", "!="}:
        return equality(
            _value(node.left),
            _value(node.right),
            equal=node.operator == "=",
        )
    if node.operator == "XOR":
        return _xor(_boolean(node.left), _boolean(node.right))
    left, right = _number(node.left), _number(node.right)
    operation = ORDER.get(node.operator) or ARITHMETIC[node.operator]

    def value(attributes: Attributes) -> Value | None:
        x = left(attributes)
        y = right(attributes)
        return None if x is None or y is None else operation(x, y)

    return value


def _xor(left: _Truth, right: _Truth) -> _Truth:
    def value(attributes: Attributes) -> bool | None:
        x = left(attributes)
        y = right(attributes)
        return None if x is None or y is None else x is not y

    return value


def _logic(node: tree.Logic) -> _Truth:
    operands = tuple(_boolean(operand) for operand in node.operands)
    decides = node.operator == "OR"

    def value(attributes: Attributes) -> bool | None:
        for operand in operands:
            one = operand(attributes)
            if one is None or one is decides:
                return one
        return not decides

    return value


def _like(node: tree.Like) -> _Truth:
    found, matches, negated = _text(node.operand), node.pattern.matches, node.negated

    def value(attributes: Attributes) -> bool | None:
        text = found(attributes)
        return None if text is None else matches(text) is not negated

    return value


def _in(node: tree.In) -> _Truth:
    literals = [element.value for element in node.elements if isinstance(element, tree.Literal)]
    found, negated = _value(node.operand), node.negated
    if len(literals) == len(node.elements):
        return membership(found, literals, negated=negated)
    elements = tuple(_value(element) for element in node.elements)

    def value(attributes: Attributes) -> bool | None:
        wanted = found(attributes)
        if wanted is None:
            return None
        to_wanted = _CASTS[type_of(wanted)]
        for element in elements:
            one = element(attributes)
            done = None if one is None else to_wanted(one)
            if done is None:
                return None
            if done == wanted:
                return not negated
        return negated

    return value


def _call(node: tree.Call) -> _Fast:
    function = node.function
    if function is None:
        return lambda _attributes: None
    types = function.types(len(node.arguments))
    arguments = tuple(
        _cast(argument, target) for argument, target in zip(node.arguments, types, strict=True)
    )
    return _answer(function, arguments)


def _answer(function: Function, arguments: Sequence[_Fast]) -> _Fast:
    def value(attributes: Attributes) -> Value | None:
        values: list[Value] = []
        for argument in arguments:
            one = argument(attributes)
            if one is None:
                return None
            values.append(one)
        answer = function.answer(values)
        return None if isinstance(answer, CallFailure) else answer

    return value


_RULES: Final[Mapping[type, Callable[[Any], _Fast]]] = {
    tree.Literal: _literal,
    tree.Attribute: _attribute,
    tree.Exists: _exists,
    tree.Unary: _unary,
    tree.Binary: _binary,
    tree.Logic: _logic,
    tree.Like: _like,
    tree.In: _in,
    tree.Call: _call,
}
