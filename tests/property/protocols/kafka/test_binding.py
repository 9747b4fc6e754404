"""The Kafka binding: any record gives an event or an EventError; any event comes back."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event, canonical, validate
from distributary.protocols.kafka import binding as kafka

no_deadline = settings(deadline=None)
"""How long an example takes depends on the machine, and says nothing here."""

texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=20)
names = st.from_regex(r"x[a-z0-9]{0,11}", fullmatch=True)
scalars = st.one_of(texts, st.booleans(), st.integers(-(2**31), 2**31 - 1))

header_names = st.one_of(
    st.sampled_from(["ce_id", "ce_source", "ce_type", "ce_specversion", "content-type", "ce_"]),
    st.text(max_size=6).map(lambda rest: f"ce_{rest}"),
    st.text(max_size=8),
)
header_values = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.sampled_from([b"1.0", b"0.3", b"application/cloudevents+json", b"\xc0\xa0", b"/"]),
)


def check(headers, value) -> None:
    """Decodes a record; what is accepted must be valid, and what is refused must say why."""
    faults = ()
    event = None
    try:
        event = kafka.decode(headers, value)
    except EventError as error:
        faults = error.faults
    if event is None:
        assert faults
        assert all(fault.path.isprintable() for fault in faults)
    else:
        assert validate(event.attributes) == []
        kafka.encode_binary(event)


@st.composite
def events(draw) -> Event:
    """Valid events: any extensions, any data."""
    attributes = {
        "specversion": "1.0",
        "id": draw(texts),
        "source": draw(st.sampled_from(["/a", "urn:x:y", "https://example.com/%20#f", "%C3%A4"])),
        "type": draw(texts),
    }
    attributes |= draw(st.dictionaries(names, scalars, max_size=5))
    media_type = draw(st.sampled_from([None, "application/json", "text/plain", "a/b"]))
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    return Event(attributes, draw(st.none() | st.binary(max_size=40)))


@pytest.mark.slow
@no_deadline
@given(events())
def test_binary_mode_gives_back_every_attribute_and_byte(event):
    """Attributes as canonical strings, data byte for byte, none and empty apart."""
    assert validate(event.attributes) == []

    received = kafka.decode(*kafka.encode_binary(event))

    assert received.attributes == {name: canonical(v) for name, v in event.attributes.items()}
    assert received.data == event.data


@pytest.mark.slow
@no_deadline
@given(events())
def test_structured_mode_gives_back_every_attribute(event):
    """With its type."""
    try:
        headers, value = kafka.encode_structured(event)
    except EventError:
        return  # data that JSON cannot hold under their content type, as over HTTP

    received = kafka.decode(headers, value)

    assert received.attributes | {"datacontenttype": ""} == event.attributes | {
        "datacontenttype": ""
    }


@pytest.mark.slow
@no_deadline
@given(st.lists(st.tuples(header_names, header_values), max_size=8), st.none() | st.binary())
def test_any_record(headers, value):
    """Is refused in order, or is a valid event."""
    check(headers, value)


@pytest.mark.slow
@no_deadline
@given(events(), st.data())
def test_a_record_with_one_thing_changed(event, data):
    """Still an event, or refused."""
    headers, value = kafka.encode_binary(event)
    at = data.draw(st.integers(0, len(headers) - 1))
    headers[at] = data.draw(
        st.tuples(st.just(headers[at][0]), header_values) | st.tuples(header_names, header_values)
    )
    check(headers, value)
