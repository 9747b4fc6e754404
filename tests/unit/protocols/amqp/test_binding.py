"""The AMQP binding: names, types, modes, faults, and the official SDK as an oracle."""

import datetime as dt

import pytest
from cloudevents.core.bindings import amqp as sdk_amqp
from cloudevents.core.bindings.amqp import AMQPMessage as SdkMessage
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent as SdkEvent

from distributary.core.errors import EventError
from distributary.core.event import Event, UnsupportedFormatError
from distributary.protocols.amqp import binding as amqp
from distributary.protocols.amqp.engine import AmqpMessage, decode_message

REQUIRED = {"specversion": "1.0", "id": "A-1", "source": "/s", "type": "t"}
EVENT = Event(
    REQUIRED
    | {
        "subject": 'a "b" 100% €😀',
        "time": "2018-04-05T17:31:00Z",
        "number": -7,
        "flag": True,
        "datacontenttype": "application/json",
    },
    b'{"a": 1}',
)
PREFIXED = {f"cloudEvents:{name}": value for name, value in REQUIRED.items()}


def test_binary_mode_is_what_the_binding_says():
    """Content type as a property, all others as typed application properties, data as they are."""
    message = decode_message(amqp.encode_binary(EVENT))
    assert message.content_type == "application/json"
    assert message.durable
    assert message.body == b'{"a": 1}'
    assert message.application_properties == {
        "cloudEvents:specversion": "1.0",
        "cloudEvents:id": "A-1",
        "cloudEvents:source": "/s",
        "cloudEvents:type": "t",
        "cloudEvents:subject": 'a "b" 100% €😀',
        "cloudEvents:time": "2018-04-05T17:31:00Z",
        "cloudEvents:number": -7,
        "cloudEvents:flag": True,
    }


def test_structured_mode_is_json_alone():
    """No application properties; the content type names the format."""
    message = decode_message(amqp.encode_structured(EVENT))
    assert message.content_type == "application/cloudevents+json; charset=utf-8"
    assert not message.application_properties
    assert amqp.decode(message) == Event(EVENT.attributes, b'{"a": 1}')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (dt.datetime(2018, 4, 5, 17, 31, tzinfo=dt.UTC), "2018-04-05T17:31:00Z"),
        (dt.datetime(2018, 4, 5, 17, 31, 0, 5000, tzinfo=dt.UTC), "2018-04-05T17:31:00.005Z"),
        (1522949460000, "2018-04-05T17:31:00Z"),
        ("2018-04-05T19:31:00+02:00", "2018-04-05T19:31:00+02:00"),
    ],
    ids=["timestamp", "milliseconds", "integer", "string"],
)
def test_reads_a_time_in_every_form(value, expected):
    """Native, canonical, and as senders without the type write it."""
    event = amqp.decode(AmqpMessage(b"", PREFIXED | {"cloudEvents:time": value}))
    assert event.attributes["time"] == expected


def test_reads_names_without_a_colon_and_bytes():
    """As JMS clients must write them; Binary becomes Base64."""
    names = {f"cloudEvents_{name}": value for name, value in REQUIRED.items()}
    event = amqp.decode(AmqpMessage(b"x", names | {"cloudEvents_blob": b"\x00\xff", "other": 1}))
    assert event == Event(REQUIRED | {"blob": "AP8="}, b"x")


@pytest.mark.parametrize("body", [b"", None, ""])
def test_an_empty_body_is_no_data(body):
    """Whether it is an empty data section, a null or an empty string."""
    assert amqp.decode(AmqpMessage(body, PREFIXED)).data is None


def test_an_unset_attribute_is_none():
    """A property with a null is not there."""
    event = amqp.decode(AmqpMessage(b"", PREFIXED | {"cloudEvents:subject": None}))
    assert "subject" not in event.attributes


@pytest.mark.parametrize(
    ("message", "paths"),
    [
        (AmqpMessage(b"", {}), ["content-type"]),
        (AmqpMessage(b"", {}, "application/cloudevents+avro"), ["content-type"]),
        (AmqpMessage(b"{}", {}, "application/cloudevents+json; charset=latin1"), ["content-type"]),
        (AmqpMessage(b"", PREFIXED | {"cloudEvents_id": "2"}), ["cloudEvents_id"]),
        (AmqpMessage(b"", PREFIXED | {"cloudEvents:x": 1.5}), ["cloudEvents:x"]),
        (AmqpMessage(b"", PREFIXED | {"cloudEvents:x": "a\r\nb"}), ["cloudEvents:x"]),
        (AmqpMessage(b"", PREFIXED | {"cloudEvents:time": 2**60}), ["cloudEvents:time"]),
        (AmqpMessage([1], PREFIXED), ["$"]),
        (AmqpMessage(None, {}, "application/cloudevents+json"), ["$"]),
        (
            AmqpMessage(b"", PREFIXED | {"cloudEvents:datacontenttype": "a/b"}, "a/b"),
            ["cloudEvents:datacontenttype"],
        ),
        (
            AmqpMessage(b"", {"cloudEvents:specversion": "1.0", "cloudEvents:id": ""}),
            ["cloudEvents:source", "cloudEvents:type", "cloudEvents:id"],
        ),
    ],
)
def test_names_every_fault_and_its_place(message, paths):
    """What is no event is refused with all that is wrong."""
    with pytest.raises(EventError) as caught:
        amqp.decode(message)
    assert [fault.path for fault in caught.value.faults] == paths


def test_a_message_without_any_property_of_events_is_another_kind_of_message():
    """It is told apart from a broken event."""
    with pytest.raises(UnsupportedFormatError):
        amqp.decode(AmqpMessage(b"hello", {"color": "blue"}, "text/plain"))


def test_an_event_that_is_none_cannot_be_sent():
    """Built by hand: a lone surrogate, an integer of 65 bits."""
    for value in ("\ud800", 2**64):
        with pytest.raises(EventError):
            amqp.encode_binary(Event(REQUIRED | {"x": value}, None))


def sdk_message(raw):
    """Our bytes as the SDK's users get them from their library."""
    message = decode_message(raw)
    properties = {} if message.content_type is None else {"content-type": message.content_type}
    return SdkMessage(properties, dict(message.application_properties), message.body)


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_the_sdk_reads_our_events(mode):
    """Attributes with their types, time, and data."""
    encode = amqp.encode_binary if mode == "binary" else amqp.encode_structured
    event = sdk_amqp.from_amqp(sdk_message(encode(EVENT)), JSONFormat(), SdkEvent)
    attributes = event.get_attributes()
    assert attributes["time"] == dt.datetime(2018, 4, 5, 17, 31, tzinfo=dt.UTC)
    assert {**attributes, "time": EVENT.attributes["time"]} == EVENT.attributes
    assert event.get_data() == {"a": 1}


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_events_of_the_sdk_are_read(mode):
    """In both modes, by its own names."""
    time = dt.datetime(2018, 4, 5, 17, 31, tzinfo=dt.UTC)
    made = SdkEvent(EVENT.attributes | {"time": time}, {"a": 1})
    to = sdk_amqp.to_binary if mode == "binary" else sdk_amqp.to_structured
    sent = to(made, JSONFormat())
    content_type = sent.properties.get("content-type")
    message = AmqpMessage(sent.application_data, sent.application_properties, content_type)
    assert amqp.decode(message) == EVENT
