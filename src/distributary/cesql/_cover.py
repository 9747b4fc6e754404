"""Necessary conditions of an expression, for an index: simple tests, each passed by every match.

Source:
    The casts of 3.7: an attribute is compared with a String literal by its canonical string; for
    an Integer or Boolean literal the attribute's text is cast, so that "05" equals 5, and an index
    by text is useless.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple, TypeAlias, TypeGuard

from distributary.cesql import _tree as tree
from distributary.cesql._types import Value, to_boolean, to_integer, to_string


class Question(NamedTuple):
    """A test whether the canonical string of an attribute equals, begins or ends with *text*.

    Attributes:
        how: Kind of comparison.
        attribute: Name of the attribute.
        text: Text to compare with, not empty.
    """

    how: Literal["exact", "prefix", "suffix"]
    attribute: str
    text: str


Alternatives: TypeAlias = tuple[Question, ...]
"""Tests of which each event with a TRUE expression passes at least one; never empty."""


class Necessary(NamedTuple):
    """Necessary conditions of a TRUE expression.

    Attributes:
        covers: Independent conditions; none: nothing is known.
        decided: Whether there is one condition, and it is sufficient too.
        errorless: Whether the expression has no error where the attributes exist.
    """

    covers: tuple[Alternatives, ...] = ()
    decided: bool = False
    errorless: bool = False


_NOTHING = Necessary()


def necessary(node: tree.Node) -> Necessary:
    """Returns necessary conditions of *node*: sound, but perhaps not all."""
    if isinstance(node, tree.Logic):
        parts = [necessary(operand) for operand in node.operands]
        return _all(parts) if node.operator == "AND" else _any(parts)
    if isinstance(node, tree.Binary) and node.operator == "=":
        return _equal(node.left, node.right)
    if isinstance(node, tree.Like) and not node.negated:
        return _like(node)
    if isinstance(node, tree.In) and not node.negated:
        return _in(node)
    return _NOTHING


def reads(node: tree.Node) -> frozenset[str]:
    """Returns the names of the attributes that the expression reads."""
    return frozenset(
        part.name for part in tree.walk(node) if isinstance(part, tree.Attribute | tree.Exists)
    )


def _all(parts: Sequence[Necessary]) -> Necessary:
    return Necessary(tuple(dict.fromkeys(chain.from_iterable(part.covers for part in parts))))


def _any(parts: Sequence[Necessary]) -> Necessary:
    if not all(part.covers for part in parts):
        return _NOTHING
    # of each part the cover with the fewest questions: it is the narrowest as a rule
    joined = tuple(dict.fromkeys(chain.from_iterable(_narrowest(part.covers) for part in parts)))
    # a missing attribute or a failed cast on the left is an error of the whole, whatever the
    # right operand says; with a single attribute and no casts that fail there is no such case
    errorless = all(part.errorless for part in parts) and len({q.attribute for q in joined}) == 1
    decided = errorless and all(part.decided for part in parts)
    return Necessary((joined,), decided, errorless)


def _narrowest(covers: Sequence[Alternatives]) -> Alternatives:
    return min(covers, key=_rank)


def _rank(cover: Alternatives) -> tuple[int, int]:
    return sum(question.how != "exact" for question in cover), len(cover)


def _equal(left: tree.Node, right: tree.Node) -> Necessary:
    if isinstance(left, tree.Attribute) and isinstance(right, tree.Literal):
        # the attribute is cast to the literal's type
        text = right.value
        if not isinstance(text, str) or not text:
            return _NOTHING
        return Necessary(((Question("exact", left.name, text),),), decided=True, errorless=True)
    if isinstance(left, tree.Literal) and isinstance(right, tree.Attribute):
        # the literal is cast to the attribute's type
        text = left.value
        if not _is_canonical(text):
            return _NOTHING
        return Necessary(((Question("exact", right.name, text),),), decided=True)
    return _NOTHING


def _like(node: tree.Like) -> Necessary:
    if not isinstance(node.operand, tree.Attribute):
        return _NOTHING
    name, pattern = node.operand.name, node.pattern
    if pattern.exact is not None:
        questions = [Question("exact", name, pattern.exact)] if pattern.exact else []
    else:
        questions = list(_ends(name, pattern.prefix, pattern.suffix))
    covers = tuple((question,) for question in questions)
    return Necessary(covers, decided=pattern.whole and len(covers) == 1, errorless=True)


def _ends(name: str, prefix: str, suffix: str) -> Iterator[Question]:
    if prefix:
        yield Question("prefix", name, prefix)
    if suffix:
        yield Question("suffix", name, suffix)


def _in(node: tree.In) -> Necessary:
    if not isinstance(node.operand, tree.Attribute):
        return _NOTHING
    texts: list[str] = []
    for element in node.elements:
        # the element is cast to the attribute's type
        if not (isinstance(element, tree.Literal) and _is_canonical(element.value)):
            return _NOTHING
        texts.append(element.value)
    name = node.operand.name
    cover = tuple(Question("exact", name, text) for text in dict.fromkeys(texts))
    # an attribute that is no String fails at an element that cannot be cast, before a later one
    decided = len(texts) == 1 or not any(map(_of_another_type, texts))
    return Necessary((cover,), decided)


def _is_canonical(value: Value) -> TypeGuard[str]:
    """Whether *value* is a non-empty String that, cast to any type, equals its own text alone."""
    if not isinstance(value, str) or not value:
        return False
    casts = (to_integer(value), to_boolean(value))
    return all(cast is None or to_string(cast) == value for cast in casts)


def _of_another_type(text: str) -> bool:
    return to_integer(text) is not None or to_boolean(text) is not None
