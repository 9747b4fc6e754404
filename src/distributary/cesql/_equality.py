"""The closures of ``=``, ``!=`` and ``IN``: equality with the casts of section 3.7.

``=`` casts the left operand to the right one's type; ``IN`` casts the elements to the left
operand's type.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from distributary.cesql._interpret import Attributes
from distributary.cesql._types import (
    Type,
    Value,
    cast_to,
    to_boolean,
    to_integer,
    to_string,
    type_of,
)

_Fast: TypeAlias = Callable[[Attributes], Value | None]
_Truth: TypeAlias = Callable[[Attributes], bool | None]

_OF_OTHERS: Final = re.compile(r"true|false|-?[0-9]+")
"""The texts that can be the canonical string of a Boolean or an Integer."""


def equals_text(name: str, text: str) -> Callable[[Attributes], bool]:
    """Compares an attribute, cast to String, with *text*: the commonest filter."""
    if not _OF_OTHERS.fullmatch(text):
        # only a String can equal this text, so no value needs the cast
        return lambda attributes: attributes.get(name) == text

    def test(attributes: Attributes) -> bool:
        value = attributes.get(name)
        return value is not None and to_string(value) == text

    return test


def equality(left: _Fast, right: _Fast, *, equal: bool) -> _Truth:
    """``left = right`` (*equal*) or ``left != right``."""

    def value(attributes: Attributes) -> bool | None:
        x = left(attributes)
        y = right(attributes)
        if x is None or y is None:
            return None
        if isinstance(y, str):
            return (to_string(x) == y) is equal
        done = to_boolean(x) if isinstance(y, bool) else to_integer(x)
        return None if done is None else (done == y) is equal

    return value


def membership(found: _Fast, literals: Sequence[Value], *, negated: bool) -> _Truth:
    """``found IN literals``: one look-up in a set, whatever the number of literals."""
    sets = {
        target: _cast_all(literals, target) for target in (Type.STRING, Type.INTEGER, Type.BOOLEAN)
    }

    def value(attributes: Attributes) -> bool | None:
        one = found(attributes)
        if one is None:
            return None
        members, complete = sets[type_of(one)]
        if one in members:
            return not negated
        return negated if complete else None

    return value


def _cast_all(literals: Sequence[Value], target: Type) -> tuple[frozenset[Value], bool]:
    """Returns the literals up to the first that cannot be cast, and whether all can be."""
    members: list[Value] = []
    for literal in literals:
        done = cast_to(literal, target)
        if done is None:
            return frozenset(members), False
        members.append(done)
    return frozenset(members), True
