"""Events that are still the bytes of their record."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import BinaryEvent, Event, binary, json_format, record
from distributary.core.flow import (
    TTL_DEFAULT,
    AddressedEvents,
    Logged,
    RecordKind,
    TimerEvent,
    decode_timer_event,
    encode_addressed,
    encode_carried,
    encode_timer_event,
    events_of,
)
from distributary.testing.small_log import LOG_DIR, SmallLog

LINES = (
    b"ce-specversion: 1.0\r\nce-id: 100%25\r\nce-source: /s\r\nce-type: t\r\n"
    b"ce-ext: gr%C3%BC%C3%9Fe\r\nce-none: \r\ncontent-type: text/plain; a=%41\r\n"
)
DATA = b"ce-more: x\r\n\r\nce-type: other\r\n\xff"
BODY = b"\x02\r\n" + LINES + b"\r\n" + DATA
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "100%",
    "source": "/s",
    "type": "t",
    "ext": "gr\u00fc\u00dfe",
    "none": "",
    "datacontenttype": "text/plain; a=%41",
}


@pytest.fixture
def event():
    """The event of ``BODY``, nothing of which is parsed yet."""
    (found,) = record.decode(BODY)
    assert type(found) is BinaryEvent
    return found


def test_the_layout_is_a_format_byte_the_lines_and_the_data():
    """Another program can read such a record as it reads the message."""
    assert binary.encode([LINES], DATA) == BODY
    assert BODY[0] == binary.FORMAT


def test_attributes_and_data_are_those_of_the_message(event):
    """Values are decoded once; the content type is the last attribute, as it is sent."""
    assert list(event.attributes.items()) == list(ATTRIBUTES.items())
    assert event.data == DATA
    assert (event.lines, event.data_bytes()) == (LINES, len(DATA))


@pytest.mark.parametrize("name", [*ATTRIBUTES, "more", "c", "extra", "", "\ud800", "a\r\nce-b"])
@pytest.mark.parametrize("parsed", [False, True])
def test_one_attribute_is_found_without_the_others(event, name, parsed):
    """The same before and after all are parsed; lines of the data are none."""
    assert not parsed or event.attributes == ATTRIBUTES
    assert event.text(name) == ATTRIBUTES.get(name)


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (False, "false"), (-5, "-5"), ("", ""), ("a", "a")]
)
def test_any_event_gives_an_attribute_in_its_canonical_form(make_event, value, text):
    """As filters compare it; None where there is none."""
    assert make_event(x=value).text("x") == text
    assert make_event().text("x") is None


def test_it_equals_the_event_that_it_is(event):
    """Whoever compares, pickles or prints it sees an event like any other."""
    plain = Event(ATTRIBUTES, DATA)
    assert event == plain
    assert plain == event
    assert plain != Event(ATTRIBUTES, b"x")
    assert event != Event(ATTRIBUTES, b"x")
    assert event != "event"
    assert repr(event) == repr(plain)
    assert pickle.loads(pickle.dumps(event)) == plain
    assert json_format.encode(event) == json_format.encode(plain)
    with pytest.raises(TypeError):
        hash(event)


def test_no_data_are_none():
    """As an empty body is read."""
    (event,) = record.decode(binary.encode([LINES], b""))
    assert event.data is None
    assert event.data_bytes() == 0


def test_its_record_is_written_again_as_it_is(event):
    """Alone; among others it is written like them."""
    plain = Event({"a": "b"}, None)
    assert record.encode([event]) == BODY
    assert record.decode(record.encode([event, plain])) == [event, plain]
    assert record.decode(record.encode([plain, event])) == [plain, event]


@pytest.mark.parametrize(
    "body",
    [
        b"\x02",
        b"\x02\r\n\r\n",
        b"\x02\r\n\r\nce-id: 1\r\n\r\n",
        b"\x02\r\nhost: x\r\n\r\n",
        b"\x02\r\nce-id: 1\r\n",
        b"\x02ce-id: 1\r\n\r\n",
        b"\x03" + BODY[1:],
    ],
)
def test_other_bytes_are_refused(body):
    """Another format, or lines without beginning or end."""
    with pytest.raises(EventError):
        record.decode(body)


@given(st.binary(max_size=60))
def test_any_bytes_between_beginning_and_end_are_read_without_an_error(middle):
    """A record is written checked, and checked for damage; reading it never stops a partition."""
    (event,) = record.decode(b"\x02\r\nce-" + middle + b"\r\n\r\nx")
    for name in ("id", "datacontenttype", *event.attributes):
        event.text(name)
    assert all(type(value) is str for value in event.attributes.values())
    assert record.encode([event])


EVENT = Event(ATTRIBUTES, DATA)
OLD = bytes.fromhex(
    "01919284ab7370656376657273696f6ea3312e30a26964a131a6736f75726365a22f73a474797065a174c40178"
)
"""A record of a version that knew no other form."""
OLD_EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b"x")
HELD = AddressedEvents("", (TTL_DEFAULT,), [EVENT])
RECORDS = [
    (RecordKind.EVENTS, OLD, HELD._replace(events=[OLD_EVENT])),
    (RecordKind.EVENTS, BODY, HELD),
    (
        RecordKind.ADDRESSED,
        encode_addressed("u", (3,), BODY),
        HELD._replace(address="u", ttls=(3,)),
    ),
    (
        RecordKind.ADDRESSED,
        encode_addressed("", (3,), OLD),
        HELD._replace(ttls=(3,), events=[OLD_EVENT]),
    ),
    (
        RecordKind.CARRIED,
        encode_carried("u", (3,), BODY, b"traceparent: 1\r\n"),
        HELD._replace(address="u", ttls=(3,), carried=b"traceparent: 1\r\n"),
    ),
]


def test_a_log_of_records_in_both_forms_is_read():
    """Versions before wrote only the old one; both stand beside one another from then on."""
    log = SmallLog()
    log.open()
    log.append(OLD, OLD)
    log.disk.content(LOG_DIR / "FORMAT")[:] = b'{"format": 2, "partitions": 1}'
    log.appender.close()
    log = log.reopened_on(log.disk)
    for kind, body, _ in RECORDS:
        log.append(body, kind=kind)
    old = RECORDS[0][2]
    assert list(map(events_of, log.records())) == [old, old, *(held for _, _, held in RECORDS)]


def test_an_event_in_binary_form_may_be_that_of_a_timer(event):
    """Whatever holds a record holds either form."""
    timer_event = TimerEvent("u", 1, 1, event)
    assert decode_timer_event(encode_timer_event(timer_event)) == timer_event


@pytest.mark.parametrize(("kind", "held"), [(kind, held) for kind, _, held in RECORDS])
def test_which_form_a_record_has_does_not_show(kind, held):
    """The old form of the same events gives the same."""
    old = record.encode(held.events)
    if kind == RecordKind.ADDRESSED:
        old = encode_addressed(held.address, held.ttls, old)
    elif kind == RecordKind.CARRIED:
        old = encode_carried(held.address, held.ttls, old, held.carried)
    assert events_of(Logged(0, 0, 0, kind, old)) == held
