"""The tree-walking interpreter: value and first error of every part, by the specification.

Implements ``Expression.evaluate``, and is the oracle of the compiled closures. The first part that
fails, from left to right, ends its operation with the zero value of that operation's type ("fail
fast", 4.1); the definition of an operator or function gives the value of its own failure.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

from distributary.cesql import _tree as tree
from distributary.cesql._arithmetic import ARITHMETIC, ORDER, negative
from distributary.cesql._errors import ErrorKind, EvaluationError
from distributary.cesql._functions import CallFailure
from distributary.cesql._types import (
    ZERO,
    Type,
    Value,
    cast_to,
    shown,
    to_boolean,
    type_of,
)

Attributes = Mapping[str, Value]
"""The context attributes of one event."""


class Result(NamedTuple):
    """The result of an expression for one event.

    Attributes:
        value: A String, an Integer or a Boolean, even beside an error.
        error: The first error; None: there was none.
    """

    value: Value
    error: EvaluationError | None = None


class _FailedError(Exception):
    """The first error of an evaluation, as it propagates.

    Attributes:
        error: The error.
        value: Value of the failed operation.
        node: The failed operation.
    """

    def __init__(self, error: EvaluationError, value: Value, node: tree.Node) -> None:
        self.error = error
        self.value = value
        self.node = node
        super().__init__(error.message)


def evaluate(node: tree.Node, attributes: Attributes) -> Result:
    """Returns the value of *node* for *attributes*, and the first error. Never raises."""
    try:
        return Result(_value(node, attributes))
    except _FailedError as failed:
        if failed.node is node:
            return Result(failed.value, failed.error)
        return Result(ZERO[tree.static_type(node)], failed.error)


def deciding(node: tree.Node, attributes: Attributes) -> tree.Node:
    """Returns the smallest part that decides *node*: the operand that short-circuits it.

    *node* itself where no single operand does: all of an AND are TRUE, all of an OR are FALSE.
    """
    while isinstance(node, tree.Logic):
        decides = node.operator == "OR"
        for operand in node.operands:
            result = evaluate(operand, attributes)
            if result.error or to_boolean(result.value) in {decides, None}:
                break
        else:
            return node
        node = operand
    return node


def _value(node: tree.Node, attributes: Attributes) -> Value:
    return _RULES[type(node)](node, attributes)


def _failed(node: tree.Node, kind: ErrorKind, message: str, value: Value) -> _FailedError:
    return _FailedError(EvaluationError(kind, message, node.offset), value, node)


def _cast(value: Value, target: Type, node: tree.Node, zero: Value = False) -> Value:
    """Casts *value* to *target* for the operation *node*, whose value is *zero* on failure."""
    done = cast_to(value, target)
    if done is None:
        message = f"{shown(value)} is no {target}"
        raise _failed(node, ErrorKind.CAST, message, zero)
    return done


def _integer(value: Value, node: tree.Node) -> int:
    zero = ZERO[tree.static_type(node)]
    return cast("int", _cast(value, Type.INTEGER, node, zero))


def _literal(node: tree.Literal, _attributes: Attributes) -> Value:
    return node.value


def _attribute(node: tree.Attribute, attributes: Attributes) -> Value:
    if node.name not in attributes:
        message = f"the event has no attribute {node.name}"
        raise _failed(node, ErrorKind.MISSING_ATTRIBUTE, message, False)
    return attributes[node.name]


def _exists(node: tree.Exists, attributes: Attributes) -> Value:
    return node.name in attributes


def _unary(node: tree.Unary, attributes: Attributes) -> Value:
    value = _value(node.operand, attributes)
    if node.operator == "NOT":
        if type_of(value) is Type.INTEGER:
            # the test kit: NOT of an Integer is a cast error, and NOT of the zero value
            raise _failed(node, ErrorKind.CAST, f"{value} is no Boolean", True)
        return not _cast(value, Type.BOOLEAN, node, zero=True)
    number = negative(_integer(value, node))
    if number is None:
        raise _failed(node, ErrorKind.MATH, f"-({value}) does not fit in 32 bits", 0)
    return number


def _binary(node: tree.Binary, attributes: Attributes) -> Value:
    left, right = _value(node.left, attributes), _value(node.right, attributes)
    if node.operator == "XOR":
        return _cast(left, Type.BOOLEAN, node) is not _cast(right, Type.BOOLEAN, node)
    if node.operator in {"=", "!="}:
        # ambiguous: the type of the right operand chooses (3.7)
        equal = _cast(left, type_of(right), node) == right
        return equal is (node.operator == "=")
    x, y = _integer(left, node), _integer(right, node)
    if node.operator in ORDER:
        return ORDER[node.operator](x, y)
    number = ARITHMETIC[node.operator](x, y)
    if number is None:
        reason = "division by zero" if y == 0 else "does not fit in 32 bits"
        raise _failed(node, ErrorKind.MATH, f"{x} {node.operator} {y}: {reason}", 0)
    return number


def _logic(node: tree.Logic, attributes: Attributes) -> Value:
    decides = node.operator == "OR"
    for operand in node.operands:
        if _cast(_value(operand, attributes), Type.BOOLEAN, node) is decides:
            return decides
    return not decides


def _like(node: tree.Like, attributes: Attributes) -> Value:
    text = _cast(_value(node.operand, attributes), Type.STRING, node)
    return node.pattern.matches(cast("str", text)) is not node.negated


def _in(node: tree.In, attributes: Attributes) -> Value:
    value = _value(node.operand, attributes)
    for element in node.elements:
        if _cast(_value(element, attributes), type_of(value), node) == value:
            return not node.negated
    return node.negated


def _call(node: tree.Call, attributes: Attributes) -> Value:
    function = node.function
    if function is None:
        message = f"there is no function {node.name} of {len(node.arguments)} arguments"
        raise _failed(node, ErrorKind.MISSING_FUNCTION, message, False)
    values = [_value(argument, attributes) for argument in node.arguments]
    types = function.types(len(values))
    zero = ZERO[function.returns]
    arguments = [
        _cast(value, target, node, zero) for value, target in zip(values, types, strict=True)
    ]
    answer = function.answer(arguments)
    if isinstance(answer, CallFailure):
        raise _failed(node, answer.kind, answer.message, answer.value)
    return answer


_RULES: Final[Mapping[type, Callable[[Any, Attributes], Value]]] = {
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
