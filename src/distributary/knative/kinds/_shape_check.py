"""Checks objects against their schema: unknown members, types, bounds.

``filter.check`` checks filter expressions, ``apiserver.machinery`` checks metadata.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any, Final

from distributary.knative.apiserver.machinery import Cause, Kind, Object
from distributary.knative.apiserver.machinery.names import (
    bad_value,
    forbidden,
    required,
    unsupported,
    wrong_type,
)
from distributary.knative.apiserver.machinery.schema_words import REF, Schema
from distributary.knative.kinds._schemas import SCHEMAS
from distributary.knative.kinds._schemas_kinds import FILTER, TRIGGER_FILTER
from distributary.resource.times import parse_time_ms

UNKNOWN_MAX: Final = 100
"""Unknown fields reported at once."""

_NAME_CHARS_MAX: Final = 64
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./-]+")

_KEPT_WHOLE: Final = frozenset({FILTER, TRIGGER_FILTER})
"""Definitions in which an unknown member is a fault, not a warning."""

_WIDER: Final = "without it the filter would let more events pass than was meant"


def known_part(kind: Kind, obj: Object, unknown: list[str] | None = None) -> Object:
    """*obj* without members unknown to its schema, and without nulls.

    Null means absent, as everywhere in the Kubernetes API.

    Args:
        kind: Of the object.
        obj: Any JSON object.
        unknown: Receives the paths of unknown members, at most ``UNKNOWN_MAX``.

    Returns:
        A new object, which shares with *obj* the parts without a schema here (metadata).
    """
    part: Object = _known(SCHEMAS[kind.definition], obj, "", unknown)
    return part


def unknown_fields(kind: Kind, obj: Object) -> list[str]:
    """Paths of members of *obj* that its schema does not know, such as ``spec.filtr``.

    Without those of ``metadata`` (``apiserver.machinery``), and of a Trigger's filters (faults).
    """
    unknown: list[str] = []
    known_part(kind, obj, unknown)
    return unknown


def sound_part(kind: Kind, obj: Object, causes: list[Cause]) -> Object:
    """*obj* with None in place of members that violate its schema.

    Args:
        kind: Of the object.
        obj: What ``known_part`` returned.
        causes: Receives the faults: types, values out of bounds, missing members.
    """
    schema = SCHEMAS[kind.definition]
    spec = _target(schema["properties"].get("spec", {})) or {}
    if spec.get("required"):  # so that its missing members are reported
        obj = {"spec": {}, **obj}
    part: Object = _sound(schema, obj, "", causes)
    return part


def at(path: str, name: object) -> str:
    """Path of the member *name* of the object at *path*."""
    text = str(name)
    if not _PLAIN.fullmatch(text) or len(text) > _NAME_CHARS_MAX:
        return key(path, text)
    return f"{path}.{text}" if path else text


def key(path: str, name: str) -> str:
    """Path of the entry *name* of the map at *path*."""
    plain = _PLAIN.fullmatch(name) and len(name) <= _NAME_CHARS_MAX
    return f"{path}[{name if plain else json.dumps(name[:_NAME_CHARS_MAX])}]"


def _target(schema: Schema) -> Schema | None:
    """*schema*, or what it refers to; None: defined elsewhere."""
    name = schema.get("$ref", "").removeprefix(REF)
    return SCHEMAS.get(name) if name else schema


def _known(schema: Schema, value: Any, path: str, unknown: list[str] | None) -> Any:
    found = _target(schema)
    if found is None or schema.get("$ref", "").removeprefix(REF) in _KEPT_WHOLE:
        return value
    if isinstance(value, list) and "items" in found:
        items = found["items"]
        return [_known(items, each, f"{path}[{n}]", unknown) for n, each in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if "additionalProperties" in found:
        return {name: each for name, each in value.items() if each is not None}
    if "properties" not in found:
        return value
    return _known_members(found["properties"], value, path, unknown)


def _known_members(
    properties: dict[str, Schema], value: Object, path: str, unknown: list[str] | None
) -> Object:
    part: Object = {}
    for name, each in value.items():
        if name not in properties:
            if unknown is not None and len(unknown) < UNKNOWN_MAX:
                unknown.append(at(path, name))
        elif each is not None:
            part[name] = _known(properties[name], each, at(path, name), unknown)
    return part


def _sound(schema: Schema, value: Any, path: str, causes: list[Cause]) -> Any:
    found = _target(schema)
    if found is None or schema.get("$ref") == REF + FILTER:
        return value
    type_, check = _TYPES[found["type"]]
    if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
        if found.get("format") == "int-or-string" and type(value) is int:
            return value
        causes.append(wrong_type(path, value, found["type"]))
        return None
    return check(found, value, path, causes)


def _object(schema: Schema, value: Object, path: str, causes: list[Cause]) -> Object:
    if "additionalProperties" in schema:
        inner = schema["additionalProperties"]
        return {name: _sound(inner, each, key(path, name), causes) for name, each in value.items()}
    if "properties" not in schema:
        return value
    causes.extend(
        required(at(path, name))
        for name in schema.get("required", ())
        if value.get(name) in (None, "")
    )
    return _sound_members(schema["properties"], value, path, causes)


def _sound_members(
    properties: dict[str, Schema], value: Object, path: str, causes: list[Cause]
) -> Object:
    part: Object = {}
    for name, each in value.items():
        if name not in properties:  # in ``_KEPT_WHOLE``: ``known_part`` has removed all others
            causes.append(forbidden(at(path, name), "there is no such field; " + _WIDER))
        elif each is not None:
            part[name] = _sound(properties[name], each, at(path, name), causes)
    return part


def _array(schema: Schema, value: list[Any], path: str, causes: list[Cause]) -> list[Any]:
    return [_sound(schema["items"], each, f"{path}[{n}]", causes) for n, each in enumerate(value)]


def _text(schema: Schema, value: str, path: str, causes: list[Cause]) -> str | None:
    form = schema.get("format")
    if "enum" in schema and value not in schema["enum"]:
        causes.append(unsupported(path, value, schema["enum"]))
    elif form in _FORMATS and (why := _FORMATS[form](value)):
        causes.append(bad_value(path, value, why))
    else:
        return value
    return None


def _whole(schema: Schema, value: int, path: str, causes: list[Cause]) -> int | None:
    bound = 2 ** (31 if schema["format"] == "int32" else 63)
    least, most = schema.get("minimum", -bound), schema.get("maximum", bound - 1)
    if not least <= value <= most:
        causes.append(bad_value(path, value, f"must be between {least} and {most}, inclusive"))
        return None
    return value


def _time_fault(text: str) -> str:
    try:
        parse_time_ms(text)
    except ValueError as error:
        return str(error)
    return ""


def _bytes_fault(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):  # the latter: characters beyond ASCII
        return "must be base64"
    return ""


_FORMATS: Final[dict[str, Callable[[str], str]]] = {"date-time": _time_fault, "byte": _bytes_fault}

_TYPES: Final[dict[str, tuple[type, Callable[[Schema, Any, str, list[Cause]], Any]]]] = {
    "array": (list, _array),
    "boolean": (bool, lambda _schema, value, _path, _causes: value),
    "integer": (int, _whole),
    "object": (dict, _object),
    "string": (str, _text),
}
"""Type in a schema -> Python type of the value, and further check."""
