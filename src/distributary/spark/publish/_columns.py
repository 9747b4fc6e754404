"""What the columns of a frame mean: a plan for turning its rows into events.

Caller: ``writer``, on the driver, before anything is sent; ``_rows`` follows the plan. Hides: which
types Spark has, and which of them an attribute or the data may have.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

from pyspark.sql import types as t

from distributary.core.errors import SettingsError
from distributary.core.event import is_name, validate

Convert: TypeAlias = Callable[[Any], Any]
"""Turns a value that Arrow gives into one that an event or JSON can hold; never NULL."""

CONTEXT: tuple[str, ...] = (
    "id",
    "source",
    "type",
    "subject",
    "time",
    "datacontenttype",
    "dataschema",
)
"""Columns that are attributes of the same name."""

_WHOLE: Final = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_EXTENSION: Final = (t.StringType, t.BooleanType, t.NullType, *_WHOLE)
_AS_THEY_ARE: Final = (
    t.StringType,
    t.BooleanType,
    *_WHOLE,
    t.FloatType,
    t.DoubleType,
    t.DecimalType,
    t.DateType,
    t.TimestampType,
    t.TimestampNTZType,
    t.BinaryType,
    t.NullType,
)
"""Types whose values JSON has, or a text that stands for them."""


class ColumnPlan(NamedTuple):
    """How rows become events; pickled to the tasks.

    Attributes:
        attributes: Columns that are context attributes, with their conversions.
        extensions: Conversions of the values of ``extensions`` by name; of every one, where the
            column is a map, under the name ``*``; None: there is no such column.
        data: Conversion of ``data``; None: there is no such column.
        data_is_json: Whether the data are written as JSON.
        defaults: Attributes of every row whose column is missing.
        makes_ids: Whether ids are made: there is no column ``id``.
    """

    attributes: Mapping[str, Convert]
    extensions: Mapping[str, Convert] | None
    data: Convert | None
    data_is_json: bool
    defaults: Mapping[str, str]
    makes_ids: bool


def plan_columns(schema: t.StructType, defaults: Mapping[str, str]) -> ColumnPlan:
    """Plan how rows of *schema* become events.

    Args:
        schema: Of the frame that is written.
        defaults: Attributes of rows whose column is missing.

    Raises:
        SettingsError: Columns are unknown, missing, twice there, or of a type that cannot be used:
            all of them in one message.
    """
    faults: list[str] = []
    names = [each.name for each in schema.fields]
    faults += [f"{name}: there are two columns of this name" for name in _twice(names)]
    columns = {each.name: each.dataType for each in schema.fields}
    known = {*CONTEXT, "extensions", "data"}
    faults += [
        f"{name}: no column of an event ({', '.join([*CONTEXT, 'extensions', 'data'])}); put it "
        "into extensions or data, or drop it"
        for name in columns
        if name not in known
    ]
    faults += [
        f"{name}: missing; give the column, or the option {name}"
        for name in ("source", "type")
        if name not in columns and name not in defaults
    ]
    faults += [
        f"{name}: there are a column and an option of this name"
        for name in defaults
        if name in columns
    ]
    probe = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", **defaults}
    faults += [f"{each.path}: {each.message}" for each in validate(probe, "")]
    attributes = {
        name: _of_attribute(name, columns[name], faults) for name in CONTEXT if name in columns
    }
    kind = columns.get("data")
    plan = ColumnPlan(
        attributes=attributes,
        extensions=_of_extensions(columns.get("extensions"), faults),
        data=None if kind is None else _of_data(kind, faults),
        data_is_json=isinstance(kind, t.StructType | t.ArrayType | t.MapType),
        defaults={name: text for name, text in defaults.items() if name not in columns},
        makes_ids="id" not in columns,
    )
    if faults:
        raise SettingsError("columns of a write to distributary: " + "; ".join(faults))
    return plan


def _twice(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _of_attribute(name: str, kind: t.DataType, faults: list[str]) -> Convert:
    if isinstance(kind, t.StringType):
        return _same
    if name == "time" and isinstance(kind, t.TimestampType):
        return rfc3339
    if name in {"id", "subject"} and isinstance(kind, _WHOLE):
        return str
    wanted = {
        "time": "a timestamp or a string",
        "id": "a string or a whole number",
        "subject": "a string or a whole number",
    }.get(name, "a string")
    faults.append(f"{name}: expected {wanted}, not {kind.simpleString()}")
    return _same


def _of_extensions(kind: t.DataType | None, faults: list[str]) -> Mapping[str, Convert] | None:
    if kind is None:
        return None
    if isinstance(kind, t.MapType) and isinstance(kind.keyType, t.StringType):
        return {"*": _of_extension("extensions", kind.valueType, faults)}
    if not isinstance(kind, t.StructType):
        faults.append(f"extensions: expected a struct or a map, not {kind.simpleString()}")
        return {}
    names = kind.fieldNames()
    faults += [f"extensions.{name}: there are two of this name" for name in _twice(names)]
    for name in names:
        if name in {*CONTEXT, "data", "specversion"}:
            faults.append(f"extensions.{name}: has a column of its own")
        elif not is_name(name):
            faults.append(f"extensions.{name}: an attribute name consists of a-z and 0-9")
    return {
        each.name: _of_extension(f"extensions.{each.name}", each.dataType, faults)
        for each in kind.fields
    }


def _of_extension(place: str, kind: t.DataType, faults: list[str]) -> Convert:
    if isinstance(kind, _EXTENSION):
        return _same
    if isinstance(kind, t.TimestampType):
        return rfc3339
    faults.append(
        f"{place}: expected a string, a boolean, a whole number or a timestamp, not "
        f"{kind.simpleString()}"
    )
    return _same


def _of_data(kind: t.DataType, faults: list[str]) -> Convert:
    if isinstance(kind, t.BinaryType):
        return bytes
    if isinstance(kind, t.StringType):
        return str.encode
    if isinstance(kind, t.StructType | t.ArrayType | t.MapType):
        return _json_of(kind, "data", faults) or _same
    faults.append(
        "data: expected binary, a string, or a struct, map or array that becomes JSON, not "
        f"{kind.simpleString()}"
    )
    return _same


def _json_of(kind: t.DataType, place: str, faults: list[str]) -> Convert | None:
    """How a value of *kind* becomes one that the encoder of JSON takes; None: it does already."""
    if isinstance(kind, t.StructType):
        names = kind.fieldNames()
        faults += [f"{place}.{name}: there are two of this name" for name in _twice(names)]
        return _members(
            {
                each.name: _json_of(each.dataType, f"{place}.{each.name}", faults)
                for each in kind.fields
            }
        )
    if isinstance(kind, t.ArrayType):
        return _elements(_json_of(kind.elementType, f"{place}[]", faults))
    if isinstance(kind, t.MapType):
        if not isinstance(kind.keyType, t.StringType):
            key = kind.keyType.simpleString()
            faults.append(f"{place}: keys of an object in JSON are strings, not {key}")
        return _entries(_json_of(kind.valueType, f"{place}{{}}", faults))
    if isinstance(kind, t.TimestampType):
        return rfc3339
    if not isinstance(kind, _AS_THEY_ARE):
        faults.append(f"{place}: {kind.simpleString()} has no form in JSON; cast it")
    return None


def _members(each: Mapping[str, Convert | None]) -> Convert | None:
    needed = {name: _or_null(convert) for name, convert in each.items() if convert is not None}
    if not needed:
        return None

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {name: needed[name](value[name]) for name in needed}

    return convert


def _elements(each: Convert | None) -> Convert | None:
    if each is None:
        return None
    convert = _or_null(each)
    return lambda value: [convert(element) for element in value]


def _entries(each: Convert | None) -> Convert:
    convert = _same if each is None else _or_null(each)
    return lambda value: {key: convert(element) for key, element in value}


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def rfc3339(moment: datetime) -> str:
    """*moment*, which has a time zone, in UTC and the form of RFC 3339."""
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _same(value: Any) -> Any:
    return value
