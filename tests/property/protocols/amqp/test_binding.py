"""The AMQP binding: round trips, and its promise about any bytes."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event
from distributary.protocols.amqp import binding as amqp
from distributary.protocols.amqp.engine import AmqpError, AmqpMessage, decode_message

NAMES = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=20).filter(
    lambda name: name not in {"data", "time", "dataschema", "subject", "specversion"}
)
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=300)
VALUES = st.one_of(TEXTS, st.booleans(), st.integers(-(2**31), 2**31 - 1))


@st.composite
def valid_events(draw):
    """Events with any extensions and any data."""
    required = {
        "specversion": "1.0",
        "id": draw(TEXTS),
        "source": "/here",
        "type": draw(TEXTS),
        "datacontenttype": draw(
            st.sampled_from(["application/json", "text/plain", 'a/b; c="u v"'])
        ),
    }
    extensions = draw(st.dictionaries(NAMES, VALUES, max_size=8))
    return Event(extensions | required, draw(st.none() | st.binary(min_size=1, max_size=400)))


@given(valid_events())
def test_binary_mode_round_trips(event):
    """With the types of the values; the data byte for byte."""
    assert amqp.decode(decode_message(amqp.encode_binary(event))) == event


@given(valid_events())
def test_structured_mode_round_trips(event):
    """With the types of the values."""
    found = amqp.decode(decode_message(amqp.encode_structured(event)))
    assert found.attributes == event.attributes


@given(st.binary(max_size=200), st.sampled_from(["application/cloudevents+json", "a/b", None]))
def test_any_body_is_an_event_or_an_error(body, content_type):
    """In both modes."""
    properties = {"cloudEvents:id": "1", "cloudEvents_type": "t"}
    with contextlib.suppress(EventError):
        amqp.decode(AmqpMessage(body, properties, content_type))


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.datetimes()
)


@given(st.dictionaries(st.text(max_size=8), SCALARS, max_size=8), SCALARS)
def test_any_properties_are_an_event_or_an_error(properties, body):
    """Whatever their values are."""
    prefixed = {f"cloudEvents:{name}": value for name, value in properties.items()}
    good = {"cloudEvents:id": "1", "cloudEvents:type": "t", "cloudEvents:source": "/s"}
    with contextlib.suppress(EventError, AmqpError):
        event = amqp.decode(AmqpMessage(body, good | {"cloudEvents:specversion": "1.0"} | prefixed))
        assert decode_message(amqp.encode_binary(event))
