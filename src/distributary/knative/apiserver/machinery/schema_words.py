"""Builders for schemas: OpenAPI v2, in the style of the Kubernetes API server."""

from collections.abc import Mapping
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Kind

Schema = dict[str, Any]
"""A schema object of OpenAPI v2; a ``$ref`` may have a description beside it."""

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
"""Prefix of the names of the definitions of object metadata (``META_SCHEMAS``)."""

REF: Final = "#/definitions/"
"""Prefix of a ``$ref``, before the name of the definition."""

_API_VERSION: Final = "Version of the schema: `{}`."
_KIND: Final = "Name of the kind: `{}`."


def text(description: str, **more: Any) -> Schema:
    """A string."""
    return {"description": description, "type": "string", **more}


def one_of(description: str, *values: str, **more: Any) -> Schema:
    """A string, one of *values*."""
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
    """A reference to the definition *name*."""
    return {"description": description, "$ref": REF + name}


def array(description: str, items: Schema | str = "", **more: str | list[str]) -> Schema:
    """An atomic array of strings, or of *items*: a schema, or a definition's name.

    *more*: its extensions (``x-kubernetes-list-type``...).
    """
    if isinstance(items, str):
        items = {"$ref": REF + items} if items else {"type": "string"}
    extensions = {"list_type": "atomic", **more}
    return {"description": description, "type": "array", "items": items} | {
        f"x-kubernetes-{name.replace('_', '-')}": value for name, value in extensions.items()
    }


def keyed(name: str, description: str, *keys: str) -> Schema:
    """An array of the definition *name*, whose items are identified by *keys*.

    Patches merge it item by item: strategic merge patch by the first key, server-side apply by all.
    """
    return array(
        description,
        name,
        list_map_keys=list(keys),
        list_type="map",
        patch_merge_key=keys[0],
        patch_strategy="merge",
    )


def texts(description: str, **more: Any) -> Schema:
    """An object whose members are strings (a map)."""
    return {
        "description": description,
        "type": "object",
        "additionalProperties": {"type": "string", **more},
    }


def struct(description: str, required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    """An object with these members, of which *required* must be present."""
    value: Schema = {"description": description, "type": "object", "properties": properties}
    return {**value, "required": list(required)} if required else value


def top(kind: Kind, description: str, members: Mapping[str, Schema]) -> Schema:
    """The definition of *kind*: the members of every object, then *members*."""
    properties = {
        "apiVersion": text(_API_VERSION.format(kind.api_version)),
        "kind": text(_KIND.format(kind.kind)),
        "metadata": ref(META + "ObjectMeta", "Name, labels, annotations and the like."),
        **members,
    }
    return {
        "description": description,
        "type": "object",
        "properties": properties,
        "x-kubernetes-group-version-kind": [kind.names],
    }
