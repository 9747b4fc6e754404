"""Faults of ``filters``, and of ``filter`` as earlier revisions wrote it."""

from typing import Any, Final

from kit.subscription_faults._case import Mark, Rows, Says, case, http

BEYOND, PYTHON = Mark.BEYOND, Mark.PYTHON

EXACT: Final = {"exact": {"type": "a"}}


def deep(levels: int) -> dict[str, Any]:
    """An expression that stands *levels* deep."""
    expression: dict[str, Any] = EXACT
    for _ in range(levels - 1):
        expression = {"not": expression}
    return expression


_MALFORMED: Rows = {
    "no array": (EXACT, ("", "type")),
    "null": (None, ("", "type")),
    "text": ("exact", ("", "type")),
    "an element that is no object": ([EXACT, "x"], ("[1]", "type")),
    "an array in the array": ([[EXACT]], ("[0]", "type")),
    "an empty expression": ([{}], ("[0]", "empty")),
    "two dialects": ([EXACT | {"prefix": {"type": "a"}}], ("[0]", "one-dialect")),
    "an unknown dialect": ([{"like": {"type": "a"}}], ("[0].like", "unknown-dialect")),
    "a dialect in capitals": ([{"EXACT": {"type": "a"}}], ("[0].EXACT", "unknown-dialect")),
    "basic is no dialect of 004": (
        [{"dialect": "basic", "filters": []}],
        ("[0]", "one-dialect"),
        ("[0].dialect", "unknown-dialect"),
        ("[0].filters", "unknown-dialect"),
    ),
    "every fault at once": (
        [{"exact": {}}, EXACT, {"any": []}, {"not": {"suffix": {"a": 1}}}],
        ("[0].exact", "empty"),
        ("[2].any", "empty"),
        ("[3].not.suffix.a", "type"),
    ),
    "a number as value": ([{"exact": {"level": 4}}], ("[0].exact.level", "type")),
    "null as value": ([{"prefix": {"type": None}}], ("[0].prefix.type", "type")),
    "an object as value": ([{"suffix": {"type": {}}}], ("[0].suffix.type", "type")),
    "not no object": ([{"exact": "type"}], ("[0].exact", "type")),
    "null as dialect": ([{"exact": None}], ("[0].exact", "type")),
    "a huge text": ([{"exact": {"type": "x" * 70_000}}], ("[0].exact.type", "too-long")),
}

_SURROGATE: Rows = {
    "a surrogate": ([{"exact": {"a": "\ud800"}}], ("[0].exact.a", "unicode"), BEYOND, PYTHON),
}

_LIMITS: Rows = {
    "too deep": ([deep(33)], ("[0]" + ".not" * 32, "too-deep"), BEYOND),
    "much too deep": ([deep(200)], ("[0]" + ".not" * 32, "too-deep"), BEYOND, PYTHON),
    "too many": (
        [{"any": [{"exact": {"type": str(n)}} for n in range(600)]} for _ in range(2)],
        ("", "too-many"),
        BEYOND,
    ),
}

_COMPARISONS: Rows = {
    f"{name}: {what}": ([{name: comparison}], (f"[0].{name}{place}", "empty"))
    for name in ("exact", "prefix", "suffix")
    for what, comparison, place in (
        ("value", {"type": ""}, ".type"),
        ("name", {"": "a"}, '[""]'),
        ("itself", {}, ""),
    )
}

_ARRAYS: Rows = {
    f"{name} of {nested!r}": ([{name: nested}], (f"[0].{name}", "type"))
    for name in ("all", "any")
    for nested in (EXACT, "x", None, {}, 1)
}

_EMPTY_ARRAYS: Rows = {
    f"{name} of none": ([{name: []}], (f"[0].{name}", "empty")) for name in ("all", "any")
}

_NOT: Rows = {
    "not of an array": ([{"not": [EXACT]}], ("[0].not", "type")),
    "not of an empty one": ([{"not": {}}], ("[0].not", "empty")),
    "not of two": ([{"not": EXACT | {"any": [EXACT]}}], ("[0].not", "one-dialect")),
    "not of null": ([{"not": None}], ("[0].not", "type")),
}

_DIALECTS: Final = {
    "https://example.com/dialect": '["https://example.com/dialect"]',
    "cesql": ".cesql",
    "Exact": ".Exact",
    "basic": ".basic",
    "regex": ".regex",
}

_UNSUPPORTED: Rows = {
    f"{name}, {where}": (value, (path + place, "unknown-dialect"))
    for name, place in _DIALECTS.items()
    for where, value, path in (
        ("second", [EXACT, {name: {"type": "a"}}], "[1]"),
        ("nested", [{"not": {name: "x"}}], "[0].not"),
    )
}

_UNSUPPORTED_EARLIER: Rows = {
    f"{name}, earlier": ({name: {"type": "a"}}, (place, "unknown-dialect"))
    for name, place in _DIALECTS.items()
}

_SQL_TEXTS: Rows = {
    "no text": ([{"sql": 7}], ("[0].sql", "type")),
    "null": ([{"sql": None}], ("[0].sql", "type")),
    "an object": ([{"sql": {}}], ("[0].sql", "type")),
    "empty": ([{"sql": ""}], ("[0].sql", "empty")),
    "blank": ([{"sql": " "}], ("[0].sql", "empty")),
}

_EXPRESSIONS: Final[list[tuple[str, str, int | None]]] = [
    ("type = ", "syntax", None),
    ("type = 'a' ANDD source = 'b'", "syntax", 12),
    ("type == 'a'", "syntax", 7),
    ("type = 'a", "syntax", 8),
    ("(type = 'a'", "syntax", None),
    ("type = 'a')", "syntax", 11),
    ("subject LIKE 5", "syntax", None),
    ("$type = 'a'", "syntax", 1),
    ("type IN ()", "syntax", None),
    ("NO_SUCH_FUNCTION(type) = 'a'", "unknown-function", None),
    ("(" * 2000 + "TRUE" + ")" * 2000, "syntax", None),
]
"""Expression, code, and the column that is named."""

_SQL: Rows = {
    f"{expression:.30}, {where}": (
        value,
        (path, code),
        BEYOND,
        Says("line 1"),
        Says("column" if column is None else f"column {column}"),
    )
    for expression, code, column in _EXPRESSIONS
    for where, value, path in (
        ("first", [{"sql": expression}], "[0].sql"),
        ("nested", [EXACT, {"not": {"sql": expression}}], "[1].not.sql"),
    )
}

_BASIC: Rows = {
    "empty": ({}, ("", "empty")),
    "null": (None, ("", "type")),
    "another dialect": ({"dialect": "sql", "filters": []}, (".dialect", "unknown")),
    "dialect null": ({"dialect": None}, (".dialect", "unknown")),
    "dialect not text": ({"dialect": 1}, (".dialect", "unknown")),
    "no dialect": ({"conditions": []}, (".conditions", "unknown-dialect")),
    "no list": ({"dialect": "basic"}, ("", "missing")),
    "both lists": ({"dialect": "basic", "filters": [], "conditions": []}, ("", "conflict")),
    "no array": ({"dialect": "basic", "filters": {}}, (".filters", "type")),
    "unknown member": ({"dialect": "basic", "filters": [], "more": 1}, (".more", "unknown")),
    "an array": ([], ("", "type")),
    "an empty value, by its name": ({"exact": {"type": ""}}, (".exact.type", "empty")),
}

_WHOLE: Final = {"type": "exact", "property": "type", "value": "a"}
_MISSING: Final[Any] = ...

_CONDITIONS: Rows = {
    f"{member}: {changes!r}": (
        {
            "dialect": "basic",
            member: [
                _WHOLE | {"type": "prefix"},
                {name: value for name, value in (_WHOLE | changes).items() if value is not ...},
            ],
        },
        *((f".{member}[1]{place}", code) for place, code in faults),
    )
    for member in ("filters", "conditions")
    for changes, *faults in (
        ({"type": _MISSING}, (".type", "missing")),
        ({"property": _MISSING}, (".property", "missing")),
        ({"value": _MISSING}, (".value", "missing")),
        ({"type": "contains"}, (".type", "value")),
        ({"type": "EXACT"}, (".type", "value")),
        ({"type": "all"}, (".type", "value")),
        ({"property": ""}, (".property", "empty")),
        ({"property": "Not-A-Name"}, ("", "attribute-name")),
        ({"value": ""}, (".value", "empty")),
        ({"value": 1}, (".value", "type")),
        ({"case": "no"}, (".case", "unknown")),
        ({"type": _MISSING, "value": 1}, (".type", "missing"), (".value", "type")),
    )
} | {
    "no object": ({"dialect": "basic", "filters": [1]}, (".filters[0]", "type")),
}

FILTERS: Final = {
    group: [case(name, http(filters=row[0]), row[1:], "$.filters") for name, row in rows.items()]
    for group, rows in {
        "filters": _MALFORMED,
        "filters, Unicode": _SURROGATE,
        "filters, limits": _LIMITS,
        "comparisons": _COMPARISONS,
        "all and any": _ARRAYS,
        "all and any, empty": _EMPTY_ARRAYS,
        "not": _NOT,
        "dialects": _UNSUPPORTED,
        "SQL texts": _SQL_TEXTS,
        "SQL": _SQL,
    }.items()
} | {
    group: [case(name, http(filter=row[0]), row[1:], "$.filter") for name, row in rows.items()]
    for group, rows in {
        "earlier filter": _BASIC,
        "earlier dialects": _UNSUPPORTED_EARLIER,
        "conditions": _CONDITIONS,
    }.items()
}
"""Group -> its cases."""

BOTH_FILTERS: Final = [
    case(name, http(filters=filters, filter=filter_), [("$.filter", "conflict")])
    for name, filters, filter_ in (
        ("that say the same", [EXACT], EXACT),
        ("one of them empty", [], EXACT),
        ("both empty", [], {}),
    )
]
