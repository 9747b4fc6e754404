"""The syntax tree: what the parser makes, and what evaluation, compilation and covers read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from distributary.cesql._arithmetic import ARITHMETIC
from distributary.cesql._functions import Function
from distributary.cesql._like import Pattern
from distributary.cesql._types import Type, Value, type_of

EXPRESSION_DEPTH_MAX: Final = 50
"""How deep operations, calls and parentheses of a CESQL expression may stand in one another. People
nest three or four deep; an evaluation takes a few Python frames a level, which stays far below the
interpreter's limit. AND after AND (and OR after OR) is one level, however many there are."""

EXPRESSION_TOKENS_MAX: Final = 4_096
"""Words, signs and literals of an expression: ten times what its steps allow people to write, and
an IN of thousands. Parsing so many takes some 20 ms, 40 ms on a busy machine; whoever sends
expressions makes the server parse them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """What every node has.

    Attributes:
        offset: Where its errors are reported (its operator, where it has one), from 0.
        span: What of the text it is made of: first character, and the one after the last.
        depth: How deep the tree below it is, itself included; a pair of parentheses counts one.
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
    """Whether an attribute is there."""

    name: str


@dataclass(frozen=True, slots=True)
class Unary(_Place):
    """``NOT`` or ``-``."""

    operator: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Binary(_Place):
    """Arithmetic, comparison (``<>`` stands as ``!=``) or ``XOR``."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Logic(_Place):
    """``AND`` or ``OR`` of two or more operands, decided from left to right."""

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
    """A function invocation; *function* is None where there is none of that name and arity."""

    name: str
    function: Function | None
    arguments: "tuple[Node, ...]"


Node: TypeAlias = Literal | Attribute | Exists | Unary | Binary | Logic | Like | In | Call


def children(node: Node) -> Sequence[Node]:
    """The operands of *node*, from left to right."""
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
    """*node* and everything below it. Recurses as deep as the tree is, which is bounded."""
    yield node
    for child in children(node):
        yield from walk(child)


def static_type(node: Node) -> Type:
    """The type that *node* always has; ``ANY`` where the event decides."""
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
