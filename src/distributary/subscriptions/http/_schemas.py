"""JSON schemas of the API: of subscriptions (as checked), of filters and of problems.

Those of filters cover every dialect of this version, and the shapes of earlier revisions.
"""

from collections.abc import Mapping
from typing import Any, Final

from distributary import cesql
from distributary.core import filter as filter_room
from distributary.core.errors import CATALOGUE
from distributary.resource import Schema, closed, patterns, published, ref
from distributary.subscriptions import resource as subscription

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
        "description": f"Each of these attributes exists and {text} its text (case-sensitive).",
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
    "all": _nested("All of these match."),
    "any": _nested("At least one of these matches."),
    "not": ref("Filter"),
    "sql": {
        "type": "string",
        "pattern": r"\S",
        "maxLength": cesql.EXPRESSION_CHARS_MAX,
        "description": "A CloudEvents SQL expression; matches where its result is true.",
    },
}

_CONDITIONS_SCHEMA: Final[Schema] = {
    "type": "array",
    "description": "All of them must match; none: every event passes.",
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


_FILTER_SCHEMAS: Final[dict[str, Schema]] = {
    "Filter": closed({name: _DIALECT_SCHEMAS[name] for name in filter_room.DIALECTS})
    | {
        "minProperties": 1,
        "maxProperties": 1,
        "description": (
            "One dialect and its condition."
            f" Expressions nest at most {filter_room.DEPTH_MAX} deep; a subscription has at most"
            f" {filter_room.NODES_MAX} expressions and comparisons."
        ),
        "examples": [{"prefix": {"type": "com.example."}}],
    },
    "EarlierFilter": {
        "deprecated": True,
        "description": (
            "One filter, as in earlier revisions of the specification; responses have filters."
        ),
        "anyOf": [ref("Filter"), _basic("conditions"), _basic("filters")],
    },
}
"""``Filter``, and ``EarlierFilter`` for the member ``filter``."""

BEYOND_SCHEMAS: Final[Mapping[str, str]] = {
    "blocked-address": "an address that the operator does not allow",
    "character": "a type or source that an event cannot have, where a timer makes events of it",
    "cleartext": "a credential for a sink on another machine, by a scheme without TLS",
    "conflict": "members that contradict one another",
    "duplicate": "header names that differ in their case alone",
    "duration": "a duration of more than ten years",
    "immutable": "an id in the body of an update that is not the path's",
    "missing": (
        "a secret that is left out although none is stored; an address or topic that neither the"
        " settings nor the path of the sink names"
    ),
    "not-applicable": "certificates for a sink whose scheme has no TLS",
    "syntax": "a text that is no CloudEvents SQL",
    "time": "a day that the month does not have",
    "too-deep": "filters that nest too deep",
    "text": "a path that is no UTF-8",
    "too-long": "a map of settings that is too long together; a text counted in bytes",
    "too-many": "filter expressions that are too many together",
    "type": "a whole number that is written with a fraction (10.0)",
    "unicode": "a text that is no Unicode",
    "unsupported": "a delivery protocol that this server was installed without",
    "unknown-function": "a CloudEvents SQL function that this server does not have",
    "uri": "a URI with more than its pattern shows: a long host name, http where https is needed",
    "value": (
        "a wait that is too long or shorter than another, a time that has passed, certificates"
        " that are none, a path that names no place, an identifier with a colon for HTTP"
    ),
}
"""Code of a fault -> its meaning for a body that satisfies the schema: what only the server can
check. A test compares every other fault with the schemas."""

_PROBLEM_SCHEMA: Final = closed(
    {
        "type": {"type": "string", "format": "uri-reference"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "code": {"enum": sorted(CATALOGUE), "description": "Stable; for programs."},
        "detail": {"type": "string"},
        "faults": {
            "type": "array",
            "description": "Every fault, with its place.",
            "items": closed(
                {
                    "path": {"type": "string", "description": "JSON path, header or parameter."},
                    "code": {"type": "string"},
                    "message": {"type": "string"},
                },
                required=("path", "code", "message"),
            ),
        },
    },
    required=("type", "title", "status", "code", "detail", "faults"),
) | {"description": "RFC 9457 problem details."}


def _with_patterns(schema: Any) -> Any:
    """Add a pattern to each ``format: date-time`` in *schema*, which not all validators know.

    Those that know it disagree about leap seconds, which the code accepts.
    """
    if isinstance(schema, list):
        return [_with_patterns(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _with_patterns(value) for name, value in schema.items()}
    if found.get("format") == "date-time":
        del found["format"]
        found["pattern"] = patterns.TIME
    return found


SCHEMAS: Final[dict[str, Schema]] = {
    **_FILTER_SCHEMAS,
    **_with_patterns(published(dict(subscription.schemas()))),
    "Problem": _PROBLEM_SCHEMA,
}
"""``components/schemas`` of the API description: those of subscriptions and problems."""
