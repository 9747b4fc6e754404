"""JSON Schemas as data, and the one checker that validates values against them.

One schema serves validation, the published API description and the defaults. The checker reads
the keywords of JSON Schema 2020-12 that are used here and these, which are not published:

- ``x-expected``: message where ``pattern`` or ``not`` refuses a text; or a function from the text
  to the message.
- ``x-codes``: keyword -> code of its fault, where that is not the usual one.
- ``x-utf8``: ``maxLength`` counts bytes of UTF-8.
- ``x-bytes``: most bytes of a map, names and texts together.
- ``x-same``: another spelling -> the realized one.
- ``x-rule``: a ``Rule``, for what a schema cannot express.
- ``x-realized``: the schema of responses, where it differs.
- ``x-sink-alone``: of a protocol's setting: dead letter sinks have none.

No message repeats a value: it may be a secret.
"""

import copy
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from distributary.resource.faults import Faults, member, one_of
from distributary.resource.times import parse_time_ms

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, draft 2020-12."""

Rule: TypeAlias = Callable[[Faults, str, Any], Any]
"""Called with (faults, path, value); notes faults, and returns the realized value."""

_KINDS: Final[dict[type, tuple[str, ...]]] = {
    bool: ("boolean",),
    int: ("integer", "number"),
    float: ("number",),
    str: ("string",),
    list: ("array",),
    dict: ("object",),
}
"""Python type -> JSON types of its values; a number with a fraction of zero is no integer."""

_KIND_NAMES: Final = {
    "array": "an array",
    "boolean": "a boolean",
    "integer": "a whole number",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}


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


def published(schema: Any) -> Any:
    """*schema*, or a container of schemas, without the keywords of this module."""
    if isinstance(schema, list | tuple):
        return [published(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {name: published(each) for name, each in schema.items() if not name.startswith("x-")}


def with_defaults(properties: Mapping[str, Schema], written: Mapping[str, Any]) -> dict[str, Any]:
    """The members that *properties* names, in its order: as *written*, else by default if any."""
    return {
        name: written[name] if name in written else copy.copy(schema["default"])
        for name, schema in properties.items()
        if name in written or "default" in schema
    }


def fits(schema: Schema, value: object) -> bool:
    """Whether *value* satisfies *schema*."""
    faults = Faults()
    checked(faults, "$", schema, value)
    return not faults.found


def checked(faults: Faults, path: str, schema: Schema, value: object) -> Any:
    """Return *value* as realized; None, with a fault, where it does not satisfy *schema*.

    Of an object or an array, the good parts are returned, with None for the others. A value whose
    schema is a reference is returned unchecked; the caller checks it.
    """
    if "anyOf" in schema:
        return _any_of(faults, path, schema["anyOf"], value)
    kinds = _kinds_of(schema)
    if not kinds:
        return value
    kind = next((each for each in _KINDS.get(type(value), ()) if each in kinds), None)
    if kind is None:
        faults.wrong_type(path, " or ".join(_KIND_NAMES[each] for each in kinds), value)
        return None
    count_before = len(faults.found)
    found = _CHECKS[kind](faults, path, schema, value)
    if "x-rule" in schema and len(faults.found) == count_before:
        found = schema["x-rule"](faults, path, found)
    return found


def _kinds_of(schema: Schema) -> list[str]:
    kinds = schema.get("type", "string" if "enum" in schema else [])
    return [kinds] if isinstance(kinds, str) else kinds


def _any_of(faults: Faults, path: str, schemas: list[Schema], value: object) -> Any:
    """Check against the first schema that fits, else against the last one."""
    for schema in schemas:
        tried = Faults()
        found = checked(tried, path, schema, value)
        if not tried.found:
            return found
    faults.found += tried.found
    return None


def _text(faults: Faults, path: str, schema: Schema, text: str) -> str | None:
    fault = _fault_of_text(schema, text)
    if fault is not None:
        faults.add(path, *fault)
        return None
    same: Mapping[str, str] = schema.get("x-same", {})
    return same.get(text, text)


def _fault_of_text(schema: Schema, text: str) -> tuple[str, str] | None:
    """Code and message of the fault of *text*; None: it has none."""
    if not text and schema.get("minLength"):
        return "empty", "expected a string that is not empty"
    if "enum" in schema:
        return _fault_of_choice(schema, text)
    most: float = schema.get("maxLength", math.inf)
    if schema.get("x-utf8"):
        if _size(text) > most:
            return "too-long", f"at most {most} bytes of UTF-8"
    elif len(text) > most:
        return _code(schema, "maxLength", "too-long"), f"at most {most} characters"
    return _fault_of_form(schema, text)


def _fault_of_form(schema: Schema, text: str) -> tuple[str, str] | None:
    if "pattern" in schema and not _matches(schema["pattern"], text):
        return _refused(schema, "pattern", text)
    unwanted = schema.get("not", {})
    if text in unwanted.get("enum", ()) or (
        "pattern" in unwanted and _matches(unwanted["pattern"], text)
    ):
        return _refused(schema | unwanted, "not", text)
    if schema.get("format") == "date-time":
        try:
            parse_time_ms(text)
        except ValueError as error:
            return "time", str(error)
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "text", "a lone surrogate is no character"
    return None


def _fault_of_choice(schema: Schema, text: str) -> tuple[str, str] | None:
    allowed = schema["enum"]
    if text in allowed:
        return None
    near = [each for each in allowed if each.lower() == text.lower()]
    hint = f"; did you mean {near[0]}?" if near else ""
    return _code(schema, "enum"), f"expected one of {one_of(allowed)}{hint}"


def _refused(schema: Schema, word: str, text: str) -> tuple[str, str]:
    expected = schema.get("x-expected", "expected another form of text")
    return _code(schema, word), expected(text) if callable(expected) else expected


def _code(schema: Schema, word: str, usual: str = "value") -> str:
    return str(schema.get("x-codes", {}).get(word, usual))


def _matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).search(text) is not None


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile an ECMA-262 *pattern*, in which ``$`` matches the end of the text alone."""
    return re.compile(re.sub(r"(?<!\\)\$(?=$|[|)])", r"\\Z", pattern))


def _number(faults: Faults, path: str, schema: Schema, value: float) -> float | None:
    low, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    high = schema.get("maximum")
    small = (low is not None and not value >= low) or (above is not None and not value > above)
    if not small and (high is None or value <= high):
        return value
    start = f"from {low}" if above is None else f"above {above}"
    message = f"expected a number {start}" + ("" if high is None else f" to {high}")
    faults.add(path, _code(schema, "minimum") if small else "value", message)
    return None


def _flag(faults: Faults, path: str, schema: Schema, value: bool) -> bool:
    if schema.get("const", value) != value:
        faults.add(path, _code(schema, "const"), f"expected {str(schema['const']).lower()}")
    return value


def _array(faults: Faults, path: str, schema: Schema, value: list[Any]) -> list[Any]:
    if len(value) < schema.get("minItems", 0):
        faults.add(path, "empty", "at least one; leave the member out where none is meant")
    if len(value) > schema.get("maxItems", len(value)):
        faults.add(path, "too-many", f"at most {schema['maxItems']}")
        return []
    items = schema["items"]
    return [checked(faults, f"{path}[{n}]", items, each) for n, each in enumerate(value)]


def _object(faults: Faults, path: str, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    if "properties" not in schema:
        return _map(faults, path, schema, value)
    known = schema["properties"]
    faults.unknown_members(path, value, known)
    for name in schema.get("required", ()):
        if name not in value:
            faults.add(f"{path}.{name}", "missing", "this member is required")
    for name, needed in schema.get("dependentRequired", {}).items():
        if name in value and not all(each in value for each in needed):
            message = f"has a meaning beside {one_of(needed)} only"
            faults.add(f"{path}.{name}", "not-applicable", message)
    return {
        name: checked(faults, f"{path}.{name}", known[name], each)
        for name, each in value.items()
        if name in known
    }


def _map(faults: Faults, path: str, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
    if len(value) > schema.get("maxProperties", len(value)):
        faults.add(path, "too-many", f"at most {schema['maxProperties']} members")
        return {}
    size = sum(_size(name) + _size(each) for name, each in value.items())
    if size > schema.get("x-bytes", size):
        faults.add(path, "too-long", f"at most {schema['x-bytes']} bytes, names and texts together")
        return {}
    found = {}
    for name, each in value.items():
        where = member(path, name)
        fault = _fault_of_text(schema.get("propertyNames", {}), name)
        if fault is not None:
            faults.add(where, *fault)
        found[name] = checked(faults, where, schema.get("additionalProperties", {}), each)
    return found


def _size(value: object) -> int:
    # A lone surrogate has its own fault; it must not raise here.
    return len(value.encode(errors="surrogatepass")) if isinstance(value, str) else 0


_CHECKS: Final[dict[str, Callable[[Faults, str, Schema, Any], Any]]] = {
    "array": _array,
    "boolean": _flag,
    "integer": _number,
    "number": _number,
    "object": _object,
    "string": _text,
}
