"""Pieces that the schemas of this room are made of."""

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]


def ref(name: str) -> Schema:
    """A reference to a schema of the API description."""
    return {"$ref": f"#/components/schemas/{name}"}


def closed(properties: Mapping[str, Any], *, required: Iterable[str] = ()) -> Schema:
    """An object with these members and no others: a misspelt one is refused."""
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "additionalProperties": False,
    }
    if names := list(required):
        schema["required"] = names
    return schema
