"""Errors: of syntax (raised), and of an evaluation (returned)."""

from enum import StrEnum
from typing import ClassVar, NamedTuple


class ErrorKind(StrEnum):
    """The kinds of error that the specification names (3.3), by the names of its test kit."""

    PARSE = "parse"
    MATH = "math"
    CAST = "cast"
    MISSING_ATTRIBUTE = "missingAttribute"
    MISSING_FUNCTION = "missingFunction"
    FUNCTION_EVALUATION = "functionEvaluation"
    GENERIC = "generic"


class CesqlSyntaxError(ValueError):
    """A text that is no CESQL expression, or exceeds a limit: the only exception raised.

    Attributes:
        kind: Always ``PARSE``.
        message: A sentence for people, without the position.
        offset: Position in the text, in characters from 0; its length where the text ended early.
        line: Line of the position, from 1.
        column: Column of the position, from 1.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.PARSE

    def __init__(self, message: str, text: str, offset: int) -> None:
        self.message = message
        self.offset = offset
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - text.rfind("\n", 0, offset)
        super().__init__(f"line {self.line}, column {self.column}: {message}")


class EvaluationError(NamedTuple):
    """The error of an evaluation.

    Attributes:
        kind: Kind of error in the specification.
        message: A sentence for people. Texts of the event are quoted and truncated.
        offset: Position of the failed part in the expression, in characters from 0.
    """

    kind: ErrorKind
    message: str
    offset: int
