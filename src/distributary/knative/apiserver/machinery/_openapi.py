"""OpenAPI documents, v2 and v3, that kubectl explains and validates by."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from distributary.knative.apiserver.machinery._discovery import GIT_VERSION
from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery._meta_schemas import META, META_SCHEMAS
from distributary.knative.apiserver.machinery._operations import Operation, operations

_V2: Final = "#/definitions/"
_V3: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_INFO: Final = {"title": "distributary", "version": GIT_VERSION}
_PATCHES: Final = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/apply-patch+yaml",
)
_STRATEGIC: Final = "application/strategic-merge-patch+json"


def patch_types(kind: Kind) -> tuple[str, ...]:
    """Content types of the patches that *kind* takes: strategic ones for the core kinds alone."""
    return _PATCHES if kind.group else (*_PATCHES, _STRATEGIC)


def openapi_v2(
    kinds: Iterable[Kind], schemas: Mapping[str, Object], schema_of: Mapping[str, str]
) -> Object:
    """The document at ``/openapi/v2``.

    Args:
        kinds: All that are served.
        schemas: Their definitions by name, ``$ref`` to ``#/definitions/...``; that of a kind itself
            has ``x-kubernetes-group-version-kind``.
        schema_of: ``Kind.resource`` -> name of its definition.
    """
    kinds = tuple(kinds)
    paths: dict[str, Object] = {}
    for operation in operations(kinds):
        paths.setdefault(operation.path, {})[operation.method] = _v2(operation, schema_of)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": paths,
        "definitions": _definitions(kinds, schemas, schema_of),
    }


def openapi_v3_index(documents: Mapping[str, Object]) -> Object:
    """The document at ``/openapi/v3``: where the others are, with their hashes.

    Args:
        documents: ``apis/{group}/{version}`` or ``api/v1`` -> ``openapi_v3`` of it.
    """
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={openapi_hash(document)}"}
            for path, document in documents.items()
        }
    }


def openapi_hash(document: Object) -> str:
    """Changes with the document; for ``ETag`` and the index."""
    encoded = msgspec.json.encode(document, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:32].upper()


def openapi_v3(
    group: str,
    version: str,
    kinds: Iterable[Kind],
    schemas: Mapping[str, Object],
    schema_of: Mapping[str, str],
) -> Object:
    """The document at ``/openapi/v3/apis/{group}/{version}``, or ``/openapi/v3/api/v1``.

    Args:
        group: Of the kinds in it; empty: the core group.
        version: Of the group.
        kinds: All that are served; others are left out.
        schemas: As in ``openapi_v2``; only what is referred to gets in.
        schema_of: ``Kind.resource`` -> name of its definition.
    """
    chosen = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    paths: dict[str, Object] = {}
    for operation in operations(chosen):
        paths.setdefault(operation.path, {})[operation.method] = _v3(operation, schema_of)
    definitions = _definitions(chosen, schemas, schema_of)
    used = _reached(definitions, [_V2 + _result_name(op, schema_of) for op in operations(chosen)])
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {
            "schemas": {name: _schema_v3(definitions[name]) for name in definitions if name in used}
        },
    }


def _definitions(
    kinds: Iterable[Kind], schemas: Mapping[str, Object], schema_of: Mapping[str, str]
) -> dict[str, Object]:
    lists = {f"{schema_of[kind.resource]}List": _list_of(kind, schema_of) for kind in kinds}
    definitions: dict[str, Object] = {**META_SCHEMAS, **schemas, **lists}
    return dict(sorted(definitions.items()))


def _list_of(kind: Kind, schema_of: Mapping[str, str]) -> Object:
    name = f"{kind.kind}List"
    return {
        "description": f"A list of {kind.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": f"`{kind.api_version}`.", "type": "string"},
            "items": {
                "description": "The objects.",
                "type": "array",
                "items": {"$ref": _V2 + schema_of[kind.resource]},
            },
            "kind": {"description": f"`{name}`.", "type": "string"},
            "metadata": {"description": "Of the list.", "$ref": f"{_V2}{META}ListMeta"},
        },
        "x-kubernetes-group-version-kind": [
            {"group": kind.group, "kind": name, "version": kind.version}
        ],
    }


def _result_name(operation: Operation, schema_of: Mapping[str, str]) -> str:
    name = schema_of[operation.kind.resource]
    return {"object": name, "list": f"{name}List", "status": f"{META}Status"}[operation.result]


def _body_name(operation: Operation, schema_of: Mapping[str, str]) -> str:
    name = schema_of[operation.kind.resource]
    return {"object": name, "patch": f"{META}Patch", "delete": f"{META}DeleteOptions"}[
        operation.body
    ]


def _body_types(operation: Operation) -> tuple[str, ...]:
    return patch_types(operation.kind) if operation.body == "patch" else (_JSON, _YAML)


def _code(operation: Operation) -> str:
    return "201" if operation.method == "post" else "200"


def _v2(operation: Operation, schema_of: Mapping[str, str]) -> Object:
    parameters = operation.parameters()
    if operation.body:
        parameters.append(
            {
                "name": "body",
                "in": "body",
                "required": operation.body != "delete",
                "schema": {"$ref": _V2 + _body_name(operation, schema_of)},
            }
        )
    return {
        "operationId": operation.id,
        "consumes": list(_body_types(operation)) if operation.body else ["*/*"],
        "produces": [_JSON],
        "parameters": parameters,
        "responses": {
            _code(operation): {
                "description": "OK",
                "schema": {"$ref": _V2 + _result_name(operation, schema_of)},
            }
        },
        **operation.extensions,
    }


def _v3(operation: Operation, schema_of: Mapping[str, str]) -> Object:
    document: Object = {
        "operationId": operation.id,
        "parameters": [
            {name: value for name, value in parameter.items() if name != "type"}
            | {"schema": {"type": parameter["type"]}}
            for parameter in operation.parameters()
        ],
        "responses": {
            _code(operation): {
                "description": "OK",
                "content": _content((_JSON,), _result_name(operation, schema_of)),
            }
        },
        **operation.extensions,
    }
    if operation.body:
        content = _content(_body_types(operation), _body_name(operation, schema_of))
        document["requestBody"] = {"content": content, "required": operation.body != "delete"}
    return document


def _content(types: Iterable[str], name: str) -> Object:
    return {media_type: {"schema": {"$ref": _V3 + name}} for media_type in types}


def _schema_v3(node: Any) -> Any:
    """A schema of v2 as one of v3: references elsewhere, and alone in their object."""
    if isinstance(node, list):
        return [_schema_v3(item) for item in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if isinstance(ref, str):
        target = {"$ref": _V3 + ref.removeprefix(_V2)}
        others = {name: value for name, value in node.items() if name != "$ref"}
        return {**others, "allOf": [target]} if others else target
    return {name: _schema_v3(value) for name, value in node.items()}


def _reached(definitions: Mapping[str, Object], refs: Iterable[str]) -> set[str]:
    """Names of the definitions that *refs* lead to; those of requests always."""
    found: set[str] = set()
    waiting = [*refs, *(f"{_V2}{META}{name}" for name in ("DeleteOptions", "Patch", "WatchEvent"))]
    while waiting:
        name = waiting.pop().removeprefix(_V2)
        if name not in found:
            found.add(name)
            waiting.extend(_refs(definitions[name]))
    return found


def _refs(node: Any) -> list[str]:
    if isinstance(node, list):
        return [ref for item in node for ref in _refs(item)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
    return own + [ref for value in node.values() for ref in _refs(value)]
