"""Discovery documents: groups, versions, resources, verbs."""

import platform
from collections.abc import Iterable, Iterator
from typing import Final

from distributary.knative.apiserver.machinery._kind import Kind, Object

GIT_VERSION: Final = "v1.32.0+distributary"
"""Version of the API server whose conventions are followed. Clients read only the minor version:
kubectl warns if it differs from its own by more than one."""

_MAJOR: Final = "1"
_MINOR: Final = "32"

_VERBS: Final = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
_READ_VERBS: Final = ("get", "list")
_STATUS_VERBS: Final = ("get", "patch", "update")


def verbs(kind: Kind) -> list[str]:
    """Verbs of *kind*; Namespaces have no ``deletecollection`` (as in Kubernetes)."""
    if kind.read_only:
        return list(_READ_VERBS)
    return [verb for verb in _VERBS if kind.namespaced or verb != "deletecollection"]


def api_versions() -> Object:
    """``GET /api``."""
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def api_groups(kinds: Iterable[Kind]) -> Object:
    """``GET /apis``: all groups except the core group."""
    groups = [_group(name, served) for name, served in _grouped(kinds).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def api_group(group: str, kinds: Iterable[Kind]) -> Object | None:
    """``GET /apis/{group}``; None: not served."""
    served = _grouped(kinds).get(group)
    if not group or served is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(group, served)}


def resource_list(group: str, version: str, kinds: Iterable[Kind]) -> Object | None:
    """``GET /apis/{group}/{version}``, for the core group ``GET /api/v1``; None: not served."""
    served = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not served:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": [resource for kind in served for resource in _resources(kind)],
    }


def aggregated(kinds: Iterable[Kind], *, core: bool, version: str = "v2") -> Object:
    """Aggregated discovery: ``GET /api`` (*core*) or ``GET /apis``, with all resources.

    Args:
        kinds: All that are served.
        core: Only the core group; else all other groups.
        version: Of the list: ``v2`` (kubectl from 1.30) or ``v2beta1`` (from 1.26).
    """
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name, "creationTimestamp": None},
                "versions": [
                    {
                        "version": number,
                        "resources": [_discovered(kind) for kind in served[number]],
                        "freshness": "Current",
                    }
                    for number in served
                ],
            }
            for name, served in _grouped(kinds).items()
            if (name == "") is core
        ],
    }


def version() -> Object:
    """``GET /version``."""
    return {
        "major": _MAJOR,
        "minor": _MINOR,
        "gitVersion": GIT_VERSION,
        "gitCommit": "unknown",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{platform.machine().lower()}",
    }


def _grouped(kinds: Iterable[Kind]) -> dict[str, dict[str, list[Kind]]]:
    """Group -> version -> kinds, in the given order."""
    groups: dict[str, dict[str, list[Kind]]] = {}
    for kind in kinds:
        groups.setdefault(kind.group, {}).setdefault(kind.version, []).append(kind)
    return groups


def _group(name: str, served: dict[str, list[Kind]]) -> Object:
    versions = [{"groupVersion": f"{name}/{number}", "version": number} for number in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _resources(kind: Kind) -> Iterator[Object]:
    shared = {"namespaced": kind.namespaced, "kind": kind.kind}
    names = {"name": kind.plural, "singularName": kind.singular}
    yield names | shared | {"verbs": verbs(kind)} | _nicknames(kind)
    if kind.has_status:
        names = {"name": f"{kind.plural}/status", "singularName": ""}
        yield names | shared | {"verbs": list(_STATUS_VERBS)}


def _discovered(kind: Kind) -> Object:
    response = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    resource: Object = {
        "resource": kind.plural,
        "responseKind": response,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": kind.singular,
        "verbs": verbs(kind),
    }
    resource |= _nicknames(kind)
    if kind.has_status:
        resource["subresources"] = [
            {"subresource": "status", "responseKind": response, "verbs": list(_STATUS_VERBS)}
        ]
    return resource


def _nicknames(kind: Kind) -> Object:
    names = {"shortNames": list(kind.short_names), "categories": list(kind.categories)}
    return {name: value for name, value in names.items() if value}
