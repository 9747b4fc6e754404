"""The MQTT protocol binding: events from and to the properties and payload of a message.

Called by the sink and the source. Hides the content modes. No I/O and no client: encodes
properties to the bytes of an MQTT 5 packet, and decodes parsed ones. Every string is prefixed with
its length, so no value can end a property early.

MQTT 3 has no properties: its messages are JSON (structured mode), without a content type.

Source:
    MQTT Protocol Binding for CloudEvents 1.0.2.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from distributary.core.errors import Fault
from distributary.core.event import (
    RESERVED_NAMES,
    AttributeValue,
    Event,
    UnsupportedFormatError,
    canonical,
    content,
    forbidden_character,
    is_name,
    json_format,
    refuse,
    shown,
    validate,
)

_PREFIX: Final = "properties."
"""Prefix of the name in the path of a fault."""

_CONTENT_TYPE: Final = b"\x03"
_USER_PROPERTY: Final = b"\x26"
"""Identifiers of the two properties in use (MQTT 5, 2.2.2.2)."""

_JSON: Final = b"application/cloudevents+json; charset=utf-8"
_STRUCTURED: Final = _CONTENT_TYPE + len(_JSON).to_bytes(2, "big") + _JSON

_MEMO_MAX: Final = 256
"""Attribute names in the cache; senders may use any number of them."""


def encode_binary(event: Event) -> tuple[bytes, bytes]:
    """Encode *event* in binary mode (MQTT 5 only); returns properties and payload.

    The properties are the content type and one user property for each other attribute, encoded,
    without their length prefix. In structured mode where binary mode cannot carry it
    (``content.is_an_event``), or a value is longer than a string of MQTT: 65,535 bytes.

    Raises:
        EventError: *event* was built by hand and is invalid.
    """
    if content.is_an_event(event):
        return encode_structured(event)
    sent = content.in_binary_mode(event)
    attributes = sent.attributes
    parts: list[bytes] = []
    try:
        for name, value in attributes.items():
            raw = _raw(value)
            parts += (_start(name), len(raw).to_bytes(2, "big"), raw)
    except OverflowError:
        return encode_structured(event)
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        refuse(validate(attributes, _PREFIX) or [_fault(error)])
    return b"".join(parts), sent.data or b""


def encode_structured(event: Event) -> tuple[bytes, bytes]:
    """Encode *event* in structured mode (JSON); returns properties and payload.

    MQTT 3 sends the payload alone.

    Raises:
        EventError: As ``json_format.encode``.
    """
    return _STRUCTURED, json_format.encode(event)


def decode(
    content_type: str | None, user_properties: Sequence[tuple[str, str]], payload: bytes
) -> Event:
    """Decode one message.

    The content type selects the mode (binding, section 3). In binary mode, user properties whose
    names no attribute can have are ignored, and an empty payload makes an event without data. A
    message with neither a content type nor ``specversion`` is read as JSON: MQTT 3 has neither
    (3.2.1).

    Args:
        content_type: The property; None if absent, as in MQTT 3.
        user_properties: Names and values in their order; none in MQTT 3.
        payload: The whole payload.

    Raises:
        UnsupportedFormatError: A CloudEvents content type other than JSON in UTF-8.
        EventError: The message is not an event; every fault, with the property's name or JSON path.
    """
    media_type = "" if content_type is None else content.essence(content_type)
    if media_type.startswith(content.CLOUDEVENTS):
        assert content_type is not None
        _check_format(media_type, content_type)
        return json_format.decode(payload)
    if content_type is None and not any(name == "specversion" for name, _ in user_properties):
        return json_format.decode(payload)
    return _decode_binary(content_type, user_properties, payload)


def _decode_binary(
    content_type: str | None, user_properties: Sequence[tuple[str, str]], payload: bytes
) -> Event:
    attributes: dict[str, AttributeValue] = {}
    faults: list[Fault] = []
    for name, value in user_properties:
        if name in attributes:
            faults.append(Fault(_PREFIX + shown(name), "duplicate", "occurs more than once"))
        elif is_name(name):
            attributes[name] = value
    if content_type:
        # The binding's own example has it as a user property as well; the property decides.
        attributes["datacontenttype"] = content_type
    found = validate(attributes, _PREFIX)
    if faults or found:
        said = {fault.path for fault in faults}
        refuse(faults + [fault for fault in found if fault.path not in said])
    return Event(attributes, payload or None)


def _check_format(media_type: str, content_type: str) -> None:
    if content.declared_charset(content_type) not in {None, "utf-8"}:
        message = "CloudEvents in JSON are UTF-8"
    elif media_type == "application/cloudevents+json":
        return
    else:
        message = f"{shown(media_type)} is not known; JSON is"
    raise UnsupportedFormatError([Fault("content-type", "unsupported", message)])


def _raw(value: AttributeValue) -> bytes:
    if not isinstance(value, str | int):
        raise TypeError("must be a string, a boolean or an integer")
    text = canonical(value)
    if not text.isprintable() and forbidden_character(text):
        raise ValueError("a character that an attribute value must not contain")
    return text.encode()


@lru_cache(_MEMO_MAX)
def _start(name: str) -> bytes:
    """Returns the bytes before the value of the attribute *name*."""
    if name == "datacontenttype":
        return _CONTENT_TYPE
    if not is_name(name) or name in RESERVED_NAMES:
        raise ValueError("no attribute can have this name")
    raw = name.encode("ascii")
    return _USER_PROPERTY + len(raw).to_bytes(2, "big") + raw


def _fault(error: Exception) -> Fault:
    return Fault("properties", "type", str(error))
