"""Replies in the answers to the HTTP transport: what is one, how much is read, what it costs."""

import tracemalloc

import pytest

from distributary.core.deliver import SATURATED
from distributary.core.errors import TransportError
from distributary.core.event import Event
from distributary.core.policy import Reply
from distributary.net import is_private
from distributary.net._wheel import Wheel
from distributary.protocols.http import binding as http
from distributary.protocols.http.sink import _connection, _incoming
from distributary.protocols.http.sink._connection import HttpConnection
from distributary.protocols.http.sink._incoming import REPLY_BYTES_MAX, Room, Share
from distributary.testing.virtual import VirtualClock, VirtualTimers

EVENT = Event(
    {
        "specversion": "1.0",
        "id": "r1",
        "source": "/sink",
        "type": "reply",
        "datacontenttype": "application/json",
    },
    b'{"a": 1}',
)
PLAIN = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Loop:
    """As much of an event loop as the wheel uses, in virtual time."""

    def __init__(self, timers):
        self.call_later = timers.call_later

    def call_soon(self, fn, *arguments):
        self.call_later(0.0, lambda: fn(*arguments))


class Wire:
    """As much of a transport as a connection uses."""

    aborted = False

    def write(self, _piece):
        pass

    def is_closing(self):
        return self.aborted

    def get_write_buffer_size(self):
        return 0

    def get_extra_info(self, _name):
        return "93.184.216.34", 80

    def abort(self):
        self.aborted = True


class Bench:
    """A connection with one request under way that wants a reply, or does not."""

    def __init__(self, room=None, *, wants_reply=True):
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.known = {}
        self.reply_share = Share(room or Room()) if wants_reply else None
        self.answers = []
        wheel = Wheel(Loop(self.timers), self.clock.monotonic_s)
        self.connection = HttpConnection(
            self, wheel, (b"one",), 1.0, self.answers.append, bodiless=False
        )
        self.connection.connection_made(Wire())

    def quotes(self, peer):
        return not is_private(peer)

    def free(self, _connection):
        pass

    def gone(self, _connection):
        pass

    def feed(self, *pieces):
        for piece in pieces:
            self.connection.data_received(piece)
        return self.answers[-1] if self.answers else None

    def again(self):
        self.connection.start((b"next",), 1.0, self.answers.append, bodiless=False)


@pytest.fixture
def bench():
    """A connection whose sink is asked for a reply."""
    return Bench()


def binary(event=EVENT, status=200, framing=None):
    """An answer that is *event* in binary mode."""
    fields, body = http.encode_binary(event)
    framing = b"content-length: %d\r\n" % len(body) if framing is None else framing
    return b"HTTP/1.1 %d X\r\n%b%b\r\n%b" % (status, framing, fields, body)


def structured(body, content_type=b"application/cloudevents+json"):
    """An answer with that body."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n"
    return head % (content_type, len(body)) + body


@pytest.mark.parametrize("status", [200, 201, 204 + 2, 299])
def test_an_event_in_a_success_is_a_reply(bench, status):
    """Any 2xx but 202, in binary mode; the connection is used again."""
    answer = bench.feed(binary(status=status))
    assert (answer.status, answer.event, answer.event_fault) == (status, EVENT, None)
    assert bench.connection.usable


def test_a_structured_event_is_a_reply(bench):
    """The other content mode, with a charset and in another case."""
    body = http.encode_structured(EVENT)[1]
    assert bench.feed(structured(body, b"Application/CloudEvents+JSON; charset=utf-8")).event == (
        EVENT
    )


@pytest.mark.parametrize(("coding", "taken"), [(b"gzip", False), (b"Identity", True)])
def test_a_compressed_reply_is_no_event(bench, coding, taken):
    """Its body is not the data that its content type declares: it would be routed as such."""
    answer = bench.feed(binary().replace(b"\r\n", b"\r\ncontent-encoding: %b\r\n" % coding, 1))
    assert answer.event == (EVENT if taken else None)
    assert (answer.event_fault or "").startswith("" if taken else "the reply is compressed")
    assert bench.connection.usable


def test_a_reply_may_come_in_any_pieces(bench):
    """Byte by byte, and then the next one on the same connection."""
    for _ in range(2):
        for byte in binary():
            bench.feed(bytes([byte]))
        assert bench.answers.pop().event == EVENT
        bench.again()


def test_chunks_and_interim_responses_are_understood(bench):
    """Header fields of an interim response are not those of the reply."""
    fields, body = http.encode_binary(EVENT)
    interim = b"HTTP/1.1 103 Hints\r\nce-id: other\r\nce-specversion: 9\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n%b\r\n" % fields
    chunks = b"".join(b"1\r\n%b\r\n" % bytes([byte]) for byte in body)
    assert bench.feed(interim, head + chunks + b"0\r\n\r\n").event == EVENT


def test_a_reply_may_end_with_its_connection(bench):
    """HTTP/1.0 framing."""
    bench.feed(binary(framing=b""))
    assert not bench.answers
    bench.connection.connection_lost(None)
    assert bench.answers[0].event == EVENT


def test_an_event_without_data_is_a_reply(bench):
    """It has header fields, and that is all."""
    event = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}, None)
    assert bench.feed(binary(event)).event == event


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(PLAIN, id="a-page"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", id="nothing"),
        pytest.param(binary(status=202), id="accepted"),
        pytest.param(
            b"HTTP/1.1 200 OK\r\nce-id: 1\r\ncontent-length: 0\r\n\r\n", id="no-specversion"
        ),
        pytest.param(structured(b"{}", b"application/json"), id="json"),
    ],
)
def test_what_does_not_say_that_it_is_an_event_is_no_reply(bench, answer):
    """A delivery without a reply, and nothing to complain of (decision 14)."""
    reply = bench.feed(answer)
    assert isinstance(reply, Reply)
    assert (reply.event, reply.event_fault) == (None, None)


@pytest.mark.parametrize("status", [300, 400, 404, 503])
def test_an_event_in_a_failure_is_its_body(bench, status):
    """The answer says no; what came is kept for the dead letter."""
    reply = bench.feed(binary(status=status))
    assert (reply.event, reply.event_fault) == (None, None)
    assert reply.body == EVENT.data


@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (b"HTTP/1.1 200 OK\r\nce-specversion: 1.0\r\ncontent-length: 0\r\n\r\n", "ce-id"),
        (b"HTTP/1.1 200 OK\r\nce-specversion: 9\r\ncontent-length: 0\r\n\r\n", "specversion"),
        (structured(b"{"), "$"),
        (structured(b"\xff"), "$"),
        (structured(b"", b"application/cloudevents+xml"), "content-type"),
        (structured(b"[]", b"application/cloudevents-batch+json"), "batch"),
        (
            structured(
                b"[" + http.encode_structured(EVENT)[1] + b"]",
                b"application/cloudevents-batch+json",
            ),
            "batch",
        ),
    ],
    ids=["no-id", "version", "json", "utf-8", "xml", "empty-batch", "batch"],
)
def test_what_says_that_it_is_an_event_and_is_none_is_told(bench, answer, fault):
    """The delivery stands; the fault is for people, and bounded."""
    reply = bench.feed(answer)
    assert reply.status == 200
    assert reply.event is None
    assert fault in reply.event_fault
    assert len(reply.event_fault) <= _incoming.FAULT_CHARS_MAX


def test_nothing_is_a_reply_where_none_is_wanted():
    """Not read, not kept: not even counted against the room."""
    bench = Bench(wants_reply=False)
    reply = bench.feed(binary())
    assert (reply.event, reply.event_fault) == (None, None)


def test_answers_without_an_event_are_remembered_and_replies_are_not(bench):
    """The usual answer costs a look-up; a reply is another each time."""
    bench.feed(PLAIN)
    assert list(bench.known) == [PLAIN]
    bench.again()
    bench.feed(binary())
    assert list(bench.known) == [PLAIN]


@pytest.mark.parametrize("over", [0, 1])
def test_a_reply_has_a_longest_body(over):
    """At the limit it is one; above it is a fault, and nothing of it is kept."""
    room = Room()
    bench = Bench(room)
    event = Event(dict(EVENT.attributes), b"x" * (REPLY_BYTES_MAX + over))
    whole = binary(event)
    for at in range(0, len(whole), 65_536):
        if not bench.connection.closed:
            bench.feed(whole[at : at + 65_536])
    (reply,) = bench.answers
    assert (reply.event == event) == (not over)
    assert bool(reply.event_fault) == bool(over)
    assert room.free == _incoming.REPLIES_BYTES_MAX


def test_a_reply_in_endless_small_chunks_ends():
    """What is around the body counts as well."""
    bench = Bench()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nce-specversion: 1.0\r\n\r\n"
    bench.feed(head)
    piece = b"1;" + b"x" * 1_000 + b"\r\na\r\n"
    for _ in range(_connection.REPLY_RESPONSE_BYTES_MAX // len(piece) + 1):
        if not bench.answers:
            bench.feed(piece)
    (reply,) = bench.answers
    assert reply.cut
    assert "longer" in reply.event_fault


def test_replies_of_all_connections_share_their_room():
    """One that finds none fails its attempt, which is made again; the room comes back."""
    room = Room(2 * len(EVENT.data))
    first, second = Bench(room), Bench(room)
    second.reply_share = first.reply_share
    whole = binary()
    first.feed(whole[:-1])
    refused = second.feed(whole)
    assert isinstance(refused, TransportError)
    assert (refused.reason, refused.retryable) == (SATURATED, True)
    assert first.feed(whole[-1:]).event == EVENT
    third = Bench(room)
    assert third.feed(whole).event == EVENT
    assert room.free == 2 * len(EVENT.data)


def test_slow_replies_of_one_sink_leave_room_for_those_of_others():
    """It holds as much as is still free, on however many connections."""
    room = Room(10 * len(EVENT.data))
    slow = Bench(room)
    others = []
    for _ in range(10):
        other = Bench(room)
        other.reply_share = slow.reply_share
        other.feed(binary()[:-1])
        others.append(other)
    refused = [other for other in others if other.answers]
    assert 0 < len(refused) < 10
    assert {other.answers[0].reason for other in refused} == {SATURATED}
    assert Bench(room).feed(binary()).event == EVENT
    for other in others:
        other.connection.close()
    assert room.free == 10 * len(EVENT.data)


@pytest.mark.parametrize("size", [1, 2])
def test_a_reply_in_tiny_chunks_holds_what_it_counts(size):
    """Not an object for each of them: that would be twenty times as much."""
    bench = Bench()
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nce-specversion: 1.0\r\n\r\n"
    bench.feed(head)
    pieces = (b"%x\r\n%b\r\n" % (size, b"x" * size)) * 1_000
    tracemalloc.start()
    bench.feed(*[pieces] * 50)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not bench.answers
    assert held < 2 * 50_000 * size + 20_000


@pytest.mark.parametrize("ending", ["reset", "timeout", "closed"])
def test_the_beginning_of_a_reply_is_no_delivery(ending):
    """It may have brought an event: the attempt is made again, and the room comes back."""
    room = Room()
    bench = Bench(room)
    bench.feed(binary()[:-1])
    assert room.free < _incoming.REPLIES_BYTES_MAX
    if ending == "reset":
        bench.connection.connection_lost(ConnectionResetError())
    elif ending == "timeout":
        bench.timers.advance(2.0)
    else:
        bench.connection.fail(TransportError("closed", "The transport was closed"))
    (answer,) = bench.answers
    assert isinstance(answer, TransportError)
    assert answer.reason == ending
    assert room.free == _incoming.REPLIES_BYTES_MAX


def test_a_page_without_end_is_cut_off_as_before(bench):
    """It is no reply: the status decides."""
    bench.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 9999999\r\n\r\n", b"x" * 300_000)
    (reply,) = bench.answers
    assert reply.cut
    assert (reply.event, reply.event_fault) == (None, None)
