"""The dialect ``sql``: a CloudEvents SQL expression is TRUE, without an error.

Source:
    Subscriptions API, 3.2.4.1.2; CESQL 1.0, 1.2. A missing attribute is an error, so the filter
    is false, under NOT as well (decision 5). A text that is no expression is refused when the
    subscription is made (decision 7), and so is a call of a function that there is not (CESQL
    3.3). An expression of another type than Boolean is taken, and passes nothing.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from distributary.filter import cesql
from distributary.filter._dialect import Attributes, Checker, Compiled, Cover, Part, Predicate
from distributary.filter._explanation import Explanation, Place
from distributary.filter._paths import shown

_KEPT: Final = 32
"""Expressions kept parsed. Checking, compiling and walking one text follow one another; what runs
keeps the closures alone."""


@lru_cache(maxsize=_KEPT)
def _parsed(text: str) -> cesql.Expression:
    return cesql.parse(text)


def check(value: object, checker: Checker, path: str) -> None:
    """Report that *value* is no string, empty, no CESQL, or calls an unknown function."""
    if not isinstance(value, str):
        checker.fault(path, "type", "expected a string: a CloudEvents SQL expression")
        return
    if not value.strip():
        checker.fault(path, "empty", "expected a CloudEvents SQL expression")
        return
    try:
        expression = _parsed(value)
    except cesql.CesqlSyntaxError as error:
        checker.fault(path, "syntax", str(error))
        return
    for missing in expression.missing_functions():
        checker.fault(path, "unknown-function", str(missing))
    for _ in range(expression.steps):
        if not checker.count(path):
            return


def compiled(value: str, _nested: Callable[[Any], Compiled]) -> Compiled:
    """The expression's closure, with what its operators tell an index."""
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
    """Decide the plain way."""
    result = _parsed(value).evaluate(attributes)
    return result.value is True and result.error is None


def explain(
    value: str,
    attributes: Attributes,
    place: Place,
    _nested: Callable[[Any, Attributes, str], Explanation],
) -> Explanation:
    """Quote the operand that ended the expression, and tell its error or value."""
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
