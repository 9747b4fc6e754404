"""Renders objects as ``meta.k8s.io`` tables, which kubectl prints, and as partial metadata."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal

from distributary.knative.apiserver.machinery._kind import Column, Kind, Object
from distributary.knative.apiserver.machinery.selector import value_at

Include = Literal["None", "Metadata", "Object"]
"""Part of each object in its row of a table."""

_UNKNOWN: Final = "<unknown>"
_NAME_COLUMN: Final = {
    "name": "Name",
    "type": "string",
    "format": "name",
    "description": "Name of the object, unique in its namespace.",
    "priority": 0,
}
_MINUTE_S: Final = 60
_HOUR_S: Final = 60 * _MINUTE_S
_DAY_S: Final = 24 * _HOUR_S
_YEAR_S: Final = 365 * _DAY_S
_SPANS: Final[tuple[tuple[float, int, str, int, str], ...]] = (
    (2 * _MINUTE_S, 1, "s", 0, ""),
    (10 * _MINUTE_S, _MINUTE_S, "m", 1, "s"),
    (3 * _HOUR_S, _MINUTE_S, "m", 0, ""),
    (8 * _HOUR_S, _HOUR_S, "h", _MINUTE_S, "m"),
    (2 * _DAY_S, _HOUR_S, "h", 0, ""),
    (8 * _DAY_S, _DAY_S, "d", _HOUR_S, "h"),
    (2 * _YEAR_S, _DAY_S, "d", 0, ""),
    (8 * _YEAR_S, _YEAR_S, "y", _DAY_S, "d"),
    (float("inf"), _YEAR_S, "y", 0, ""),
)
"""Upper bound, seconds, then the unit and the smaller unit that is also shown (none: 0)."""


def table(
    kind: Kind,
    objects: Sequence[Object],
    *,
    now_ms: int,
    include: Include = "Metadata",
    version: str = "v1",
    list_version: int | None = None,
    continue_token: str = "",
    remaining: int | None = None,
) -> Object:
    """Render *objects* as a table, one row each, in order.

    Args:
        kind: Of all objects; defines the columns.
        objects: The rows.
        now_ms: Current time for ages, milliseconds since 1970.
        include: Part of each object in its row.
        version: Of the table: ``v1`` or ``v1beta1``.
        list_version: ``metadata.resourceVersion`` of the list; None: that of the only object.
        continue_token: ``continue`` token; empty: the list is complete.
        remaining: Objects after this page, if known.

    Source:
        Kubernetes API concepts, "Receiving resources as Tables".
    """
    if list_version is None:
        list_version = int(objects[0]["metadata"].get("resourceVersion", 0)) if objects else 0
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": list_metadata(list_version, continue_token, remaining),
        "columnDefinitions": [_NAME_COLUMN, *map(_definition, kind.columns)],
        "rows": [_row(kind, obj, now_ms, include, version) for obj in objects],
    }


def list_metadata(
    list_version: int, continue_token: str = "", remaining: int | None = None
) -> Object:
    """``metadata`` of a list: version, ``continue`` token, remaining objects."""
    metadata: Object = {"resourceVersion": str(list_version)}
    if continue_token:
        metadata["continue"] = continue_token
        if remaining is not None:
            metadata["remainingItemCount"] = remaining
    return metadata


def partial(obj: Object, version: str = "v1") -> Object:
    """The ``PartialObjectMetadata`` of *obj*."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def age(then: str, now_ms: int) -> str:
    """Time from *then* (RFC 3339) to *now_ms* in kubectl's notation: ``5m2s``, ``3d4h``.

    At most two units, the second one only while the first is small; ``<unknown>`` if *then* is no
    time, ``<invalid>`` if it is more than a second in the future.
    """
    try:
        moment = datetime.fromisoformat(then)
        seconds = int(now_ms / 1000 - moment.timestamp())
    except (ValueError, OverflowError):
        return _UNKNOWN
    if seconds < -1:
        return "<invalid>"
    return _span(max(seconds, 0))


def _span(seconds: int) -> str:
    _, large_s, large, small_s, small = next(span for span in _SPANS if seconds < span[0])
    rest = seconds % large_s // small_s if small_s else 0
    return f"{seconds // large_s}{large}" + (f"{rest}{small}" if rest else "")


def _definition(column: Column) -> Object:
    shown = f"Value of {column.path}."
    return {
        "name": column.name,
        "type": column.type,
        "format": "",
        "description": "Time since the object was created." if column.path == "age" else shown,
        "priority": column.priority,
    }


def _row(kind: Kind, obj: Object, now_ms: int, include: Include, version: str) -> Object:
    cells = [obj["metadata"]["name"], *(_cell(column, obj, now_ms) for column in kind.columns)]
    shown = obj if include == "Object" else None
    return {"cells": cells, "object": partial(obj, version) if include == "Metadata" else shown}


def _cell(column: Column, obj: Object, now_ms: int) -> Any:
    value = _value(column.path, obj)
    if column.type == "date":
        return age(value, now_ms) if isinstance(value, str) else _UNKNOWN
    if value is None:
        return ""
    if column.type == "integer" and isinstance(value, int):
        return value
    return value if isinstance(value, str) else str(value)


def _value(path: str, obj: Object) -> Any:
    if path == "age":
        return value_at(obj, "metadata.creationTimestamp")
    if path.startswith("annotation:"):  # their names have dots
        annotations = value_at(obj, "metadata.annotations")
        name = path.removeprefix("annotation:")
        return annotations.get(name) if isinstance(annotations, dict) else None
    if not path.startswith("condition:"):
        return value_at(obj, path)
    wanted, _, member = path.removeprefix("condition:").partition(".")
    conditions = value_at(obj, "status.conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == wanted:
            return condition.get(member)
    return None
