"""Words that schemas are written in: OpenAPI v2, as the Kubernetes API server publishes it."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.knative.apiserver.machinery import Kind

Schema = dict[str, Any]
"""A schema object of OpenAPI v2; ``$ref`` may stand beside a description."""

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""Definitions of object metadata; ``apiserver.machinery`` has them."""

_API_VERSION: Final = "Version of the schema: `{}`."
_KIND: Final = "Name of the kind: `{}`."


def text(description: str, **more: Any) -> Schema:
    """A string."""
    return {"description": description, "type": "string", **more}


def one_of(description: str, *values: str, **more: Any) -> Schema:
    """A string out of *values*."""
    return {"description": description, "type": "string", "enum": list(values), **more}


def time(description: str) -> Schema:
    """A point in time, RFC 3339."""
    return text(description, format="date-time")


def whole(description: str, *, bits: int = 64, **more: Any) -> Schema:
    """An integer of *bits*; *more* may hold ``minimum`` and ``maximum``."""
    return {"description": description, "type": "integer", "format": f"int{bits}", **more}


def flag(description: str) -> Schema:
    """A boolean."""
    return {"description": description, "type": "boolean"}


def ref(name: str, description: str) -> Schema:
    """What stands as the definition *name*."""
    return {"description": description, "$ref": f"#/definitions/{name}"}


def array(description: str, items: Schema, **more: Any) -> Schema:
    """An array of *items*."""
    return {"description": description, "type": "array", "items": items, **more}


def keyed(name: str, description: str, *keys: str) -> Schema:
    """An array of the definition *name*, whose items are told apart by *keys*.

    Patches merge it item by item: strategic ones by the first key, server-side apply by all.
    """
    return {
        "description": description,
        "type": "array",
        "items": {"$ref": f"#/definitions/{name}"},
        "x-kubernetes-list-map-keys": list(keys),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-patch-merge-key": keys[0],
        "x-kubernetes-patch-strategy": "merge",
    }


def texts(description: str, **more: Any) -> Schema:
    """An object whose members are strings (a map)."""
    return {
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string", **more},
    }


def struct(description: str, required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """An object with these members, of which *required* must be there."""
    value: Schema = {"description": description, "type": "object", "properties": properties}
    return {**value, "required": list(required)} if required else value


def top(kind: Kind, description: str, members: Mapping[str, Schema]) -> Schema:
    """The definition of *kind* itself: its *members* behind those that every object has."""
    properties = {
        "apiVersion": text(_API_VERSION.format(kind.api_version)),
        "kind": text(_KIND.format(kind.kind)),
        "metadata": ref(META + "ObjectMeta", "Name, labels, annotations and the like."),
        **members,
    }
    names = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [names],
    }
