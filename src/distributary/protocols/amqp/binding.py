"""The AMQP protocol binding: events from and to AMQP messages, binary and structured.

Called by the sink and the source. Hides the content modes and the names and types of properties.
Pure: an ``AmqpMessage`` holds plain values. ``encode_message`` prefixes every value with its
length, so none can add a property.

Source:
    AMQP Protocol Binding for CloudEvents 1.0.2. It names properties ``cloudEvents:id``; clients
    that cannot use a colon (JMS) send ``cloudEvents_id``, which is read too.
"""

import base64
import datetime as dt
from functools import lru_cache
from typing import Final

from distributary.core.errors import Fault
from distributary.core.event import (
    AttributeValue,
    Event,
    UnsupportedFormatError,
    content,
    json_format,
    refuse,
    shown,
    validate,
)
from distributary.protocols.amqp.engine import AmqpError, AmqpMessage, Value, encode_message

_PREFIX: Final = "cloudEvents:"
_PREFIXES: Final = (_PREFIX, "cloudEvents_")
_STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)

_MEMO_MAX: Final = 256
"""Attribute names in the cache; senders may use any number of them."""


def decode(message: AmqpMessage) -> Event:
    """Decode *message* to an event.

    The content type selects the mode (section 3). In structured mode application properties are
    ignored. In binary mode an empty body, or a null, makes an event without data. Values have their
    AMQP type or are canonical strings (3.1.3.2): timestamps become RFC 3339, bytes Base64, and an
    integer ``time`` is milliseconds, as some senders write it. A null attribute is unset.

    Raises:
        UnsupportedFormatError: A CloudEvents content type other than JSON's; or neither such a
            content type nor any ``cloudEvents:`` property.
        EventError: The message is not an event; every fault, with the property's name or JSON path.
    """
    content_type = message.content_type
    if content_type is not None and content_type.lower().startswith(content.CLOUDEVENTS):
        return _decode_structured(content_type, message.body)
    faults: list[Fault] = []
    attributes = _attributes(message, faults)
    if content_type:
        attributes["datacontenttype"] = content_type
    data = _bytes(message.body, faults)
    found = validate(attributes, _PREFIX)
    if faults or found:
        said = {fault.path for fault in faults}
        refuse(faults + [fault for fault in found if fault.path not in said])
    return Event(attributes, data or None)


def encode_binary(event: Event) -> bytes:
    """Encode *event* in binary mode, as a durable message.

    Integers and booleans have their AMQP type; everything else is a string. In structured mode
    where binary mode cannot carry it (``content.is_an_event``).

    Raises:
        EventError: *event* was built by hand and is invalid.
    """
    if content.is_an_event(event):
        return encode_structured(event)
    event = content.in_binary_mode(event)
    attributes = event.attributes
    try:
        properties: dict[str, Value] = {
            _property(name): value
            for name, value in attributes.items()
            if name != "datacontenttype"
        }
        content_type = attributes.get("datacontenttype")
        if content_type is not None and not str(content_type).isascii():
            # Of an event that an earlier version has stored. A symbol is ASCII: encode the
            # attribute as a property like the others.
            properties[_property("datacontenttype")] = content_type
            content_type = None
        return encode_message(
            AmqpMessage(
                event.data or b"",
                properties,
                None if content_type is None else str(content_type),
                durable=True,
            )
        )
    except AmqpError as error:
        refuse(validate(attributes, _PREFIX) or [Fault("$", "type", str(error))])


def encode_structured(event: Event) -> bytes:
    """Encode *event* in structured mode (JSON), as a durable message.

    Raises:
        EventError: As ``json_format.encode``.
    """
    return encode_message(
        AmqpMessage(json_format.encode(event), content_type=_STRUCTURED, durable=True)
    )


@lru_cache(_MEMO_MAX)
def _property(name: str) -> str:
    return _PREFIX + name


def _decode_structured(content_type: str, body: Value) -> Event:
    if content.essence(content_type) != "application/cloudevents+json":
        message = f"{shown(content_type)} is not known; application/cloudevents+json is"
    elif content.declared_charset(content_type) not in {None, "utf-8"}:
        message = "CloudEvents in JSON are UTF-8"
    else:
        faults: list[Fault] = []
        text = _bytes(body, faults)
        if text is None:
            refuse(faults or [Fault("$", "type", "the body is empty")])
        return json_format.decode(text)
    raise UnsupportedFormatError([Fault("content-type", "unsupported", message)])


def _attributes(message: AmqpMessage, faults: list[Fault]) -> dict[str, AttributeValue]:
    """Returns the attributes in application properties; adds to *faults*."""
    attributes: dict[str, AttributeValue] = {}
    found = False
    for key, value in message.application_properties.items():
        if not key.startswith(_PREFIXES):
            continue
        found = True
        name = key[len(_PREFIX) :]
        if name in attributes:
            faults.append(Fault(shown(key), "duplicate", "occurs more than once"))
        elif name == "datacontenttype" and message.content_type:
            faults.append(Fault(shown(key), "reserved", "the content-type property has this value"))
        elif value is not None:
            said = _value(name, value)
            if said is None:
                text = "must be a string, a boolean, an integer, a timestamp or binary"
                faults.append(Fault(shown(key), "type", text))
            else:
                attributes[name] = said
    if not found:
        text = "neither a CloudEvents content type nor any cloudEvents: property: not a CloudEvent"
        raise UnsupportedFormatError([Fault("content-type", "unsupported", text)])
    return attributes


def _value(name: str, value: Value) -> AttributeValue | None:
    """Converts the value of a property to that of an attribute; None: not possible."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)  # a symbol is one, too
    if isinstance(value, int):
        return _from_milliseconds(value) if name == "time" else int(value)
    if isinstance(value, dt.datetime):
        return _timestamp(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return None


def _from_milliseconds(value: int) -> str | None:
    try:
        return _timestamp(_EPOCH + dt.timedelta(milliseconds=value))
    except OverflowError:
        return None


def _timestamp(value: dt.datetime) -> str:
    precision = "milliseconds" if value.microsecond else "seconds"
    return value.isoformat(timespec=precision).replace("+00:00", "Z")


def _bytes(body: Value, faults: list[Fault]) -> bytes | None:
    """Returns the bytes of a body: data, or an AMQP value that is binary or a string."""
    if body is None or isinstance(body, bytes):
        return body or None
    if isinstance(body, str):
        return body.encode()
    faults.append(Fault("$", "type", "the body must be data, or an AMQP value of binary or string"))
    return None
