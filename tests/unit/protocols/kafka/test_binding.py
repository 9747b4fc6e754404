"""The Kafka binding: records and events, with the official SDK as the other side."""

from datetime import UTC, datetime

import pytest
from cloudevents.core.bindings import kafka as sdk_kafka
from cloudevents.core.bindings.kafka import KafkaMessage
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent

from distributary.core.errors import EventError
from distributary.core.event import Event, UnsupportedFormatError, json_format
from distributary.protocols.kafka import binding as kafka

ATTRIBUTES = {
    "id": "1",
    "source": "/gr%C3%B6%C3%9Fe",
    "type": "t",
    "subject": 'a "b" 100% €😀\u00a0',
}
TIME = datetime(2018, 4, 5, 17, 31, tzinfo=UTC)
DATA = [({"a": [1, "ü"]}, "application/json"), ("grüße", "text/plain"), (b"\xff", "a/b")]

STRUCTURED = [("content-type", b"application/cloudevents+json; charset=utf-8")]


@pytest.fixture
def faults_of(places):
    """What is wrong with a record: (path, code), sorted."""

    def find(headers, value=b"") -> list[tuple[str, str]]:
        with pytest.raises(EventError) as caught:
            kafka.decode(headers, value)
        return places(caught.value.faults)

    return find


@pytest.fixture
def headers(required):
    """Makes binary-mode headers: required attributes, then those given."""

    def make(*more):
        return [(f"ce_{name}", str(value).encode()) for name, value in required.items()] + [*more]

    return make


class TestEncoding:
    """From events to records."""

    def test_binary_mode(self, make_event):
        """A header for each attribute, ``content-type`` for that of the data, the data as is."""
        event = make_event(b"\x00", datacontenttype="a/b", subject="ü\U0001d11e", flag=True, n=-5)

        encoded, value = kafka.encode_binary(event)

        assert encoded == [
            ("ce_specversion", b"1.0"),
            ("ce_id", b"A234-1234-1234"),
            ("ce_source", b"/mycontext/subcontext"),
            ("ce_type", b"com.example.someevent"),
            ("content-type", b"a/b"),
            ("ce_subject", "ü\U0001d11e".encode()),
            ("ce_flag", b"true"),
            ("ce_n", b"-5"),
        ]
        assert value == b"\x00"

    @pytest.mark.parametrize("data", [None, b""])
    def test_no_data_and_empty_data_are_two_things(self, make_event, data):
        """In binary mode, both ways."""
        encoded, value = kafka.encode_binary(make_event(data))

        assert value == data
        assert kafka.decode(encoded, value).data == data

    def test_structured_mode(self, make_event):
        """One header, and the event as JSON."""
        event = make_event(b"1", datacontenttype="application/json")

        assert kafka.encode_structured(event) == (STRUCTURED, json_format.encode(event))

    @pytest.mark.parametrize(
        ("attributes", "path"),
        [({"a\nb": "x"}, "ce_a\\nb"), ({"subject": "\ud800"}, "ce_subject")],
    )
    def test_what_no_event_may_hold_is_refused(self, make_event, attributes, path):
        """An event that was built by hand, with a bad name or a lone surrogate."""
        with pytest.raises(EventError) as caught:
            kafka.encode_binary(make_event(None, **attributes))

        assert [fault.path for fault in caught.value.faults] == [path]

    def test_line_ends_in_values_stay_inside_their_header(self, make_event):
        """Headers carry their length: there is nothing to inject (H4)."""
        value = "x\r\nce_id: other\x00"

        encoded, _ = kafka.encode_binary(make_event(None, subject=value))

        assert dict(encoded)["ce_subject"] == value.encode()
        assert dict(encoded)["ce_id"] == b"A234-1234-1234"


class TestKey:
    """The key of a record."""

    @pytest.mark.parametrize(
        ("value", "key"), [("käse", "käse".encode()), (True, b"true"), (-7, b"-7"), ("", b"")]
    )
    def test_is_the_canonical_string_of_the_attribute(self, make_event, value, key):
        """As a filter sees it."""
        assert kafka.key_of(make_event(None, partitionkey=value), "partitionkey") == key

    def test_is_missing_where_the_attribute_is(self, make_event):
        """Records without a key go to any partition."""
        assert kafka.key_of(make_event(), "partitionkey") is None

    def test_is_refused_where_it_cannot_be_written(self, make_event):
        """A lone surrogate, which no valid event holds."""
        with pytest.raises(EventError) as caught:
            kafka.key_of(make_event(None, key="\ud800"), "key")

        assert caught.value.faults[0].path == "ce_key"


class TestDecoding:
    """From records to events."""

    def test_binary_mode(self, headers, required):
        """Attributes are text; other headers and the key are not looked at."""
        more = [("content-type", b"a/b"), ("ce_n", b"5"), ("traceparent", b"\xff"), ("x", None)]

        event = kafka.decode(headers(*more), b"x")

        assert event == Event(required | {"n": "5", "datacontenttype": "a/b"}, b"x")

    @pytest.mark.parametrize(
        "content_type",
        [
            b"application/cloudevents+json",
            b"application/cloudevents+json; charset=UTF-8",
            b"Application/CloudEvents+JSON",
        ],
    )
    def test_structured_mode(self, make_event, content_type):
        """The content type decides; attribute headers beside it are ignored (3.3.3)."""
        event = make_event(b"1", datacontenttype="application/json")
        more = [("ce_id", b"\xff"), ("content-type", content_type)]

        assert kafka.decode(more, json_format.encode(event)) == event

    @pytest.mark.parametrize(
        "content_type",
        [
            b"application/cloudevents+avro",
            b"application/cloudevents-batch+json",
            b"application/cloudevents+json; charset=utf-16",
        ],
    )
    def test_formats_that_are_not_known(self, content_type):
        """Are told from records that are broken."""
        with pytest.raises(UnsupportedFormatError):
            kafka.decode([("content-type", content_type)], b"{}")

    def test_no_cloudevent_at_all(self):
        """A record without any header of ours."""
        with pytest.raises(UnsupportedFormatError):
            kafka.decode([("content-type", b"text/plain")], b"hello")

    def test_structured_mode_without_a_value(self, faults_of):
        """A tombstone that says that it is an event."""
        assert faults_of(STRUCTURED, None)

    def test_every_fault_is_named(self, faults_of, headers):
        """With the header that it is in."""
        found = faults_of(
            [
                *headers(("ce_id", b"again"), ("ce_time", b"never"), ("ce_BAD", b"x")),
                ("ce_a", None),
                ("ce_b", b"\xff"),
                ("ce_datacontenttype", b"a/b"),
                ("content-type", b"nothing"),
                ("ce_subject", b""),
            ]
        )

        assert found == [
            ("ce_BAD", "name"),
            ("ce_a", "type"),
            ("ce_b", "encoding"),
            ("ce_datacontenttype", "reserved"),
            ("ce_id", "duplicate"),
            ("ce_subject", "empty"),
            ("ce_time", "time"),
            ("content-type", "media-type"),
        ]

    def test_what_is_required(self, faults_of):
        """All that is missing, at once."""
        assert faults_of([("ce_specversion", b"1.0")]) == [
            ("ce_id", "missing"),
            ("ce_source", "missing"),
            ("ce_type", "missing"),
        ]

    def test_too_many_attributes(self, faults_of, headers):
        """The record as a whole is wrong."""
        more = [(f"ce_x{number}", b"x") for number in range(70)]

        assert faults_of(headers(*more)) == [("$", "too-many")]

    @pytest.mark.parametrize("headers", [STRUCTURED * 2, [STRUCTURED[0], ("content-type", b"a/b")]])
    def test_two_content_types(self, faults_of, headers):
        """Readers would disagree about which one counts."""
        assert ("content-type", "duplicate") in faults_of(headers)


class TestOfficialSdk:
    """The same records as the official Python SDK, both ways."""

    @pytest.mark.parametrize("mode", ["binary", "structured"])
    @pytest.mark.parametrize(("data", "content_type"), DATA)
    def test_its_records_are_read(self, data, content_type, mode):
        """Attributes and data arrive; the key adds no attribute here."""
        attributes = ATTRIBUTES | {
            "specversion": "1.0",
            "time": TIME,
            "datacontenttype": content_type,
        }
        encode = sdk_kafka.to_binary if mode == "binary" else sdk_kafka.to_structured
        message = encode(SdkEvent(attributes, data), JSONFormat(), lambda _event: "key")

        event = kafka.decode(list(message.headers.items()), message.value)

        assert event.attributes == attributes | {"time": "2018-04-05T17:31:00Z"}
        if content_type != "application/json":
            assert event.data == (data if isinstance(data, bytes) else data.encode())

    @pytest.mark.parametrize("mode", ["binary", "structured"])
    @pytest.mark.parametrize(
        ("data", "content_type", "seen"),
        [(b'{"a":1}', "application/json", {"a": 1}), (b"\xff", "image/png", b"\xff")],
    )
    def test_our_records_are_read_by_it(self, make_event, data, content_type, seen, mode):
        """With the key that it looks for."""
        event = make_event(
            data,
            datacontenttype=content_type,
            subject=ATTRIBUTES["subject"],
            time="2018-04-05T17:31:00Z",
            partitionkey="k",
        )
        if mode == "binary":
            encoded, value = kafka.encode_binary(event)
            decode = sdk_kafka.from_binary
        else:
            encoded, value = kafka.encode_structured(event)
            decode = sdk_kafka.from_structured
        message = KafkaMessage(dict(encoded), kafka.key_of(event, "partitionkey"), value)

        received = decode(message, JSONFormat())

        assert received.get_data() == seen
        found = received.get_attributes()
        assert found == event.attributes | {"time": TIME}
