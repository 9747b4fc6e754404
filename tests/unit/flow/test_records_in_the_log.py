"""Bodies of log records: what is written is read, and other bytes are refused with one error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import EventError
from distributary.event import Event
from distributary.flow import (
    RouteRecord,
    Tick,
    decode_route,
    decode_tick,
    encode_route,
    encode_tick,
)

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, b'{"n": 1}')


def test_a_tick_is_read_as_it_was_written():
    """Route, revision, number and event."""
    tick = Tick("uid", 3, 17, EVENT)
    assert decode_tick(encode_tick(tick)) == tick


def test_a_route_record_keeps_where_it_begins():
    """``config.start`` travels in the record that creates the route."""
    record = RouteRecord(seq=1, op="put", uid="u", revision=1, begin_ms=0)
    assert decode_route(encode_route(record)) == record


@pytest.mark.parametrize("decode", [decode_route, decode_tick])
@given(body=st.binary(max_size=200))
def test_any_other_bytes_are_one_known_error(decode, body):
    """Whatever stands on a damaged medium."""
    with pytest.raises(EventError):
        decode(body)


@pytest.mark.parametrize("place", range(0, 60, 3))
def test_a_damaged_body_is_read_or_refused(place):
    """A byte that is no UTF-8 in any place, which the decoder reports in its own way."""
    record = encode_route(RouteRecord(seq=1, op="put", uid="some-uid", revision=1, types=("a",)))
    for body, decode in (
        (record, decode_route),
        (encode_tick(Tick("u", 1, 1, EVENT)), decode_tick),
    ):
        at = place % len(body)
        damaged = body[:at] + b"\xff" + body[at + 1 :]
        try:
            decode(damaged)
        except EventError:
            continue
