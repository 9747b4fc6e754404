"""Explanations of a filter's verdict on one event: the values that ``explain`` returns.

Each dialect makes its own; the command line prints them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple


class Place(NamedTuple):
    """Where a dialect's value is in the JSON.

    Attributes:
        dialect: The name in the JSON.
        path: JSON path of the value: ``$.filters[0].exact``.
    """

    dialect: str
    path: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdict of one expression on one event, with its reason.

    Attributes:
        dialect: Name of the dialect.
        path: JSON path of the deciding part: of the one comparison, if it was one, else of the
            dialect's value.
        verdict: That of ``naive_matches``.
        reason: For people, in one line. Texts of the event and of the filter are quoted and cut.
        parts: Explanations of the nested expressions, in order.
        decided_by: Those of *parts* that caused the verdict; none if the expression has no parts,
            or there was nothing to decide.
    """

    dialect: str
    path: str
    verdict: bool
    reason: str
    parts: tuple["Explanation", ...] = ()
    decided_by: tuple["Explanation", ...] = ()

    def deciding(self) -> Iterator["Explanation"]:
        """Yield the innermost deciding parts, in order; itself if it has none."""
        if not self.decided_by:
            yield self
        for part in self.decided_by:
            yield from part.deciding()
