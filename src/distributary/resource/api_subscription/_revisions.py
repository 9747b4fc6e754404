"""The filter shapes of all three revisions of the specification, read into the newest one.

Newest (004): ``filters``, an array of expressions. Before (003): ``filter``, one expression.
First (000): ``filter`` with ``dialect: basic`` and a list of conditions that all must hold;
its text names the list ``conditions`` and its examples ``filters`` (decision 1).
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from distributary.errors import Fault
from distributary.resource._faults import Faults, one_of
from distributary.resource._rules import FilterCheck

CONDITION_TYPES: Final = ("exact", "prefix", "suffix")
_LISTS: Final = ("filters", "conditions")
_CONDITION_MEMBERS: Final = ("type", "property", "value")
_VALUE_CHARS_MAX: Final = 65_536

_ONLY = "$.filter[0]"
_CONDITION = re.compile(r"\$\.filter\[0\]\.all\[(\d+)\].*")


def read_filters(
    faults: Faults, body: Mapping[str, Any], check: FilterCheck
) -> list[dict[str, Any]]:
    """The filter expressions of *body* in the newest shape; empty where none stand.

    Faults are noted at the paths that the client wrote, whichever revision it speaks.
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
    conditions = value[lists[0]]
    if not isinstance(conditions, list):
        faults.wrong_type(path, "an array of conditions", conditions)
        return []
    count_before = len(faults.found)
    nested = [_condition(faults, f"{path}[{n}]", each) for n, each in enumerate(conditions)]
    if len(faults.found) != count_before or not nested:
        return []
    filters = [{"all": nested}]
    found = check(filters, "$.filter")
    faults.found += [_moved(fault, _CONDITION.sub(rf"{path}[\1]", fault.path)) for fault in found]
    return filters


def _condition(faults: Faults, path: str, value: object) -> dict[str, Any]:
    condition = faults.object_at(path, value)
    if condition is None:
        return {}
    faults.unknown_members(path, condition, _CONDITION_MEMBERS)
    texts: dict[str, str] = {}
    for name in _CONDITION_MEMBERS:
        if name not in condition:
            faults.add(f"{path}.{name}", "missing", "this member is required")
            continue
        text = faults.text_at(f"{path}.{name}", condition[name], _VALUE_CHARS_MAX)
        if text is not None:
            texts[name] = text
    if "type" in texts and texts["type"] not in CONDITION_TYPES:
        faults.add(f"{path}.type", "value", f"expected one of {one_of(CONDITION_TYPES)}")
    if len(texts) < len(_CONDITION_MEMBERS):
        return {}
    return {texts["type"]: {texts["property"]: texts["value"]}}


def _moved(fault: Fault, path: str) -> Fault:
    return Fault(path, fault.code, fault.message)
