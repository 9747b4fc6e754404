"""Encodes and decodes messages: the sections of part 3 of the standard.

Called by ``protocols.amqp.binding`` and by the AMQP binding of the Subscriptions API. Pure.
"""

import datetime as dt
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeAlias

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._values import AmqpError, Described, Symbol, ULong

Value: TypeAlias = (
    bool
    | int
    | float
    | str
    | bytes
    | dt.datetime
    | uuid.UUID
    | list[Any]
    | dict[Any, Any]
    | Described
    | None
)
"""Types of an AMQP value as a body, and of an application property."""

MessageId: TypeAlias = int | uuid.UUID | bytes | str
"""The four types of message ids and correlation ids; an ``int`` is a ``ulong``."""

_SECTIONS: Final = {
    "amqp:header:list": 0x70,
    "amqp:delivery-annotations:map": 0x71,
    "amqp:message-annotations:map": 0x72,
    "amqp:properties:list": 0x73,
    "amqp:application-properties:map": 0x74,
    "amqp:data:binary": 0x75,
    "amqp:amqp-sequence:list": 0x76,
    "amqp:amqp-value:*": 0x77,
    "amqp:footer:map": 0x78,
}
"""Symbolic descriptor -> numeric descriptor; both are allowed on the wire."""

_HEADER_DURABLE: Final = b"\x00\x53\x70\xc0\x02\x01\x41"
_DATA_8: Final = b"\x00\x53\x75\xa0"
_DATA_32: Final = b"\x00\x53\x75\xb0"

_MEMO_MAX: Final = 1_024
"""Encoded property names and content types in the caches."""


@dataclass(frozen=True, slots=True)
class AmqpMessage:
    """One message; a section or field that is None or empty is absent.

    Attributes:
        body: ``bytes``: data. Anything else: an AMQP value, None included. ``b""`` is empty data.
        application_properties: Names and plain values.
        content_type: Media type of the body.
        message_id: See ``MessageId``.
        to: Address of the destination node.
        reply_to: Address for replies.
        correlation_id: ``message_id`` of the message that this one answers.
        durable: Whether intermediaries must keep it over a restart.
    """

    body: Value
    application_properties: Mapping[str, Value] = field(default_factory=dict)
    content_type: str | None = None
    message_id: MessageId | None = None
    to: str | None = None
    reply_to: str | None = None
    correlation_id: MessageId | None = None
    durable: bool = False


def encode_message(message: AmqpMessage) -> bytes:
    """Encode *message* as the payload of a transfer.

    Raises:
        AmqpError: A value is too large for its type or has none, or a text is not Unicode.
    """
    parts = [_HEADER_DURABLE] if message.durable else []
    if (
        message.message_id is None
        and message.to is None
        and message.reply_to is None
        and message.correlation_id is None
    ):
        if message.content_type is not None:
            parts.append(_only_content_type(message.content_type))
    else:
        parts.append(_properties(message))
    if message.application_properties:
        items: list[bytes] = []
        for name, value in message.application_properties.items():
            items.append(_name(name))
            items.append(_values.encode(value))
        parts.append(b"\x00\x53\x74" + _values.encode_items(items, is_map=True))
    body = message.body
    if isinstance(body, bytes):
        size = len(body)
        parts.append(_DATA_8 + bytes((size,)) if size < 256 else _DATA_32 + size.to_bytes(4, "big"))
        parts.append(body)
    else:
        parts.append(b"\x00\x53\x77" + _values.encode(body))
    return b"".join(parts)


def _properties(message: AmqpMessage) -> bytes:
    content_type = message.content_type
    fields = [
        _id(message.message_id),
        b"\x40",
        _text(message.to),
        b"\x40",
        _text(message.reply_to),
        _id(message.correlation_id),
        b"\x40" if content_type is None else _values.encode_symbol(content_type),
    ]
    return b"\x00\x53\x73" + _values.encode_items(fields)


def _text(value: str | None) -> bytes:
    return b"\x40" if value is None else _values.encode_string(value)


def _id(value: MessageId | None) -> bytes:
    return _values.encode(ULong(value) if isinstance(value, int) else value)


@lru_cache(_MEMO_MAX)
def _only_content_type(content_type: str) -> bytes:
    fields = [b"\x40"] * 6 + [_values.encode_symbol(content_type)]
    return b"\x00\x53\x73" + _values.encode_items(fields)


@lru_cache(_MEMO_MAX)
def _name(name: str) -> bytes:
    return _values.encode_string(name)


def decode_message(raw: bytes) -> AmqpMessage:
    """Decode the payload *raw* of a transfer.

    Joins several data sections. A message without a body section, which some clients send for an
    empty one, has the body None. Annotations, the footer, and other fields are ignored.

    Raises:
        AmqpError: It is not a message.
    """
    fields: list[Any] = []
    application: dict[str, Any] = {}
    data: list[bytes] = []
    value: Any = None
    durable = False
    bodies: set[int] = set()
    at = 0
    while at < len(raw):
        section, at = _values.decode(raw, at)
        code = _section(section)
        content = section.value
        if code == 0x70:
            durable = bool(_list(content)[:1] == [True])
        elif code == 0x73:
            fields = _list(content)
        elif code == 0x74:
            application = _application(content)
        elif code in {0x75, 0x76, 0x77}:
            bodies.add(code)
            if code == 0x75:
                data.append(_bytes(content))
            else:
                value = content
    if len(bodies) > 1:
        raise AmqpError("a message has one kind of body")
    fields += [None] * (7 - len(fields))
    return AmqpMessage(
        body=b"".join(data) if 0x75 in bodies else value,
        application_properties=application,
        content_type=_read_text(fields[6], "content-type is no symbol"),
        message_id=_checked_id(fields[0], "message-id"),
        to=_read_text(fields[2], "to is no string"),
        reply_to=_read_text(fields[4], "reply-to is no string"),
        correlation_id=_checked_id(fields[5], "correlation-id"),
        durable=durable,
    )


def _section(section: object) -> int:
    if isinstance(section, Described):
        descriptor = section.descriptor
        if isinstance(descriptor, Symbol):
            descriptor = _SECTIONS.get(descriptor)
        if isinstance(descriptor, int) and 0x70 <= descriptor <= 0x78:
            return descriptor
    raise AmqpError("not a section of a message")


def _list(content: object) -> list[Any]:
    if not isinstance(content, list):
        raise AmqpError("the header or the properties are no list")
    return content


def _bytes(content: object) -> bytes:
    if not isinstance(content, bytes):
        raise AmqpError("the data are no bytes")
    return content


def _application(content: object) -> dict[str, Any]:
    if not isinstance(content, dict) or not all(type(name) is str for name in content):
        raise AmqpError("the application properties are no map with strings as keys")
    return content


def _read_text(value: object, what: str) -> str | None:
    # Some clients write a string where the standard has a symbol.
    if value is not None and not isinstance(value, str):
        raise AmqpError(what)
    return None if value is None else str(value)


def _checked_id(value: object, name: str) -> MessageId | None:
    if value is None or isinstance(value, uuid.UUID | bytes):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return int(value)
    raise AmqpError(f"{name} is no ulong, uuid, binary or string")
