"""Builds a status from findings: ``observedGeneration`` and all conditions together.

Source:
    Knative Eventing, "Error Signalling"; Knative's common error conditions: names of the types,
    ``severity`` and the order.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from distributary.knative.apiserver.machinery import Object
from distributary.knative.kinds import conditions
from distributary.knative.reconcile._findings import Finding, worst

_KEPT: Final = ("annotations", "subscribers")
"""Members kept from the old status: ``_subscribers`` and clients write them."""


def with_status(
    content: Object, generation: int, findings: Mapping[str, Finding], members: Object, now: str
) -> Object:
    """*content* with a status of *findings*; *content* itself if that changes nothing.

    Args:
        content: The object; not modified. Of its old conditions only ``lastTransitionTime`` is
            kept; those without a finding are removed.
        generation: Of the object that was planned.
        findings: By condition type, causes before effects. ``Ready`` is the worst of those without
            a severity.
        members: Further members of the status.
        now: For conditions that change, RFC 3339.
    """
    before = content.get("status")
    if not isinstance(before, dict):
        before = {}
    status: Object = {name: before[name] for name in _KEPT if name in before}
    status["observedGeneration"] = generation
    status["conditions"] = _conditions(findings, _sound(before.get("conditions")), now)
    status |= members
    return content if status == before else {**content, "status": status}


def condition_of(content: Object, type_: str) -> Object:
    """The condition *type_* of an object's status; empty if there is none."""
    status = content.get("status")
    found = _sound(status.get("conditions")) if isinstance(status, dict) else []
    return next((each for each in found if each["type"] == type_), {})


def _conditions(
    findings: Mapping[str, Finding], previous: Iterable[Object], now: str
) -> list[Object]:
    since = {(each["type"], each["status"]): each.get("lastTransitionTime") for each in previous}
    ready = worst(finding for finding in findings.values() if not finding.severity)
    told = {**findings, conditions.READY: ready}
    return [
        _condition(type_, told[type_], since.get((type_, told[type_].status)) or now)
        for type_ in sorted(told)
    ]


def _condition(type_: str, finding: Finding, since: str) -> Object:
    assert finding.status != "False" or (finding.reason and finding.message)
    members = {"type": type_, "lastTransitionTime": since, **finding._asdict()}
    return {name: value for name, value in members.items() if value}


def _sound(found: object) -> list[Object]:
    """The well-formed conditions: clients may write a status too."""
    if not isinstance(found, list):
        return []
    return [
        each
        for each in found
        if isinstance(each, dict)
        and isinstance(each.get("type"), str)
        and isinstance(each.get("status"), str)
        and isinstance(each.get("lastTransitionTime", ""), str)
    ]
