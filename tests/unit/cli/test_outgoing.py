import io
import json

import pytest

from distributary.cli import _outgoing
from distributary.cli._outgoing import Unreadable
from distributary.core.errors import EventError
from distributary.core.event import Event
from distributary.protocols.http import binding as event_http

BASE = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}


def read(text: bytes) -> list[Event | Unreadable]:
    """All entries of a file."""
    return [entry for piece in _outgoing.read_events(io.BytesIO(text)) for entry in piece]


def line(number: int) -> bytes:
    """One structured event on one line."""
    return json.dumps(BASE | {"id": str(number), "data": {"n": number}}).encode()


@pytest.mark.parametrize(
    "text",
    [
        line(1) + b"\n" + line(2) + b"\n",
        line(1) + b"\r\n\r\n  \n" + line(2),
        b"\n\n" + line(1) + b"\n" + line(2),
        b"[" + line(1) + b",\n " + line(2) + b"]",
        b"  [\n" + line(1) + b"," + line(2) + b"\n]\n",
    ],
    ids=["lines", "blank lines, no last line end", "blank lines first", "array", "array on lines"],
)
def test_lines_and_arrays_give_their_events(text: bytes) -> None:
    """The same two events in every form of file."""
    events = read(text)
    assert [e.attributes["id"] for e in events if isinstance(e, Event)] == ["1", "2"]


def test_a_document_over_several_lines_is_one_event() -> None:
    """What an editor writes."""
    (event,) = read(json.dumps(json.loads(line(1)), indent=2).encode())
    assert isinstance(event, Event)
    assert event.attributes["id"] == "1"


@pytest.mark.parametrize("text", [b"", b"\n \n", b"[]"])
def test_an_empty_file_has_no_events(text: bytes) -> None:
    """Nothing to send is no fault."""
    assert read(text) == []


def test_an_entry_that_is_no_event_is_named_by_its_place() -> None:
    """The others are sent."""
    entries = read(line(1) + b"\n" + b'{"specversion": "1.0"}\n' + line(3))
    assert [type(entry) for entry in entries] == [Event, Unreadable, Event]
    broken = entries[1]
    assert isinstance(broken, Unreadable)
    assert broken.place == 2
    assert {fault.path for fault in broken.faults} >= {"$.id", "$.source", "$.type"}


@pytest.mark.parametrize("text", [b"rubbish", b"[1", b'{"a":', b"\xff\xfe"])
def test_a_file_that_is_no_json_is_unreadable(text: bytes) -> None:
    """Never an exception, never an event."""
    assert [type(entry) for entry in read(text)] == [Unreadable]


@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000])
def test_what_is_nested_too_deeply_is_unreadable(text: bytes) -> None:
    """And so said, however deep."""
    ((entry,),) = _outgoing.read_events(io.BytesIO(text))
    assert isinstance(entry, _outgoing.Unreadable)


def test_a_pipe_is_read_as_it_comes() -> None:
    """A line is handed on before the next one is there."""

    class Pipe(io.BytesIO):
        def read1(self, size: int | None = -1) -> bytes:
            return self.readline() if size else b""

    pieces = _outgoing.read_events(Pipe(b"\n".join(map(line, range(3))) + b"\n"))
    assert len(next(pieces)) == 1
    assert len(next(pieces)) == 1


@pytest.mark.parametrize("mode", ["binary", "structured", "batch"])
def test_every_mode_carries_the_event(mode: _outgoing.Mode) -> None:
    """What is wrapped decodes to what it was."""
    event = _outgoing.one_event(BASE | {"subject": 'a "b" \N{SNOWMAN}'}, ["ext=1"], b"{}")
    envelope = _outgoing.wrap([event], mode)
    lines = envelope.lines.decode("ascii").removesuffix("\r\n").split("\r\n")
    pairs = [line.partition(":") for line in lines]
    headers = [(name.lower().encode(), text.strip().encode()) for name, _, text in pairs]
    assert event_http.decode(headers, envelope.body) == [event]


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b'{"a": 1}', "application/json"),
        (b"hello", "text/plain"),
        (b"\xff", "application/octet-stream"),
    ],
)
def test_the_content_type_is_guessed_from_the_data(data: bytes, content_type: str) -> None:
    """JSON, text, anything else; the bytes stay as they are."""
    event = _outgoing.one_event(BASE, [], data)
    assert event.attributes["datacontenttype"] == content_type
    assert event.data == data


def test_what_was_not_said_is_absent() -> None:
    """No data, no content type, no subject."""
    event = _outgoing.one_event({**BASE, "subject": None}, [], None)
    assert event == Event(BASE, None)


@pytest.mark.parametrize("extension", ["novalue", "=x", "UPPER=x"])
def test_an_extension_that_cannot_be_is_refused_before_it_is_sent(extension: str) -> None:
    """The fault names it."""
    with pytest.raises(EventError):
        _outgoing.one_event(BASE, [extension], None)


def test_copies_have_ids_of_their_own() -> None:
    """One copy is the event itself."""
    event = Event(BASE, None)
    assert list(_outgoing.copies(event, 1)) == [event]
    ids = [copy.attributes["id"] for copy in _outgoing.copies(event, 3)]
    assert ids == ["1-1", "1-2", "1-3"]
