"""Clauses of CloudEvents 1.0, its JSON format and its HTTP binding, one test each."""

import json

import pytest

from distributary.core.errors import EventError
from distributary.core.event import (
    ATTRIBUTE_CHARS_MAX,
    Event,
    UnsupportedFormatError,
    json_format,
    validate,
)
from distributary.protocols.http import binding as http

REQUIRED = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
FIELDS = [(b"ce-" + name.encode(), value.encode()) for name, value in REQUIRED.items()]


def structured(**members) -> bytes:
    """A structured event."""
    return json.dumps(REQUIRED | members).encode()


def binary(*fields: tuple[bytes, bytes], body: bytes = b"") -> Event:
    """The event of a binary-mode message."""
    (event,) = http.decode([*FIELDS, *fields], body)
    return event


@pytest.mark.clause("CE-core Context Attributes", "MUST", "each attribute appears at most once")
def test_an_attribute_appears_at_most_once():
    """Duplicates are refused in headers and in JSON."""
    with pytest.raises(EventError):
        binary((b"ce-id", b"1"))
    with pytest.raises(EventError):
        json_format.decode(structured().replace(b"}", b',"id":"1"}'))


@pytest.mark.clause("CE-core Naming Conventions", "MUST", "names consist of a-z and 0-9")
def test_attribute_names_are_lower_case_letters_and_digits():
    """Anything else is refused."""
    assert [fault.code for fault in validate(REQUIRED | {"some_name": "x"})] == ["name"]


@pytest.mark.clause(
    "CE-core Naming Conventions 2", "SHOULD NOT", "names do not exceed 20 characters"
)
def test_longer_names_are_let_through():
    """The rule is the producer's; an intermediary passes what it gets."""
    assert validate(REQUIRED | {"x" * 30: "y"}) == []


@pytest.mark.clause("CE-core Naming Conventions 3", "MUST NOT", "no attribute is called data")
def test_data_is_no_attribute():
    """ce-data is refused."""
    with pytest.raises(EventError):
        binary((b"ce-data", b"x"))


@pytest.mark.clause("CE-core Type System", "MUST", "integers are of 32 bits with sign")
def test_integers_fit_in_32_bits():
    """The ends pass, one beyond does not."""
    assert json_format.decode(structured(n=2**31 - 1, m=-(2**31))).attributes["n"] == 2**31 - 1
    for number in (2**31, -(2**31) - 1):
        with pytest.raises(EventError):
            json_format.decode(structured(n=number))


@pytest.mark.clause(
    "CE-core REQUIRED Attributes", "MUST", "id, source, type, specversion not empty"
)
@pytest.mark.parametrize("name", list(REQUIRED))
def test_required_attributes_are_not_empty(name):
    """Empty is as bad as absent."""
    with pytest.raises(EventError):
        json_format.decode(structured(**{name: ""}))


@pytest.mark.clause("CE-core datacontenttype", "MUST", "media types are case-insensitive")
def test_media_types_are_case_insensitive():
    """APPLICATION/Json is JSON."""
    event = json_format.decode(structured(datacontenttype="APPLICATION/Json", data={"a": 1}))

    assert event.data == b'{"a": 1}'


@pytest.mark.clause("CE-core Size Limits", "MUST", "events of 64 KiB or less are forwarded")
def test_an_event_of_64_kib_is_forwarded_however_its_bytes_are_spent():
    """All in one attribute, or all in the data."""
    room = 65_536 - len(structured(subject="", data=""))
    for event in (
        json_format.decode(structured(subject="x" * room)),
        json_format.decode(structured(data="x" * room)),
    ):
        assert json_format.decode(json_format.encode(event)) == event
        http.encode_binary(event)
    assert room <= ATTRIBUTE_CHARS_MAX


@pytest.mark.clause("CE-JSON 2.2", "MUST", "null is treated as unset")
def test_null_is_unset():
    """A null attribute is not there."""
    assert "subject" not in json_format.decode(structured(subject=None)).attributes


@pytest.mark.clause("CE-JSON 3.1.1", "MUST", "binary data are written as data_base64")
def test_binary_data_are_base64():
    """Bytes that are no text go into data_base64 and nowhere else."""
    written = json.loads(json_format.encode(Event(dict(REQUIRED), b"\xff")))

    assert written == REQUIRED | {"data_base64": "/w=="}


@pytest.mark.clause("CE-JSON 3.1.1b", "MUST", "JSON data are stored as a JSON value")
def test_json_data_are_a_json_value():
    """Not as a string that holds JSON."""
    event = Event(REQUIRED | {"datacontenttype": "a/x+json"}, b'{"a": 1}')

    assert json.loads(json_format.encode(event))["data"] == {"a": 1}


@pytest.mark.clause("CE-JSON 3.1.1c", "MUST", "data and data_base64 exclude one another")
def test_data_has_one_member():
    """Both at once are refused."""
    with pytest.raises(EventError):
        json_format.decode(structured(data=1, data_base64="AA=="))


@pytest.mark.clause("CE-JSON 3.1.2", "MUST NOT", "a JSON string is not deserialized further")
def test_a_json_string_stays_a_json_string():
    """Data of a string that looks like JSON stay a string, quotes included."""
    assert json_format.decode(structured(data='{"a":1}')).data == b'"{\\"a\\":1}"'


@pytest.mark.clause("CE-JSON 3.1.2b", "SHOULD", "the implied application/json is made explicit")
def test_the_implied_content_type_is_made_explicit():
    """Data without a content type leave in binary mode as application/json."""
    block, body = http.encode_binary(json_format.decode(structured(data="x")))

    assert b"content-type: application/json\r\n" in block
    assert body == b'"x"'


@pytest.mark.clause("CE-JSON 4", "MUST", "a batch is an array of events, maybe empty")
def test_a_batch_is_an_array():
    """Empty and full."""
    assert json_format.decode_batch(b"[]") == []
    assert len(json_format.decode_batch(b"[" + structured() + b"," + structured() + b"]")) == 2


@pytest.mark.clause("CE-HTTP 3", "MAY", "a format that cannot be handled")
def test_an_unknown_format_is_refused_not_guessed():
    """We do not take the MAY: an avro event is not forwarded as binary."""
    with pytest.raises(UnsupportedFormatError):
        binary((b"content-type", b"application/cloudevents+avro"))


@pytest.mark.clause("CE-HTTP 3.1.1", "MUST", "Content-Type is datacontenttype, and its only header")
def test_content_type_is_datacontenttype():
    """Both ways; ce-datacontenttype is refused."""
    event = binary((b"content-type", b"text/xml"))

    assert event.attributes["datacontenttype"] == "text/xml"
    assert b"content-type: text/xml\r\n" in http.encode_binary(event)[0]
    assert b"ce-datacontenttype" not in http.encode_binary(event)[0]
    with pytest.raises(EventError):
        binary((b"ce-datacontenttype", b"text/xml"))


@pytest.mark.clause("CE-HTTP 3.1.3.2", "MUST", "space, quote, percent and non-ASCII are encoded")
def test_the_example_of_the_specification_is_encoded_as_it_says():
    """Euro sign and emoji."""
    block, _ = http.encode_binary(Event(REQUIRED | {"x": "Euro € 😀"}, None))

    assert b"ce-x: Euro%20%E2%82%AC%20%F0%9F%98%80\r\n" in block


@pytest.mark.clause("CE-HTTP 3.1.3.2b", "MUST", "quoted strings are unescaped, then one decoding")
def test_values_are_unquoted_then_decoded_once():
    """Older senders quote."""
    assert binary((b"ce-x", b'"a \\"b\\" %2520"')).attributes["x"] == 'a "b" %20'


@pytest.mark.clause("CE-HTTP 3.1.3.2c", "MUST", "unnecessary encoding and lower case are accepted")
def test_needless_percent_encoding_is_accepted():
    """Lower-case hexadecimal digits, too."""
    assert binary((b"ce-x", b"%61%c3%bc")).attributes["x"] == "aü"


@pytest.mark.clause("CE-HTTP 3.1.3.2d", "MUST", "sequences invalid in UTF-8 are rejected")
def test_invalid_utf_8_is_rejected():
    """The overlong space of the specification."""
    with pytest.raises(EventError):
        binary((b"ce-x", b"%C0%A0"))


@pytest.mark.clause("CE-HTTP 3.3.2", "MUST", "all events of a batch have one specversion")
def test_a_batch_is_of_one_version():
    """A mixed batch is refused."""
    with pytest.raises(EventError):
        json_format.decode_batch(b"[" + structured() + b"," + structured(specversion="0.3") + b"]")
