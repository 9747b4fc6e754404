"""JSON schemas of filters: every dialect of this version, and the shapes of earlier revisions."""

from typing import Final

from distributary import cesql
from distributary.core import filter as filter_room
from distributary.resource import Schema, closed, patterns, ref

_NAME_SCHEMA: Final[Schema] = {
    "type": "string",
    "pattern": patterns.ATTRIBUTE_NAME,
    "maxLength": filter_room.TEXT_CHARS_MAX,
}
_TEXT_SCHEMA: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": filter_room.TEXT_CHARS_MAX,
}


def _comparison(text: str) -> Schema:
    return {
        "type": "object",
        "minProperties": 1,
        "maxProperties": filter_room.NODES_MAX,
        "propertyNames": _NAME_SCHEMA,
        "additionalProperties": _TEXT_SCHEMA,
        "description": f"Each of these attributes is there and {text} its text (case counts).",
    }


def _nested(text: str) -> Schema:
    return {
        "type": "array",
        "items": ref("Filter"),
        "minItems": 1,
        "maxItems": filter_room.NODES_MAX,
        "description": text,
    }


_DIALECT_SCHEMAS: Final[dict[str, Schema]] = {
    "exact": _comparison("equals"),
    "prefix": _comparison("begins with"),
    "suffix": _comparison("ends with"),
    "all": _nested("Every one of these holds."),
    "any": _nested("At least one of these holds."),
    "not": ref("Filter"),
    "sql": {
        "type": "string",
        "pattern": r"\S",
        "maxLength": cesql.EXPRESSION_CHARS_MAX,
        "description": "A CloudEvents SQL expression; it holds where its result is true.",
    },
}

_CONDITIONS_SCHEMA: Final[Schema] = {
    "type": "array",
    "description": "All of them must hold; none: every event passes.",
    "items": closed(
        {
            "type": {"enum": ["exact", "prefix", "suffix"]},
            "property": _NAME_SCHEMA,
            "value": _TEXT_SCHEMA,
        },
        required=("type", "property", "value"),
    ),
}


def _basic(name: str) -> Schema:
    return closed(
        {"dialect": {"const": "basic"}, name: _CONDITIONS_SCHEMA}, required=("dialect", name)
    )


FILTER_SCHEMAS: Final[dict[str, Schema]] = {
    "Filter": closed({name: _DIALECT_SCHEMAS[name] for name in filter_room.DIALECTS})
    | {
        "minProperties": 1,
        "maxProperties": 1,
        "description": (
            "One dialect and what it says."
            f" Expressions nest at most {filter_room.DEPTH_MAX} deep; a subscription has at most"
            f" {filter_room.NODES_MAX} expressions and comparisons."
        ),
        "examples": [{"prefix": {"type": "com.example."}}],
    },
    "EarlierFilter": {
        "deprecated": True,
        "description": (
            "One filter, as earlier revisions of the specification wrote it; answers have filters."
        ),
        "anyOf": [ref("Filter"), _basic("conditions"), _basic("filters")],
    },
}
"""``Filter``, and ``EarlierFilter`` for the member ``filter``."""
