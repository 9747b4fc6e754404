"""Options and columns of a write: what they mean, and all faults at once."""

from pathlib import Path

import pytest
from pyspark.sql import types as t

from distributary.core.errors import SettingsError
from distributary.spark.publish._columns import plan_columns
from distributary.spark.publish._options import parse_write_options

URL = {"url": "http://127.0.0.1:8080"}


def _struct(**kinds: t.DataType) -> t.StructType:
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "/events"),
        ({"broker": "ns/orders"}, "/brokers/ns/orders"),
        ({"CHANNEL": "ns/c"}, "/channels/ns/c"),
        ({"namespace": "ns"}, "/namespaces/ns/events"),
        ({"url": "https://h.example/base/"}, "/base/events"),
    ],
)
def test_where_events_go(options: dict[str, str], path: str) -> None:
    """To the default broker, or the one that is named; names of options in any case."""
    parsed = parse_write_options(URL | options, {})
    assert parsed.path == path
    assert parsed.port == (443 if "url" in options else 8080)


def test_every_fault_of_the_options_is_named_at_once() -> None:
    """Unknown names with what was meant, invalid values, and what excludes one another."""
    options = {
        "url": "ftp://x",
        "broker": "orders",
        "channel": "ns/c",
        "batchEvents": "0",
        "batchByte": "7",
        "retries": "-1",
        "rejected": "maybe",
        "tokenFrom": "file:/nowhere/x",
        "caFile": "/nowhere/y",
    }
    with pytest.raises(SettingsError) as caught:
        parse_write_options(options, {})
    for part in (
        "url: expected a URL",
        "broker: expected namespace/name",
        "broker, channel exclude one another",
        "batchEvents: expected a number from 1 to 1000",
        "batchByte: unknown; did you mean batchBytes?",
        "retries: expected",
        "rejected: expected fail or skip",
        "tokenFrom: cannot read /nowhere/x",
        "caFile: cannot read /nowhere/y",
    ):
        assert part in str(caught.value)


def test_a_secret_is_read_where_it_is_and_shown_nowhere(tmp_path: Path) -> None:
    """From a file or the environment; an option that holds one itself is refused."""
    secret = tmp_path / "key"
    secret.write_text("dk_one\n")
    for options, environ in (
        ({"tokenFrom": f"file:{secret}"}, {"DISTRIBUTARY_TOKEN": "dk_other"}),
        ({"tokenFrom": "env:MINE"}, {"MINE": "dk_one"}),
        ({}, {"DISTRIBUTARY_TOKEN": "dk_one"}),
    ):
        parsed = parse_write_options(URL | options, environ)
        assert parsed.token == "dk_one"
        assert "dk_one" not in repr(parsed)
    with pytest.raises(SettingsError, match="tokenFrom = env:NAME or file:PATH") as caught:
        parse_write_options(URL | {"token": "dk_one"}, {})
    assert "dk_one" not in str(caught.value)
    with pytest.raises(SettingsError, match="no token") as caught:
        parse_write_options(URL, {"DISTRIBUTARY_TOKEN": "two words"})
    assert "two words" not in str(caught.value)


def test_every_fault_of_the_columns_is_named_at_once() -> None:
    """Before anything is sent."""
    extensions = _struct(
        Upper=t.StringType(), subject=t.StringType(), list=t.ArrayType(t.IntegerType())
    )
    schema = _struct(
        id=t.DoubleType(),
        source=t.StringType(),
        time=t.TimestampNTZType(),
        total=t.IntegerType(),
        data=t.IntegerType(),
        extensions=extensions,
    )
    with pytest.raises(SettingsError) as caught:
        plan_columns(schema, {"source": "/x", "datacontenttype": "no type"})
    for part in (
        "id: expected a string or a whole number, not double",
        "time: expected a timestamp or a string, not timestamp_ntz",
        "total: no column of an event",
        "data: expected binary, a string, or a struct",
        "extensions.Upper: an attribute name consists of a-z and 0-9",
        "extensions.subject: has a column of its own",
        "extensions.list: expected a string",
        "source: there are a column and an option of this name",
        "type: missing; give the column, or the option type",
        "datacontenttype: ",
    ):
        assert part in str(caught.value)


def test_data_that_json_cannot_hold_is_named_by_its_place() -> None:
    """Keys that are no strings, intervals, and names that are there twice."""
    data = _struct(
        a=t.ArrayType(t.MapType(t.IntegerType(), t.StringType())),
        b=_struct(c=t.DayTimeIntervalType()),
    )
    with pytest.raises(SettingsError) as caught:
        plan_columns(_struct(data=data), {"source": "/s", "type": "t"})
    assert "data.a[]: keys of an object in JSON are strings, not int" in str(caught.value)
    assert "data.b.c: interval day to second has no form in JSON" in str(caught.value)
