"""Parses text into a tree: the grammar, lark's parser of it, and readable syntax errors.

Imported with the first expression: importing lark costs 50 ms, and building the parser 30 ms.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.resources import files
from sys import intern
from typing import Any, Final, NamedTuple, TypedDict, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.parsers.lalr_interactive_parser import InteractiveParser

from distributary.cesql import _tree as tree
from distributary.cesql._errors import CesqlSyntaxError
from distributary.cesql._functions import Functions
from distributary.cesql._like import compile_pattern, pieces
from distributary.cesql._types import INTEGER_MAX, INTEGER_MIN, Value, shown, to_integer

_PARSERS_KEPT: Final = 4
"""Cached parsers, one for each set of functions; a program has one or two."""

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
"""Names of expected terminals in messages; the others are left out."""


_LITERAL: Final = re.compile(
    r"""[+-]?[0-9]++|[a-z]++|'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+\"""",
    re.IGNORECASE | re.ASCII | re.DOTALL,
)
"""One literal of the terminal ``LITERALS``, which has validated it."""

_WORD: Final = re.compile(r"\w+|.", re.DOTALL)
"""The word shown in a message where no token begins."""


class Parsed(NamedTuple):
    """A parsed text.

    Attributes:
        root: Its tree.
        tokens: Number of its words, signs and literals.
    """

    root: tree.Node
    tokens: int


def parse_tree(text: str, functions: Functions) -> Parsed:
    """Parses *text*.

    Raises:
        CesqlSyntaxError: It is no expression, has more than ``EXPRESSION_TOKENS_MAX`` tokens,
            nests more than ``EXPRESSION_DEPTH_MAX`` deep, or has an integer beyond 32 bits.
    """
    try:
        return _run(_parser(functions).parse_interactive(text))
    except _RefusedError as refused:
        raise CesqlSyntaxError(refused.message, text, refused.offset) from None
    except UnexpectedInput as unexpected:
        raise _readable(unexpected, text) from None


@lru_cache(maxsize=_PARSERS_KEPT)
def _parser(functions: Functions) -> Lark:
    grammar = files("distributary.cesql").joinpath("grammar.lark")
    return Lark(
        grammar.read_text(encoding="utf-8"),
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        transformer=_Builder(functions),
        # without ASCII, [a-z] in any case matches the Kelvin sign, the long s and the dotless i
        g_regex_flags=re.ASCII | re.IGNORECASE | re.DOTALL,
    )


def _run(parser: InteractiveParser) -> Parsed:
    """Feed tokens one by one, to abort early where there are too many."""
    count, last = 0, None
    try:
        for token in parser.iter_parse():
            count += _weight(token, last)
            last = token
            if count > tree.EXPRESSION_TOKENS_MAX:
                message = f"an expression has at most {tree.EXPRESSION_TOKENS_MAX} words and signs"
                raise _RefusedError(message, _start(token))
        # with a transformer the parser answers what its callbacks made
        root = parser.feed_eof(last)  # type: ignore[no-untyped-call]  # lark leaves it out
        return Parsed(cast("tree.Node", root), count)
    except UnexpectedToken as unexpected:
        # knows what it would have accepted there
        unexpected.interactive_parser = parser
        raise
    except UnexpectedCharacters as unexpected:
        # the lexer knows only what may follow in any place like this one
        unexpected.allowed = parser.accepts()  # type: ignore[no-untyped-call]  # as above
        raise


def _weight(token: Token, before: Token | None) -> int:
    """Returns how many tokens *token* counts as: a list and a pattern count as several."""
    if token.type == "LITERALS":
        return len(_LITERAL.findall(token))
    if before is not None and before.type == "LIKE":
        return len(pieces(token))
    return 1


def _readable(unexpected: UnexpectedInput, text: str) -> CesqlSyntaxError:
    if isinstance(unexpected, UnexpectedToken):
        token: Token = unexpected.token
        expected = _told(unexpected.accepts or unexpected.expected)
        if token.type == "$END":
            return CesqlSyntaxError(f"expected {expected}, found the end", text, len(text))
        found = "(" if token.type == "LITERALS" else str(token)
        message = f"expected {expected}, found {shown(found)}"
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
    """A text that matches the grammar and is no valid expression."""

    def __init__(self, message: str, offset: int) -> None:
        self.message = message
        self.offset = offset
        super().__init__(message)


class _Builder(Transformer[Token, tree.Node]):
    """Builds the node of each matched rule, bottom up; called by the parser."""

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
        if isinstance(left, tree.Logic) and left.operator == operator:
            # the same from left to right, and no level deeper
            depth = max(left.depth, _depth((right,), token))
            return tree.Logic(operator, (*left.operands, right), **place, depth=depth)
        depth = _depth((left, right), token)
        return tree.Logic(operator, (left, right), **place, depth=depth)

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

    def in_literals(self, parts: Sequence[Any]) -> tree.Node:
        operand, first, *_, listed = parts
        start = _start(listed)
        elements = tuple(
            _constant(found[0], start + found.start()) for found in _LITERAL.finditer(listed)
        )
        place = _place(first, (operand.span[0], _stop(listed)))
        depth = _depth((operand,), first)
        return tree.In(operand, elements, len(parts) == 4, **place, depth=depth)

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
        token = parts[0]
        return _constant(str(token), _start(token))

    integer = boolean = string

    def attribute(self, parts: Sequence[Any]) -> tree.Node:
        token = parts[0]
        span = (_start(token), _stop(token))
        return tree.Attribute(intern(token.lower()), **_place(token, span), depth=1)


class _PlaceFields(TypedDict):
    offset: int
    span: tuple[int, int]


def _place(token: Token, span: tuple[int, int]) -> _PlaceFields:
    return {"offset": _start(token), "span": span}


def _constant(text: str, offset: int) -> tree.Literal:
    return tree.Literal(
        _meant(text, offset), offset=offset, span=(offset, offset + len(text)), depth=1
    )


def _meant(text: str, offset: int) -> Value:
    """Returns the value of the literal *text* at *offset*."""
    if text[0] in "'\"":
        return _unquoted(text)
    if text[0].isalpha():
        return text.lower() == "true"
    # an integer; the cast knows its range
    number = to_integer(text)
    if number is None:
        message = f"an integer has 32 bits: {INTEGER_MIN} to {INTEGER_MAX}"
        raise _RefusedError(message, offset)
    return number


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


def _unquoted(text: str) -> str:
    """Returns the content of a string literal, where only its quote can be escaped (2.2)."""
    quote = text[0]
    return text[1:-1].replace("\\" + quote, quote)
