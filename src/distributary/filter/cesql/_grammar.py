"""From text to tree: the grammar, lark's parser for it, and the errors that it reports.

Imported by ``parse`` when the first expression comes: lark costs 50 ms to import, and building
the parser 30 ms.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from sys import intern
from typing import Any, Final, TypedDict, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from distributary.filter.cesql import _tree as tree
from distributary.filter.cesql._errors import CesqlSyntaxError
from distributary.filter.cesql._functions import Functions
from distributary.filter.cesql._like import compile_pattern
from distributary.filter.cesql._types import INTEGER_MAX, INTEGER_MIN, Value, shown

_PARSERS_KEPT: Final = 4
"""One for each set of functions in use; a program has one or two."""

_TOLD: Final = {
    "IDENTIFIER": "an attribute name",
    "FUNCTION": "a function",
    "STRING": "a string",
    "INTEGER": "an integer",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "COMPARE": "an operator",
    "LIKE": "LIKE",
    "IN": "IN",
    "$END": "the end",
}
"""How a message names what may stand in a place; the other terminals go without saying."""


_WORD: Final = re.compile(r"\w+|.", re.DOTALL)
"""What a message shows where no token begins."""


def parse_tree(text: str, functions: Functions) -> tree.Node:
    """The tree of *text*.

    Raises:
        CesqlSyntaxError: It is no expression, nests more than ``EXPRESSION_DEPTH_MAX`` deep, or
            holds an integer beyond 32 bits.
    """
    try:
        # with a transformer the parser answers what its callbacks made
        return cast("tree.Node", _parser(functions).parse(text))
    except _RefusedError as refused:
        raise CesqlSyntaxError(refused.message, text, refused.offset) from None
    except UnexpectedInput as unexpected:
        raise _readable(unexpected, text) from None


@lru_cache(maxsize=_PARSERS_KEPT)
def _parser(functions: Functions) -> Lark:
    grammar = files("distributary.filter.cesql").joinpath("grammar.lark")
    return Lark(
        grammar.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        transformer=_Builder(functions),
    )


def _readable(unexpected: UnexpectedInput, text: str) -> CesqlSyntaxError:
    if isinstance(unexpected, UnexpectedToken):
        token: Token = unexpected.token
        expected = _told(unexpected.accepts or unexpected.expected)
        if token.type == "$END":
            return CesqlSyntaxError(f"expected {expected}, found the end", text, len(text))
        message = f"expected {expected}, found {shown(str(token))}"
        return CesqlSyntaxError(message, text, _start(token))
    assert isinstance(unexpected, UnexpectedCharacters)
    offset = unexpected.pos_in_stream or 0
    if text[offset] in "'\"":
        message = f"the string that begins here has no closing {text[offset]}"
        return CesqlSyntaxError(message, text, offset)
    word = _WORD.match(text, offset)
    message = f"expected {_told(unexpected.allowed or ())}, found {shown(word[0] if word else '')}"
    return CesqlSyntaxError(message, text, offset)


def _told(terminals: Iterable[str]) -> str:
    known = set(terminals)
    names = [name for terminal, name in _TOLD.items() if terminal in known] or ["something else"]
    return ", ".join(names[:-1]) + (" or " if names[:-1] else "") + names[-1]


class _RefusedError(Exception):
    """A match of the grammar that is no expression nevertheless."""

    def __init__(self, message: str, offset: int) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)


class _Builder(Transformer[Token, tree.Node]):
    """Makes the node of each match of a rule, from the bottom up; called by the parser."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._functions = functions

    def binary(self, parts: Sequence[Any]) -> tree.Node:
        left, token, right = parts
        place = _place(token, (left.span[0], right.span[1]))
        operator = str(token).upper()
        if operator not in {"AND", "OR"}:
            name = "!=" if operator == "<>" else operator
            return tree.Binary(name, left, right, **place, depth=_depth((left, right), token))
        operands = (left, right)
        if isinstance(left, tree.Logic) and left.operator == operator:
            # the same from left to right, and no level deeper
            operands = (*left.operands, right)
        return tree.Logic(operator, operands, **place, depth=_depth(operands, token))

    def unary(self, parts: Sequence[Any]) -> tree.Node:
        token, operand = parts
        place = _place(token, (_start(token), operand.span[1]))
        return tree.Unary(str(token).upper(), operand, **place, depth=_depth((operand,), token))

    def like(self, parts: Sequence[Any]) -> tree.Node:
        operand, *words, literal = parts
        pattern = compile_pattern(_unquoted(literal))
        place = _place(words[0], (operand.span[0], _stop(literal)))
        return tree.Like(
            operand, pattern, len(words) == 2, **place, depth=_depth((operand,), literal)
        )

    def in_set(self, parts: Sequence[Any]) -> tree.Node:
        operand, first, *others, closing = parts
        negated = isinstance(others[0], Token)
        elements = tuple(others[1:] if negated else others)
        place = _place(first, (operand.span[0], _stop(closing)))
        depth = _depth((operand, *elements), first)
        return tree.In(operand, elements, negated, **place, depth=depth)

    def exists(self, parts: Sequence[Any]) -> tree.Node:
        keyword, name = parts
        place = _place(keyword, (_start(keyword), _stop(name)))
        return tree.Exists(intern(name.lower()), **place, depth=1)

    def call(self, parts: Sequence[Any]) -> tree.Node:
        token, *arguments, closing = parts
        found = self._functions.find(str(token), len(arguments))
        place = _place(token, (_start(token), _stop(closing)))
        depth = _depth(arguments, token)
        return tree.Call(str(token), found, tuple(arguments), **place, depth=depth)

    def parentheses(self, parts: Sequence[Any]) -> tree.Node:
        opening, inner, closing = parts
        span = (_start(opening), _stop(closing))
        deeper: tree.Node = replace(inner, span=span, depth=_depth((inner,), opening))
        return deeper

    def string(self, parts: Sequence[Any]) -> tree.Node:
        return _literal(parts[0], _unquoted(parts[0]))

    def integer(self, parts: Sequence[Any]) -> tree.Node:
        token = parts[0]
        # ten digits after the zeros hold every integer of 32 bits
        number = int(token) if len(token.lstrip("+-0")) <= 10 else INTEGER_MAX + 1
        if not INTEGER_MIN <= number <= INTEGER_MAX:
            message = f"an integer has 32 bits: {INTEGER_MIN} to {INTEGER_MAX}"
            raise _RefusedError(message, _start(token))
        return _literal(token, number)

    def boolean(self, parts: Sequence[Any]) -> tree.Node:
        return _literal(parts[0], parts[0].lower() == "true")

    def attribute(self, parts: Sequence[Any]) -> tree.Node:
        token = parts[0]
        span = (_start(token), _stop(token))
        return tree.Attribute(intern(token.lower()), **_place(token, span), depth=1)


class _PlaceFields(TypedDict):
    offset: int
    span: tuple[int, int]


def _place(token: Token, span: tuple[int, int]) -> _PlaceFields:
    return {"offset": _start(token), "span": span}


def _literal(token: Token, value: Value) -> tree.Literal:
    return tree.Literal(value, **_place(token, (_start(token), _stop(token))), depth=1)


def _start(token: Token) -> int:
    return token.start_pos or 0


def _stop(token: Token) -> int:
    return token.end_pos or 0


def _depth(operands: Sequence[tree.Node], token: Token) -> int:
    depth = 1 + max((operand.depth for operand in operands), default=0)
    if depth > tree.EXPRESSION_DEPTH_MAX:
        raise _RefusedError(
            f"expressions nest at most {tree.EXPRESSION_DEPTH_MAX} deep", _start(token)
        )
    return depth


def _unquoted(token: Token) -> str:
    """The text of a string literal: its own quote can be escaped, nothing else (2.2)."""
    quote = token[0]
    return token[1:-1].replace("\\" + quote, quote)
