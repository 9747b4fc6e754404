"""The JSON event format and JSON batch format, versions 1.0 and 0.3.

Called by the HTTP binding (structured and batched mode) and by transports that carry whole events.
``data`` is never parsed: its JSON text is cut out of the body and inserted again unchanged, so
numbers, key order, spaces and escapes survive.

Choices that the format leaves open (JSON Event Format for CloudEvents 1.0.2):

* ``data`` without ``datacontenttype`` gets ``datacontenttype: application/json`` (3.1.2, SHOULD).
* ``data`` that is no string under a content type that is not JSON is rejected (3.1.2, MAY), but
  ``null`` there means no data.
* Text under another content type than JSON is encoded in the type's ``charset``: UTF-8 unless
  declared otherwise; an unknown charset is rejected (3.1.2, MAY).
* Duplicate member names are rejected: readers disagree on which one counts (RFC 8259 section 4).
* 0.3 has no ``data_base64``. There ``datacontentencoding: base64`` declares that the data *are*
  Base64 text, in either mode, so that text is kept as the event's data, with the attribute:
  structured mode writes it unchanged, binary mode sends the decoded bytes (``content``).
"""

import binascii
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from distributary.core.errors import Fault
from distributary.core.event import _json_folds, _json_text
from distributary.core.event import content as _content
from distributary.core.event._json_text import JsonTextError
from distributary.core.event.validity import FAULTS_MAX, is_textual, refuse, shown, validate
from distributary.core.event.value import AttributeValue, Event

BATCH_EVENTS_MAX = 1_000
"""Most events of a batch: all of them share one log record, one response, one list of faults."""

_MEMBERS_MAX = 200
"""Most members of an event that are checked one by one: several times what an event may have, so
that the fault is exact, and a body of a million members does not cause a million faults."""

# The nesting around data in our own documents: the batch's array and the event's object.
_DATA_DEPTH_MAX = _json_text.JSON_DEPTH_MAX - 2

_JSON_BY_DEFAULT = "application/json"

_scalar = msgspec.json.Decoder(str | int | bool | None)
_string = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode


class _Payload(NamedTuple):
    """The JSON text of the two members that are no attributes."""

    data: bytes | None
    data_base64: bytes | None


def decode(body: bytes) -> Event:
    """Decode an event (media type ``application/cloudevents+json``).

    Raises:
        EventError: *body* is not a valid event; every fault with its JSON path (``$.time``).
    """
    faults: list[Fault] = []
    try:
        document = _json_folds.folded(body)
    except JsonTextError as error:
        refuse([Fault("$", error.code, str(error))])
    event = _read(document.text, "$", faults, document)
    if event is None:
        refuse(faults)
    return event


def decode_batch(body: bytes) -> list[Event]:
    """Decode a batch (``application/cloudevents-batch+json``), which may be empty.

    Raises:
        EventError: An event is not valid, there are more than ``BATCH_EVENTS_MAX``, or their
            versions differ; every fault of every event with its JSON path (``$[3].time``).
    """
    try:
        document = _json_folds.folded(body)
        elements = _elements(document.text)
    except JsonTextError as error:
        refuse([Fault("$", error.code, str(error))])
    if len(elements) > BATCH_EVENTS_MAX:
        message = f"a batch holds at most {BATCH_EVENTS_MAX} events, not {len(elements)}"
        refuse([Fault("$", "too-many", message)])
    faults: list[Fault] = []
    events: list[Event] = []
    for index, element in enumerate(elements):
        event = _read(element, f"$[{index}]", faults, document)
        if event is not None:
            events.append(event)
        elif len(faults) > FAULTS_MAX:
            break
    faults.extend(_version_faults(events) if not faults else ())
    if faults:
        refuse(faults)
    return events


def encode(event: Event) -> bytes:
    """Encode *event* as one JSON object.

    Data are inserted as JSON if the content type is JSON and the data are, as a string if they are
    text, else as Base64 (``data_base64``; in 0.3 ``datacontentencoding``).

    Raises:
        EventError: *event* was built by hand and holds what JSON cannot represent.
    """
    attributes, data = event.attributes, event.data
    try:
        if data is None:
            return _encode(attributes)
        member = _data_member(attributes, data)
        if member is None:
            return _encode_base64(attributes, data)
        return b"".join((_encode(attributes)[:-1], b',"data":', member, b"}"))
    except (UnicodeEncodeError, TypeError, OverflowError) as error:
        refuse(validate(attributes) or [Fault("$", "type", str(error))])


def encode_batch(events: Sequence[Event]) -> bytes:
    """Encode *events* as one JSON array, in order; the array may be empty.

    Raises:
        EventError: As ``encode``, or the events are of different versions (HTTP Protocol Binding
            1.0.2, 3.3.2: they must not be).
    """
    faults = _version_faults(events)
    if faults:
        refuse(faults)
    return b"".join((b"[", b",".join([encode(event) for event in events]), b"]"))


def _version_faults(events: Sequence[Event]) -> list[Fault]:
    versions = [event.attributes.get("specversion") for event in events]
    return [
        Fault(f"$[{index}].specversion", "version", "differs from the first event of the batch")
        for index, version in enumerate(versions)
        if version != versions[0]
    ]


def _elements(text: bytes) -> list[bytes]:
    """Return the events of the batch *text*, each as its own text."""
    try:
        return [bytes(element) for element in _json_text.elements(text)]
    except JsonTextError:
        marked = _json_folds.marked(text)
        if marked is None:
            raise
        elements = [bytes(element) for element in _json_text.elements(marked.text)]
    # Valid ones are read as usual; ``_read`` rejects the restored others.
    return [marked.undone(element) for element in elements]


def _read(
    text: bytes, path: str, faults: list[Fault], document: _json_folds.Folded
) -> Event | None:
    """Decode the event in *text*, a part of *document*; or return None and add to *faults*."""
    try:
        members = _json_text.members(text)
    except JsonTextError as error:
        faults.extend(_surrogates(text, path) or [Fault(path, error.code, str(error))])
        return None
    if len(members) > _MEMBERS_MAX:
        faults.append(Fault(path, "too-many", f"an event has at most {_MEMBERS_MAX} members"))
        return None
    texts = {name: bytes(raw) for name, raw in members.items()}
    found: list[Fault] = []
    if _json_text.has_duplicates(text, texts):
        found.append(Fault(path, "duplicate", "two members have the same name"))
    data_text = texts.pop("data", None)
    if data_text is not None:
        data_text = document.unfolded(data_text)
    payload = _Payload(data_text, texts.pop("data_base64", None))
    attributes = _attributes(texts, path, found)
    data = _data(attributes, payload, path, found)
    if not found:
        return Event(attributes, data)
    faults.extend(found)
    return None


def _surrogates(text: bytes, path: str) -> list[Fault]:
    """Return a fault for each member of the event *text* with a lone surrogate."""
    marked = _json_folds.marked(text)
    if marked is None:
        return []
    try:
        members = _json_text.members(marked.text)
    except JsonTextError:
        return []
    message = (
        "holds half of a surrogate pair (a lone escape such as \\ud83d), which is no character:"
        " write the pair whole, or send the event in binary mode"
    )
    return [
        Fault(f"{path}.{shown(name)}", "character", message)
        for name, value in members.items()
        if marked.escape in bytes(value) or marked.character in name
    ]


def _attributes(
    texts: dict[str, bytes], path: str, faults: list[Fault]
) -> dict[str, AttributeValue]:
    """Decode the context attributes in *texts*; a null one is unset (JSON Event Format, 2.2)."""
    attributes: dict[str, AttributeValue] = {}
    for name, text in texts.items():
        try:
            value = _scalar.decode(text)
        except msgspec.DecodeError:
            others = "" if is_textual(name) else ", a boolean or an integer of 32 bits"
            message = f"must be a string{others}"
            faults.append(Fault(f"{path}.{shown(name)}", "type", message))
        else:
            if value is not None:
                attributes[name] = value
            elif '"' in name:  # no name, whatever its value: ``has_duplicates`` relies on it
                attributes[name] = ""
    found = validate(attributes, f"{path}.")
    if found:
        # An unreadable attribute is not missing as well.
        said = {fault.path for fault in faults}
        faults.extend(fault for fault in found if fault.path not in said)
    return attributes


def _data(
    attributes: dict[str, AttributeValue], payload: _Payload, path: str, faults: list[Fault]
) -> bytes | None:
    """Decode the event's data (JSON Event Format, 3.1.2); may set ``datacontenttype``."""
    name = "data"
    try:
        if payload.data_base64 not in {None, b"null"}:
            name = "data_base64"
            return _decode_base64(attributes, payload)
        if payload.data is None:
            return None
        return _decode_data(attributes, payload.data)
    except JsonTextError as error:
        faults.append(Fault(f"{path}.{name}", error.code, str(error)))
        return None


def _decode_base64(attributes: dict[str, AttributeValue], payload: _Payload) -> bytes:
    if payload.data is not None:
        raise JsonTextError("exclusive", "data and data_base64 exclude each other")
    if attributes.get("specversion") == "0.3":
        raise JsonTextError("name", "0.3 knows datacontentencoding, not data_base64")
    assert payload.data_base64 is not None
    try:
        return binascii.a2b_base64(_text(payload.data_base64), strict_mode=True)
    except ValueError as error:
        raise JsonTextError("base64", f"must be Base64 of RFC 4648: {error}") from None


def _decode_data(attributes: dict[str, AttributeValue], text: bytes) -> bytes | None:
    if _content.is_base64_text(attributes):
        if text == b"null":
            return None
        data = _text(text).encode()
        try:
            _content.base64_bytes(data)
        except ValueError as error:
            raise JsonTextError("base64", f"must be Base64 of RFC 4648: {error}") from None
        return data
    content_type = attributes.setdefault("datacontenttype", _JSON_BY_DEFAULT)
    # A content type that is no string is already a fault.
    if not isinstance(content_type, str) or _content.is_json(content_type):
        return text
    if text == b"null":
        return None
    charset = _content.charset(content_type)
    if charset is None:
        raise JsonTextError("encoding", "text in a charset that is not known here")
    try:
        return _text(text).encode(charset)
    except UnicodeEncodeError as error:
        raise JsonTextError("encoding", f"cannot be written in {charset}: {error.reason}") from None


def _text(text: bytes) -> str:
    """Decode the JSON string *text*."""
    try:
        return _string.decode(text)
    except msgspec.DecodeError:
        raise JsonTextError("type", "must be a string under this content type") from None


def _data_member(attributes: dict[str, AttributeValue], data: bytes) -> bytes | None:
    """Encode the ``data`` member; None if only Base64 can represent it."""
    if _content.is_base64_text(attributes):
        textual = True
    else:
        content_type = attributes.get("datacontenttype")
        if not isinstance(content_type, str):
            return None
        if _content.is_json(content_type):
            return data if _json_text.is_embeddable(data, _DATA_DEPTH_MAX) else None
        textual = _content.is_utf8_text(content_type)
    try:
        return _encode(data.decode()) if textual else None
    except UnicodeDecodeError:
        return None


def _encode_base64(attributes: dict[str, AttributeValue], data: bytes) -> bytes:
    name = b"data_base64"
    if attributes.get("specversion") == "0.3":
        attributes = attributes | {"datacontentencoding": "base64"}
        name = b"data"
    member = binascii.b2a_base64(data, newline=False)
    return b"".join((_encode(attributes)[:-1], b',"', name, b'":"', member, b'"}'))
