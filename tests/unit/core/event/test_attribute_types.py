"""Every type of the CloudEvents type system, through every form an event takes here."""

import base64
import json

import pytest

from distributary.core.event import Event, canonical, json_format, record
from distributary.protocols.http import binding as http

VALUES = {
    "Boolean": [True, False],
    "Integer": [0, -1, 2**31 - 1, -(2**31)],
    "String": ["", "plain", "with space", "grüße 🌎", '"quoted"', "100%", "%41", "true", "5"],
    "Binary": [base64.b64encode(bytes(range(256))).decode()],
    "URI": ["https://example.com/a?b=c#d", "urn:uuid:6e8bc430-9c3a-11d9-9669-0800200c9a66"],
    "URI-reference": ["/relative/path", "../up", "#fragment", "?q=%20"],
    "Timestamp": ["2018-04-05T17:31:00Z", "1990-12-31T23:59:60.123456789-08:00"],
    "Map (0.3)": [json.dumps({"othervalue": 5, "n": [1, None]})],
}
"""Type -> values as they stand in an event; the last five travel as their canonical strings."""

CASES = [
    pytest.param(value, id=f"{kind}-{value!r:.20}")
    for kind, values in VALUES.items()
    for value in values
]


def through_binary(event: Event) -> Event:
    """*event* as a receiver of binary mode sees it."""
    block, body = http.encode_binary(event)
    pairs = [line.split(b": ", 1) for line in block.split(b"\r\n")[:-1]]
    (received,) = http.decode([(name, value) for name, value in pairs], body)
    return received


@pytest.fixture(params=["1.0", "0.3"])
def version(request) -> str:
    """Both versions that are known."""
    return request.param


@pytest.mark.parametrize("value", CASES)
def test_structured_mode_keeps_value_and_type(make_event, version, value):
    """JSON has booleans, integers and strings, so nothing is lost."""
    event = make_event(b"x", specversion=version, ext=value, datacontenttype="text/plain")

    received = json_format.decode(json_format.encode(event))

    assert received == event
    assert type(received.attributes["ext"]) is type(value)


@pytest.mark.parametrize("value", CASES)
def test_binary_mode_keeps_the_canonical_string(make_event, version, value):
    """Headers hold canonical strings; their type is for the consumer to know (Type System)."""
    event = make_event(b"x", specversion=version, ext=value)

    assert through_binary(event).attributes["ext"] == canonical(value)


@pytest.mark.parametrize("value", CASES)
def test_binary_to_structured_to_binary_changes_nothing(make_event, version, value):
    """An event that comes by headers, goes on as JSON and again by headers is the same event."""
    first = through_binary(
        make_event(b'{"a": 1}', specversion=version, ext=value, datacontenttype="application/json")
    )

    last = through_binary(json_format.decode(json_format.encode(first)))

    assert last == first


@pytest.mark.parametrize("value", CASES)
def test_records_keep_value_and_type(make_event, version, value):
    """The log gives back what was appended."""
    event = make_event(None, specversion=version, ext=value)

    (read,) = record.decode(record.encode([event]))

    assert read == event
    assert type(read.attributes["ext"]) is type(value)
