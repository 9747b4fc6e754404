"""Bodies of log records: what is written is read, and other bytes are refused with one error."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.core.errors import EventError
from distributary.core.event import Event, record
from distributary.core.flow import (
    TTL_DEFAULT,
    AddressedEvents,
    Logged,
    RecordKind,
    RouteRecord,
    TimerEvent,
    address_of,
    decode_addressed,
    decode_route,
    decode_timer_event,
    encode_addressed,
    encode_carried,
    encode_route,
    encode_timer_event,
    events_for,
    events_of,
)

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b'{"n": 1}')


def test_a_timer_event_is_read_as_it_was_written():
    """Route, revision, number and event."""
    timer_event = TimerEvent("uid", 3, 17, EVENT)
    assert decode_timer_event(encode_timer_event(timer_event)) == timer_event


def test_addressed_events_are_read_as_they_were_written():
    """Where they were published, the passes of each, and the events; the first for itself."""
    body = encode_addressed("uid", (255, 3), record.encode([EVENT, EVENT]))
    assert decode_addressed(body) == AddressedEvents("uid", (255, 3), [EVENT, EVENT])
    assert address_of(body) == "uid"


CARRIED = b"x-request-id: r1\r\ntraceparent: 00-ab-cd-01\r\n"


@pytest.mark.parametrize("address", ["", "uid"])
def test_what_goes_along_with_events_is_read_as_it_was_written(address):
    """The header lines byte for byte; where and what the events are, as without them."""
    events = [EVENT] * 1_000
    ttls = tuple(1 + number % 255 for number in range(1_000))
    body = encode_carried(address, ttls, record.encode(events), CARRIED)
    assert decode_addressed(body) == AddressedEvents(address, ttls, events, CARRIED)
    assert address_of(body) == address


@pytest.mark.parametrize("encode", [encode_addressed, partial(encode_carried, carried=CARRIED)])
@pytest.mark.parametrize("ttls", [(), (1,), (1, 2, 3)])
def test_each_addressed_event_has_its_passes(ttls, encode):
    """More or fewer than events are no such record."""
    with pytest.raises(EventError):
        decode_addressed(encode("uid", ttls, record.encode([EVENT, EVENT])))


def test_a_record_that_says_more_than_is_known_is_refused():
    """A newer version's: what cannot be read whole is not read in part."""
    body = encode_carried("uid", (1,), record.encode([EVENT]), CARRIED)
    for place in (1, 12):  # flags, and the length of a section that is not there yet
        with pytest.raises(EventError):
            decode_addressed(body[:place] + b"\x01" + body[place + 1 :])


def test_a_route_record_of_an_older_version_listens_at_the_default_broker():
    """And asks for no attribute."""
    found = decode_route(b'{"seq":1,"op":"put","uid":"u","revision":1}')
    assert (found.address, found.present) == ("", ())


def test_a_route_record_keeps_where_it_begins():
    """``config.start`` travels in the record that creates the route."""
    record = RouteRecord(seq=1, op="put", uid="u", revision=1, begin_ms=0)
    assert decode_route(encode_route(record)) == record


@pytest.mark.parametrize("decode", [decode_route, decode_timer_event, decode_addressed, address_of])
@given(body=st.binary(max_size=200))
def test_any_other_bytes_are_one_known_error(decode, body):
    """Whatever stands on a damaged medium."""
    with pytest.raises(EventError):
        decode(body)


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_a_damaged_body_is_read_or_refused(place):
    """A byte that is no UTF-8 in any place, which the decoder reports in its own way."""
    route = encode_route(RouteRecord(seq=1, op="put", uid="some-uid", revision=1, types=("a",)))
    for body, decode in (
        (route, decode_route),
        (encode_timer_event(TimerEvent("u", 1, 1, EVENT)), decode_timer_event),
        (encode_addressed("u", (1,), record.encode([EVENT])), decode_addressed),
        (encode_carried("u", (1,), record.encode([EVENT]), b"a: b\r\n"), decode_addressed),
    ):
        at = place % len(body)
        damaged = body[:at] + b"\xff" + body[at + 1 :]
        try:
            decode(damaged)
        except EventError:
            continue


ALONE = AddressedEvents("", (TTL_DEFAULT,), [EVENT])
RECORDS = {
    "events": (
        RecordKind.EVENTS,
        record.encode([EVENT, EVENT]),
        AddressedEvents("", (TTL_DEFAULT,) * 2, [EVENT] * 2),
    ),
    "addressed": (
        RecordKind.ADDRESSED,
        encode_addressed("x", (3,), record.encode([EVENT])),
        AddressedEvents("x", (3,), [EVENT]),
    ),
    "carried": (
        RecordKind.CARRIED,
        encode_carried("x", (3,), record.encode([EVENT]), b"a: b\r\n"),
        AddressedEvents("x", (3,), [EVENT], b"a: b\r\n"),
    ),
    "tick": (
        RecordKind.TIMER_EVENT,
        encode_timer_event(TimerEvent("u", 1, 1, EVENT)),
        ALONE._replace(route="u"),
    ),
    "route": (RecordKind.ROUTE, b"no events", None),
    "unknown": (99, b"of a later version", None),
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_any_kind_says_what_events_it_holds(name):
    """Who reads the log need not know the kinds."""
    kind, body, held = RECORDS[name]
    assert events_of(Logged(0, 0, 0, kind, body)) == held


@pytest.mark.parametrize(
    ("name", "address", "route", "seen"),
    [
        ("events", "", "u", True),
        ("events", "x", "u", False),
        ("addressed", "x", "u", True),
        ("addressed", "", "u", False),
        ("carried", "x", "u", True),
        ("carried", "y", "u", False),
        ("tick", "", "u", True),
        ("tick", "", "v", False),
        ("route", "", "u", False),
    ],
)
def test_a_route_sees_what_is_for_its_address_and_its_own_timer_events(name, address, route, seen):
    """Records that no event of is for a route are passed over."""
    kind, body, held = RECORDS[name]
    found = events_for(Logged(0, 0, 0, kind, body), address, route)
    assert found == (held if seen else None)


@pytest.mark.parametrize(
    "kind", [RecordKind.EVENTS, RecordKind.ADDRESSED, RecordKind.CARRIED, RecordKind.TIMER_EVENT]
)
def test_a_record_that_cannot_be_read_is_an_event_error(kind):
    """It was written whole, but by nobody this version knows."""
    with pytest.raises(EventError):
        events_of(Logged(0, 0, 0, kind, b"\xff"))
