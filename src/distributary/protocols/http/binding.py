"""The HTTP protocol binding: converts events from and to header fields and a body, in all modes.

Called by ``receive`` for requests, by the sink for deliveries and replies, and by commands. Hides
the content modes and the escaping of header values. No I/O: a message is a list of fields and a
body.

Both directions are on the hot path. The usual message, without escaped values, is decoded and
encoded by a few operations on all values at once; any other value by value.
"""

import enum
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from distributary.core.errors import Fault
from distributary.core.event import BinaryEvent, json_format
from distributary.core.event import content as _content
from distributary.core.event.header_text import percent_decode, percent_encode
from distributary.core.event.validity import (
    HEADER_PREFIX,
    UnsupportedFormatError,
    refuse,
    shown,
    validate,
)
from distributary.core.event.value import AttributeValue, Event, canonical

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Header fields in their order, names in lower case."""

_STRUCTURED = b"content-type: application/cloudevents+json; charset=utf-8\r\n"
_BATCHED = b"content-type: application/cloudevents-batch+json; charset=utf-8\r\n"

_MEMO_MAX = 256
"""Most content types, and attribute names, that are cached; senders may choose any number."""


class Mode(enum.Enum):
    """How an HTTP message holds events."""

    BINARY = enum.auto()
    STRUCTURED = enum.auto()
    BATCHED = enum.auto()


def decode(headers: Headers, body: bytes) -> list[Event]:
    """The events of one HTTP message: one, or as many as its batch holds (maybe none).

    The content type determines the mode (HTTP Protocol Binding 1.0.2, section 3). In structured and
    batched mode ``ce-`` headers are ignored: the body has all attributes (3.2.3). In binary mode an
    empty body is an event without data.

    Args:
        headers: Header fields, names in lower case. Only ``ce-`` fields and ``content-type`` are
            read.
        body: The whole body, without any content coding.

    Raises:
        UnsupportedFormatError: A CloudEvents content type other than the JSON ones, or with another
            charset than UTF-8; or neither such a content type nor any ``ce-`` header.
        EventError: The message is no event; lists each fault with its header name or JSON path.
    """
    content_type = None
    fields: list[tuple[bytes, bytes]] = []
    for field in headers:
        name = field[0]
        if name[:3] == b"ce-":
            fields.append(field)
        elif name == b"content-type":
            if content_type is not None:
                refuse([Fault("content-type", "duplicate", "occurs more than once")])
            content_type = field[1]
    mode = Mode.BINARY if content_type is None else mode_of(content_type)
    if mode is Mode.BINARY:
        return [_decode_binary(fields, content_type, body)]
    if mode is Mode.STRUCTURED:
        return [json_format.decode(body)]
    return json_format.decode_batch(body)


def encode_binary(event: Event) -> tuple[bytes, bytes]:
    r"""*event* in binary mode: its header fields, each ending with ``\r\n``, and the body.

    Without ``content-length`` and the empty line after the fields. No value can add a line: all but
    plain ASCII is percent-encoded. In structured mode where binary mode cannot carry it
    (``content.is_an_event``).

    Raises:
        EventError: *event* was built by hand and is invalid.
    """
    if isinstance(event, BinaryEvent):
        return event.lines, event.data or b""
    if _content.is_an_event(event):
        return encode_structured(event)
    event = _content.in_binary_mode(event)
    attributes = event.attributes
    try:
        values = _plain_values(attributes)
        if values is None:
            values = [field_value(name, value) for name, value in attributes.items()]
        lines = [line_start(name) + value for name, value in zip(attributes, values, strict=True)]
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        refuse(validate(attributes, HEADER_PREFIX) or [Fault("$", "type", str(error))])
    return ("\r\n".join(lines) + "\r\n").encode("ascii"), event.data or b""


def encode_structured(event: Event) -> tuple[bytes, bytes]:
    """*event* in structured mode (JSON): its one header field, and the body.

    Raises:
        EventError: As ``json_format.encode``.
    """
    return _STRUCTURED, json_format.encode(event)


def encode_batched(events: Sequence[Event]) -> tuple[bytes, bytes]:
    """*events* in batched mode (JSON): the one header field, and the body.

    Only for receivers that asked for batches (HTTP Protocol Binding 1.0.2, section 3).

    Raises:
        EventError: As ``json_format.encode_batch``.
    """
    return _BATCHED, json_format.encode_batch(events)


@lru_cache(_MEMO_MAX)
def mode_of(content_type: bytes) -> Mode:
    """Return the mode that *content_type* chooses.

    Raises:
        UnsupportedFormatError: As ``decode``.
    """
    text = content_type.decode("latin-1")
    media_type = _content.essence(text)
    if not media_type.startswith(_content.CLOUDEVENTS):
        return Mode.BINARY
    if _content.declared_charset(text) not in {None, "utf-8"}:
        message = "CloudEvents in JSON are UTF-8"
    elif media_type == "application/cloudevents+json":
        return Mode.STRUCTURED
    elif media_type == "application/cloudevents-batch+json":
        return Mode.BATCHED
    else:
        message = f"{shown(media_type)} is not known; JSON is"
    raise UnsupportedFormatError([Fault("content-type", "unsupported", message)])


def _decode_binary(
    fields: list[tuple[bytes, bytes]], content_type: bytes | None, body: bytes
) -> Event:
    if not fields:
        message = "neither a CloudEvents content type nor any ce- header: not a CloudEvent"
        raise UnsupportedFormatError([Fault("content-type", "unsupported", message)])
    attributes = _plain_attributes(fields)
    faults: list[Fault] = []
    if attributes is None:
        attributes = _any_attributes(fields, faults)
    if "datacontenttype" in attributes:
        message = "not allowed: use the content-type header (HTTP Protocol Binding 3.1.1)"
        faults.append(Fault("ce-datacontenttype", "reserved", message))
        del attributes["datacontenttype"]
    if content_type is not None and (text := content_type.strip(b" \t").decode("latin-1")):
        attributes["datacontenttype"] = text
    found = validate(attributes, HEADER_PREFIX)
    if body and _content.is_base64_text(attributes):
        faults.extend(_base64_faults(body))
    if faults or found:
        said = {fault.path for fault in faults}
        refuse(faults + [fault for fault in found if fault.path not in said])
    return Event(attributes, body or None)


def _base64_faults(body: bytes) -> list[Fault]:
    try:
        _content.base64_bytes(body)
    except ValueError as error:
        message = f"declares a Base64 body, but the body is not Base64: {error}"
        return [Fault(f"{HEADER_PREFIX}datacontentencoding", "base64", message)]
    return []


def _plain_attributes(fields: list[tuple[bytes, bytes]]) -> dict[str, AttributeValue] | None:
    """The attributes if every value is plain and every name occurs once; else None."""
    joined = b"\n".join([value for _, value in fields])
    names = b"\n".join([name for name, _ in fields])
    if (
        b"%" in joined
        or b'"' in joined
        or b" " in joined
        or b"\t" in joined
        or not joined.isascii()
        or not names.isascii()
    ):
        return None
    keys = names.decode("ascii")[3:].split("\nce-")
    values = joined.decode("ascii").split("\n")
    attributes: dict[str, AttributeValue] = dict(zip(keys, values, strict=False))
    if len(keys) != len(fields) or len(values) != len(fields) or len(attributes) != len(fields):
        return None
    return attributes


def _any_attributes(
    fields: list[tuple[bytes, bytes]], faults: list[Fault]
) -> dict[str, AttributeValue]:
    """The attributes, decoded value by value; adds faults to *faults*."""
    attributes: dict[str, AttributeValue] = {}
    for field_name, field_value in fields:
        path = shown(field_name.decode("latin-1"))
        name = field_name[3:].decode("latin-1")
        if name in attributes:
            faults.append(Fault(path, "duplicate", "occurs more than once"))
            continue
        try:
            attributes[name] = percent_decode(field_value)
        except UnicodeDecodeError as error:
            message = f"not UTF-8 ({error.reason}): percent-encode the UTF-8 of {shown(name)}"
            faults.append(
                Fault(path, "encoding", f"{message}, as gr%C3%BC%C3%9Fe for gr\u00fc\u00dfe")
            )
    return attributes


def _plain_values(attributes: dict[str, AttributeValue]) -> list[str] | None:
    """The header values if all attributes are strings that need no encoding; else None."""
    values = list(attributes.values())
    try:
        joined = "".join(values)  # type: ignore[arg-type]  # the except is the check
    except TypeError:
        return None
    if not joined.isascii() or not joined.isprintable() or '"' in joined or "%" in joined:
        return None
    if " " in joined:
        # Content types often contain a space, and are not encoded.
        content_type = attributes.get("datacontenttype", "")
        assert isinstance(content_type, str)
        if joined.count(" ") != content_type.count(" "):
            return None
    return values  # type: ignore[return-value]  # all of them are strings by now


def field_value(name: str, value: AttributeValue) -> str:
    """Return *value* of the attribute *name* as its header field holds it."""
    text = canonical(value)
    if name == "datacontenttype" and text.isascii() and text.isprintable():
        return text
    return percent_encode(text)


@lru_cache(_MEMO_MAX)
def line_start(name: str) -> str:
    """Return what precedes the value of the attribute *name* in its line.

    Raises:
        ValueError: No attribute has this name.
    """
    if name == "datacontenttype":
        return "content-type: "
    if not (name.isascii() and name.isalnum()):
        raise ValueError("an attribute name consists of a-z and 0-9")
    return f"{HEADER_PREFIX}{name}: "
