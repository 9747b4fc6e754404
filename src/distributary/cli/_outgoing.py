"""Events to send: reads them from flags, files and standard input, and wraps them into requests.

Callers: ``send``, the demo. Hides: which of JSON lines, a JSON array or one JSON document a
file holds, and the three content modes of the HTTP binding.
"""

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

import msgspec

from distributary.cli import _console
from distributary.core.errors import EventError, Fault
from distributary.core.event import AttributeValue, Event, canonical, json_format
from distributary.protocols.http import binding as event_http

Mode = Literal["binary", "structured", "batch"]

CHUNK_BYTES = 1 << 16
"""Largest read, bytes: what a pipe holds, so that a slow one is sent as it comes."""


class Unreadable(NamedTuple):
    """An entry of the input that is not an event, and is not sent.

    Attributes:
        place: Number of its line or array element, from 1; of the log, its offset.
        faults: Everything wrong with it.
    """

    place: int
    faults: tuple[Fault, ...]


class Envelope(NamedTuple):
    """One request.

    Attributes:
        events: In it, at least one.
        lines: Header lines, each with its CR LF.
        body: Body.
    """

    events: Sequence[Event]
    lines: bytes
    body: bytes


def wrap(events: Sequence[Event], mode: Mode) -> Envelope:
    """Wrap *events* into one request; more than one only in mode ``batch``."""
    assert events
    if mode == "batch":
        return Envelope(events, *event_http.encode_batched(events))
    assert len(events) == 1
    encode = event_http.encode_binary if mode == "binary" else event_http.encode_structured
    return Envelope(events, *encode(events[0]))


def canonical_attributes(event: Event) -> dict[str, str]:
    """All context attributes in canonical string form, as ledgers store and digest them."""
    return {name: canonical(value) for name, value in event.attributes.items()}


def one_event(
    attributes: Mapping[str, str | None], extensions: Iterable[str], data: bytes | None
) -> Event:
    """Make one event from flags.

    Args:
        attributes: Attribute name -> text; None: not given.
        extensions: ``name=text`` each.
        data: Payload, None for none. Without a content type JSON is recognised; anything else is
            sent as text if it is UTF-8, else as bytes.

    Raises:
        EventError: An extension is not ``name=text``, or the event would violate the
            specification.
    """
    said: dict[str, AttributeValue] = {"specversion": "1.0"}
    said.update({name: text for name, text in attributes.items() if text is not None})
    faults = []
    for extension in extensions:
        name, separator, text = extension.partition("=")
        if separator and name:
            said[name] = text
        else:
            faults.append(Fault(extension, "extension", "expected name=text"))
    if faults:
        raise EventError(faults)
    if data is not None and "datacontenttype" not in said:
        said["datacontenttype"] = _guess_content_type(data)
    return json_format.decode(json_format.encode(Event(said, data)))


def _guess_content_type(data: bytes) -> str:
    if _is_json(data):
        return "application/json"
    try:
        data.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "text/plain"


def copies(event: Event, count: int) -> Iterator[Event]:
    """Yield the event *count* times; copies of several get numbered ids (``id-1``, ``id-2``…)."""
    if count == 1:
        yield event
        return
    for number in range(1, count + 1):
        numbered = {**event.attributes, "id": f"{event.attributes['id']}-{number}"}
        yield Event(numbered, event.data)


def open_events(name: str, stack: contextlib.ExitStack) -> BufferedReader:
    """Open the event file *name*, ``-`` for standard input; exits where that fails."""
    if name == "-":
        return cast("BufferedReader", sys.stdin.buffer)
    try:
        return stack.enter_context(Path(name).open("rb"))
    except OSError as error:
        hint = "Name a file of events, or - for standard input."
        _console.fail(f"{name}: {error.strerror}", hint)


def read_events(file: BinaryIO) -> Iterator[list[Event | Unreadable]]:
    """Yield the events of *file*, in pieces, as soon as they can be read.

    The file holds structured events: one a line (JSON lines; blank lines are skipped), or
    one JSON array of them, or one JSON document over several lines.
    """
    first = b""
    while not first.strip():
        first = file.readline()
        if not first:
            return
    if first.lstrip().startswith(b"["):
        yield _from_array(first + file.read())
        return
    if not _is_json(first):
        whole = first + file.read()
        if _is_json(whole):
            yield [_read_one(1, whole)]
            return
        yield _from_lines(1, whole.splitlines())
        return
    place = 1
    for lines in itertools.chain([[first]], _lines(file)):
        yield _from_lines(place, lines)
        place += len(lines)


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):  # the latter: nested too deeply
        return False
    return True


def _lines(file: BinaryIO) -> Iterator[list[bytes]]:
    """Yield whole lines of *file*, as many as one read returns."""
    rest = b""
    while chunk := (file.read1 if hasattr(file, "read1") else file.read)(CHUNK_BYTES):
        *whole, rest = (rest + chunk).split(b"\n")
        if whole:
            yield whole
    if rest:
        yield [rest]


def _from_lines(place: int, lines: Iterable[bytes]) -> list[Event | Unreadable]:
    return [_read_one(n, line) for n, line in enumerate(lines, place) if line.strip()]


def _from_array(body: bytes) -> list[Event | Unreadable]:
    try:
        elements = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError) as error:
        return [Unreadable(1, (Fault("$", "json", str(error)),))]
    return [_read_one(n, bytes(element)) for n, element in enumerate(elements, 1)]


def _read_one(place: int, text: bytes) -> Event | Unreadable:
    try:
        return json_format.decode(text)
    except EventError as error:
        return Unreadable(place, error.faults)
