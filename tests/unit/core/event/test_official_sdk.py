"""The official Python SDK as an oracle, both ways.

Where it departs from the specification, the specification is followed and the test says so.
"""

import base64
import json
from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings import http as sdk_http
from cloudevents.core.bindings.http import HTTPMessage
from cloudevents.core.v03.event import CloudEvent as SdkEvent03
from cloudevents.core.v1.event import CloudEvent as SdkEvent

from distributary.core.errors import EventError
from distributary.core.event import Event, json_format
from distributary.protocols.http import binding as http

ATTRIBUTES = {
    "id": "A-1",
    "source": "/s/gr%C3%B6%C3%9Fe?q=%20",
    "type": "com.example.t",
    "subject": 'a "b" 100% €😀',
    "extension": "x y",
}

TEXTS = ["plain", "a b", "100%", "%41", 'say "hi"', "€😀", "~!@#$^&*()", "ü", "a+b", "\u00a0"]


def to_fields(message: HTTPMessage) -> list[tuple[bytes, bytes]]:
    """An SDK message as our header fields."""
    return [(name.lower().encode(), value.encode()) for name, value in message.headers.items()]


def to_message(block: bytes, body: bytes) -> HTTPMessage:
    """Our header block and body as an SDK message."""
    lines = block.decode("ascii").split("\r\n")[:-1]
    return HTTPMessage(headers=dict(line.split(": ", 1) for line in lines), body=body)


def sdk_event(data, version="1.0", **attributes):
    """An event as a user of the SDK makes it."""
    build = SdkEvent if version == "1.0" else SdkEvent03
    time = datetime(2018, 4, 5, 17, 31, tzinfo=UTC)
    return build(ATTRIBUTES | {"specversion": version, "time": time} | attributes, data)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        ({"a": [1, "ü"]}, "application/json", b'{"a": [1, "\\u00fc"]}'),
        ("grüße", "text/plain", "grüße".encode()),
        (b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        (None, "text/plain", None),
    ],
)
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_events_of_the_sdk_are_read(version, data, content_type, expected, mode):
    """Attributes and data that the SDK sends arrive, in both modes and versions."""
    event = sdk_event(data, version, datacontenttype=content_type)
    encode = sdk_http.to_binary_event if mode == "binary" else sdk_http.to_structured_event
    message = encode(event)

    (received,) = http.decode(to_fields(message), message.body)

    wanted = ATTRIBUTES | {
        "specversion": version,
        "time": "2018-04-05T17:31:00Z",
        "datacontenttype": content_type,
    }
    if mode == "structured" and version == "0.3" and isinstance(data, bytes):
        # 0.3 says in an attribute that the data are Base64 text, and so they stay.
        wanted["datacontentencoding"] = "base64"
        expected = base64.b64encode(expected)
    assert received == Event(wanted, expected)


@pytest.mark.parametrize(
    ("data", "content_type", "seen"),
    [
        (b'{"a": 1}', "application/json", {"a": 1}),
        ("grüße".encode(), "text/plain", "grüße"),
        (b"\x00\xff", "application/octet-stream", b"\x00\xff"),
        (None, "text/plain", None),
    ],
)
@pytest.mark.parametrize("encode", [http.encode_binary, http.encode_structured])
def test_our_events_are_read_by_the_sdk(make_event, data, content_type, seen, encode):
    """Attributes and data that we send arrive at a user of the SDK, in both modes."""
    time = "2018-04-05T17:31:00Z"
    event = make_event(data, **ATTRIBUTES, datacontenttype=content_type, time=time)

    received = sdk_http.from_http_event(to_message(*encode(event)))

    parsed = {"time": datetime(2018, 4, 5, 17, 31, tzinfo=UTC)}
    assert received.get_attributes() == event.attributes | parsed
    assert received.get_data() == seen


@pytest.mark.parametrize("text", TEXTS)
def test_both_encode_header_values_alike(make_event, text):
    """Percent-encoding agrees byte for byte."""
    block, _ = http.encode_binary(make_event(ext=text))
    message = sdk_http.to_binary_event(sdk_event(None, ext=text))

    assert to_message(block, b"").headers["ce-ext"] == message.headers["ce-ext"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_sdk_decodes_our_header_values(make_event, text):
    """What we percent-encode, the SDK decodes to the same text."""
    message = to_message(*http.encode_binary(make_event(ext=text)))

    assert sdk_http.from_binary_event(message).get_attributes()["ext"] == text


def test_json_data_stay_as_they_are_where_the_sdk_rewrites_them(make_event):
    """A departure from the SDK: it parses JSON data, and so changes numbers and spaces."""
    data = b'{"a":1.50,"b":12345678901234567890.10}'
    event = make_event(data, datacontenttype="application/json")

    parsed = sdk_http.from_http_event(to_message(*http.encode_structured(event)))
    again = sdk_http.to_binary_event(parsed)

    assert again.body != data
    assert json_format.decode(json_format.encode(event)).data == data


def test_quoted_values_are_unquoted_though_the_sdk_keeps_the_quotes(make_headers):
    """A departure from the SDK: unescaping quoted strings is a MUST (3.1.3.2)."""
    headers = make_headers(ext=b'"a b"')
    message = HTTPMessage({name.decode(): value.decode() for name, value in headers}, b"")

    assert sdk_http.from_binary_event(message).get_attributes()["ext"] == '"a b"'
    assert http.decode(headers, b"")[0].attributes["ext"] == "a b"


def test_invalid_utf_8_is_refused_though_the_sdk_replaces_it(make_headers):
    """A departure from the SDK: rejecting invalid sequences is a MUST (3.1.3.2)."""
    headers = make_headers(ext=b"%C0%A0")
    message = HTTPMessage({name.decode(): value.decode() for name, value in headers}, b"")

    assert "\ufffd" in sdk_http.from_binary_event(message).get_attributes()["ext"]
    with pytest.raises(EventError, match="ce-ext"):
        http.decode(headers, b"")


def test_the_sdk_reads_our_binary_json_data_as_base64(make_event):
    """Bytes without a content type travel as data_base64, which the SDK understands."""
    body = json_format.encode(make_event(b"\x00\xff"))

    received = sdk_http.from_structured_event(
        HTTPMessage({"content-type": "application/cloudevents+json"}, body)
    )

    assert received.get_data() == b"\x00\xff"
    assert "data_base64" in json.loads(body)
