"""Columns of a table of the format, as Spark and Arrow name them; and the options in them.

Called by ``format`` and by each table. Hides: the types of Spark and of Arrow.

Spark gives the options of a table that stands in a catalog to ``schema`` alone, when the table is
made, and none to the reader. So they are kept where Spark keeps the columns: with the first one.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types as spark

from distributary.core.errors import SettingsError

KEPT_OPTIONS: Final = "distributary"
"""Name of the options in the metadata of the first column of a table in a catalog."""

_OF_CATALOG: Final = frozenset(
    {"provider", "owner", "location", "external", "comment", "is_managed_location"}
)
"""What a catalog adds to the options of a table that it makes."""

_OF_CATALOG_PREFIX: Final = "option."
"""Begins the second copy of each option that a catalog makes."""

_TYPES: Final = {
    "INT": (spark.IntegerType(), pa.int32()),
    "BIGINT": (spark.LongType(), pa.int64()),
    "DOUBLE": (spark.DoubleType(), pa.float64()),
    "BOOLEAN": (spark.BooleanType(), pa.bool_()),
    "STRING": (spark.StringType(), pa.string()),
    "BINARY": (spark.BinaryType(), pa.binary()),
    "DATE": (spark.DateType(), pa.date32()),
    "TIMESTAMP": (spark.TimestampType(), pa.timestamp("us", tz="UTC")),
    "ARRAY<STRING>": (spark.ArrayType(spark.StringType()), pa.list_(pa.string())),
    "MAP<STRING, STRING>": (
        spark.MapType(spark.StringType(), spark.StringType()),
        pa.map_(pa.string(), pa.string()),
    ),
}


class Column(NamedTuple):
    """One column of a table.

    Attributes:
        name: Its name.
        type: Its type in Spark SQL: a key of ``_TYPES``.
        meaning: For people: ``DESCRIBE`` and the reference show it.
    """

    name: str
    type: str
    meaning: str


def spark_schema(
    columns: Sequence[Column], kept: Mapping[str, str] | None = None
) -> spark.StructType:
    """Returns *columns* as Spark has them, with their meaning as comments.

    Args:
        columns: Of the table.
        kept: Options to keep in the first column; None: the reader gets them.
    """
    fields = [
        spark.StructField(each.name, _TYPES[each.type][0], metadata={"comment": each.meaning})
        for each in columns
    ]
    if kept is not None:
        fields[0].metadata[KEPT_OPTIONS] = json.dumps(dict(kept))
    return spark.StructType(fields)


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """Returns *columns* as Arrow has them; Spark refuses batches of another schema."""
    return pa.schema([(each.name, _TYPES[each.type][1]) for each in columns])


def kept_options(schema: spark.StructType) -> dict[str, str] | None:
    """Returns the options of a table in a catalog, from its columns; None: there are none."""
    for field in schema.fields[:1]:
        text = (field.metadata or {}).get(KEPT_OPTIONS)
        if text is not None:
            found: dict[str, str] = json.loads(text)
            return found
    return None


def without_catalog(options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Returns *options* without what a catalog adds, and whether one has added anything."""
    own = {
        name: value
        for name, value in options.items()
        if name.lower() not in _OF_CATALOG and not name.lower().startswith(_OF_CATALOG_PREFIX)
    }
    return own, "provider" in {name.lower() for name in options}


def chosen(table: str, columns: Sequence[Column], schema: spark.StructType) -> list[Column]:
    """Returns those of *columns* that *schema* names, in its order.

    Raises:
        SettingsError: It names others, or gives one another type; all of them in one message.
    """
    known = {each.name: each for each in columns}
    faults = []
    for field in schema.fields:
        column = known.get(field.name)
        if column is None:
            faults.append(f"there is no column {field.name}")
        elif field.dataType != _TYPES[column.type][0]:
            faults.append(f"{column.name} is {column.type}")
    if faults:
        raise SettingsError(
            f"the table {table} has its own schema: {'; '.join(faults)}; "
            f"its columns are {', '.join(known)}"
        )
    return [known[field.name] for field in schema.fields]
