"""The syntax tree, which the parser builds, and evaluation, compilation and covers read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from distributary.cesql._arithmetic import ARITHMETIC
from distributary.cesql._functions import Function
from distributary.cesql._like import Pattern
from distributary.cesql._types import Type, Value, type_of

EXPRESSION_DEPTH_MAX: Final = 50
"""Deepest nesting of operations, calls and parentheses in a CESQL expression. People nest three or
four deep; an evaluation needs a few Python frames a level, far below the interpreter's limit. A
chain of ANDs (or of ORs) is one level."""

EXPRESSION_TOKENS_MAX: Final = 4_096
"""Words, signs and literals of an expression: ten times what its steps allow in practice, and an IN
of thousands. Bounds the time of parsing, which clients can cause: some 20 ms, 40 ms on a busy
machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """The common fields of nodes.

    Attributes:
        offset: Position of its errors (its operator, where it has one), from 0.
        span: Its part of the text: first character, and the one after the last.
        depth: Depth of its tree, itself included; a pair of parentheses counts one.
    """

    offset: int
    span: tuple[int, int]
    depth: int


@dataclass(frozen=True, slots=True)
class Literal(_Place):
    """A literal value."""

    value: Value


@dataclass(frozen=True, slots=True)
class Attribute(_Place):
    """The value of an attribute; *name* in lower case."""

    name: str


@dataclass(frozen=True, slots=True)
class Exists(_Place):
    """Whether an attribute exists."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(_Place):
    """``NOT`` or ``-``."""

    operator: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Binary(_Place):
    """Arithmetic, comparison (``<>`` becomes ``!=``) or ``XOR``."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Logic(_Place):
    """``AND`` or ``OR`` of two or more operands, evaluated from left to right."""

    operator: str
    operands: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Like(_Place):
    """``LIKE`` and ``NOT LIKE``."""

    operand: "Node"
    pattern: Pattern
    negated: bool


@dataclass(frozen=True, slots=True)
class In(_Place):
    """``IN`` and ``NOT IN``; at least one element."""

    operand: "Node"
    elements: "tuple[Node, ...]"
    negated: bool


@dataclass(frozen=True, slots=True)
class Call(_Place):
    """A function invocation; *function* is None where name and arity are undefined."""

    name: str
    function: Function | None
    arguments: "tuple[Node, ...]"


Node: TypeAlias = Literal | Attribute | Exists | Unary | Binary | Logic | Like | In | Call


def children(node: Node) -> Sequence[Node]:
    """Returns the operands of *node*, from left to right."""
    if isinstance(node, Unary | Like):
        return (node.operand,)
    if isinstance(node, Binary):
        return (node.left, node.right)
    if isinstance(node, Logic):
        return node.operands
    if isinstance(node, In):
        return (node.operand, *node.elements)
    return node.arguments if isinstance(node, Call) else ()


def walk(node: Node) -> Iterator[Node]:
    """Yields *node* and its descendants. Recurses by the depth of the tree, which is bounded."""
    yield node
    for child in children(node):
        yield from walk(child)


def static_type(node: Node) -> Type:
    """Returns the static type of *node*; ``ANY`` where it depends on the event."""
    if isinstance(node, Literal):
        return type_of(node.value)
    if isinstance(node, Attribute):
        return Type.ANY
    if isinstance(node, Unary):
        return Type.INTEGER if node.operator == "-" else Type.BOOLEAN
    if isinstance(node, Binary) and node.operator in ARITHMETIC:
        return Type.INTEGER
    if isinstance(node, Call):
        return Type.ANY if node.function is None else node.function.returns
    return Type.BOOLEAN
