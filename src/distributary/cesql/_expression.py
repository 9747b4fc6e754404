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
"""The longest text of an expression: some thousand elements of an IN. How long parsing one takes is
bounded by ``EXPRESSION_TOKENS_MAX``."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
"""JSON and Python let one stand alone; no event can carry it, and UTF-8 cannot."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A CESQL expression, parsed. Immutable; made by ``parse``.

    Attributes:
        text: As it was written.
        steps: What one evaluation costs at most, in simple comparisons.
        tokens: Of how many words, signs and literals the text is made: what parsing it cost.
        test: Call it with an event's attributes: True where the expression is TRUE and there is
            no error, else False. The fast path; pure, never raises. (A closure in a slot, which
            does not hold the expression itself.)
    """

    text: str
    steps: int
    tokens: int
    test: Test
    _root: tree.Node = field(repr=False)
    _chars_max: int | None = field(repr=False)

    def evaluate(self, attributes: Attributes) -> Result:
        """The value for an event with *attributes*, and the first error. Pure, never raises."""
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
        """The part of the text that makes the result what it is.

        Of an AND or OR, at any depth, the operand that ended it; else the whole expression.
        """
        if self._beyond(attributes) is not None:
            return self.text
        start, stop = deciding(self._root, attributes).span
        return self.text[start:stop]

    @property
    def type(self) -> Type:
        """The type of every value; ``ANY`` where the event decides."""
        return tree.static_type(self._root)

    @property
    def reads(self) -> frozenset[str]:
        """Names of the attributes that it looks at."""
        return reads(self._root)

    @property
    def necessary(self) -> Necessary:
        """What must hold where it is TRUE: for indexes."""
        found = necessary(self._root)
        return found if self._chars_max is None else found._replace(decided=False)

    def conjuncts(self) -> tuple[tuple[Test, frozenset[str], Necessary], ...]:
        """Of an AND the operands: how to test, what each looks at, what must hold; else none.

        It is TRUE, without an error, where each of them is: so they can be tested apart. (None
        where long attributes are an error: that is decided for the whole.)
        """
        if self._chars_max is not None:
            return ()
        return tuple(
            (test, reads(operand), necessary(operand)) for test, operand in conjuncts(self._root)
        )

    def missing_functions(self) -> Iterator[CesqlSyntaxError]:
        """Each call of a function that there is not, with its place.

        Such an expression is valid, and the call an error of every evaluation that reaches it
        (3.5); whoever accepts expressions may refuse it early (3.3).
        """
        for node in tree.walk(self._root):
            if isinstance(node, tree.Call) and node.function is None:
                count = len(node.arguments)
                message = f"there is no function {node.name} of {count} arguments"
                yield CesqlSyntaxError(message, self.text, node.offset)


def parse(text: str, functions: Functions = BUILT_IN) -> Expression:
    """The expression that *text* describes.

    The first call imports the parser (about 0.1 s), and so does the first with other *functions*.

    Args:
        text: CESQL, at most ``EXPRESSION_CHARS_MAX`` characters.
        functions: What it can call; ``BUILT_IN.having(...)`` adds one's own.

    Raises:
        CesqlSyntaxError: The only error, whatever the text: it is no expression, or it is beyond
            a limit (length, tokens, depth, cost). The position says where.

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
    # lark costs 50 ms and 10 MB, which no program pays that never meets an expression
    from distributary.cesql._grammar import parse_tree  # noqa: PLC0415 - see above

    root, tokens = parse_tree(text, functions)
    steps, chars_max = steps_of(root, text), chars_max_of(root, text)
    test = compiled(root)
    if chars_max is not None:
        test = within(test, reads(root), chars_max)
    return Expression(text, steps, tokens, test, root, chars_max)
