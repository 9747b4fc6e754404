"""Turns rows into events, after a plan; names the faults of those that are none.

Caller: ``writer``, in the tasks. Hides: Arrow, and how an id is made. Pure.
"""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from distributary.core.errors import Fault
from distributary.core.event import Event, content, shown, validate
from distributary.spark.publish._columns import CONTEXT, ColumnPlan, Convert

_ID_BYTES: Final = 16
"""Of a made id: two rows never share one by accident."""

_RESERVED: Final = frozenset({*CONTEXT, "specversion", "data"})
_JSON: Final = "application/json"
_to_json: Final = msgspec.json.Encoder(decimal_format="number").encode
_to_bytes: Final = msgspec.msgpack.Encoder().encode


class RowEvent(NamedTuple):
    """What a row became.

    Attributes:
        row: Number of the row in its task, from 0.
        event: The event; holds what could be read, if there are faults.
        faults: Why it is no event; the paths name columns. Empty: it is one.
    """

    row: int
    event: Event
    faults: tuple[Fault, ...]


class _Unreadable:
    """Stands for a value that Python cannot hold: a timestamp of the year 10000, for instance."""


_UNREADABLE: Final = _Unreadable()


class RowEvents:
    """Turns the rows of one task into events, in order.

    Args:
        plan: What the columns mean.
        scope: Of ids that are made: what is the same when Spark, or the user, repeats the task, and
            differs between tasks. An id is a hash of it, the number of the row, and the content.
    """

    def __init__(self, plan: ColumnPlan, scope: str) -> None:
        self._plan = plan
        self._scope = scope.encode()
        self._rows = 0

    def of(self, batch: pa.RecordBatch) -> Iterator[RowEvent]:
        """Yields what each row of *batch* became."""
        names = [*self._plan.attributes]
        columns = [_values(batch.column(batch.schema.get_field_index(name))) for name in names]
        extensions = self._column(batch, "extensions", self._plan.extensions is not None)
        data = self._column(batch, "data", self._plan.data is not None)
        converts = [*self._plan.attributes.items()]
        for index in range(batch.num_rows):
            faults: list[Fault] = []
            attributes: dict[str, Any] = {"specversion": "1.0", **self._plan.defaults}
            for (name, convert), values in zip(converts, columns, strict=True):
                _put(attributes, name, values[index], convert, faults)
            payload = self._data(data[index], attributes, faults)
            self._extend(attributes, extensions[index], faults)
            yield self._row(attributes, payload, faults)

    def _column(self, batch: pa.RecordBatch, name: str, there: bool) -> list[Any]:
        if not there:
            return [None] * batch.num_rows
        return _values(batch.column(batch.schema.get_field_index(name)))

    def _row(
        self, attributes: dict[str, Any], payload: bytes | None, faults: list[Fault]
    ) -> RowEvent:
        if self._plan.makes_ids:
            attributes["id"] = self._made_id(attributes, payload)
        named = {fault.path for fault in faults}
        for fault in validate(attributes, ""):
            if fault.path not in named:  # an empty path: an extension without a name
                place = fault.path or "extensions"
                faults.append(Fault(place, fault.code, fault.message))
        row = self._rows
        self._rows += 1
        return RowEvent(row, Event(attributes, payload), tuple(faults))

    def _made_id(self, attributes: Mapping[str, Any], payload: bytes | None) -> str:
        whole = (self._scope, self._rows, sorted(attributes.items()), payload)
        return blake2b(_to_bytes(whole), digest_size=_ID_BYTES).hexdigest()

    def _data(self, value: Any, attributes: dict[str, Any], faults: list[Fault]) -> bytes | None:
        convert = self._plan.data
        if convert is None or value is None:
            return None
        if value is _UNREADABLE:
            faults.append(_unreadable("data"))
            return None
        if not self._plan.data_is_json:
            return convert(value)  # type: ignore[no-any-return]  # bytes, as the plan says
        kind = attributes.setdefault("datacontenttype", _JSON)
        if isinstance(kind, str) and not content.is_json(kind):
            message = f"data of a struct, map or array are JSON, not {shown(kind)!r}"
            faults.append(Fault("datacontenttype", "content-type", message))
        return _to_json(convert(value))

    def _extend(self, attributes: dict[str, Any], value: Any, faults: list[Fault]) -> None:
        converts = self._plan.extensions
        if value is None or converts is None:
            return
        if value is _UNREADABLE:
            faults.append(_unreadable("extensions"))
            return
        of_all = converts.get("*")
        if of_all is None:
            for name, each in value.items():
                _put(attributes, name, each, converts[name], faults)
            return
        for name, each in value:  # Arrow gives the pairs of a map
            if name in _RESERVED:
                message = "has a column of its own"
                faults.append(Fault(f"extensions.{name}", "reserved", message))
            elif name in attributes:
                message = "is there twice"
                faults.append(Fault(f"extensions.{shown(name)}", "repeated", message))
            else:
                _put(attributes, name, each, of_all, faults)


def _put(
    attributes: dict[str, Any], name: str, value: Any, convert: Convert, faults: list[Fault]
) -> None:
    if value is None:
        return
    if value is _UNREADABLE:
        faults.append(_unreadable(name))
        return
    attributes[name] = convert(value)


def _unreadable(name: str) -> Fault:
    return Fault(name, "range", "holds a value out of range: times lie in the years 1 to 9999")


def _values(column: pa.Array) -> list[Any]:
    """The values of *column*; ``_UNREADABLE`` for those that Python cannot hold."""
    try:
        return column.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError):
        return [_value(each) for each in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return _UNREADABLE
