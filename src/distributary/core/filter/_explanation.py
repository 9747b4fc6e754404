"""Why a filter expression is true or false for one event: the values that ``explain`` returns.

Made by the dialects, each for itself; drawn by the command line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """Where the value of a dialect stands.

    Attributes:
        dialect: The name that it was written with.
        path: JSON path of the value: ``$.filters[0].exact``.
    """

    dialect: str
    path: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict of one expression on one event, and why.

    Attributes:
        dialect: Name of the dialect.
        path: JSON path of what decided: of the one comparison where it was one, else of the
            dialect's value.
        verdict: What ``naive_matches`` says of the expression.
        reason: For people, in one line. Texts of the event and of the filter are quoted and cut.
        parts: The nested expressions, in their order, each explained.
        decided_by: Those of *parts* that made the verdict what it is; none where the expression
            has no parts, or where there was nothing to decide.
    """

    dialect: str
    path: str
    verdict: bool
    reason: str
    parts: tuple["Explanation", ...] = ()
    decided_by: tuple["Explanation", ...] = ()

    def deciding(self) -> Iterator["Explanation"]:
        """The innermost parts that decided, in their order; itself where it has none."""
        if not self.decided_by:
            yield self
        for part in self.decided_by:
            yield from part.deciding()
