"""Whole frames go on to proton; sessions that would end the process do not."""

import struct

import pytest

from distributary.protocols.amqp.engine import _values
from distributary.protocols.amqp.engine._frames import FRAMES_MAX, SHORT_BYTES, Frames
from distributary.protocols.amqp.engine._limits import FRAME_BYTES_MAX
from distributary.protocols.amqp.engine._values import AmqpError, Described, Symbol, ULong

HEADER = b"AMQP\x00\x01\x00\x00"
HEARTBEAT = b"\x00\x00\x00\x08\x02\x00\x00\x00"


def _frame(channel, body, kind=0):
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def _begin(answered=None, descriptor=None):
    """A ``begin``; *answered* as a ushort, which our own codec does not write."""
    first = b"\x40" if answered is None else b"\x60" + struct.pack(">H", answered)
    said = _values.encode(ULong(0x11)) if descriptor is None else descriptor
    return b"\x00" + said + _values.encode_items([first, b"\x43", b"\x43", b"\x43"])


def _end(channel):
    return _frame(channel, _values.encode(Described(ULong(0x17), [])))


def begin(channel, answered=None, **how):
    """A frame that begins a session."""
    return _frame(channel, _begin(answered), **how)


STREAM = HEADER + begin(0) + HEARTBEAT + begin(1) + _end(0) + begin(0) + HEARTBEAT


@pytest.mark.parametrize("size", [1, 3, 8, 50, 1_000])
def test_frames_come_whole_however_they_are_cut(size):
    """And nothing is lost or changed."""
    frames = Frames()
    pieces = [frames.take(STREAM[at : at + size]) for at in range(0, len(STREAM), size)]
    assert b"".join(pieces) == STREAM
    for piece in filter(None, pieces):
        assert piece.startswith(HEADER) or int.from_bytes(piece[:4]) < 100


def test_a_client_s_peer_answers_each_session_once():
    """And again when another uses its channel, though the peer may not have ended the first."""
    frames = Frames()
    frames.said(HEADER + begin(0) + begin(1))
    frames.take(begin(0, 0) + begin(1, 1))
    frames.said(_end(0) + begin(0))
    frames.take(begin(5, 0) + _end(0))
    with pytest.raises(AmqpError, match="answered"):
        frames.take(begin(6, 1))


@pytest.mark.parametrize("size", [1, 3, 10, 11, 12, 1_000])
def test_our_own_sessions_are_known_however_what_we_say_is_cut(size):
    """What proton gives to be written ends anywhere."""
    said = HEADER + HEARTBEAT + _frame(7, b"\x00\x53\x14" + bytes(50) + begin(9)) + begin(3)
    frames = Frames()
    for at in range(0, len(said), size):
        frames.said(said[at : at + size])
    frames.take(begin(0, 3))
    for channel in (7, 9):
        with pytest.raises(AmqpError, match="answered"):
            frames.take(begin(1, channel))


WIDE = b"\x80" + struct.pack(">Q", 0x11)
SYMBOLIC = _values.encode(Symbol("amqp:begin:list"))


@pytest.mark.parametrize(
    "frame",
    [
        begin(3, 0),
        begin(3, 0, kind=1),
        _frame(3, _begin(0, WIDE)),
        _frame(3, _begin(0, SYMBOLIC)),
    ],
    ids=["short", "as SASL", "wide", "symbolic"],
)
def test_a_server_s_peer_answers_none(frame):
    """There is none to be answered: proton would free one that is in use. In every spelling."""
    frames = Frames()
    frames.take(HEADER + begin(0))
    frames.said(HEADER + begin(0, 0))
    with pytest.raises(AmqpError, match="answered"):
        frames.take(frame)


@pytest.mark.parametrize(
    "raw",
    [
        begin(0) + begin(0),
        struct.pack(">I", FRAME_BYTES_MAX + 1) + bytes(4),
        b"\x00\x00\x00\x07\x02\x00\x00\x00",
        b"GET / HTTP/1.1\r\n",
        b"\x00\x00\x00\x10\x01\x00\x00\x00" + bytes(8),
        b"\x00\x00\x00\x10\xff\x00\x00\x00" + bytes(8),
        _frame(0, b"\x00\x53"),
        _frame(0, b"\x40\x53\x11\x45"),
        _frame(0, b"\x00\x40\x45"),
        _frame(0, b"\x00\x53\x11\x40"),
        _frame(0, b"\x00\x53\x11\xc0\x03\x01\xa1\x00"),
        _frame(0, b"\x00\x53\x11\xc0\x09\x01\x40"),
    ],
    ids=[
        "begun twice",
        "too large",
        "too small",
        "http",
        "inside its own head",
        "behind its end",
        "cut",
        "nothing described",
        "described by nothing",
        "no list",
        "answers a text",
        "a list that is cut",
    ],
)
def test_what_is_no_frame_or_no_session_is_refused(raw):
    """It ends the connection; proton never sees it."""
    with pytest.raises(AmqpError):
        Frames().take(raw)


def test_a_flood_of_short_frames_is_refused():
    """It would take the loop that delivers to all; a peer that keeps alive sends one in seconds."""
    frames = Frames()
    for _ in range(3):
        frames.take(HEADER + HEARTBEAT * FRAMES_MAX)
        frames.ticked()
    frames.take(HEARTBEAT * FRAMES_MAX)
    with pytest.raises(AmqpError, match="answer nothing"):
        frames.take(HEARTBEAT)


def test_frames_that_are_expected_and_long_ones_are_no_flood():
    """Outcomes of what was sent come all at once; so do messages that were asked for."""
    frames = Frames()
    frames.expect(5_000)
    frames.take(HEARTBEAT * 4_000)
    frames.ticked()
    frames.take(HEARTBEAT * (1_000 + FRAMES_MAX))
    frames.take(_frame(0, b"\x00\x53\x14" + bytes(SHORT_BYTES)) * 5_000)
    with pytest.raises(AmqpError, match="answer nothing"):
        frames.take(HEARTBEAT)
