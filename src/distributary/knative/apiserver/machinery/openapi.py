"""OpenAPI documents, v2 and v3, used by kubectl to explain and validate."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from distributary.knative.apiserver.machinery._kind import Kind, Object
from distributary.knative.apiserver.machinery._meta_schemas import META_SCHEMAS
from distributary.knative.apiserver.machinery._operations import Operation, operations
from distributary.knative.apiserver.machinery.discovery import GIT_VERSION
from distributary.knative.apiserver.machinery.schema_words import META, REF, ref, struct, text

_V3: Final = "#/components/schemas/"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_INFO: Final = {"title": "distributary", "version": GIT_VERSION}

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def patch_types(kind: Kind) -> tuple[str, ...]:
    """Content types of patches for *kind*.

    Strategic merge patch only for core kinds: the API server has merge keys only for its own kinds.
    """
    strategic = () if kind.group else (STRATEGIC_PATCH,)
    return (JSON_PATCH, MERGE_PATCH, *strategic, APPLY_PATCH)


def openapi_v2(kinds: Sequence[Kind], schemas: Mapping[str, Object]) -> Object:
    """The document at ``/openapi/v2``.

    Args:
        kinds: All that are served.
        schemas: Their definitions by name; a kind's own is ``Kind.definition``.
    """
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": _paths(operations(kinds), _v2),
        "definitions": _definitions(kinds, schemas),
    }


def openapi_v3_index(documents: Mapping[str, Object]) -> Object:
    """The document at ``/openapi/v3``: paths of the others, with their hashes.

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
    """Hash of *document*, for ``ETag`` and the index."""
    encoded = msgspec.json.encode(document, order="sorted")
    return hashlib.sha256(encoded).hexdigest()[:32].upper()


def openapi_v3(
    group: str, version: str, kinds: Iterable[Kind], schemas: Mapping[str, Object]
) -> Object:
    """The document at ``/openapi/v3/apis/{group}/{version}``, or ``/openapi/v3/api/v1``.

    Args:
        group: Of the kinds in it; empty: the core group.
        version: Of the group.
        kinds: All that are served; those of other groups and versions are left out.
        schemas: As in ``openapi_v2``; only referenced ones are included.
    """
    chosen = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    listed = list(operations(chosen))
    definitions = _definitions(chosen, schemas)
    used = _reached(definitions, [REF + operation.result for operation in listed])
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _paths(listed, _v3),
        "components": {
            "schemas": {name: _schema_v3(definitions[name]) for name in definitions if name in used}
        },
    }


def _paths(listed: Iterable[Operation], draw: Callable[[Operation], Object]) -> Object:
    paths: dict[str, Object] = {}
    for operation in listed:
        paths.setdefault(operation.path, {})[operation.method] = draw(operation)
    return paths


def _definitions(kinds: Iterable[Kind], schemas: Mapping[str, Object]) -> dict[str, Object]:
    lists = {f"{kind.definition}List": _list_of(kind) for kind in kinds}
    return dict(sorted({**META_SCHEMAS, **schemas, **lists}.items()))


def _list_of(kind: Kind) -> Object:
    name = f"{kind.kind}List"
    return struct(
        f"A list of {kind.kind} objects.",
        ("items",),
        apiVersion=text(f"`{kind.api_version}`."),
        items={
            "description": "The objects.",
            "type": "array",
            "items": {"$ref": REF + kind.definition},
        },
        kind=text(f"`{name}`."),
        metadata=ref(META + "ListMeta", "Of the list."),
    ) | {"x-kubernetes-group-version-kind": [kind.names | {"kind": name}]}


def _body_types(operation: Operation) -> tuple[str, ...]:
    return patch_types(operation.kind) if operation.method == "patch" else (_JSON, _YAML)


def _code(operation: Operation) -> str:
    return "201" if operation.method == "post" else "200"


def _v2(operation: Operation) -> Object:
    parameters = operation.parameters()
    if operation.body:
        parameters.append(
            {
                "name": "body",
                "in": "body",
                "required": operation.method != "delete",
                "schema": {"$ref": REF + operation.body},
            }
        )
    answer = {"description": "OK", "schema": {"$ref": REF + operation.result}}
    return {
        "operationId": operation.id,
        "consumes": list(_body_types(operation)) if operation.body else ["*/*"],
        "produces": [_JSON],
        "parameters": parameters,
        "responses": {_code(operation): answer},
        **operation.extensions,
    }


def _v3(operation: Operation) -> Object:
    answer = {"description": "OK", "content": _content((_JSON,), operation.result)}
    document: Object = {
        "operationId": operation.id,
        "parameters": [
            {name: value for name, value in parameter.items() if name != "type"}
            | {"schema": {"type": parameter["type"]}}
            for parameter in operation.parameters()
        ],
        "responses": {_code(operation): answer},
        **operation.extensions,
    }
    if operation.body:
        content = _content(_body_types(operation), operation.body)
        document["requestBody"] = {"content": content, "required": operation.method != "delete"}
    return document


def _content(types: Iterable[str], name: str) -> Object:
    return {media_type: {"schema": {"$ref": _V3 + name}} for media_type in types}


def _schema_v3(node: Any) -> Any:
    """Convert a schema of v2 to v3: other reference targets, and ``$ref`` without siblings."""
    if isinstance(node, list):
        return [_schema_v3(item) for item in node]
    if not isinstance(node, dict):
        return node
    ref = node.get("$ref")
    if isinstance(ref, str):
        target = {"$ref": _V3 + ref.removeprefix(REF)}
        others = {name: value for name, value in node.items() if name != "$ref"}
        return {**others, "allOf": [target]} if others else target
    return {name: _schema_v3(value) for name, value in node.items()}


def _reached(definitions: Mapping[str, Object], refs: Iterable[str]) -> set[str]:
    """Names of the definitions reachable from *refs* and from request bodies."""
    found: set[str] = set()
    waiting = [*refs, *(f"{REF}{META}{name}" for name in ("DeleteOptions", "Patch", "WatchEvent"))]
    while waiting:
        name = waiting.pop().removeprefix(REF)
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
