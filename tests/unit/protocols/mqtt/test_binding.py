"""The MQTT binding, value by value; round trips are in the property tests."""

import pytest

from distributary.core.errors import EventError
from distributary.core.event import Event, UnsupportedFormatError
from distributary.protocols.mqtt import binding as mqtt

MINIMAL = {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
USER = list(MINIMAL.items())


def faults_of(content_type, user, payload=b""):
    """What is wrong with a message."""
    with pytest.raises(EventError) as caught:
        mqtt.decode(content_type, user, payload)
    return [(fault.path, fault.code) for fault in caught.value.faults]


def test_binary_mode_is_written_property_by_property():
    """Content type 0x03, user properties 0x26, each string with its length (binding 3.1)."""
    event = Event({"id": "é", "datacontenttype": "a/b", "n": 7, "flag": True}, b"\0\xff")
    block, payload = mqtt.encode_binary(event)
    assert payload == b"\0\xff"
    assert block == (
        b"\x26\x00\x02id\x00\x02\xc3\xa9"
        b"\x03\x00\x03a/b"
        b"\x26\x00\x01n\x00\x017"
        b"\x26\x00\x04flag\x00\x04true"
    )


def test_an_event_without_data_has_an_empty_payload():
    """In binary mode the two cannot be told apart."""
    assert mqtt.encode_binary(Event(MINIMAL, None))[1] == b""
    assert mqtt.decode("", USER, b"") == Event(MINIMAL, None)


def test_structured_mode_says_its_media_type():
    """Binding, section 3.2.1."""
    block, payload = mqtt.encode_structured(Event(MINIMAL, None))
    text = b"application/cloudevents+json; charset=utf-8"
    assert block == b"\x03\x00" + bytes((len(text),)) + text
    assert mqtt.decode(text.decode(), [], payload) == Event(MINIMAL, None)


@pytest.mark.parametrize("value", ["a\r\nb", "a\0b", "\x1b[0m", "\ud800", "\ufffe"])
def test_what_no_event_may_hold_is_not_written(value):
    """The log holds checked events; one made by hand is refused with its place."""
    with pytest.raises(EventError) as caught:
        mqtt.encode_binary(Event(MINIMAL | {"subject": value}, None))
    assert [fault.path for fault in caught.value.faults] == ["properties.subject"]


@pytest.mark.parametrize(
    ("subject", "binary"),
    [("x" * 65_535, True), ("x" * 65_536, False), ("é" * 32_767, True), ("é" * 40_000, False)],
    ids=["longest", "longer", "bytes count", "and not characters"],
)
@pytest.mark.parametrize("old", [False, True], ids=["1.0", "0.3 with base64"])
def test_what_is_longer_than_a_string_of_mqtt_is_sent_in_structured_mode(subject, binary, old):
    """Its length stands in two bytes; the event is whole, with the attribute that binary drops."""
    event = Event(MINIMAL | {"subject": subject, "datacontenttype": "text/plain"}, b"eA==")
    if old:
        past = {"specversion": "0.3", "datacontentencoding": "base64"}
        event = Event({**event.attributes, **past}, event.data)
    block, payload = mqtt.encode_binary(event)
    if binary:
        assert len(block) > 65_534
        assert payload == (b"x" if old else b"eA==")
    else:
        assert (block, payload) == mqtt.encode_structured(event)
        assert mqtt.decode("application/cloudevents+json", [], payload) == event


@pytest.mark.parametrize("value", [1.5, None, b"x", ["a"]], ids=repr)
def test_a_value_of_another_type_is_refused(value):
    """Made by hand, or by a decoder that was not ours."""
    with pytest.raises(EventError):
        mqtt.encode_binary(Event(MINIMAL | {"n": value}, None))


@pytest.mark.parametrize("name", ["UPPER", "é", "a b", "data"])
def test_a_name_that_is_none_is_refused(name):
    """It would be an attribute for nobody."""
    with pytest.raises(EventError):
        mqtt.encode_binary(Event(MINIMAL | {name: "x"}, None))


def test_the_content_type_property_decides():
    """The binding's own example has it as a user property as well."""
    user = [*USER, ("datacontenttype", "text/plain")]
    assert mqtt.decode("text/xml", user, b"x").attributes["datacontenttype"] == "text/xml"
    assert mqtt.decode(None, user, b"x").attributes["datacontenttype"] == "text/plain"


def test_properties_of_others_are_not_looked_at():
    """Their names cannot be those of attributes, however often they stand."""
    user = [*USER, ("X-Trace", "1"), ("X-Trace", "2"), ("traceParent", "x")]
    assert mqtt.decode("text/plain", user, b"x").attributes == {
        **MINIMAL,
        "datacontenttype": "text/plain",
    }


def test_an_attribute_that_stands_twice_is_a_fault():
    """Which one would count?"""
    assert faults_of("text/plain", [*USER, ("id", "2")]) == [("properties.id", "duplicate")]


def test_every_fault_is_named_at_once():
    """With the property's name."""
    user = [("specversion", "1.0"), ("id", ""), ("type", "t"), ("time", "yesterday")]
    assert faults_of("text/plain", user) == [
        ("properties.source", "missing"),
        ("properties.id", "empty"),
        ("properties.time", "time"),
    ]


def test_a_message_of_mqtt_3_is_json():
    """It has no properties that could say so (binding 3.2.1)."""
    event = Event(MINIMAL | {"datacontenttype": "application/json"}, b'{"a":1}')
    assert mqtt.decode(None, [], mqtt.encode_structured(event)[1]) == event


@pytest.mark.parametrize("payload", [b"", b"hello", b"[]", b"{}", b"\xff"])
def test_a_message_without_properties_that_is_no_json_event_is_refused(payload):
    """As any other."""
    with pytest.raises(EventError):
        mqtt.decode(None, [], payload)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/cloudevents+avro",
        "application/cloudevents-batch+json",
        "application/cloudevents",
        "application/cloudevents+json; charset=utf-16",
    ],
)
def test_other_formats_are_unsupported(content_type):
    """Whatever the user properties say: the content type decides (binding, section 3)."""
    with pytest.raises(UnsupportedFormatError):
        mqtt.decode(content_type, USER, b"{}")
