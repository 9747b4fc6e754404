"""What the reconciler finds out about an object, before it becomes a status."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple


class Finding(NamedTuple):
    """What one condition says.

    Attributes:
        status: As ``metav1.ConditionStatus``.
        reason: One word for programs; empty where there is nothing to tell.
        message: For people.
        severity: Empty: an error; ``Warning``; ``Info``.
    """

    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    severity: Literal["", "Warning", "Info"] = ""


HOLDS: Final = Finding("True")


def worst(findings: Iterable[Finding]) -> Finding:
    """The one that decides: False before Unknown before True; of equal ones the first."""
    found = list(findings)
    for status in ("False", "Unknown"):
        for finding in found:
            if finding.status == status:
                return finding
    return HOLDS
