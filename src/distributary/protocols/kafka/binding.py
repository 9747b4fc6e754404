"""The Kafka protocol binding: events from and to the headers, key and value of a record.

Called by the sink and the source. No client library and no I/O: a record is a list of headers, a
key and a value. Headers are prefixed with their length, so no value can add a header or end one.

In binary mode a record without a value is an event without data; one with an empty value has
empty data (Kafka Protocol Binding 1.0.3, 3.2.2). In a compacted topic the former deletes its key.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, TypeAlias

from distributary.core.errors import Fault
from distributary.core.event import (
    AttributeValue,
    Event,
    UnsupportedFormatError,
    canonical,
    content,
    json_format,
    refuse,
    shown,
    validate,
)

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Headers of a record in their order; values may be null."""

HEADER_PREFIX: Final = "ce_"
"""Before an attribute's name (Kafka Protocol Binding 1.0.3, 3.2.3.1)."""

_CONTENT_TYPE: Final = "content-type"
_STRUCTURED: Final = ((_CONTENT_TYPE, b"application/cloudevents+json; charset=utf-8"),)

_PATHS: Final = {f"{HEADER_PREFIX}datacontenttype": _CONTENT_TYPE, HEADER_PREFIX: "$"}
"""Path of a fault of ``validate`` -> its path here, where they differ."""

_MEMO_MAX: Final = 256
"""Names in a cache; senders may use any number of them."""


def encode_binary(event: Event) -> tuple[list[tuple[str, bytes]], bytes | None]:
    """Encode *event* in binary mode; returns headers and value, None if the event has no data.

    In structured mode where binary mode cannot carry it (``content.is_an_event``).

    Raises:
        EventError: *event* was built by hand and is invalid.
    """
    if content.is_an_event(event):
        return encode_structured(event)
    event = content.in_binary_mode(event)
    try:
        headers = [
            (_header_name(name), (value if type(value) is str else canonical(value)).encode())
            for name, value in event.attributes.items()
        ]
    except ValueError as error:  # UnicodeEncodeError, a lone surrogate, is one
        refuse(validate(event.attributes, HEADER_PREFIX) or [Fault("$", "type", str(error))])
    return headers, event.data


def encode_structured(event: Event) -> tuple[list[tuple[str, bytes]], bytes]:
    """Encode *event* in structured mode (JSON); returns headers and value.

    Raises:
        EventError: As ``json_format.encode``.
    """
    return list(_STRUCTURED), json_format.encode(event)


def key_of(event: Event, attribute: str) -> bytes | None:
    """Returns the key of the record: the canonical string of *attribute*; None if it is absent.

    The attribute is sent as a header too, unchanged (Kafka Protocol Binding 1.0.3, 3.1).

    Raises:
        EventError: The value of the attribute is invalid.
    """
    value = event.attributes.get(attribute)
    if value is None:
        return None
    try:
        return canonical(value).encode()
    except UnicodeEncodeError as error:
        refuse([Fault(f"{HEADER_PREFIX}{shown(attribute)}", "character", error.reason)])


def decode(headers: Headers, value: bytes | None) -> Event:
    """Decode one record.

    The header ``content-type`` selects the mode: a CloudEvents type means structured mode, in
    which all other headers are ignored; any other type, or none, means binary mode. The key is
    ignored.

    Args:
        headers: Headers of the record. All but ``ce_`` and ``content-type`` are ignored.
        value: Value of the record; None if it is null.

    Raises:
        UnsupportedFormatError: A CloudEvents content type other than the JSON one (Kafka has no
            batches); or neither such a content type nor any ``ce_`` header.
        EventError: The record is not an event; every fault, with the header's name or JSON path.
    """
    faults: list[Fault] = []
    content_type: str | None = None
    attributes: dict[str, AttributeValue] = {}
    for header, raw in headers:
        if header == _CONTENT_TYPE:
            if content_type is not None:
                faults.append(Fault(header, "duplicate", "occurs more than once"))
            content_type = _text(header, raw, faults)
        elif header.startswith(HEADER_PREFIX):
            _add(attributes, header, raw, faults)
    if content_type is not None and _is_structured(content_type):
        return _decode_structured(content_type, value, faults)
    if not attributes and not faults:
        message = "neither a CloudEvents content type nor any ce_ header: not a CloudEvent"
        raise UnsupportedFormatError([Fault(_CONTENT_TYPE, "unsupported", message)])
    if "datacontenttype" in attributes:
        message = "not allowed: use the content-type header (Kafka Protocol Binding 3.2.1)"
        faults.append(Fault("ce_datacontenttype", "reserved", message))
        del attributes["datacontenttype"]
    if content_type:
        attributes["datacontenttype"] = content_type
    _check(attributes, faults)
    return Event(attributes, value)


def _add(
    attributes: dict[str, AttributeValue], header: str, raw: bytes | None, faults: list[Fault]
) -> None:
    name = header[len(HEADER_PREFIX) :]
    path = HEADER_PREFIX + shown(name)
    if name in attributes:
        faults.append(Fault(path, "duplicate", "occurs more than once"))
        return
    text = _text(path, raw, faults)
    if text is not None:
        attributes[name] = text


def _text(path: str, raw: bytes | None, faults: list[Fault]) -> str | None:
    """Decode a header's value; None if it is not text, with the reason in *faults*."""
    if raw is None:
        faults.append(Fault(path, "type", "must not be null"))
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        faults.append(Fault(path, "encoding", f"not UTF-8: {error.reason}"))
        return None


@lru_cache(_MEMO_MAX)
def _is_structured(content_type: str) -> bool:
    return content_type.lstrip(" \t").lower().startswith(content.CLOUDEVENTS)


def _decode_structured(content_type: str, value: bytes | None, faults: list[Fault]) -> Event:
    duplicates = [fault for fault in faults if fault.path == _CONTENT_TYPE]
    if duplicates:
        refuse(duplicates)
    if content.declared_charset(content_type) not in {None, "utf-8"}:
        message = "CloudEvents in JSON are UTF-8"
    elif content.essence(content_type) != "application/cloudevents+json":
        message = f"{shown(content.essence(content_type))} is not known here; JSON is"
    else:
        return json_format.decode(value or b"")
    raise UnsupportedFormatError([Fault(_CONTENT_TYPE, "unsupported", message)])


def _check(attributes: dict[str, AttributeValue], faults: list[Fault]) -> None:
    said = {fault.path for fault in faults}
    for fault in validate(attributes, HEADER_PREFIX):
        path = _PATHS.get(fault.path, fault.path)
        if path not in said:
            faults.append(Fault(path, fault.code, fault.message))
    if faults:
        refuse(faults)


@lru_cache(_MEMO_MAX)
def _header_name(name: str) -> str:
    if name == "datacontenttype":
        return _CONTENT_TYPE
    if not (name.isascii() and name.isalnum()):
        raise ValueError("an attribute name consists of a-z and 0-9")
    return HEADER_PREFIX + name
