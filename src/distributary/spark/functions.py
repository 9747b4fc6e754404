"""Filters of subscriptions as functions of Spark: on DataFrames, and in SQL.

::

    events.where(matches([{"prefix": {"type": "com.example."}}]))
    events.where(cesql("type LIKE 'com.%' AND EXISTS subject"))
    SELECT id FROM distributary.events e WHERE matches('[{"exact": {"type": "a"}}]', struct(e.*))

``register`` brings those of SQL. The filters are those of subscriptions, compiled once in each
Python worker. An event's columns are those of the table ``events``; extensions are their canonical
texts, as in an event that came in binary mode.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as spark
from pyspark.sql.types import BooleanType

from distributary.core import filter as filters
from distributary.core.errors import Fault, ResourceError
from distributary.core.event import AttributeValue
from distributary.core.filter import Filter
from distributary.spark._columns import TEXTS

_COLUMNS: Final = {attribute: column for column, attribute in TEXTS.items()}
"""Attribute -> column of ``events``; every other attribute is in ``extensions``."""

_EXTENSIONS: Final = "extensions"

_COMPILED_MAX: Final = 64
"""Filters that a worker keeps compiled: in SQL their text may be a column."""


def matches(wanted: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> Column:
    """Returns whether an event matches, from the columns of the table ``events``.

    Only the columns of attributes that are read need to be there.

    Args:
        wanted: A ``filters`` array, or an object with ``filters``, ``source`` and ``types`` as a
            subscription has them (its other members decide nothing).

    Raises:
        ResourceError: There are faults, those that a subscription would be refused for.
    """
    compiled = filters.compile(_expressions(wanted))
    names = list(_COLUMNS) if compiled.reads is None else sorted(compiled.reads)
    columns = [spark.col(_COLUMNS[name]) for name in names if name in _COLUMNS]
    if compiled.reads is None or not compiled.reads <= _COLUMNS.keys():
        columns.append(spark.col(_EXTENSIONS))
    event = spark.struct(*columns or [spark.lit(1).alias("nothing")])
    verdict: Column = _matching()(spark.lit(compiled.json.decode()), event)
    return verdict


def cesql(expression: str) -> Column:
    """Returns whether the CloudEvents SQL *expression* is true of an event, as ``matches`` does.

    Raises:
        ResourceError: It is no expression.
    """
    return matches([{"sql": expression}])


def register_functions(spark_session: SparkSession) -> None:
    """Bring ``matches(filters, event)`` and ``cesql(expression, event)`` to SQL.

    *filters* and *expression* are texts, *event* is a struct of the columns of ``events``.
    """
    spark_session.udf.register("matches", _matching())
    spark_session.udf.register("cesql", _telling())


def _expressions(wanted: Sequence[Mapping[str, Any]] | Mapping[str, Any]) -> list[Any]:
    """Returns the filters that *wanted* means, by AND; faults are left to the compiler."""
    if not isinstance(wanted, Mapping):
        return list(wanted) if isinstance(wanted, list | tuple) else [wanted]
    own = wanted.get("filters") or []
    faults = filters.check(own)
    source, types = wanted.get("source"), wanted.get("types") or []
    if source is not None and not isinstance(source, str):
        faults.append(Fault("$.source", "type", "expected a string"))
    if not isinstance(types, list | tuple) or not all(isinstance(each, str) for each in types):
        faults.append(Fault("$.types", "type", "expected an array of strings"))
    if faults:
        raise ResourceError(faults)
    found = list(own)
    if source is not None:
        found.append({"exact": {"source": source}})
    if types:
        found.append({"any": [{"exact": {"type": each}} for each in types]})
    return found


@functools.cache
def _matching() -> Any:
    make: Any = spark.arrow_udf  # its types know no functions of two columns
    return make(_match, BooleanType())


@functools.cache
def _telling() -> Any:
    make: Any = spark.arrow_udf  # likewise
    return make(_tell, BooleanType())


def _match(texts: pa.Array, event: pa.Array) -> pa.Array:
    """Runs on an executor: one batch."""
    return _evaluated(texts, event, _filter_of)


def _tell(texts: pa.Array, event: pa.Array) -> pa.Array:
    """Runs on an executor: one batch."""
    return _evaluated(texts, event, _expression_of)


def _evaluated(texts: pa.Array, event: pa.StructArray, compiled: Any) -> pa.Array:
    names = {column: name for name, column in _COLUMNS.items()}
    there = [field.name for field in event.type]
    columns = [(names[name], event.field(name).to_pylist()) for name in there if name in names]
    extensions = event.field(_EXTENSIONS).to_pylist() if _EXTENSIONS in there else None
    verdicts: list[bool | None] = []
    for row, text in enumerate(texts.to_pylist()):
        if text is None:
            verdicts.append(None)
            continue
        attributes: dict[str, AttributeValue] = {
            name: values[row] for name, values in columns if values[row] is not None
        }
        if extensions is not None and extensions[row]:
            attributes.update(extensions[row])
        verdicts.append(compiled(text).matches(attributes))
    return pa.array(verdicts, pa.bool_())


@functools.lru_cache(_COMPILED_MAX)
def _filter_of(text: str) -> Filter:
    try:
        wanted = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ResourceError([Fault("$", "json", str(error))]) from error
    return filters.compile(_expressions(wanted))


@functools.lru_cache(_COMPILED_MAX)
def _expression_of(text: str) -> Filter:
    return filters.compile([{"sql": text}])
