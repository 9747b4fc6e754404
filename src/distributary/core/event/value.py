"""The event value, and the canonical string of an attribute value.

Used by all packages through ``distributary.core.event``. Hides the layout in memory: a msgspec
struct, so that a log record becomes events in one call to C. ``binary`` has its other form, which
reads attributes when they are asked for.
"""

from typing import TypeAlias

import msgspec

AttributeValue: TypeAlias = str | int | bool
"""The type of attribute values. The other four types of the specification (Binary, URI,
URI-reference, Timestamp) are kept as their canonical strings, which an intermediary need not parse
(CloudEvents 1.0, Type System)."""

_REPR_DATA_BYTES_MAX = 40
"""Most bytes of data in a repr, which must fit in one line of a test report or a log."""


class Event(  # noqa: PLW1641 - unhashable, like its attributes
    msgspec.Struct, array_like=True, forbid_unknown_fields=True
):
    """One event: context attributes and data. Treat it as immutable; compares by value.

    The constructor checks nothing: bytes from outside are decoded by ``json_format``, ``http`` or
    ``record``, which check everything.

    Attributes:
        attributes: All context attributes by their lower-case names (required, optional,
            extensions), in the sender's order.
        data: The payload, byte for byte as the sender encoded it; None if there is none.
    """

    attributes: dict[str, AttributeValue]
    data: bytes | None

    def text(self, name: str) -> str | None:
        """Return the attribute *name* in its canonical string form; None: there is none.

        The cheapest access to one attribute of a stored event: the others are not parsed.
        """
        value = self.attributes.get(name)
        return value if value is None or type(value) is str else canonical(value)

    def data_bytes(self) -> int:
        """Return the length of the data, bytes; copies nothing."""
        return len(self.data or b"")

    def __eq__(self, other: object) -> bool:
        """Whether *other* is an event with the same attributes, in any order, and data."""
        if not isinstance(other, Event):
            return NotImplemented
        return self.attributes == other.attributes and self.data == other.data

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
    """Return the string form of *value* that headers carry and filters compare.

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
