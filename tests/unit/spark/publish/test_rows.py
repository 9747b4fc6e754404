"""Rows become events: every column by its meaning, ids that repeat, faults by row."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from distributary.core.event import json_format, validate
from distributary.protocols.http import binding
from distributary.spark.publish._columns import plan_columns
from distributary.spark.publish._publisher import binary_mode
from distributary.spark.publish._rows import RowEvent, RowEvents

DEFAULTS = {"source": "/s", "type": "t"}


def _struct(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


def _events(
    schema: t.StructType, rows: list[dict[str, Any]], scope: str = "run a", **given_: str
) -> list[RowEvent]:
    defaults = {name: text for name, text in DEFAULTS.items() if name not in schema.fieldNames()}
    batch = pa.RecordBatch.from_pylist(rows, to_arrow_schema(schema, timezone="Europe/Berlin"))
    return [*RowEvents(plan_columns(schema, defaults | given_), scope).of(batch)]


def _one(schema: t.StructType, row: dict[str, Any], **given_: str) -> RowEvent:
    (found,) = _events(schema, [row], **given_)
    return found


def test_every_column_has_its_place() -> None:
    """Attributes by name, extensions of a struct, data as they are."""
    found = _one(
        _struct(
            id=t.LongType(),
            **dict.fromkeys(["source", "type", "subject"], t.StringType()),
            time=t.TimestampType(),
            **dict.fromkeys(["datacontenttype", "dataschema"], t.StringType()),
            data=t.BinaryType(),
            extensions=_struct(
                partitionkey=t.StringType(),
                urgent=t.BooleanType(),
                number=t.IntegerType(),
                seen=t.TimestampType(),
                absent=t.StringType(),
            ),
        ),
        {
            "id": 7,
            "source": "/shop",
            "type": "sold",
            "subject": None,
            "time": datetime(2026, 1, 31, 12, 0, 0, 5000, UTC),
            "datacontenttype": "image/png",
            "dataschema": "https://example.com/s",
            "data": b"\x00\xff",
            "extensions": {
                "partitionkey": "k",
                "urgent": True,
                "number": -3,
                "seen": datetime(2026, 1, 1, tzinfo=UTC),
                "absent": None,
            },
        },
    )
    assert found.faults == ()
    assert found.event.data == b"\x00\xff"
    assert found.event.attributes == {
        "specversion": "1.0",
        "id": "7",
        "source": "/shop",
        "type": "sold",
        "time": "2026-01-31T12:00:00.005000Z",
        "datacontenttype": "image/png",
        "dataschema": "https://example.com/s",
        "partitionkey": "k",
        "urgent": True,
        "number": -3,
        "seen": "2026-01-01T00:00:00Z",
    }


def test_a_struct_becomes_json() -> None:
    """Nested, with what JSON has no type for as text; numbers keep their digits."""
    found = _one(
        _struct(
            data=_struct(
                n=t.DecimalType(20, 4),
                d=t.DateType(),
                t=t.TimestampType(),
                b=t.BinaryType(),
                m=t.MapType(t.StringType(), _struct(t=t.TimestampType())),
                l=t.ArrayType(t.IntegerType()),
                none=t.StringType(),
            )
        ),
        {
            "data": {
                "n": Decimal("12345678901234.5000"),
                "d": date(2026, 1, 31),
                "t": datetime(2026, 1, 31, 12, tzinfo=UTC),
                "b": b"\x00",
                "m": [("k", {"t": datetime(2026, 1, 1, tzinfo=UTC)})],
                "l": [1, None],
                "none": None,
            }
        },
    )
    assert found.event.attributes["datacontenttype"] == "application/json"
    assert found.event.data == (
        b'{"n":12345678901234.5000,"d":"2026-01-31","t":"2026-01-31T12:00:00Z","b":"AA==",'
        b'"m":{"k":{"t":"2026-01-01T00:00:00Z"}},"l":[1,null],"none":null}'
    )


@pytest.mark.parametrize("kind", [t.BinaryType(), t.StringType(), _struct(a=t.IntegerType())])
def test_null_is_no_data(kind: t.DataType) -> None:
    """NULL is no payload; an empty one is."""
    found = _one(_struct(data=kind), {"data": None})
    assert (found.event.data, found.faults) == (None, ())


def test_faults_name_columns() -> None:
    """All faults of a row, those of other rows apart."""
    schema = _struct(
        **dict.fromkeys(["id", "time", "datacontenttype"], t.StringType()),
        data=t.ArrayType(t.IntegerType()),
        extensions=t.MapType(t.StringType(), t.LongType()),
    )
    good = {"id": "a", "time": None, "datacontenttype": None, "data": [1], "extensions": None}
    bad = {
        "id": None,
        "time": "yesterday",
        "datacontenttype": "text/plain",
        "data": [1],
        "extensions": [("Bad Name", 1), ("type", 2), ("big", 2**40), ("fine", 1)],
    }
    first, second, third = _events(schema, [good, bad, good | {"id": "c"}])
    assert (first.faults, third.faults) == ((), ())
    assert second.row == 1
    assert {(each.path, each.code) for each in second.faults} == {
        ("id", "missing"),
        ("time", "time"),
        ("datacontenttype", "content-type"),
        ("Bad Name", "name"),
        ("extensions.type", "reserved"),
        ("big", "range"),
    }


def test_a_time_out_of_range_is_a_fault_of_its_row() -> None:
    """Spark's timestamps reach farther than RFC 3339; others of the batch are read."""
    schema = _struct(time=t.TimestampType())
    column = pa.array([253_402_300_800_000_000, 0], pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_arrays([column], names=["time"])
    far, near = RowEvents(plan_columns(schema, DEFAULTS), "s").of(batch)
    assert [(each.path, each.code) for each in far.faults] == [("time", "range")]
    assert near.event.attributes["time"] == "1970-01-01T00:00:00Z"


def test_made_ids_repeat_with_the_task_and_with_nothing_else() -> None:
    """The same scope, place and content: the same id; else another one."""
    rows = [{"subject": "a"}, {"subject": "a"}, {"subject": "b"}]

    def ids(rows: list[dict[str, Any]], scope: str = "run a") -> list[str]:
        return [
            str(each.event.attributes["id"])
            for each in _events(_struct(subject=t.StringType()), rows, scope)
        ]

    first = ids(rows)
    assert ids(rows) == first
    assert len(set(first)) == 3
    assert set(ids(rows, "run b")).isdisjoint(first)
    assert set(ids([rows[2], rows[2], rows[0]])).isdisjoint(first)


_TEXT = st.text(max_size=12)
_ROW = st.fixed_dictionaries(
    {
        "id": st.none() | _TEXT,
        "subject": st.none() | _TEXT,
        "time": st.none() | _TEXT | st.just("2026-01-31T12:00:00Z"),
        "datacontenttype": st.none() | _TEXT | st.sampled_from(["application/json", "text/plain"]),
        "data": st.none() | st.binary(max_size=20) | st.just(b'{"a": 1.10}'),
        "extensions": st.none()
        | st.lists(
            st.tuples(st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True) | _TEXT, _TEXT), max_size=3
        ),
    }
)


@given(st.lists(_ROW, max_size=5))
def test_any_row_is_an_event_or_has_faults(rows: list[dict[str, Any]]) -> None:
    """What has no fault survives the way to the server, in a batch and alone, byte for byte."""
    schema = _struct(
        **dict.fromkeys(["id", "subject", "time", "datacontenttype"], t.StringType()),
        data=t.BinaryType(),
        extensions=t.MapType(t.StringType(), t.StringType()),
    )
    found = _events(schema, rows)
    good = [each.event for each in found if not each.faults]
    assert json_format.decode_batch(json_format.encode_batch(good)) == good
    for event in good:
        lines, body = binary_mode(event)
        fields = [tuple(line.split(b": ", 1)) for line in lines.splitlines()]
        (back,) = binding.decode(fields, body)  # type: ignore[arg-type]  # pairs
        assert back.attributes == event.attributes
        assert (back.data or b"") == (event.data or b"")
    for each in found:
        if each.faults:
            assert all(fault.path and fault.code for fault in each.faults)
        else:
            assert validate(each.event.attributes) == []
