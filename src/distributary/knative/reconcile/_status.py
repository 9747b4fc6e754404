"""Findings -> the status that is written, ``observedGeneration`` and all conditions at once."""

from collections.abc import Mapping
from typing import Final

from distributary.knative.apiserver.machinery import Object
from distributary.knative.kinds import Conditions
from distributary.knative.reconcile._findings import Finding

_KEPT: Final = ("annotations", "subscribers")
"""Members that this does not decide about: ``_subscribers`` does, and clients."""


def with_status(
    content: Object, generation: int, findings: Mapping[str, Finding], members: Object, now: str
) -> Object:
    """*content* with the status that tells *findings*; *content* itself where it does already.

    Args:
        content: The object; stays as it is.
        generation: Of the object that was looked at.
        findings: By condition type. Those without a severity count for ``Ready``.
        members: Further members of the status.
        now: For conditions that change, RFC 3339.
    """
    before = content.get("status")
    if not isinstance(before, dict):
        before = {}
    conditions = Conditions(_sound(before.get("conditions")), now)
    for type_, finding in findings.items():
        conditions.set(type_, finding.status, finding.reason, finding.message, finding.severity)
    counting = [type_ for type_, finding in findings.items() if not finding.severity]
    status: Object = {name: before[name] for name in _KEPT if name in before}
    status["observedGeneration"] = generation
    status["conditions"] = conditions.to_json(counting)
    status |= members
    return content if status == before else {**content, "status": status}


def condition_of(content: Object, type_: str) -> Object:
    """The condition *type_* of an object's status; an empty one where it has none."""
    status = content.get("status")
    found = _sound(status.get("conditions")) if isinstance(status, dict) else []
    return next((each for each in found if each["type"] == type_), {})


def _sound(conditions: object) -> list[Object]:
    """Those that can be read: clients may write a status too."""
    if not isinstance(conditions, list):
        return []
    return [
        each
        for each in conditions
        if isinstance(each, dict)
        and isinstance(each.get("type"), str)
        and isinstance(each.get("status"), str)
        and isinstance(each.get("lastTransitionTime", ""), str)
    ]
