"""The event value itself, and the canonical string form of an attribute value.

Used by every room through ``distributary.core.event``. Hides how an event is laid out in memory:
a msgspec struct, so that a log record becomes events in one call to C.
"""

from typing import TypeAlias

import msgspec

AttributeValue: TypeAlias = str | int | bool
"""What an attribute may be. The other four types of the specification (Binary, URI,
URI-reference, Timestamp) travel as their canonical strings, unread by an intermediary
(CloudEvents 1.0, Type System)."""

_REPR_DATA_BYTES_MAX = 40
"""A repr stands in one line of a test report or a log."""


class Event(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """One event: context attributes and data. Treat it as immutable; compares by value.

    Building one checks nothing: bytes from outside come in through ``json_format``, ``http``
    or ``record``, and those check everything.

    Attributes:
        attributes: Every context attribute by its lower-case name, required ones, optional ones
            and extensions alike, in the order in which they came.
        data: The payload, byte for byte as the sender encoded it; None if there is none.
    """

    attributes: dict[str, AttributeValue]
    data: bytes | None

    def __repr__(self) -> str:
        data = self.data
        if data is None:
            shown = "no data"
        elif len(data) <= _REPR_DATA_BYTES_MAX:
            shown = repr(data)
        else:
            shown = f"{data[:_REPR_DATA_BYTES_MAX]!r}... {len(data)} bytes"
        return f"Event({self.attributes!r}, {shown})"


def canonical(value: AttributeValue) -> str:
    """The string form of *value* that headers carry and filters compare.

    ``true`` or ``false``, the decimal digits of an integer, a string as it is
    (CloudEvents 1.0, Type System, "String encoding").
    """
    if isinstance(value, str):
        return value
    if value is True:
        return "true"
    if value is False:
        return "false"
    return str(value)
