"""Reads the filter shapes of all three revisions of the specification into the newest one.

Newest (004): ``filters``, an array of expressions. Before (003): ``filter``, one expression.
First (000): ``filter`` with ``dialect: basic`` and a list of conditions, all required; its text
names the list ``conditions`` and its examples ``filters`` (decision 1, shapes of filters).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary.core.errors import Fault
from distributary.resource.faults import Faults, one_of
from distributary.resource.rules import FilterCheck
from distributary.resource.schema import Schema, checked, closed

_LISTS: Final = ("filters", "conditions")

_TEXT: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": 65_536}
_TYPE: Final[Schema] = {"minLength": 1, "enum": ["exact", "prefix", "suffix"]}
_CONDITIONS: Final[Schema] = {
    "type": "array",
    "items": closed(
        {"type": _TYPE, "property": _TEXT, "value": _TEXT},
        required=("type", "property", "value"),
    ),
}
"""The dialects' check finds further faults after translation."""

_ONLY = "$.filter[0]"
_CONDITION = re.compile(r"\$\.filter\[0\]\.all\[(\d+)\].*")


def read_filters(
    faults: Faults, body: Mapping[str, Any], check: FilterCheck
) -> list[dict[str, Any]]:
    """The filter expressions of *body* in the newest shape; empty for none.

    Faults have the paths that the client wrote, in any revision.
    """
    if "filters" in body and "filter" in body:
        faults.add(
            "$.filter", "conflict", "filter and filters exclude one another; filters is newer"
        )
        return []
    if "filters" in body:
        filters = body["filters"]
        faults.found += check(filters, "$.filters")
        return filters if isinstance(filters, list) else []
    if "filter" in body:
        return _single(faults, body["filter"], check)
    return []


def _single(faults: Faults, value: object, check: FilterCheck) -> list[dict[str, Any]]:
    expression = faults.object_at("$.filter", value)
    if expression is None:
        return []
    if "dialect" in expression:
        return _basic(faults, expression, check)
    found = check([expression], "$.filter")
    faults.found += [_moved(fault, fault.path.replace(_ONLY, "$.filter", 1)) for fault in found]
    return [dict(expression)]


def _basic(faults: Faults, value: Mapping[str, Any], check: FilterCheck) -> list[dict[str, Any]]:
    if value["dialect"] != "basic":
        faults.add("$.filter.dialect", "unknown", "unknown dialect; known with this member: basic")
        return []
    faults.unknown_members("$.filter", value, ("dialect", *_LISTS))
    lists = [name for name in _LISTS if name in value]
    if len(lists) != 1:
        code, message = ("conflict", "are the same") if lists else ("missing", "one is needed")
        faults.add("$.filter", code, f"{one_of(_LISTS)}: {message}")
        return []
    path = f"$.filter.{lists[0]}"
    count_before = len(faults.found)
    conditions = checked(faults, path, _CONDITIONS, value[lists[0]])
    if len(faults.found) != count_before or not conditions:
        return []
    nested = [{each["type"]: {each["property"]: each["value"]}} for each in conditions]
    filters = [{"all": nested}]
    found = check(filters, "$.filter")
    faults.found += [_moved(fault, _CONDITION.sub(rf"{path}[\1]", fault.path)) for fault in found]
    return filters


def _moved(fault: Fault, path: str) -> Fault:
    return Fault(path, fault.code, fault.message)
