"""EventPolicies: checked, and translated into what the gate knows.

Source:
    Knative Eventing, ``EventPolicy`` (eventing.knative.dev/v1alpha1).
"""

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from distributary.access import PolicyRecord, all_targets
from distributary.core import filter as filter_room
from distributary.knative.apiserver.machinery import Cause, Key, Object
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    forbidden,
    required,
    unsupported,
)
from distributary.knative.kinds._destinations import check_kreference, check_name
from distributary.knative.kinds._kinds import BROKER, CHANNEL, CHANNEL_KINDS
from distributary.knative.kinds._receivers import Receivers
from distributary.knative.kinds._trigger_filters import filters_of

POLICIES_MAX: Final = 100
"""Most EventPolicies in one namespace: each request to a Broker is judged by all that mean it, and
the status of each Broker lists them. Knative has no limit."""

SUBJECT_CHARS_MAX: Final = 512
"""Longest subject of a policy; those of service accounts have at most 150 characters."""

COMPARISONS_MAX: Final = 2_000
"""Most comparisons of the filters of all EventPolicies in one namespace: each event may cost a
receiver all of them, which takes 0.2 ms."""

POLICY_BYTES_MAX: Final = 256 * 1024
"""Most bytes of all EventPolicies in one namespace: their specs as JSON, which are filters,
subjects and targets. After a change each receiver compiles the filters of the policies that have
changed: 0.3 s of a processor for so many bytes, and 5 MiB. A sender that was not judged before is
compared with 20,000 subjects at most, which takes 0.1 ms."""

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


def selects(content: Object) -> bool:
    """Whether an admitted EventPolicy means some Brokers or Channels by their labels."""
    to = (content.get("spec") or {}).get("to") or ()
    return any(_by_labels(target.get("selector")) for target in to)


def _by_labels(selector: Object | None) -> bool:
    return bool(selector and (selector.get("matchLabels") or selector.get("matchExpressions")))


class PolicyCost(NamedTuple):
    """What an EventPolicy costs the receivers of its namespace.

    Attributes:
        comparisons: What its filters cost an event at most.
        spec_bytes: Its spec, as JSON.
    """

    comparisons: int = 0
    spec_bytes: int = 0


def cost_of(content: Object) -> PolicyCost:
    """What a stored EventPolicy costs: its filters are compiled for that.

    Filters that cannot be read cost no comparisons: such a policy lets nobody in.
    """
    spec = content.get("spec") or {}
    spec_bytes = len(msgspec.json.encode(spec))
    try:
        filters, _ = filters_of(spec)
        comparisons = filter_room.compile(filters).comparisons_max if filters else 0
    except Exception:  # noqa: BLE001 - damage, or stricter rules: the reconciler says so
        comparisons = 0
    return PolicyCost(comparisons, spec_bytes)


def policy_of(key: Key, content: Object, receivers: Receivers) -> PolicyRecord:
    """The policy of an admitted EventPolicy.

    Args:
        key: Of the EventPolicy.
        content: Its content.
        receivers: Brokers and Channels in its namespace; nothing is asked unless it ``selects``.

    Raises:
        ResourceError: Its selectors would cost too much.
        ValueError: Its filters cannot be compiled, though they were admitted.
    """
    spec: Object = content.get("spec") or {}
    filters, _ = filters_of(spec)
    faults = filter_room.check(filters)
    if faults:  # else each receiver would find out, with an event in its hands
        raise ValueError(faults[0].message)
    return PolicyRecord(
        name=f"{key.namespace}/{key.name}",
        targets=targets_of(key, content, receivers),
        subjects=subjects_of(spec, key.namespace),
        filters=filters,
    )


def targets_of(key: Key, content: Object, receivers: Receivers) -> tuple[str, ...]:
    """What the policy of an admitted EventPolicy protects; see ``policy_of``.

    Raises:
        ResourceError: Its selectors would cost too much.
    """
    to = (content.get("spec") or {}).get("to") or ()
    return tuple(_targets(key.namespace, to, receivers))


def _targets(namespace: str, to: Iterable[Object], receivers: Receivers) -> Iterable[str]:
    """What a policy protects; without ``to`` every Broker and Channel of the namespace.

    A named one need not exist yet: it is protected from its first event on. So is each where a
    whole kind is meant, which is one target, not one for each object.
    """
    found: dict[str, None] = {}
    wanted = list(to)
    for target in wanted:
        ref, selector = target.get("ref"), target.get("selector")
        if ref is not None:
            found[f"{_PLURALS[ref['kind']]}/{namespace}/{ref['name']}"] = None
        elif selector is not None:
            plural = _PLURALS[selector["kind"]]
            if _by_labels(selector):
                names = receivers.selected(plural, selector)
                found |= dict.fromkeys(f"{plural}/{namespace}/{name}" for name in names)
            else:
                found[all_targets(plural, namespace)] = None
    if not wanted:
        found = dict.fromkeys(all_targets(plural, namespace) for plural in _PLURALS.values())
    return found
