"""Findings: conditions of an object before they are written to its status."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple


class Finding(NamedTuple):
    """Value of one condition.

    Attributes:
        status: As ``metav1.ConditionStatus``.
        reason: One word for programs; may be empty.
        message: For people.
        severity: Empty: an error; ``Warning``; ``Info``.
    """

    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    severity: Literal["", "Warning", "Info"] = ""


HOLDS: Final = Finding("True")


def worst(findings: Iterable[Finding]) -> Finding:
    """The first finding of the worst status: False before Unknown before True."""
    found = list(findings)
    for status in ("False", "Unknown"):
        for finding in found:
            if finding.status == status:
                return finding
    return HOLDS
