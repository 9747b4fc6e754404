"""The dialect ``sql``: a CloudEvents SQL expression is TRUE, without an error.

Source:
    Subscriptions API, 3.2.4.1.2; CESQL 1.0, 1.2. A missing attribute is an error, so the filter
    is false, under NOT as well (decision 5, missing attributes). A text that does not parse is
    rejected when the subscription is made (decision 7, faults of filters), and so is a call of an
    unknown function (CESQL 3.3). An expression of another type than Boolean is accepted, and
    passes nothing.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from distributary import cesql
from distributary.core.filter._dialect import Attributes, Checker, Compiled, Cover, Part, Predicate
from distributary.core.filter._explanation import Explanation, Place
from distributary.core.filter._paths import shown

_KEPT: Final = 32
"""Size of the cache of parsed expressions. Checking, compiling and explaining one text follow one
another; later only the closures are needed."""

_TOKENS_A_NODE: Final = 8
"""Parsing costs too, and a resource may hold many expressions: this bounds all of them together to
twice the limit of one. Expressions that people write cost nothing extra."""
_REFUSED_NODES: Final = 8
"""Nodes charged for a rejected text: to find what would have been right costs more than parsing."""
_CHARS_A_NODE: Final = 16
_PARSED_CHARS_MAX: Final = 4_096
"""Most characters charged for parsing a rejected text up to its fault. After a few such texts the
rest of the resource is not checked."""


@lru_cache(maxsize=_KEPT)
def _parsed(text: str) -> cesql.Expression:
    return cesql.parse(text)


def check(value: object, checker: Checker, path: str) -> None:
    """Report that *value* is no string, empty, no CESQL, or calls an unknown function."""
    if not isinstance(value, str):
        checker.fault(path, "type", "expected a string: a CloudEvents SQL expression")
        return
    if not value.strip(" \t\n\r\f\v"):  # what a JSON schema takes for blank, whatever its dialect
        checker.fault(path, "empty", "expected a CloudEvents SQL expression")
        return
    try:
        expression = _parsed(value)
    except cesql.CesqlSyntaxError as error:
        checker.fault(path, "syntax", str(error))
        parsed = min(error.offset, _PARSED_CHARS_MAX)
        _count(checker, path, _REFUSED_NODES + parsed // _CHARS_A_NODE)
        return
    for missing in expression.missing_functions():
        checker.fault(path, "unknown-function", str(missing))
    _count(checker, path, max(expression.steps, expression.tokens // _TOKENS_A_NODE))


def _count(checker: Checker, path: str, nodes: int) -> None:
    for _ in range(nodes):
        if not checker.count(path):
            return


def compiled(value: str, _nested: Callable[[Any], Compiled]) -> Compiled:
    """Return the expression's closure, with the covers that its operators imply."""
    expression = _parsed(value)
    necessary = expression.necessary
    return Compiled(
        expression.test,
        expression.steps,
        tuple(map(_cover, necessary.covers)),
        decided=necessary.decided,
        reads=expression.reads,
        conjuncts=tuple(
            Part(test, reads, _cover(one.covers[0]) if one.decided else None)
            for test, reads, one in expression.conjuncts()
        ),
    )


def matches(
    value: str,
    attributes: Attributes,
    _nested: Callable[[Any, Attributes], bool],
) -> bool:
    """Decide without compiling."""
    result = _parsed(value).evaluate(attributes)
    return result.value is True and result.error is None


def explain(
    value: str,
    attributes: Attributes,
    place: Place,
    _nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Quote the operand that ended the expression, with its error or value."""
    expression = _parsed(value)
    result = expression.evaluate(attributes)
    verdict = result.value is True and result.error is None
    part = shown(expression.deciding(attributes))
    if result.error is not None:
        reason = f"{part}: {result.error.message} ({result.error.kind} error)"
    elif isinstance(result.value, bool):
        reason = f"{part} makes it {str(result.value).upper()}"
    else:
        reason = f"{part} is {shown(result.value)}, which is no Boolean"
    return Explanation(place.dialect, place.path, verdict, reason)


def _cover(alternatives: cesql.Alternatives) -> Cover:
    return tuple(Predicate(*question) for question in alternatives)
