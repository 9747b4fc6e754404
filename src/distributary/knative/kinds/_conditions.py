"""Conditions: what a status says about its object, and ``Ready``, which sums it up.

Source:
    Knative Eventing, "Error Signalling"; Knative's common error conditions, from where come the
    names of the types, ``severity`` and the order.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, TypeAlias

from distributary.knative.apiserver.machinery import Object
from distributary.knative.kinds.conditions import READY

ConditionStatus: TypeAlias = Literal["True", "False", "Unknown"]
Severity: TypeAlias = Literal["", "Warning", "Info"]
"""How bad it is that a condition is not True; empty: an error."""

_ORDER_OF_STATUS: Final = {"False": 0, "Unknown": 1}
"""What ``Ready`` takes over first; True is never taken over."""


class Conditions:
    """The conditions of one status, made anew.

    Args:
        previous: ``status.conditions`` as they stand. They tell when a status last changed, and
            nothing else: a condition that is not set again is gone.
        now: What the clock shows, RFC 3339.
    """

    __slots__ = ("_now", "_set", "_since")

    def __init__(self, previous: Sequence[Object], now: str) -> None:
        self._now = now
        self._since = {
            (each.get("type"), each.get("status")): each.get("lastTransitionTime")
            for each in previous
        }
        self._set: dict[str, Object] = {}

    def set(
        self,
        type: str,  # noqa: A002 - the member's own name
        status: ConditionStatus,
        reason: str = "",
        message: str = "",
        severity: Severity = "",
    ) -> None:
        """Say whether *type* holds.

        Args:
            type: The aspect.
            status: Whether it holds.
            reason: A word for programs. False has one.
            message: A sentence for people. False has one.
            severity: Other than empty: it does not count for ``Ready``.
        """
        assert status != "False" or (reason and message)
        members: dict[str, Any] = {
            "type": type,
            "status": status,
            "severity": severity,
            "lastTransitionTime": self._since.get((type, status)) or self._now,
            "reason": reason,
            "message": message,
        }
        self._set[type] = {name: value for name, value in members.items() if value}

    def to_json(self, dependents: Sequence[str]) -> list[Object]:
        """All conditions by type, with ``Ready``.

        ``Ready`` is False where one of *dependents* is, else Unknown where one is or is not set,
        else True; not True, it has the reason and message of the first such one.
        """
        found = [(self._set.get(name) or {}, name) for name in dependents]
        worst = min(
            (
                (_ORDER_OF_STATUS[status], n)
                for n, (condition, _) in enumerate(found)
                if (status := condition.get("status", "Unknown")) != "True"
            ),
            default=None,
        )
        if worst is None:
            self.set(READY, "True")
        else:
            condition, name = found[worst[1]]
            reason = condition.get("reason", "NotReconciled")
            message = condition.get("message", f"{name} is not known yet")
            self.set(READY, condition.get("status", "Unknown"), reason, message)
        return [self._set[name] for name in sorted(self._set)]
