"""``metadata`` of an object: members set by clients, set by the server, and immutable ones."""

from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery._meta_schemas import META_SCHEMAS
from distributary.knative.apiserver.machinery.limits import OBJECT_BYTES_MAX
from distributary.knative.apiserver.machinery.names import forbidden
from distributary.knative.apiserver.machinery.schema_words import META
from distributary.knative.apiserver.machinery.status import StatusError, conflict, invalid

METADATA_FIELDS: Final = frozenset(META_SCHEMAS[META + "ObjectMeta"]["properties"])
"""Members of ``ObjectMeta``; others are dropped, as by the API server."""

_OPERATIONS: Final = ("Apply", "Update")
_CLIENT: Final = (
    "generateName",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
)
"""Members of the metadata that clients set, besides the name."""

_SERVER: Final = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Members of the metadata that an update cannot change."""


def for_create(
    kind: Kind,
    obj: Object,
    *,
    namespace: str,
    name: str,
    uid: str,
    now: str,
    suffix: str,
) -> Object:
    """Build a new object from what a client sent.

    Members set by the server (``uid``, timestamps, ``generation``, ``resourceVersion``,
    ``status``...) come from the arguments or are left out, whatever the client sent. Unknown
    members of ``metadata`` are dropped (``unknown_metadata`` lists them).

    Args:
        kind: Of the object.
        obj: As the client sent it; not modified.
        namespace: Of the path; empty if the kind has none.
        name: Of the path; empty: that in *obj*, else ``generateName`` with *suffix*.
        uid: New and unique.
        now: RFC 3339, whole seconds, ``Z``.
        suffix: 5 random characters of ``[a-z0-9]``.

    Returns:
        A new object that shares unchanged parts; ``resourceVersion`` is not set yet.

    Raises:
        StatusError: ``BadRequest``: not this kind, or another name or namespace than the path's.
            ``check_metadata`` finds all other faults.
    """
    _check_type(kind, obj)
    sent = _metadata_of(obj)
    _check_place(sent, name, namespace)
    metadata: Object = {}
    metadata["name"] = name or sent.get("name") or _generated(sent.get("generateName"), suffix)
    if kind.namespaced:
        metadata["namespace"] = namespace
    elif sent.get("namespace"):
        metadata["namespace"] = sent["namespace"]
    metadata["uid"] = uid
    if kind.generations:
        metadata["generation"] = 1
    metadata["creationTimestamp"] = now
    metadata |= {member: sent[member] for member in _CLIENT if _given(sent.get(member))}
    if not is_managed(metadata.get("managedFields")):
        metadata.pop("managedFields", None)
    return _assemble(kind, metadata, obj, None)


def for_update(
    kind: Kind,
    new: Object,
    old: Object,
    *,
    subresource: str = "",
    by_server: bool = False,
) -> Object:
    """Build the object after an update.

    The main resource keeps the old ``status`` (if the kind has one), ``/status`` keeps all but the
    status. ``metadata.generation`` is unchanged: use ``with_generation``.
    A client may write ``managedFields`` (kubectl does when it migrates to server-side apply);
    absent or invalid ones keep the old value, ``[{}]`` clears it.

    Args:
        kind: Of both.
        new: The desired object; not modified.
        old: The current object; not modified.
        subresource: ``status``, or empty.
        by_server: A write of the server itself: takes spec and status from *new*.

    Returns:
        A new object, equal to *old* when nothing changed.

    Raises:
        StatusError: ``Conflict``: *new* names another ``uid`` or ``resourceVersion``.
            ``BadRequest``: not this kind, or another name or namespace. ``Invalid``: a finalizer is
            added to an object that is being deleted.
    """
    _check_type(kind, new)
    sent, stood = _metadata_of(new), old["metadata"]
    _check_place(sent, stood["name"], stood.get("namespace", ""))
    _check_incarnation(kind, sent, stood)
    metadata = {member: stood[member] for member in _SERVER if member in stood}
    clients = stood if subresource else sent
    metadata |= {
        member: clients[member]
        for member in _CLIENT
        if member not in ("generateName", "managedFields") and _given(clients.get(member))
    }
    managed = _managed_after(sent.get("managedFields"), stood.get("managedFields"))
    if managed:
        metadata["managedFields"] = managed
    _check_finalizers(kind, metadata, stood)
    if subresource and not by_server:
        return _assemble(kind, metadata, old, new)
    return _assemble(kind, metadata, new, new if by_server else old)


def with_generation(kind: Kind, new: Object, old: Object) -> Object:
    """*new* with the next generation if anything but metadata and status changed since *old*."""
    if not kind.generations or _counted(new) == _counted(old):
        return new
    generation = int(old["metadata"].get("generation", 0)) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def with_version(obj: Object, version: int) -> Object:
    """*obj* with this ``metadata.resourceVersion``; a new object that shares the rest."""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(version)}}


def check_size(size_bytes: int) -> None:
    """Refuse an object that is larger than ``OBJECT_BYTES_MAX``.

    Raises:
        StatusError: ``RequestEntityTooLarge``.
    """
    if size_bytes > OBJECT_BYTES_MAX:
        message = f"Request entity too large: limit is {OBJECT_BYTES_MAX}"
        raise StatusError("RequestEntityTooLarge", f"{message}, the object has {size_bytes} bytes")


def unknown_metadata(obj: Object) -> list[str]:
    """Paths of unknown members of ``metadata``, for warnings and strict checks."""
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return []
    return [f"metadata.{name}" for name in sorted(metadata) if name not in METADATA_FIELDS]


def is_managed(entries: Any) -> bool:
    """Whether *entries* is a non-empty list of ``ManagedFieldsEntry``."""
    return isinstance(entries, list) and bool(entries) and all(map(_is_entry, entries))


def _is_entry(entry: Any) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("manager", ""), str)
        and entry.get("operation") in _OPERATIONS
        and isinstance(entry.get("subresource", ""), str)
        and entry.get("fieldsType", "FieldsV1") == "FieldsV1"
        and isinstance(entry.get("fieldsV1", {}), dict)
    )


def _assemble(kind: Kind, metadata: Object, obj: Object, status_of: Object | None) -> Object:
    """Combine *metadata*, the rest of *obj*, and the status of *status_of* if the kind has one."""
    result: Object = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    result |= {
        member: value
        for member, value in obj.items()
        if member not in result and not (kind.has_status and member == "status")
    }
    if kind.has_status and status_of is not None and "status" in status_of:
        result["status"] = status_of["status"]
    return result


def _counted(obj: Object) -> Object:
    """The members whose changes ``metadata.generation`` counts."""
    return {name: value for name, value in obj.items() if name not in ("metadata", "status")}


def _given(value: Any) -> bool:
    """Whether a member is set: null, and an empty list or map, mean the same as absent."""
    return value not in (None, {}, [], "")


def _generated(prefix: Any, suffix: str) -> str:
    return prefix + suffix if prefix and isinstance(prefix, str) else ""


def _metadata_of(obj: Object) -> Object:
    metadata = obj.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        raise StatusError("BadRequest", "metadata must be an object")
    return metadata


def _check_type(kind: Kind, obj: Object) -> None:
    version, name = obj.get("apiVersion"), obj.get("kind")
    if version is not None and version != kind.api_version:
        raise StatusError(
            "BadRequest",
            f"the API version in the data ({str(version)[:100]}) does not match the expected "
            f"API version ({kind.api_version})",
        )
    if name is not None and name != kind.kind:
        raise StatusError(
            "BadRequest",
            f'{str(name)[:100]} in version "{kind.api_version}" cannot be handled as a {kind.kind}',
        )


def _check_place(sent: Object, name: str, namespace: str) -> None:
    if name and sent.get("name") and sent["name"] != name:
        raise StatusError(
            "BadRequest",
            f"the name of the object ({str(sent['name'])[:300]}) does not match the name on the "
            f"URL ({name})",
        )
    if namespace and sent.get("namespace") and sent["namespace"] != namespace:
        raise StatusError(
            "BadRequest",
            f"the namespace of the provided object ({str(sent['namespace'])[:300]}) does not match "
            f"the namespace sent on the request ({namespace})",
        )


def _check_incarnation(kind: Kind, sent: Object, stood: Object) -> None:
    uid = sent.get("uid")
    if uid and uid != stood["uid"]:
        raise conflict(
            kind,
            stood["name"],
            f"Precondition failed: UID in precondition: {str(uid)[:100]}, UID in object meta: "
            f"{stood['uid']}",
        )
    version = sent.get("resourceVersion")
    # ``0`` means any, as in the API server.
    if version not in (None, "", "0") and str(version) != stood.get("resourceVersion"):
        raise conflict(kind, stood["name"])


def _check_finalizers(kind: Kind, metadata: Object, stood: Object) -> None:
    if "deletionTimestamp" not in stood:
        return
    new, old = metadata.get("finalizers", []), stood.get("finalizers", [])
    added = [str(name)[:100] for name in new if name not in old] if isinstance(new, list) else []
    if added:
        why = "no new finalizers can be added if the object is being deleted"
        cause = forbidden("metadata.finalizers", f"{why}, found new finalizers {added}")
        raise invalid(kind, stood["name"], [cause])


def _managed_after(sent: Any, stood: Any) -> Any:
    """The ``managedFields`` after an update; ``[{}]`` clears them."""
    if sent == [{}]:
        return None
    return sent if is_managed(sent) else stood
