"""A parsed expression, and the function that parses it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from distributary.cesql import _tree as tree
from distributary.cesql._builtin import BUILT_IN
from distributary.cesql._compile import Test, compiled, conjuncts
from distributary.cesql._cost import chars_max_of, longer, steps_of, within
from distributary.cesql._cover import Necessary, necessary, reads
from distributary.cesql._errors import CesqlSyntaxError, ErrorKind, EvaluationError
from distributary.cesql._functions import Functions
from distributary.cesql._interpret import Attributes, Result, deciding, evaluate
from distributary.cesql._types import ZERO, Type

EXPRESSION_CHARS_MAX: Final = 65_536
"""The longest text of an expression: some thousand elements of an IN. ``EXPRESSION_TOKENS_MAX``
bounds the time of parsing."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON and Python allow lone surrogates; events and UTF-8 do not."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A parsed CESQL expression. Immutable; made by ``parse``.

    Attributes:
        text: Source text.
        steps: Maximum cost of an evaluation, in simple comparisons.
        tokens: Number of words, signs and literals: the cost of parsing.
        test: Call it with an event's attributes: True where the expression is TRUE without an
            error, else False. The fast path; pure, never raises. (A closure in a slot, which does
            not reference the expression.)
    """

    text: str
    steps: int
    tokens: int
    test: Test
    _root: tree.Node = field(repr=False)
    _chars_max: int | None = field(repr=False)

    def evaluate(self, attributes: Attributes) -> Result:
        """Returns the value for *attributes*, and the first error. Pure, never raises."""
        name = self._beyond(attributes)
        if name is None:
            return evaluate(self._root, attributes)
        message = (
            f"{name} is longer than {self._chars_max} characters, "
            "which this expression would take too long for"
        )
        error = EvaluationError(ErrorKind.GENERIC, message, 0)
        return Result(ZERO[self.type], error)

    def _beyond(self, attributes: Attributes) -> str | None:
        if self._chars_max is None:
            return None
        return longer(attributes, self.reads, self._chars_max)

    def deciding(self, attributes: Attributes) -> str:
        """Returns the part of the text that decides the result.

        That is the operand that short-circuits an AND or OR, at any depth; else the whole text.
        """
        if self._beyond(attributes) is not None:
            return self.text
        start, stop = deciding(self._root, attributes).span
        return self.text[start:stop]

    @property
    def type(self) -> Type:
        """The static type; ``ANY`` where it depends on the event."""
        return tree.static_type(self._root)

    @property
    def reads(self) -> frozenset[str]:
        """Names of the attributes that it reads."""
        return reads(self._root)

    @property
    def necessary(self) -> Necessary:
        """Necessary conditions of TRUE, for indexes."""
        found = necessary(self._root)
        return found if self._chars_max is None else found._replace(decided=False)

    def conjuncts(self) -> tuple[tuple[Test, frozenset[str], Necessary], ...]:
        """Returns the operands of an AND: test, attributes read, necessary conditions; else none.

        The expression is TRUE, without an error, where each of them is, so they can be tested
        separately. (None where long attributes are an error, which concerns the whole.)
        """
        if self._chars_max is not None:
            return ()
        return tuple(
            (test, reads(operand), necessary(operand)) for test, operand in conjuncts(self._root)
        )

    def missing_functions(self) -> Iterator[CesqlSyntaxError]:
        """Yields an error with its position for each call of an undefined function.

        Such an expression is valid, and the call an error of every evaluation that reaches it
        (3.5); a caller may reject it early (3.3).
        """
        for node in tree.walk(self._root):
            if isinstance(node, tree.Call) and node.function is None:
                count = len(node.arguments)
                message = f"there is no function {node.name} of {count} arguments"
                yield CesqlSyntaxError(message, self.text, node.offset)


def parse(text: str, functions: Functions = BUILT_IN) -> Expression:
    """Parses *text*.

    The first call imports the parser (about 0.1 s), and so does the first with other *functions*.

    Args:
        text: CESQL, at most ``EXPRESSION_CHARS_MAX`` characters.
        functions: Functions it can call; ``BUILT_IN.having(...)`` adds user-defined ones.

    Raises:
        CesqlSyntaxError: The text is no expression, or exceeds a limit (length, tokens, depth,
            cost). Has the position; no other exception is raised.

    Source:
        CESQL 1.0, section 2.
    """
    if len(text) > EXPRESSION_CHARS_MAX:
        message = f"an expression has at most {EXPRESSION_CHARS_MAX} characters"
        raise CesqlSyntaxError(message, text, EXPRESSION_CHARS_MAX)
    surrogate = _SURROGATE.search(text)
    if surrogate is not None:
        message = "a surrogate stands alone: not a Unicode text"
        raise CesqlSyntaxError(message, text, surrogate.start())
    # lark costs 50 ms and 10 MB: imported with the first expression
    from distributary.cesql._grammar import parse_tree  # noqa: PLC0415 - see above

    root, tokens = parse_tree(text, functions)
    steps, chars_max = steps_of(root, text), chars_max_of(root, text)
    test = compiled(root)
    if chars_max is not None:
        test = within(test, reads(root), chars_max)
    return Expression(text, steps, tokens, test, root, chars_max)
