"""EventPolicies: checked, and translated into what the gate knows.

Source:
    Knative Eventing, ``EventPolicy`` (eventing.knative.dev/v1alpha1).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from distributary.access import PolicyRecord
from distributary.knative.apiserver.machinery import Cause, Key, Object
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    forbidden,
    required,
    unsupported,
)
from distributary.knative.kinds._destinations import check_kreference, check_name
from distributary.knative.kinds._kinds import BROKER, CHANNEL, CHANNEL_KINDS
from distributary.knative.kinds._trigger_filters import filters_of

SUBJECT_CHARS_MAX: Final = 512
"""Longest subject of a policy; those of service accounts have at most 150 characters."""

_SUBJECT: Final = re.compile(r"[!-)+-~]*\*?")
"""Visible ASCII; a star at the end alone, as in Knative."""

_PLURALS: Final = {BROKER.kind: "brokers"} | dict.fromkeys(CHANNEL_KINDS, "channels")
_API_VERSIONS: Final = {
    BROKER.kind: (BROKER.api_version,),
    **dict.fromkeys(CHANNEL_KINDS, (CHANNEL.api_version,)),
}


def check_policy(causes: list[Cause], spec: Object) -> None:
    """Add faults of the spec of an EventPolicy to *causes*; its filters are checked elsewhere."""
    for index, target in enumerate(spec.get("to") or ()):
        if target is not None:  # else it was no object, which is among the causes
            _check_target(causes, f"spec.to[{index}]", target)
    for index, sender in enumerate(spec.get("from") or ()):
        if sender is not None:
            _check_sender(causes, f"spec.from[{index}]", sender)


def _check_target(causes: list[Cause], path: str, target: Object) -> None:
    if ("ref" in target) == ("selector" in target):
        causes.append(required(path, "expected exactly one of ref, selector"))
    member = "ref" if target.get("ref") is not None else "selector"
    found = target.get(member)
    if found is None:
        return
    kind = found.get("kind")
    if kind and kind not in _PLURALS:
        causes.append(unsupported(f"{path}.{member}.kind", kind, tuple(_PLURALS)))
    elif kind and found.get("apiVersion") and found["apiVersion"] not in _API_VERSIONS[kind]:
        place = f"{path}.{member}.apiVersion"
        causes.append(unsupported(place, found["apiVersion"], _API_VERSIONS[kind]))
    if member == "ref" and found.get("name"):
        check_name(causes, f"{path}.ref.name", found["name"], subdomain=True)


def _check_sender(causes: list[Cause], path: str, sender: Object) -> None:
    if ("ref" in sender) == ("sub" in sender):
        causes.append(required(path, "expected exactly one of ref, sub"))
    if sender.get("ref") is not None:
        check_kreference(causes, f"{path}.ref", sender["ref"])
    subject = sender.get("sub")
    if subject is None:
        return
    if not subject:
        causes.append(required(f"{path}.sub", "expected a subject"))
    elif len(subject) > SUBJECT_CHARS_MAX:
        why = f"may not be more than {SUBJECT_CHARS_MAX} characters"
        causes.append(forbidden(f"{path}.sub", why))
    elif not _SUBJECT.fullmatch(subject):
        why = "must be visible ASCII, with a * at its end alone"
        causes.append(bad_value(f"{path}.sub", subject, why))


def subjects_of(spec: Object, namespace: str) -> tuple[str, ...]:
    """Who may send, by an admitted *spec* in *namespace*.

    What a reference sends, this server delivers: it is known by its namespace.
    """
    found: list[str] = []
    for sender in spec.get("from") or ():
        ref = sender.get("ref")
        if ref is not None:
            found.append(f"system:namespace:{ref.get('namespace') or namespace}")
        else:
            found.append(sender["sub"])
    return tuple(dict.fromkeys(found))


def policy_of(key: Key, content: Object, receivers: Mapping[Key, Object]) -> PolicyRecord:
    """The policy of an admitted EventPolicy.

    Args:
        key: Of the EventPolicy.
        content: Its content.
        receivers: Labels of the Brokers and Channels in its namespace.
    """
    spec: Object = content.get("spec") or {}
    filters, _ = filters_of(spec)
    return PolicyRecord(
        name=f"{key.namespace}/{key.name}",
        targets=tuple(_targets(key.namespace, spec.get("to") or (), receivers)),
        subjects=subjects_of(spec, key.namespace),
        filters=filters,
    )


def _targets(
    namespace: str, to: Iterable[Object], receivers: Mapping[Key, Object]
) -> Iterable[str]:
    """What a policy protects; without ``to`` every Broker and Channel of the namespace.

    A named one need not exist yet: it is protected from its first event on.
    """
    wanted = list(to)
    found: dict[str, None] = {}
    for target in wanted:
        ref, selector = target.get("ref"), target.get("selector")
        if ref is not None:
            found[f"{_PLURALS[ref['kind']]}/{namespace}/{ref['name']}"] = None
        elif selector is not None:
            plural = _PLURALS[selector["kind"]]
            for key, labels in receivers.items():
                if plural == _plural(key) and _selects(selector, labels):
                    found[f"{plural}/{namespace}/{key.name}"] = None
    if not wanted:
        found = {f"{_plural(key)}/{namespace}/{key.name}": None for key in receivers}
        found[f"brokers/{namespace}/default"] = None
    return found


def _plural(key: Key) -> str:
    return "brokers" if key.resource == BROKER.resource else "channels"


def _selects(selector: Object, labels: Object) -> bool:
    """Whether a label selector selects *labels* (Kubernetes, ``LabelSelector``)."""
    exact: Mapping[str, Any] = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in exact.items()):
        return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(expression: Object, labels: Object) -> bool:
    name, values = str(expression.get("key")), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(name) in values
        case "NotIn":
            return labels.get(name) not in values
        case "Exists":
            return name in labels
        case "DoesNotExist":
            return name not in labels
    return False
