"""Static upper bounds of the cost of an evaluation: the language has no loops.

Steps count operations, whatever the texts. Most take constant time, but a searching LIKE, LOWER and
the like take time by the length of the text; for expressions with many of these, a second bound
limits the length of an event's attributes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Final

from distributary.cesql import _tree as tree
from distributary.cesql._compile import Test
from distributary.cesql._errors import CesqlSyntaxError
from distributary.cesql._functions import RESULT_CHARS_MAX
from distributary.cesql._interpret import Attributes
from distributary.cesql._types import Type, to_string

EXPRESSION_STEPS_MAX: Final = 1_000
"""Most steps of an evaluation, in simple comparisons: 0.1 to 0.5 ms. Literals in an IN cost
nothing: they become a set."""

EVALUATION_CHARS_MAX: Final = 1_000_000
"""Most characters that one evaluation may search: about 5 ms at worst. An expression that could
exceed this for attributes of 65,536 characters (more than fifteen searches) fails for events with
too long attributes; with the maximum of searches, too long is more than some 1,000 characters."""

_STRING_CALL_STEPS: Final = 4
"""A function that builds a text costs more than a comparison."""
_CASED: Final = frozenset({"LOWER", "UPPER"})
_CASES: Final = 3
"""A letter outside ASCII can have up to three in the other case."""
_SLOW: Final = _CASED | {"TRIM"}
_SLOWER: Final = 3
"""Cost factor of functions that process each character."""
_NO_LONGER: Final = frozenset({"CONCAT", "LEFT", "RIGHT", "STRING", "SUBSTRING", "TRIM"})
"""Functions whose result is no longer than their arguments together. A user-defined function may
return anything; its running time is the user's responsibility."""
_CHARS_GRAIN: Final = 256
"""Precision of computed lengths: each takes a walk over the tree."""
_NUMBER_CHARS: Final = 11
"""The longest text of an Integer or a Boolean."""


def steps_of(root: tree.Node, text: str) -> int:
    """Returns the maximum cost of one evaluation, in simple comparisons.

    Raises:
        CesqlSyntaxError: More than ``EXPRESSION_STEPS_MAX``.
    """
    steps = 0
    for node in tree.walk(root):
        steps += _steps(node)
        if steps > EXPRESSION_STEPS_MAX:
            message = (
                f"an expression costs at most {EXPRESSION_STEPS_MAX} comparisons; here it is more"
            )
            raise CesqlSyntaxError(message, text, node.offset)
    return max(1, steps)


def chars_max_of(root: tree.Node, text: str) -> int | None:
    """Returns the longest attribute that *root* may read; None: any that an event can have.

    Raises:
        CesqlSyntaxError: Its literals alone exceed the limit.
    """

    def cost(chars: int) -> int:
        return _searched(root, chars)[0]

    if cost(RESULT_CHARS_MAX) <= EVALUATION_CHARS_MAX:
        return None
    lengths = range(0, RESULT_CHARS_MAX, _CHARS_GRAIN)
    chars = bisect_right(lengths, EVALUATION_CHARS_MAX, key=cost) - 1
    if chars < 0:
        message = (
            f"an evaluation looks at at most {EVALUATION_CHARS_MAX} characters; here it is more"
        )
        raise CesqlSyntaxError(message, text, root.offset)
    return lengths[chars]


def longer(attributes: Attributes, names: Iterable[str], chars: int) -> str | None:
    """Returns the first of *names* whose text has more than *chars* characters."""
    for name in names:
        value = attributes.get(name)
        if isinstance(value, str) and len(value) > chars:
            return name
    return None


def within(test: Test, names: frozenset[str], chars: int) -> Test:
    """Wraps *test*: False where one of *names* has more than *chars* characters."""
    return lambda attributes: longer(attributes, names, chars) is None and test(attributes)


def _steps(node: tree.Node) -> int:
    """Returns the cost of *node* without its operands."""
    if isinstance(node, tree.Literal | tree.Attribute):
        return 0
    if isinstance(node, tree.Logic):
        return len(node.operands) - 1
    if isinstance(node, tree.Like):
        return node.pattern.steps
    if isinstance(node, tree.In):
        return 1 + sum(not isinstance(element, tree.Literal) for element in node.elements)
    if isinstance(node, tree.Call):
        texts = tree.static_type(node) is Type.STRING
        return 1 + len(node.arguments) + (_STRING_CALL_STEPS if texts else 0)
    return 1


def _searched(node: tree.Node, chars: int) -> tuple[int, int]:
    """Returns the characters searched for attributes of *chars*, and *node*'s longest text."""
    if isinstance(node, tree.Attribute):
        return 0, max(chars, _NUMBER_CHARS)
    if isinstance(node, tree.Literal):
        return 0, len(to_string(node.value))
    if isinstance(node, tree.In):
        # literals are a set, and there may be thousands
        others = [one for one in node.elements if not isinstance(one, tree.Literal)]
        return _joined([node.operand, *others], chars, weight=len(others)), _NUMBER_CHARS
    if isinstance(node, tree.Call):
        return _called(node, chars)
    return _joined(tree.children(node), chars, weight=_weight(node)), _NUMBER_CHARS


def _joined(operands: Sequence[tree.Node], chars: int, *, weight: int) -> int:
    """Returns the cost of the operands, and of *weight* searches in the longest of their texts."""
    below = [_searched(operand, chars) for operand in operands]
    return sum(cost for cost, _ in below) + weight * max((length for _, length in below), default=0)


def _weight(node: tree.Node) -> int:
    if isinstance(node, tree.Like):
        return node.pattern.searches
    if isinstance(node, tree.Unary):
        return int(node.operator == "-")
    if not isinstance(node, tree.Binary) or node.operator == "XOR":
        return 0
    # equality with a literal looks at no more than the literal's characters
    return int(not (isinstance(node.right, tree.Literal) and isinstance(node.right.value, str)))


def _called(node: tree.Call, chars: int) -> tuple[int, int]:
    below = [_searched(argument, chars) for argument in node.arguments]
    length = sum(length for _, length in below)
    name = node.name.upper()
    cost = sum(cost for cost, _ in below) + (_SLOWER if name in _SLOW else 1) * length
    if tree.static_type(node) is not Type.STRING:
        return cost, _NUMBER_CHARS
    if name in _CASED:
        length *= _CASES
    elif name == "CONCAT_WS":
        # the delimiter comes more than once
        length *= len(below)
    elif name not in _NO_LONGER:
        length = RESULT_CHARS_MAX
    return cost, min(length, RESULT_CHARS_MAX)
