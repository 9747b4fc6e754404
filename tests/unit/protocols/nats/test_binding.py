"""The NATS binding: headers and payload, both ways."""

import pytest

from distributary.core.errors import EventError
from distributary.core.event import Event
from distributary.protocols.nats import binding as nats

JSON = b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":{"n":1}}'
STRUCTURED = Event(
    {
        "specversion": "1.0",
        "id": "1",
        "source": "/s",
        "type": "t",
        "datacontenttype": "application/json",
    },
    b'{"n":1}',
)
BINARY = (
    b"ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
    b"ce-datacontenttype: application/json\r\n"
)


def block(fields: bytes, status: bytes = b"") -> bytes:
    """A header block as it stands on the wire."""
    return b"NATS/1.0" + status + b"\r\n" + fields + b"\r\n"


def faults_of(headers: bytes, payload: bytes = b"") -> list[tuple[str, str]]:
    """Path and code of every fault."""
    with pytest.raises(EventError) as error:
        nats.decode(headers, payload)
    return [(fault.path, fault.code) for fault in error.value.faults]


def test_binary_mode_has_a_header_for_each_attribute_and_the_data_as_they_are():
    """The content type of the data is a header as others (3.1.3.1)."""
    assert nats.encode_binary(STRUCTURED) == (BINARY, b'{"n":1}')
    assert nats.decode(block(BINARY), b'{"n":1}') == STRUCTURED


def test_structured_mode_says_so_in_one_header():
    """Case-insensitive names, and parameters, are read as well."""
    fields, payload = nats.encode_structured(STRUCTURED)
    assert fields == b"Content-Type: application/cloudevents+json; charset=utf-8\r\n"
    assert nats.decode(block(fields), payload) == STRUCTURED
    assert nats.decode(block(fields.upper()), payload) == STRUCTURED
    assert nats.decode(block(b"content-type:application/cloudevents+json\r\n"), JSON) == STRUCTURED


@pytest.mark.parametrize(
    "headers",
    [b"", block(b""), block(b"Nats-Msg-Id: 7\r\n"), block(b"", b" 100 Idle")],
    ids=["none", "empty", "others", "status"],
)
def test_without_headers_of_ours_it_is_json(headers):
    """Senders of version 1.0.2 of the binding know no headers."""
    assert nats.decode(headers, JSON) == STRUCTURED


def test_structured_mode_ignores_attributes_in_headers():
    """The payload says everything."""
    fields = b"content-type: application/cloudevents+json\r\nce-id: other\r\n"
    assert nats.decode(block(fields), JSON) == STRUCTURED


def test_what_is_not_plain_ascii_is_percent_encoded():
    """The example of the binding, and what a header line could end with (H4)."""
    event = Event(
        STRUCTURED.attributes
        | {"a": "Euro € 😀", "b": 'say "100 %"', "c": "x\r\nce-id: 2\x00", "n": -5, "t": True},
        None,
    )
    fields, payload = nats.encode_binary(event)
    assert b"ce-a: Euro%20%E2%82%AC%20%F0%9F%98%80\r\n" in fields
    assert b"ce-b: say%20%22100%20%25%22\r\n" in fields
    assert b"ce-c: x%0D%0Ace-id:%202%00\r\n" in fields
    assert b"ce-n: -5\r\nce-t: true\r\n" in fields
    assert payload == b""


def test_a_content_type_with_parameters_comes_back_the_same():
    """It is encoded as other values are, spaces too."""
    typed = STRUCTURED.attributes | {"datacontenttype": 'text/plain; charset="utf-8"'}
    fields, payload = nats.encode_binary(Event(typed, b"x"))
    assert b"ce-datacontenttype: text/plain;%20charset=%22utf-8%22\r\n" in fields
    assert nats.decode(block(fields), payload) == Event(typed, b"x")


def test_values_of_older_senders_are_read():
    """Quoted strings are unquoted first, then percent-decoded once."""
    fields = BINARY + 'ce-a: "say \\"%41\\" %2541"\r\nce-b:   plain é  \r\n'.encode()
    event = nats.decode(block(fields), b"")
    assert event.attributes["a"] == 'say "A" %41'
    assert event.attributes["b"] == "plain é"


def test_content_type_stands_in_for_a_missing_datacontenttype():
    """Other implementations write it so; where both stand, the binding's own counts."""
    fields = BINARY.replace(b"ce-datacontenttype", b"content-type")
    assert nats.decode(block(fields), b'{"n":1}') == STRUCTURED
    both = BINARY + b"Content-Type: text/plain\r\n"
    assert nats.decode(block(both), b'{"n":1}') == STRUCTURED


def test_every_fault_is_named_by_its_header():
    """All at once."""
    fields = b"ce-specversion: 7\r\nce-id: %C0%A0\r\nce-type: \r\nce-datacontenttype: x\r\n"
    assert set(faults_of(block(fields))) == {
        ("ce-specversion", "version"),
        ("ce-id", "encoding"),
        ("ce-source", "missing"),
        ("ce-type", "empty"),
        ("ce-datacontenttype", "media-type"),
    }


@pytest.mark.parametrize(
    ("headers", "path", "code"),
    [
        (block(BINARY + b"CE-ID: 2\r\n"), "ce-id", "duplicate"),
        (block(BINARY + b"ce-x\r\n"), "ce-x", "headers"),
        (b"HTTP/1.1\r\n\r\n", "$", "headers"),
        (block(b"content-type: application/cloudevents+xml\r\n"), "content-type", "unsupported"),
        (
            block(b"content-type: application/cloudevents+json; charset=latin1\r\n"),
            "content-type",
            "unsupported",
        ),
    ],
)
def test_a_block_that_cannot_be_read_is_refused(headers, path, code):
    """With the place of the fault."""
    assert (path, code) in faults_of(headers, JSON)


@pytest.mark.parametrize("name", ["x\r\ny", "a b", "é", "", "a:b"])
def test_a_name_that_is_none_is_refused_not_sent(name):
    """An event built by hand must not write header lines."""
    with pytest.raises(EventError):
        nats.encode_binary(Event(STRUCTURED.attributes | {name: "1"}, None))


def test_a_value_that_is_no_text_is_refused_not_sent():
    """A lone surrogate has no bytes."""
    with pytest.raises(EventError):
        nats.encode_binary(Event(STRUCTURED.attributes | {"a": "\ud800"}, None))
