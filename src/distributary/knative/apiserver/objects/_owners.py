"""Owner references of objects: reading, matching and removing ``metadata.ownerReferences``.

Called by ``_transaction`` for garbage collection, and by ``_object_cache`` for its index. Pure.

Source:
    Kubernetes, "Owners and Dependents", "Garbage Collection".
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary.knative.apiserver.machinery import Key, Kind, Object
from distributary.knative.apiserver.objects._values import Stored

_REFERENCES: Final = "ownerReferences"


def owners_of(content: Object) -> frozenset[str]:
    """Uids of the object's owners."""
    return frozenset(str(ref.get("uid")) for ref in _references(content))


def without_owner(content: Object, uid: str) -> Object:
    """*content* without its references to the owner *uid*."""
    metadata = {**content["metadata"]}
    kept = [ref for ref in _references(content) if ref.get("uid") != uid]
    if kept:
        metadata[_REFERENCES] = kept
    else:
        metadata.pop(_REFERENCES, None)
    return {**content, "metadata": metadata}


def owner_keys(content: Object, kinds: Mapping[str, Kind]) -> list[tuple[Key, str]]:
    """Keys and uids of the object's owners of known kinds; they need not exist."""
    by_name = {(kind.api_version, kind.kind): kind for kind in kinds.values()}
    namespace = content["metadata"].get("namespace", "")
    found: list[tuple[Key, str]] = []
    for ref in _references(content):
        kind = by_name.get((str(ref.get("apiVersion")), str(ref.get("kind"))))
        if kind is not None:
            place = namespace if kind.namespaced else ""
            found.append((Key(kind.resource, place, str(ref.get("name"))), str(ref.get("uid"))))
    return found


def owns(owner: Stored, dependent: Stored) -> bool:
    """Whether *owner* owns *dependent*: same namespace, and a reference to its uid."""
    same_place = bool(owner.key.namespace) and owner.key.namespace == dependent.key.namespace
    return same_place and owner.uid in owners_of(dependent.content)


def _references(content: Object) -> list[dict[str, Any]]:
    found = content["metadata"].get(_REFERENCES)
    return [ref for ref in found if isinstance(ref, dict)] if isinstance(found, list) else []
