"""Filters of a Trigger: validates ``filter.attributes`` and ``filters``, and translates them.

Source:
    Knative Eventing, "TriggerFilter"; decision 26 (``filters``).
"""

import re
from typing import Any, Final

from distributary.core.errors import Fault
from distributary.knative.apiserver.machinery import Cause, Object
from distributary.knative.apiserver.machinery.names import bad_value
from distributary.knative.kinds._causes import of_fault
from distributary.knative.kinds._shape_check import at, key
from distributary.resource.rules import FilterCheck

_FILTERS: Final = "spec.filters"
_ATTRIBUTES: Final = "spec.filter.attributes"
_ATTRIBUTE_NAME: Final = re.compile(r"[a-z][a-z0-9]*")
"""As in Knative: stricter than CloudEvents, where a name may begin with a digit."""

_IN_EXACT: Final = re.compile(r"\[0\]\.exact(?:\.(\w+))?")
"""Part of a fault's path to replace: ``filter.attributes`` is checked as an ``exact`` filter."""

_DEPTH_MAX: Final = 64
"""Expressions nested deeper are not translated; ``filter.check`` refuses them at a lower depth."""


def check_filter(causes: list[Cause], value: Object, check: FilterCheck) -> None:
    """Add faults of ``spec.filter`` to *causes*; None marks a part already reported."""
    attributes = value.get("attributes") or {}
    good: dict[str, str] = {}
    for name, text in attributes.items():
        if not _ATTRIBUTE_NAME.fullmatch(name):
            why = "an attribute name begins with a letter a-z, and has letters a-z and digits only"
            causes.append(bad_value(key(_ATTRIBUTES, name), name, why))
        elif text is not None:
            good[name] = text or "any"
    for fault in check([{"exact": good}], _ATTRIBUTES) if good else ():
        path = _IN_EXACT.sub(lambda found: f"[{found[1]}]" if found[1] else "", fault.path)
        causes.append(of_fault(_moved(fault, path)))


def check_filters(causes: list[Cause], value: list[Any], check: FilterCheck) -> None:
    """Add faults of ``spec.filters`` to *causes*, with the paths that the client wrote."""
    cesql: dict[str, str] = {}
    translated = [_translated(each, f"{_FILTERS}[{n}]", cesql) for n, each in enumerate(value)]
    causes.extend(
        of_fault(_moved(fault, cesql.get(fault.path, fault.path)))
        for fault in check(translated, _FILTERS)
        if not (fault.code == "unknown-dialect" and fault.path.endswith(".cesql"))
    )


def filters_of(spec: Object) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
    """Filter expressions of an admitted Trigger's *spec*, and attributes that must be present.

    Non-empty ``filters`` take precedence over ``filter``.
    """
    filters = spec.get("filters")
    if filters:
        return tuple(_translated(each, "", {}) for each in filters), ()
    attributes = (spec.get("filter") or {}).get("attributes") or {}
    exact = {name: text for name, text in attributes.items() if text}
    present = tuple(name for name, text in attributes.items() if text == "")
    return (({"exact": exact},) if exact else ()), present


def _translated(value: Any, path: str, cesql: dict[str, str], depth: int = 0) -> Any:
    """*value* with ``cesql`` renamed to ``sql``; *cesql* receives new path -> old path.

    An object with both is unchanged: its fault is that it has two dialects, not that
    ``filter.check`` does not know ``cesql``.
    """
    if not isinstance(value, dict) or depth == _DEPTH_MAX:
        return value
    expression: Object = {}
    for name, inner in value.items():
        here = at(path, name)
        if name == "cesql" and "sql" not in value:
            cesql[at(path, "sql")] = here
            expression["sql"] = inner
        elif name == "not":
            expression[name] = _translated(inner, here, cesql, depth + 1)
        elif name in {"all", "any"} and isinstance(inner, list):
            expression[name] = [
                _translated(each, f"{here}[{n}]", cesql, depth + 1) for n, each in enumerate(inner)
            ]
        else:
            expression[name] = inner
    return expression


def _moved(fault: Fault, path: str) -> Fault:
    return Fault(path, fault.code, fault.message)
