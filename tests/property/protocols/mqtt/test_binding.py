"""The MQTT binding: round trips, and its promise about any bytes."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event, canonical
from distributary.protocols.mqtt import binding as mqtt
from distributary.protocols.mqtt.engine import PacketError, Version
from distributary.protocols.mqtt.engine._packets import read_publication
from distributary.protocols.mqtt.engine._properties import CONTENT_TYPE, PropertyReader, variable

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20).filter(
    lambda name: name not in {"data", "time", "dataschema", "subject", "specversion"}
)
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=50)
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1))


@st.composite
def valid_events(draw):
    """Events with any extensions and any data."""
    extensions = draw(st.dictionaries(NAMES, VALUES, max_size=8))
    required = {
        "specversion": "1.0",
        "id": draw(TEXTS),
        "source": "/" + draw(st.text("abc%20", max_size=5)).replace("%", ""),
        "type": draw(TEXTS),
        "datacontenttype": draw(st.sampled_from(["application/json", "text/plain", "a/b"])),
    }
    return Event(extensions | required, draw(st.binary(min_size=1, max_size=200)))


def taken_apart(block):
    """Properties as a reader of packets takes them apart."""
    properties = PropertyReader(variable(len(block)) + block).properties()
    return properties.texts.get(CONTENT_TYPE), properties.user


@given(valid_events())
def test_binary_mode_round_trips(event):
    """Every value as its canonical string; the data byte for byte."""
    block, payload = mqtt.encode_binary(event)
    content_type, user = taken_apart(block)
    assert payload == event.data
    strings = {name: canonical(value) for name, value in event.attributes.items()}
    assert mqtt.decode(content_type, user, payload) == Event(strings, event.data)


@given(valid_events())
def test_structured_mode_round_trips(event):
    """With the types of the values; by either version."""
    block, payload = mqtt.encode_structured(event)
    content_type, user = taken_apart(block)
    assert mqtt.decode(content_type, user, payload).attributes == event.attributes
    assert mqtt.decode(None, [], payload).attributes == event.attributes


@given(st.binary(max_size=300), st.sampled_from(list(Version)), st.integers(0x30, 0x3F))
def test_any_bytes_are_an_event_or_an_error(body, version, first):
    """From the packet to the event."""
    with contextlib.suppress(PacketError, EventError):
        publication = read_publication(version, first, body)
        if publication.payload is None:
            assert publication.fault is not None
            return
        properties = publication.properties
        content_type = properties.texts.get(CONTENT_TYPE)
        event = mqtt.decode(content_type, properties.user, publication.payload)
        assert isinstance(event, Event)


@given(
    st.one_of(st.none(), st.text(max_size=60), st.just("application/cloudevents+json")),
    st.lists(st.tuples(st.one_of(NAMES, st.text(max_size=8)), st.text(max_size=20)), max_size=8),
    st.binary(max_size=100),
)
def test_any_properties_are_an_event_or_an_error(content_type, user, payload):
    """Whatever a broker passes on."""
    with contextlib.suppress(EventError):
        assert isinstance(mqtt.decode(content_type, user, payload), Event)
