"""The events of a request, and where it is in binary mode the record that keeps its lines as bytes.

Called by ``server.ingest`` for each publishing request. Hides the look-up of validated lines. It
agrees with ``binding.decode`` followed by ``binding.encode_binary``, as a property test checks: the
same faults or the same attributes, and a sink gets the same bytes.
"""

from typing import Final, TypeAlias

from distributary.core.event import (
    ATTRIBUTES_MAX,
    AttributeValue,
    Event,
    UnsupportedFormatError,
    binary,
    is_timestamp,
    is_valid,
)
from distributary.core.event.header_text import percent_decode
from distributary.protocols.http import binding
from distributary.protocols.http.binding import Headers, Mode

_KNOWN_LINES_MAX: Final = 4_096
"""Validated lines remembered: those of some hundred publishers. Some lines never come again
(numbers, traces), so when the memo is full it begins anew: 4,096 validations cost what they cost
without a memo."""

_KNOWN_BYTES_MAX: Final = 256
"""Longer values are validated each time: they rarely repeat, and fill memory (at worst 4 MB)."""

PLAIN_BYTES: Final = bytes(code for code in range(0x21, 0x7F) if code not in b'"%')
"""What a header value holds as it is; the encoder escapes all others."""


AttributeLine: TypeAlias = tuple[str, str, bytes]
"""One attribute of a request, validated by itself: its name, its value, and the header line that
``binding.encode_binary`` writes for it."""

_known: Final[dict[tuple[bytes, bytes], AttributeLine]] = {}
"""Validated lines by field as sent. For one thread."""


def receive(headers: Headers, body: bytes) -> tuple[list[Event], bytes | None]:
    """The events of a request, as ``binding.decode``, and their record if it is made already.

    Of *headers*, only ``ce-*`` and ``content-type`` are looked at and enter the record.

    Returns:
        The events; and the record of the one event in binary form, or None: encode the events.

    Raises:
        EventError: As ``binding.decode``.
    """
    attributes: dict[str, AttributeValue] = {}
    lines: list[bytes] = []
    last: AttributeLine | None = None
    known = _known.get
    for field in headers:
        name = field[0]
        if name[:3] == b"ce-":
            line = known(field) or attribute_line(field)
            if line is None:
                return binding.decode(headers, body), None
            attributes[line[0]] = line[1]
            lines.append(line[2])
        elif name == b"content-type":
            found = known(field) or content_type_line(field)
            if found is None or last is not None:
                return binding.decode(headers, body), None
            last = found
    if last is not None:
        attributes[last[0]] = last[1]
        lines.append(last[2])
    if (
        len(attributes) != len(lines)  # a duplicate
        or "id" not in attributes
        or "type" not in attributes
        or "source" not in attributes
        or "specversion" not in attributes
        or len(attributes) > ATTRIBUTES_MAX
    ):
        return binding.decode(headers, body), None
    return [Event(attributes, body or None)], binary.encode(lines, body)


def attribute_line(field: tuple[bytes, bytes]) -> AttributeLine | None:
    """The attribute of a ``ce-`` field; None: only all fields together tell what it is."""
    field_name, field_value = field
    # Id and time are new with each event: no look-up finds them, so their check is short.
    if field_name == b"ce-id":
        if field_value and len(field_value) <= _KNOWN_BYTES_MAX and not _odd(field_value):
            return "id", field_value.decode("ascii"), b"ce-id: %b\r\n" % field_value
    elif field_name == b"ce-time":
        time = field_value.decode("latin-1")
        if is_timestamp(time):
            return "time", time, b"ce-time: %b\r\n" % field_value
    try:
        name = field_name[3:].decode("ascii")
        value = percent_decode(field_value)
        written = binding.field_value(name, value).encode("ascii")
    except UnicodeDecodeError:
        return None
    if name == "datacontenttype" or not is_valid(name, value):
        return None
    line = name, value, b"%b: %b\r\n" % (field_name, written)
    if name not in ("id", "time"):
        _remember(field, line)
    return line


def content_type_line(field: tuple[bytes, bytes]) -> AttributeLine | None:
    """The content type of a message in binary mode; None as above."""
    value = field[1].strip(b" \t")
    try:
        text = value.decode("ascii")
        mode = binding.mode_of(field[1])
    except (UnicodeDecodeError, UnsupportedFormatError):
        return None
    if mode is not Mode.BINARY or not is_valid("datacontenttype", text):
        return None
    line = "datacontenttype", text, b"content-type: %b\r\n" % value
    _remember(field, line)
    return line


def _odd(value: bytes) -> bytes:
    """Return what of *value* the encoder escapes."""
    return value.translate(None, PLAIN_BYTES)


def _remember(field: tuple[bytes, bytes], line: AttributeLine) -> None:
    if len(field[1]) > _KNOWN_BYTES_MAX:
        return
    if len(_known) >= _KNOWN_LINES_MAX:
        _known.clear()
    _known[field] = line
