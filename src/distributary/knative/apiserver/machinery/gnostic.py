"""Encodes OpenAPI v2 as protocol buffers, for kubectl before 1.27.

The messages are few and only encoded: a table of their fields replaces a library.
"""

import json
import struct
from collections.abc import Callable
from typing import Any, Final

from distributary.knative.apiserver.machinery._kind import Object

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2

_IN_URL: Final = {
    "required": (1, "flag"),
    "in": (2, "text"),
    "description": (3, "text"),
    "name": (4, "text"),
}
_FIELDS: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "Document": {
        "swagger": (1, "text"),
        "info": (2, "Info"),
        "paths": (8, "Paths"),
        "definitions": (9, "Schemas"),
    },
    "Info": {"title": (1, "text"), "version": (2, "text"), "description": (3, "text")},
    "PathItem": {
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "patch": (8, "Operation"),
        "x-": (10, "extension"),
    },
    "Operation": {
        "description": (3, "text"),
        "operationId": (5, "text"),
        "produces": (6, "text*"),
        "consumes": (7, "text*"),
        "parameters": (8, "parameter*"),
        "responses": (9, "Responses"),
        "x-": (13, "extension"),
    },
    "BodyParameter": {
        "description": (1, "text"),
        "name": (2, "text"),
        "in": (3, "text"),
        "required": (4, "flag"),
        "schema": (5, "Schema"),
    },
    "QueryParameter": {**_IN_URL, "type": (6, "text")},
    "PathParameter": {**_IN_URL, "type": (5, "text")},
    "Response": {"description": (1, "text"), "schema": (2, "one Schema")},
    "Schema": {
        "$ref": (1, "text"),
        "format": (2, "text"),
        "title": (3, "text"),
        "description": (4, "text"),
        "default": (5, "any"),
        "maximum": (7, "number"),
        "exclusiveMaximum": (8, "flag"),
        "minimum": (9, "number"),
        "exclusiveMinimum": (10, "flag"),
        "maxLength": (11, "whole"),
        "minLength": (12, "whole"),
        "pattern": (13, "text"),
        "maxItems": (14, "whole"),
        "minItems": (15, "whole"),
        "uniqueItems": (16, "flag"),
        "maxProperties": (17, "whole"),
        "minProperties": (18, "whole"),
        "required": (19, "text*"),
        "enum": (20, "any*"),
        "additionalProperties": (21, "additional"),
        "type": (22, "one text"),
        "items": (23, "one Schema"),
        "properties": (25, "Schemas"),
        "example": (30, "any"),
        "x-": (31, "extension"),
    },
}
"""Message -> member in JSON -> field number (gnostic, ``OpenAPIv2.proto``), and form."""


def openapi_v2_protobuf(document: Object) -> bytes:
    """*document* (``openapi_v2``) as an ``openapi.v2.Document``.

    Raises:
        ValueError: It has a member that the table lacks: a bug in a schema, which must not be
            dropped silently.
    """
    return _message("Document", document)


def _message(name: str, value: Object) -> bytes:
    table = _FIELDS[name]
    parts = []
    for member, item in value.items():
        if member in table:
            number, form = table[member]
            parts.append(_member(number, form, item))
        elif member.startswith("x-") and "x-" in table:
            parts.append(_field(table["x-"][0], _named(member, _any(item))))
        else:
            raise ValueError(f"{name}.{member} is not written in protocol buffers")
    return b"".join(parts)


def _member(number: int, form: str, value: Any) -> bytes:
    if form.endswith("*"):
        return b"".join(_field(number, _content(form[:-1], item)) for item in value)
    if form in ("flag", "whole"):
        return _key(number, _VARINT) + _varint(int(value))
    if form == "number":
        return _key(number, _FIXED64) + struct.pack("<d", value)
    return _field(number, _content(form, value))


def _content(form: str, value: Any) -> bytes:
    """Content of a field: text, a message of the table, or a wrapper message."""
    if form.startswith("one "):
        return _field(1, _content(form.removeprefix("one "), value))
    if form in _MAPS:
        number, inner = _MAPS[form]
        items = (_named(name, _content(inner, item)) for name, item in value.items())
        return b"".join(_field(number, item) for item in items)
    write = _CONTENTS.get(form)
    return write(value) if write else _message(form, value)


def _additional(value: Any) -> bytes:
    if isinstance(value, bool):
        return _key(2, _VARINT) + _varint(int(value))
    return _content("one Schema", value)


def _parameter(value: Object) -> bytes:
    """A ``ParametersItem``: its message depends on the parameter's ``in``."""
    if value["in"] == "body":
        return _field(1, _field(1, _message("BodyParameter", value)))
    number, name = {"query": (3, "QueryParameter"), "path": (4, "PathParameter")}[value["in"]]
    return _field(1, _field(2, _field(number, _message(name, value))))


def _named(name: str, encoded: bytes) -> bytes:
    return _field(1, name.encode()) + _field(2, encoded)


def _any(value: Any) -> bytes:
    """An ``Any``, whose text is YAML; JSON is valid YAML."""
    return _field(2, json.dumps(value).encode())


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, wire_type: int) -> bytes:
    return _varint(number << 3 | wire_type)


def _varint(value: int) -> bytes:
    rest = value & (1 << 64) - 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_MAPS: Final = {
    "Paths": (2, "PathItem"),
    "Responses": (1, "one Response"),
    "Schemas": (1, "Schema"),
}
"""Messages that are maps: field number of their entries, and form of a value."""

_CONTENTS: Final[dict[str, Callable[[Any], bytes]]] = {
    "additional": _additional,
    "any": _any,
    "parameter": _parameter,
    "text": str.encode,
}
"""Encoders of forms that are not messages of the table."""
