import pytest

from distributary.cli import _console, _listen
from distributary.cli._listen_server import Request
from distributary.cli.ledger import attributes_sha256, data_sha256
from distributary.core.event import Event

EVENT = Event(
    {"specversion": "1.0", "id": "7", "source": "/s", "type": "t.x", "subject": "sub"}, b"data"
)


def request(status: int = 200, content_type: bytes = b"application/json") -> Request:
    """A request whose content type tells its mode."""
    return Request("/r", [(b"content-type", content_type)], b"", status)


@pytest.mark.parametrize(
    ("content_type", "mode"),
    [
        (b"application/json", "binary"),
        (b"application/cloudevents+json", "structured"),
        (b"application/cloudevents-batch+json", "batch"),
    ],
)
def test_a_line_says_when_what_from_where_and_how(content_type: bytes, mode: str) -> None:
    """Time, status, path, type, source, id, subject, mode."""
    line = _listen.line_of(request(200, content_type), EVENT, "12:00:00").plain
    assert line == f"12:00:00 200 /r t.x /s 7 sub {mode}"


def test_a_line_without_an_answer_shows_no_status() -> None:
    """Nothing is invented for an answer that never was."""
    assert " --- " in _listen.line_of(request(0), EVENT, "12:00:00").plain


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b'{"who": "world"}', '  {"who": "world"}'),
        (b"\x00\xff\xfe", "  3 bytes"),
        (b"\x1b[2Jred", "  \N{REPLACEMENT CHARACTER}[2Jred"),
        (b"", "  "),
    ],
    ids=["text", "binary", "hostile", "empty"],
)
def test_data_have_a_line_of_their_own(data: bytes, shown: str) -> None:
    """Text as it is but for control characters, other bytes by their number."""
    line = _listen.data_line_of(Event(EVENT.attributes, data))
    assert line is not None
    assert line.plain == shown


def test_long_data_are_cut_and_none_are_not_shown() -> None:
    """An event may carry a megabyte."""
    line = _listen.data_line_of(Event(EVENT.attributes, b"x" * 10_000))
    assert line is not None
    assert len(line.plain) < 300
    assert _listen.data_line_of(Event(EVENT.attributes, None)) is None


def test_a_dead_letter_is_marked_with_its_cause() -> None:
    """The code of the refusal, or that none came."""
    for code, shown in (("400", "(400)"), (None, "(no answer)")):
        attributes = {**EVENT.attributes, "knativeerrordest": "http://x/"}
        if code is not None:
            attributes["knativeerrorcode"] = code
        line = _listen.line_of(request(), Event(attributes, None), "12:00:00").plain
        assert line.endswith("dead letter " + shown)


def test_foreign_text_cannot_paint_the_terminal() -> None:
    """Escape sequences, line ends and endless names are cut out of every line."""
    hostile = "\x1b[2J\r\n\x9b" + "x" * 10_000
    line = _listen.line_of(request(), Event({**EVENT.attributes, "type": hostile}, None), "").plain
    assert not set(line) & set("\x1b\r\n\x9b")
    assert len(line) < 300


def test_markup_in_foreign_text_is_no_markup() -> None:
    """``[red]`` arrives as it is."""
    line = _listen.line_of(request(), Event({**EVENT.attributes, "type": "[red]x"}, None), "")
    assert "[red]x" in line.plain


def test_an_arrival_is_written_down_with_its_digests() -> None:
    """Route, status, digests, and whose dead letter it is."""
    added = {"knativeerrordest": "http://x/", "knativeerrorcode": "400"}
    (plain,) = _listen.arrivals_of(request(204), [EVENT], 9)
    (dead,) = _listen.arrivals_of(request(200), [Event({**EVENT.attributes, **added}, b"data")], 9)
    assert (plain.id, plain.source, plain.route, plain.status, plain.t) == ("7", "/s", "/r", 204, 9)
    assert plain.data_sha256 == dead.data_sha256 == data_sha256(b"data")
    digest = attributes_sha256({name: str(text) for name, text in EVENT.attributes.items()})
    assert plain.attributes_sha256 == dead.attributes_sha256 == digest
    assert (dead.error_dest, dead.error_code) == ("http://x/", "400")


def test_text_that_fits_stays_as_it_is() -> None:
    """Two hundred characters pass, the next one cuts."""
    assert _console.fits_one_line("x" * 200) == "x" * 200
    assert _console.fits_one_line("x" * 201) == "x" * 199 + "…"
