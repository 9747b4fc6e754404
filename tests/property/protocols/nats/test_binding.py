"""The NATS binding: any event round trips, any bytes give an event or an ``EventError``."""

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event, canonical, validate
from distributary.protocols.nats import binding as nats

no_deadline = settings(deadline=None)
"""How long an example takes depends on the machine, and says nothing here."""

texts = st.text(st.characters(exclude_categories=["Cc", "Cs", "Cn"]), max_size=20)
names = st.from_regex(r"x[a-z0-9]{0,12}", fullmatch=True)
scalars = st.one_of(texts, st.booleans(), st.integers(-(2**31), 2**31 - 1))


@st.composite
def events(draw) -> Event:
    """Valid events: any extensions, any data."""
    attributes = {
        "specversion": "1.0",
        "id": draw(texts.filter(bool)),
        "source": draw(st.sampled_from(["/a", "urn:x:y", "https://example.com/%20#f", "%C3%A4"])),
        "type": draw(texts.filter(bool)),
    }
    attributes |= draw(st.dictionaries(names, scalars, max_size=5))
    media_type = draw(st.sampled_from([None, "a/b", 'text/plain; charset="x y"']))
    if media_type is not None:
        attributes["datacontenttype"] = media_type
    return Event(attributes, draw(st.none() | st.binary(min_size=1, max_size=40)))


def as_strings(event: Event) -> Event:
    """*event* as headers can say it: without types."""
    return Event({name: canonical(value) for name, value in event.attributes.items()}, event.data)


@pytest.mark.slow
@no_deadline
@given(events())
def test_binary_mode_round_trips(event):
    """Every value, byte for byte; headers have no types."""
    fields, payload = nats.encode_binary(event)
    assert nats.decode(nats.VERSION_LINE + fields + b"\r\n", payload) == as_strings(event)


@pytest.mark.slow
@no_deadline
@given(events())
def test_structured_mode_round_trips(event):
    """With its types."""
    fields, payload = nats.encode_structured(event)
    decoded = nats.decode(nats.VERSION_LINE + fields + b"\r\n", payload)
    assert {k: v for k, v in decoded.attributes.items() if k != "datacontenttype"} == {
        k: v for k, v in event.attributes.items() if k != "datacontenttype"
    }
    assert decoded == nats.decode(b"", payload)


LINE = re.compile(rb"ce-[A-Za-z0-9]+: [\x21-\x7e]*")

anything = st.text(max_size=20)


@no_deadline
@given(st.dictionaries(anything, anything | st.integers() | st.booleans(), max_size=6))
@example({"a": "\r\n\r\nPUB x 0\r\n\r\n"})
def test_no_attribute_can_add_a_line(attributes):
    """Whatever an event built by hand holds: one plain line for each attribute, or refused."""
    try:
        fields, _ = nats.encode_binary(Event(attributes, None))
    except EventError:
        return
    lines = fields.split(b"\r\n")[:-1]
    assert len(lines) == len(attributes)
    assert all(LINE.fullmatch(line) for line in lines)


headers = st.one_of(
    st.binary(max_size=60),
    st.lists(
        st.tuples(
            st.sampled_from([b"ce-id", b"ce-source", b"ce-type", b"Content-Type", b"ce-", b"CE-X"])
            | st.binary(max_size=6),
            st.sampled_from([b": ", b":", b" ", b"\r\n"]),
            st.sampled_from([b"1.0", b"%C0%A0", b"application/cloudevents+json", b'"x', b"/"])
            | st.binary(max_size=12),
        ),
        max_size=6,
    ).map(
        lambda fields: (
            b"NATS/1.0\r\nce-specversion: 1.0\r\n"
            + b"".join(b"".join(field) + b"\r\n" for field in fields)
            + b"\r\n"
        )
    ),
)


@no_deadline
@given(headers, st.binary(max_size=50) | st.just(b'{"specversion":"1.0","id":"1"}'))
def test_any_bytes_give_an_event_or_an_event_error(block, payload):
    """And what is accepted is valid, and can be sent again."""
    faults = []
    try:
        event = nats.decode(block, payload)
    except EventError as error:
        faults = error.faults
    if faults:
        assert all(fault.path.isprintable() for fault in faults)
        return
    assert validate(event.attributes) == []
    nats.encode_binary(event)
    nats.encode_structured(event)
