r"""The NATS protocol binding: events from and to a header block and a payload.

Called by the sink and the source. Hides the content modes and the escaping of header values. No
client library and no I/O: a message is its header block on the wire
(``NATS/1.0\r\nname: value\r\n...\r\n\r\n``) and its payload, as bytes.

Source:
    NATS Protocol Binding for CloudEvents 1.0.3-wip, which adds binary mode and headers to 1.0.2.
    Senders of 1.0.2 use neither: their payload is the event as JSON.
"""

from functools import lru_cache
from typing import Final

from distributary.core.errors import Fault
from distributary.core.event import (
    HEADER_PREFIX,
    AttributeValue,
    Event,
    canonical,
    content,
    header_text,
    json_format,
    refuse,
    shown,
    validate,
)

VERSION_LINE: Final = b"NATS/1.0\r\n"
"""First line of a header block; a status may follow the version (NATS ADR-4)."""

_VERSION: Final = b"NATS/1.0"
_STRUCTURED: Final = b"Content-Type: application/cloudevents+json; charset=utf-8\r\n"
_STRUCTURED_TYPE: Final = "application/cloudevents"

_MEMO_MAX: Final = 256
"""Attribute names in the cache; senders may use any number of them."""


def decode(headers: bytes, payload: bytes) -> Event:
    """Decode one NATS message.

    The content type selects the mode (section 3). Without one, a message with ``ce-`` headers is
    in binary mode, and one without any is JSON, as of version 1.0.2. In structured mode ``ce-``
    headers are ignored. In binary mode an empty payload makes an event without data, and
    ``content-type`` replaces a missing ``ce-datacontenttype``, as other implementations write it.

    Args:
        headers: The header block, with its version line; empty: the message has none.
        payload: The bytes after the header block.

    Raises:
        EventError: The message is not an event; every fault, with the header's name or JSON path.
    """
    faults: list[Fault] = []
    fields = _fields(headers, faults)
    if faults:
        refuse(faults)
    content_type = fields.pop("content-type", b"").decode("latin-1").strip(" \t")
    if content.essence(content_type).startswith(_STRUCTURED_TYPE):
        return _decode_structured(content_type, payload)
    if not fields:
        return json_format.decode(payload)
    return _decode_binary(fields, content_type, payload)


def encode_binary(event: Event) -> tuple[bytes, bytes]:
    r"""Encode *event* in binary mode; returns header lines, each ending with ``\r\n``, and payload.

    The lines exclude ``VERSION_LINE`` and the empty line that ends a block. No value can add a
    line: all but plain ASCII is percent-encoded (3.1.3.2).

    Raises:
        EventError: *event* was built by hand and is invalid.
    """
    event = content.in_binary_mode(event)
    attributes = event.attributes
    try:
        values = [canonical(value) for value in attributes.values()]
        if not _plain("".join(values)):
            values = [header_text.percent_encode(value) for value in values]
        lines = [
            f"{_line_start(name)}{value}\r\n"
            for name, value in zip(attributes, values, strict=True)
        ]
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        refuse(_faults(attributes) or [Fault("$", "type", str(error))])
    return "".join(lines).encode("ascii"), event.data or b""


def encode_structured(event: Event) -> tuple[bytes, bytes]:
    """Encode *event* in structured mode (JSON); returns its one header line, and the payload.

    The payload is sufficient for a server without headers.

    Raises:
        EventError: As ``json_format.encode``.
    """
    return _STRUCTURED, json_format.encode(event)


def _fields(block: bytes, faults: list[Fault]) -> dict[str, bytes]:
    """Returns ``ce-`` and ``content-type`` headers of *block* by their names in lower case."""
    if not block:
        return {}
    first, *lines = block.split(b"\r\n")
    if not first.startswith(_VERSION):
        faults.append(Fault("$", "headers", "the header block does not begin with NATS/1.0"))
        return {}
    fields: dict[str, bytes] = {}
    for line in lines:
        name, colon, value = line.partition(b":")
        key = name.strip(b" \t").decode("latin-1").lower()
        if not (key.startswith(HEADER_PREFIX) or key == "content-type"):
            continue
        if not colon:
            faults.append(Fault(shown(key), "headers", "has no value"))
        elif key in fields:
            faults.append(Fault(shown(key), "duplicate", "occurs more than once"))
        else:
            fields[key] = value
    return fields


def _decode_structured(content_type: str, payload: bytes) -> Event:
    if content.essence(content_type) != "application/cloudevents+json":
        message = f"{shown(content_type)} is not known; application/cloudevents+json is"
        refuse([Fault("content-type", "unsupported", message)])
    if content.declared_charset(content_type) not in {None, "utf-8"}:
        refuse([Fault("content-type", "unsupported", "CloudEvents in JSON are UTF-8")])
    return json_format.decode(payload)


def _decode_binary(fields: dict[str, bytes], content_type: str, payload: bytes) -> Event:
    attributes: dict[str, AttributeValue] = {}
    faults: list[Fault] = []
    for field, value in fields.items():
        try:
            attributes[field[len(HEADER_PREFIX) :]] = header_text.percent_decode(value)
        except UnicodeDecodeError as error:
            faults.append(Fault(shown(field), "encoding", f"not UTF-8: {error.reason}"))
    if content_type:
        attributes.setdefault("datacontenttype", content_type)
    said = {fault.path for fault in faults}
    faults += [fault for fault in _faults(attributes) if fault.path not in said]
    if faults:
        refuse(faults)
    return Event(attributes, payload or None)


def _faults(attributes: dict[str, AttributeValue]) -> list[Fault]:
    """Returns every fault of *attributes*, with ``ce-datacontenttype`` for the content type."""
    return [
        Fault("ce-datacontenttype", fault.code, fault.message)
        if fault.path == "content-type"
        else fault
        for fault in validate(attributes, HEADER_PREFIX)
    ]


def _plain(text: str) -> bool:
    """Whether no character needs percent-encoding."""
    return (
        text.isascii()
        and text.isprintable()
        and " " not in text
        and '"' not in text
        and "%" not in text
    )


@lru_cache(_MEMO_MAX)
def _line_start(name: str) -> str:
    if not (name.isascii() and name.isalnum()):
        raise ValueError("an attribute name consists of a-z and 0-9")
    return f"{HEADER_PREFIX}{name}: "
