"""CloudEvents SQL 1.0 (CESQL): parse an expression once, evaluate it for many events. Pure.

Independent of the rest of the package; called by the dialect ``sql``. Hides the grammar, the parser
library (imported with the first expression) and the closures behind ``Expression.test``::

    >>> expression = parse("type LIKE 'com.example.%' AND size > 10")
    >>> expression.test({"type": "com.example.made", "size": 12})
    True
    >>> expression.evaluate({"type": "com.example.made"}).error.kind
    <ErrorKind.MISSING_ATTRIBUTE: 'missingAttribute'>

A user-defined function::

    >>> has = Function("HAS", (Type.STRING, Type.STRING), Type.BOOLEAN, lambda x, y: y in x)
    >>> parse("has(subject, 'x')", BUILT_IN.having(has)).test({"subject": "axb"})
    True

Interpretations of the specification: docs/reference/cesql.md.
"""

from distributary.cesql._builtin import BUILT_IN
from distributary.cesql._compile import Test
from distributary.cesql._cost import EVALUATION_CHARS_MAX, EXPRESSION_STEPS_MAX
from distributary.cesql._cover import Alternatives, Necessary, Question
from distributary.cesql._errors import CesqlSyntaxError, ErrorKind, EvaluationError
from distributary.cesql._expression import (
    EXPRESSION_CHARS_MAX,
    Expression,
    parse,
)
from distributary.cesql._functions import (
    RESULT_CHARS_MAX,
    CallFailure,
    Function,
    Functions,
    describe,
)
from distributary.cesql._interpret import Attributes, Result
from distributary.cesql._tree import EXPRESSION_DEPTH_MAX, EXPRESSION_TOKENS_MAX
from distributary.cesql._types import INTEGER_MAX, INTEGER_MIN, Type, Value

__all__ = [
    "BUILT_IN",
    "EVALUATION_CHARS_MAX",
    "EXPRESSION_CHARS_MAX",
    "EXPRESSION_DEPTH_MAX",
    "EXPRESSION_STEPS_MAX",
    "EXPRESSION_TOKENS_MAX",
    "INTEGER_MAX",
    "INTEGER_MIN",
    "RESULT_CHARS_MAX",
    "Alternatives",
    "Attributes",
    "CallFailure",
    "CesqlSyntaxError",
    "ErrorKind",
    "EvaluationError",
    "Expression",
    "Function",
    "Functions",
    "Necessary",
    "Question",
    "Result",
    "Test",
    "Type",
    "Value",
    "describe",
    "parse",
]
