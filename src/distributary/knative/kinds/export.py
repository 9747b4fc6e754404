"""Converts objects exported from a Knative cluster to objects for this server.

An export (``kubectl get ... -o yaml``) mixes what users wrote with what the cluster's controllers
added: versions, status, finalizers that only those controllers remove, objects created for a
Broker. ``converted`` removes the latter from each object. Pure; the server validates the result.

Called by the command ``import``.
"""

import copy
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from distributary.knative.apiserver.machinery import Kind, Object
from distributary.knative.kinds._defaulted import LAST_APPLIED
from distributary.knative.kinds._kinds import (
    BROKER,
    CHANNEL,
    CONFIG_MAP,
    EVENTING,
    MESSAGING,
    SERVICE,
    SUBSCRIPTION,
    TRIGGER,
)
from distributary.knative.kinds._schemas_core import SERVICE_ADDRESS

_ORDER: Final = (CONFIG_MAP, SERVICE, BROKER, CHANNEL, TRIGGER, SUBSCRIPTION)
"""Kinds that are imported, ordered so that references point to earlier ones."""

_BY_NAME: Final = {(kind.group, kind.kind): kind for kind in _ORDER}

_OF_THE_CLUSTER: Final = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "finalizers",
    "ownerReferences",
    "deletionGracePeriodSeconds",
)
"""Members of metadata that only make sense in the old cluster: among them finalizers, whose
controllers do not exist here, and owners, referenced by their old uids."""


_SERVICE_FIELDS: Final = (
    "clusterIP",
    "clusterIPs",
    "healthCheckNodePort",
    "internalTrafficPolicy",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
)
"""Members of a Service's spec that the cluster filled in."""

_CLUSTER_OWN: Final = (("ConfigMap", "kube-root-ca.crt"), ("Service", "kubernetes"))

_CHANNEL_KINDS: Final = re.compile(r"^(InMemory|Kafka|NatsJetStream|Natss|Distributed)Channel$")

_CHANNEL: Final = {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind}

_INSTEAD: Final = {
    "Sequence": "a chain of Subscriptions with a reply does the same",
    "Parallel": "several Subscriptions with a reply do the same",
    "PingSource": "a timer does the same: docs/how-to/timers-replay-and-expiry.md",
    "EventType": "GET / names the types that were seen",
    "Namespace": "a namespace is created with its first object",
}


class Converted(NamedTuple):
    """One object of the export.

    Attributes:
        label: Kind, namespace and name, for people.
        kind: Its kind here; None: it is skipped.
        obj: The object to send; empty if skipped.
        changes: Differences from the export, one text each.
        left: Why it is skipped; empty: it is imported.
    """

    label: str
    kind: Kind | None
    obj: Object
    changes: tuple[str, ...] = ()
    left: str = ""


def converted(documents: Iterable[Any]) -> list[Converted]:
    """Convert the objects in *documents*, in an order in which they can be applied.

    Args:
        documents: Decoded YAML or JSON documents; lists are expanded, empty ones skipped.
    """
    found = [_convert(obj) for obj in _objects(documents)]
    place = {kind: number for number, kind in enumerate(_ORDER)}
    return sorted(found, key=lambda each: -1 if each.kind is None else place[each.kind])


def _objects(documents: Iterable[Any]) -> Iterable[Any]:
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from _objects(document["items"])
        elif document is not None:
            yield document


def _convert(obj: Any) -> Converted:
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return Converted("a document", None, {}, left="it is no object of the Kubernetes API")
    metadata = obj["metadata"]
    name, group = metadata.get("name"), str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind_name = str(obj.get("kind", ""))
    label = f"{kind_name} {metadata.get('namespace', 'default')}/{name}"
    if not isinstance(name, str) or not name:
        return Converted(f"{kind_name} without a name", None, {}, left="it cannot be addressed")
    reason = _reason_to_leave(group, kind_name, obj, metadata)
    kind = _BY_NAME.get((group, kind_name))
    if kind is None and group == MESSAGING and _CHANNEL_KINDS.match(kind_name):
        kind = CHANNEL
    if kind is None and not reason:
        hint = _INSTEAD.get(kind_name, "")
        reason = "this server has no such kind" + (f"; {hint}" if hint else "")
    if reason or kind is None:
        return Converted(label, None, {}, left=reason)
    return _taken(label, kind, obj)


def _reason_to_leave(group: str, kind: str, obj: Object, metadata: Object) -> str:
    if metadata.get("deletionTimestamp"):
        return "it was being deleted"
    owners = metadata.get("ownerReferences")
    makers = {
        str(_mapping(each).get("kind")) for each in (owners if isinstance(owners, list) else ())
    }
    if group == "":
        if makers or (kind, metadata.get("name")) in _CLUSTER_OWN:
            return "the old cluster made it for itself"
    elif group == MESSAGING or _CHANNEL_KINDS.match(kind):
        if makers & {"Trigger", "Broker"} or _is_of_a_broker(metadata, obj):
            return "the old Broker made it for itself; a Trigger here needs none"
        if CHANNEL.kind in makers:
            return "a Channel made it for itself; a Channel here needs none"
        if makers & {"Sequence", "Parallel"}:
            return "a Sequence or Parallel made it, which this server does not have"
    return ""


def _is_of_a_broker(metadata: Object, obj: Object) -> bool:
    channel = _mapping(_mapping(obj.get("spec")).get("channel"))
    names = (str(metadata.get("name")), str(channel.get("name")))
    labelled = f"{EVENTING}/broker" in _mapping(metadata.get("labels"))
    return labelled or any(name.endswith("-kne-trigger") for name in names)


def _mapping(value: Any) -> Mapping[str, Any]:
    """*value* if it is a mapping, else an empty one: the server reports type faults."""
    return value if isinstance(value, dict) else {}


def _taken(label: str, kind: Kind, exported: Object) -> Converted:
    obj = copy.deepcopy(exported)
    changes: list[str] = []
    metadata, status = obj["metadata"], _mapping(obj.pop("status", None))
    gone = [member for member in _OF_THE_CLUSTER if metadata.pop(member, None) is not None]
    if status:
        gone.append("status")
    kept = metadata.get("annotations")
    if isinstance(kept, dict) and kept.pop(LAST_APPLIED, None) is not None:
        gone.append("last-applied-configuration")
    if gone:
        changes.append("without " + ", ".join(gone))
    metadata.setdefault("namespace", "default")
    if obj.get("kind") != kind.kind:
        changes.append(f"{obj['kind']} becomes {kind.kind}")
    obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return Converted(label, kind, obj, tuple(changes))
    if kind is SERVICE:
        changes += _convert_service(spec, metadata)
    elif kind is CHANNEL:
        changes += _convert_channel(spec)
    elif kind is SUBSCRIPTION:
        changes += _convert_reference(spec)
    missing = _resolve(spec, status, changes) if kind in (TRIGGER, SUBSCRIPTION) else ""
    if missing:
        return Converted(label, None, {}, left=missing)
    return Converted(label, kind, obj, tuple(changes))


def _convert_service(spec: Object, metadata: Object) -> list[str]:
    gone = [member for member in _SERVICE_FIELDS if spec.pop(member, None) is not None]
    changes = ["without " + ", ".join(f"spec.{member}" for member in gone)] if gone else []
    addressed = SERVICE_ADDRESS in _mapping(metadata.get("annotations"))
    if not addressed and not spec.get("externalName"):
        changes.append(
            f"its DNS name is used; to change that, annotate {SERVICE_ADDRESS}: host:port"
        )
    return changes


def _convert_channel(spec: Object) -> list[str]:
    """Remove ``spec.subscribers``, which follow from the Channel's Subscriptions."""
    return [] if spec.pop("subscribers", None) is None else ["without spec.subscribers"]


def _convert_reference(spec: Object) -> list[str]:
    channel = _mapping(spec.get("channel"))
    if not _leads_to_channel(channel):
        return []
    spec["channel"] = {**channel, **_CHANNEL}
    return [f"spec.channel: {channel['kind']} becomes Channel"]


def _leads_to_channel(ref: Mapping[str, Any]) -> bool:
    """Whether *ref* names a Channel by the kind of its implementation."""
    return bool(_CHANNEL_KINDS.match(str(ref.get("kind"))))


def _resolve(spec: Object, status: Mapping[str, Any], changes: list[str]) -> str:
    """Replace references to unsupported kinds by URIs; returns why, if a URI is unknown."""
    known = {**status, **_mapping(status.get("physicalSubscription"))}
    places = (
        (spec, "subscriber", "subscriberUri"),
        (spec, "reply", "replyUri"),
        (_mapping(spec.get("delivery")), "deadLetterSink", "deadLetterSinkUri"),
    )
    for parent, member, resolved in places:
        destination = parent.get(member)
        if not isinstance(destination, dict) or not isinstance(destination.get("ref"), dict):
            continue
        ref = destination["ref"]
        group = str(ref.get("apiVersion", "")).rpartition("/")[0]
        if (group, str(ref.get("kind"))) in _BY_NAME:
            continue
        if group == MESSAGING and _leads_to_channel(ref):
            ref |= _CHANNEL
            changes.append(f"{member}.ref: the Channel of that name")
            continue
        uri = known.get(resolved)
        what = f"{ref.get('kind')} {ref.get('name')} ({ref.get('apiVersion')})"
        if not isinstance(uri, str) or not uri:
            return f"{member}.ref leads to {what}, which is not here: put its URL into {member}.uri"
        del destination["ref"]
        destination["uri"] = uri
        changes.append(f"{member}: {uri} instead of {what}")
    return ""
