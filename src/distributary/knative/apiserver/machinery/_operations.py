"""The operations on each kind, for both OpenAPI documents."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery.schema_words import META

_QUERY: Final = {
    "allowWatchBookmarks": ("boolean", "A watch sends bookmarks with its version."),
    "continue": ("string", "Continue a list: `metadata.continue` of the previous part."),
    "dryRun": ("string", "`All`: do everything but store the change."),
    "fieldManager": ("string", "Name of the writer, for `metadata.managedFields`."),
    "fieldSelector": ("string", "Only objects with these fields: `metadata.name=a`."),
    "fieldValidation": ("string", "Unknown and duplicate fields: `Ignore`, `Warn` or `Strict`."),
    "force": ("boolean", "Server-side apply takes fields from their owners."),
    "gracePeriodSeconds": ("integer", "Accepted, not used."),
    "labelSelector": ("string", "Only objects with these labels: `a=b,c in (d,e)`."),
    "limit": ("integer", "Largest number of objects in one response."),
    "propagationPolicy": ("string", "`Orphan` keeps dependents; otherwise they are deleted."),
    "resourceVersion": ("string", "Oldest acceptable version of a list; start of a watch."),
    "resourceVersionMatch": ("string", "Meaning of `resourceVersion`: `NotOlderThan`, `Exact`."),
    "sendInitialEvents": ("boolean", "A watch begins with the existing objects."),
    "timeoutSeconds": ("integer", "Longest duration of the list or watch, seconds."),
    "watch": ("boolean", "Watch: stream changes."),
}
_PATH: Final = {"name": "Name of the object.", "namespace": "Namespace of the object."}

_LISTED: Final = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_LISTED_ONLY: Final = ("continue", "fieldSelector", "labelSelector", "limit")
"""Of kinds that cannot be watched."""
_WRITTEN: Final = ("dryRun", "fieldManager", "fieldValidation")
_PATCHED: Final = (*_WRITTEN, "force")
_DELETED: Final = ("dryRun", "gracePeriodSeconds", "propagationPolicy")


class Operation(NamedTuple):
    """One operation of the API.

    Attributes:
        path: With ``{namespace}`` and ``{name}``.
        method: In lower case.
        kind: Of its objects.
        action: Value of ``x-kubernetes-action``.
        query: Names of its query parameters.
        body: Name of the definition of its body; empty: it has none.
        result: Name of the definition of its response.
    """

    path: str
    method: str
    kind: Kind
    action: str
    query: tuple[str, ...]
    body: str
    result: str

    @property
    def id(self) -> str:
        """Unique in a document: ``replaceNamespacedTriggerStatus``..."""
        kind = self.kind
        group = "core" if not kind.group else kind.group.split(".", 1)[0]
        scope = "ForAllNamespaces" if kind.namespaced and "{namespace}" not in self.path else ""
        part = "Status" if self.path.endswith("/status") else ""
        version = kind.version.capitalize()
        return f"{self.action}{group.capitalize()}{version}{kind.kind}{part}{scope}"

    @property
    def extensions(self) -> Object:
        """Extensions by which kubectl finds the operations of a kind."""
        return {
            "x-kubernetes-action": self.action,
            "x-kubernetes-group-version-kind": self.kind.names,
        }

    def parameters(self) -> list[Object]:
        """Its path and query parameters, in the form of OpenAPI v2."""
        placed = [
            {"name": name, "in": "path", "required": True, "type": "string", "description": text}
            for name, text in _PATH.items()
            if f"{{{name}}}" in self.path
        ]
        return placed + [
            {"name": name, "in": "query", "type": _QUERY[name][0], "description": _QUERY[name][1]}
            for name in self.query
        ]


def operations(kinds: Iterable[Kind]) -> Iterator[Operation]:
    """All operations on *kinds*."""
    for kind in kinds:
        root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        if kind.namespaced:
            yield _list(kind, f"{root}/{kind.plural}")
            root += "/namespaces/{namespace}"
        yield from _of_kind(kind, f"{root}/{kind.plural}")


def _list(kind: Kind, path: str) -> Operation:
    query = _LISTED_ONLY if kind.read_only else _LISTED
    return Operation(path, "get", kind, "list", query, "", f"{kind.definition}List")


def _of_kind(kind: Kind, path: str) -> Iterator[Operation]:
    own, options, status = kind.definition, f"{META}DeleteOptions", f"{META}Status"
    yield _list(kind, path)
    if kind.read_only:
        yield Operation(path + "/{name}", "get", kind, "get", (), "", own)
        return
    yield Operation(path, "post", kind, "post", _WRITTEN, own, own)
    if kind.namespaced:
        query = (*_LISTED[1:5], *_DELETED)
        yield Operation(path, "delete", kind, "deletecollection", query, options, status)
    path += "/{name}"
    yield from _of_one(kind, path)
    yield Operation(path, "delete", kind, "delete", _DELETED, options, status)
    if kind.has_status:
        yield from _of_one(kind, f"{path}/status")


def _of_one(kind: Kind, path: str) -> Iterator[Operation]:
    own = kind.definition
    yield Operation(path, "get", kind, "get", (), "", own)
    yield Operation(path, "put", kind, "put", _WRITTEN, own, own)
    yield Operation(path, "patch", kind, "patch", _PATCHED, f"{META}Patch", own)
