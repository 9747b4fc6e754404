import msgspec
import pytest

from distributary.core.errors import EventError
from distributary.core.event import Event, record


@pytest.mark.parametrize("count", [0, 1, 3])
def test_events_come_back_in_their_order(make_event, count):
    """A record holds any number of events."""
    events = [make_event(b"x", n=i) for i in range(count)]

    assert record.decode(record.encode(events)) == events


@pytest.mark.parametrize("data", [None, b"", b"x", b"\x00\xff" * 100_000])
def test_data_come_back_byte_for_byte(make_event, data):
    """No data, empty data and large data are all kept."""
    (event,) = record.decode(record.encode([make_event(data)]))

    assert event.data == data


def test_values_keep_their_types(make_event):
    """A boolean does not become an integer, nor an integer a string."""
    (event,) = record.decode(record.encode([make_event(b=True, i=1, s="1")]))

    assert [type(event.attributes[name]) for name in "bis"] == [bool, int, str]


def test_attributes_keep_their_order():
    """Attributes come back in the order in which the sender wrote them."""
    event = Event({"z": "1", "a": "2", "m": "3"}, None)

    assert list(record.decode(record.encode([event]))[0].attributes) == ["z", "a", "m"]


def test_the_layout_is_a_format_byte_and_message_pack(make_event):
    """Another program can read a record: format byte, then [[attributes, data]]."""
    event = make_event(b"x")
    body = record.encode([event])

    assert body[0] == record.FORMAT
    assert msgspec.msgpack.decode(body[1:]) == [[event.attributes, b"x"]]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        b"\x00\x90",
        b"\x02\x90",
        b"\x90",
        b"\x01\x90\x00",
        b"\x01\xc0",
        b"\x01\x91\xc0",
        b"\x01\x91\x91\x80",
        b"\x01\x91\x93\x80\xc0\xc0",
        b"\x01\x91\x92\x81\xa1a\xc0\xc0",
        b"\x01\x91\x92\x81\xa1a\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00\xc0",
        b"\x01\x91\x92\x81\x01\xa1a\xc0",
        b"\x01\x91\x92\x80\xa1a",
        b"\x01\x91\x92\x81\xa1\xff\xa1a\xc0",
        b"\x01\x91\x92\x81\xa1a\xa1\xff\xc0",
        b"\x01\xdd\xff\xff\xff\xff",
        b"\x01\x91\x92\xdf\xff\xff\xff\xff",
        b"\x01\x91\x92\x80\xc6\xff\xff\xff\xff",
        b"\x01" + b"\x91" * 100_000,
    ],
)
def test_other_bytes_are_refused(body):
    """Any bytes that are no record of this format are an EventError and nothing else."""
    with pytest.raises(EventError):
        record.decode(body)


def test_every_truncation_is_refused(make_event):
    """No prefix of a record is a record."""
    body = record.encode([make_event(b"x" * 50, flag=True, n=300)])

    for length in range(len(body)):
        with pytest.raises(EventError):
            record.decode(body[:length])


@pytest.mark.parametrize("value", ["\ud800", 2**70, object()])
def test_an_event_that_no_decoder_made_is_refused(make_event, value):
    """Values outside the type system cannot be recorded."""
    with pytest.raises(EventError):
        record.encode([make_event(x=value)])
