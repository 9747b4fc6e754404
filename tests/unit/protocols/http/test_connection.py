"""A connection of the HTTP transport, fed by hand: no socket, no loop that runs."""

import pytest

from distributary.core.errors import TransportError
from distributary.net import is_private
from distributary.net._wheel import TICK_S, Wheel
from distributary.net.http1 import ResponseReader, limits
from distributary.protocols.http.sink._connection import (
    AGE_S_MAX,
    IDLE_S_MAX,
    KNOWN_MAX,
    RESPONSE_BYTES_MAX,
    HttpConnection,
)
from distributary.testing.virtual import VirtualClock, VirtualTimers

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Loop:
    """As much of an event loop as the wheel uses, in virtual time."""

    def __init__(self, timers):
        self._timers = timers
        self.call_later = timers.call_later

    def call_soon(self, fn, *arguments):
        self._timers.call_later(0.0, lambda: fn(*arguments))


class Wire:
    """As much of a transport as a connection uses."""

    def __init__(self):
        self.written = []
        self.aborted = False
        self.unsent = 0

    def write(self, piece):
        self.written.append(piece)

    def writelines(self, pieces):
        self.written.extend(pieces)

    def is_closing(self):
        return self.aborted

    def get_write_buffer_size(self):
        return self.unsent

    def get_extra_info(self, _name):
        return "93.184.216.34", 80

    def abort(self):
        self.aborted = True


class Bench:
    """A connection with what is around it."""

    def __init__(self, *, bodiless=False, timeout_s=10.0, reply_room=None):
        self.clock = VirtualClock()
        self.timers = VirtualTimers(self.clock)
        self.wheel = Wheel(Loop(self.timers), self.clock.monotonic_s)
        self.known = {}
        self.reply_share = reply_room
        self.freed = 0
        self.lost = 0
        self.answers = []
        self.wire = Wire()
        self.connection = HttpConnection(
            self, self.wheel, (b"one",), timeout_s, self.answers.append, bodiless=bodiless
        )

    def quotes(self, peer):
        return not is_private(peer)

    def free(self, _connection):
        self.freed += 1

    def gone(self, _connection):
        self.lost += 1

    def made(self):
        self.connection.connection_made(self.wire)
        return self

    def feed(self, *pieces):
        for piece in pieces:
            self.connection.data_received(piece)

    def again(self, timeout_s=10.0):
        due_s = self.clock.monotonic_s() + timeout_s
        self.connection.start((b"next",), due_s, self.answers.append, bodiless=False)


@pytest.fixture
def bench():
    """A connection that has been made, with one request under way."""
    return Bench().made()


def test_writes_the_first_request_once_connected():
    """Not before, and once."""
    bench = Bench()
    assert bench.wire.written == []
    bench.made()
    assert bench.wire.written == [b"one"]


def test_answers_and_goes_back_to_its_home(bench):
    """A whole response ends the attempt and frees the connection."""
    bench.feed(OK)
    assert [answer.status for answer in bench.answers] == [200]
    assert (bench.freed, bench.lost) == (1, 0)
    assert bench.connection.usable


def test_a_known_response_means_what_it_meant(bench):
    """The parser is asked once; whole, cut and known responses give equal replies."""
    bench.feed(OK)
    for pieces in ([OK], [OK[:10], OK[10:]], [OK]):
        bench.again()
        bench.feed(*pieces)
    assert len(bench.answers) == 4
    assert len(set(bench.answers)) == 1
    assert list(bench.known) == [OK]


def test_a_piece_of_a_response_is_not_taken_for_a_known_one(bench):
    """A response may end like one that is known."""
    bench.feed(OK)
    bench.again()
    bench.feed(b"HTTP/1.1 500 No\r\ncontent-length: %d\r\n\r\n" % len(OK))
    assert len(bench.answers) == 1
    bench.feed(OK)
    assert bench.answers[1].status == 500


def test_remembers_no_errors_and_not_too_many_responses(bench):
    """Bounded: the memory of one address stays small."""
    for number in range(KNOWN_MAX * 3):
        bench.feed(b"HTTP/1.1 200 OK\r\nx: %d\r\ncontent-length: 0\r\n\r\n" % number)
        assert len(bench.known) <= KNOWN_MAX
        bench.again()
    bench.known.clear()
    bench.feed(b"HTTP/1.1 503 No\r\nretry-after: 1\r\ncontent-length: 0\r\n\r\n")
    assert bench.known == {}


def test_closes_when_something_comes_unasked(bench):
    """A response to nothing would be taken for the next answer."""
    bench.feed(OK)
    bench.feed(OK)
    assert bench.wire.aborted
    assert len(bench.answers) == 1
    assert not bench.connection.usable


@pytest.mark.parametrize("known", [False, True], ids=["first response", "known response"])
def test_an_answer_before_the_request_has_left_counts_and_ends_the_connection(bench, known):
    """Else requests to a sink that answers without reading would collect in the memory."""
    if known:
        bench.feed(OK)
        bench.again()
    kept = bench.freed
    bench.wire.unsent = 1
    bench.feed(OK)
    assert [answer.status for answer in bench.answers] == [200] * (1 + known)
    assert not any(answer.cut for answer in bench.answers)
    assert (bench.freed, bench.lost) == (kept, 1)
    assert bench.wire.aborted
    assert not bench.connection.usable


def test_an_upgrade_is_an_answer_and_the_end_of_the_connection(bench):
    """101 was not asked for; nothing after it is read."""
    bench.feed(b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nbytes")
    assert [answer.status for answer in bench.answers] == [101]
    assert bench.wire.aborted


def test_the_response_to_head_has_no_body():
    """Whatever its headers say; the connection is not used again."""
    bench = Bench(bodiless=True).made()
    bench.feed(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    assert [answer.status for answer in bench.answers] == [200]
    assert bench.wire.aborted


def test_says_that_an_answer_was_cut_off(bench):
    """S3: the status decides, the connection goes, and the queue is told what it cost."""
    bench.feed(b"HTTP/1.1 200 OK\r\n\r\n")
    assert not bench.answers
    bench.feed(b"x" * (RESPONSE_BYTES_MAX + 1))
    assert [(answer.status, answer.cut) for answer in bench.answers] == [(200, True)]
    assert bench.wire.aborted


def test_an_answer_that_was_read_to_its_end_is_not_cut_off(bench):
    """However large it may be below the limit."""
    size = RESPONSE_BYTES_MAX // 2
    bench.feed(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"x" * size)
    assert [(answer.status, answer.cut) for answer in bench.answers] == [(200, False)]
    assert not bench.wire.aborted


def test_trailers_change_nothing(bench):
    """What follows the body is not a header of the response."""
    bench.feed(
        b"HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\nretry-after: 5\r\n\r\n"
    )
    assert bench.answers[0].retry_after is None
    assert bench.answers[0].body == b"abc"


def test_interim_responses_without_end_are_cut_off(bench):
    """They count as head, which has a limit."""
    for _ in range(limits.RESPONSE_HEAD_BYTES_MAX // 25 + 2):
        bench.feed(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert bench.answers[0].reason == "protocol"
    assert len(bench.answers) == 1


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
FIELDS = limits.RESPONSE_FIELD_COUNT_MAX
PIECES = limits.RESPONSE_PIECES_MAX


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * (FIELDS - 1) + b"content-length: 0\r\n\r\n", 200),
        (b"HTTP/1.1 200 OK\r\n" + b"a:\r\n" * 16_000 + b"\r\n", "protocol"),
        (b"HTTP/1.1 100 Go on\r\n\r\n" * limits.RESPONSE_INTERIM_COUNT_MAX + OK, 200),
        (b"HTTP/1.1 100 Go on\r\n\r\n" * 3_000 + OK, "protocol"),
        (CHUNKED + b"1\r\nx\r\n" * PIECES + b"0\r\n\r\n", 200),
        (CHUNKED + b"1\r\nx\r\n" * 40_000 + b"0\r\n\r\n", "cut"),
        (CHUNKED + (b"3a\r\n" + b"x" * 0x3A + b"\r\n") * 3_000 + b"0\r\n\r\n", 200),
        (CHUNKED + b"0\r\n" + b"a:\r\n" * 16_000 + b"\r\n", "cut"),
    ],
    ids=[
        *("many fields", "too many fields", "interim", "too much interim"),
        *("small pieces", "too many small pieces", "pieces of 64 bytes", "trailers"),
    ],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["in one read", "in many"])
def test_a_response_of_very_many_parts_is_not_parsed_to_its_end(bench, response, answer, at_once):
    """Each part costs the loop as much as an event; where the status is known, it counts."""
    size = len(response) if at_once else 1_000
    for start in range(0, len(response), size):
        if not bench.answers:
            bench.feed(response[start : start + size])
    assert len(bench.answers) == 1
    if answer == "protocol":
        assert bench.answers[0].reason == answer
    else:
        assert (bench.answers[0].status, bench.answers[0].cut) == (200, answer == "cut")
    assert bench.wire.aborted == (answer != 200)


def test_a_stream_of_events_may_have_any_number_of_pieces():
    """As one that the proxy to the control process passes on."""
    reader = ResponseReader()
    reader.feed(CHUNKED)
    assert len(reader.feed(b"1\r\nx\r\n" * 40_000)) == 40_000


@pytest.mark.parametrize("timeout_s", [0.05, 0.3, 1.0, 7.0, 30.0])
def test_keeps_the_deadline_to_within_a_tenth_of_a_second(timeout_s):
    """Never early, at most two ticks late."""
    bench = Bench(timeout_s=timeout_s).made()
    bench.timers.advance(timeout_s - 0.001)
    assert bench.answers == []
    bench.timers.advance(2 * TICK_S + 0.001)
    assert bench.answers[0].reason == "timeout"
    assert bench.wire.aborted


def test_a_shorter_deadline_after_a_longer_one_is_kept(bench):
    """The wheel is told when a deadline moves forward."""
    bench.feed(OK)
    bench.again(timeout_s=0.5)
    bench.timers.advance(0.61)
    assert bench.answers[1].reason == "timeout"


def test_a_deadline_that_moved_back_is_not_kept_early(bench):
    """A place in the wheel that has become useless does no harm."""
    for _ in range(20):
        bench.timers.advance(4.0)
        bench.feed(OK)
        bench.again()
    assert [answer.status for answer in bench.answers] == [200] * 20
    bench.timers.advance(10.2)
    assert bench.answers[20].reason == "timeout"


def test_a_loop_that_was_held_up_reads_before_it_gives_up(bench):
    """What came in meanwhile counts, if it is read within a tick."""
    bench.timers.advance(9.0)
    bench.clock.move_to(12.0)  # the loop stood still across the deadline
    bench.timers.advance(0.01)
    assert bench.answers == []
    bench.feed(OK)
    assert bench.answers[0].status == 200


def test_an_idle_connection_is_closed_in_time(bench):
    """Before the sink closes it."""
    bench.feed(OK)
    bench.timers.advance(IDLE_S_MAX - 1)
    assert not bench.wire.aborted
    bench.timers.advance(1.2)
    assert bench.wire.aborted
    assert bench.lost == 1
    bench.timers.run_until_idle(1000.0)
    assert bench.clock.monotonic_s() < 200  # the wheel has stopped turning


def test_an_old_connection_is_not_used_again(bench):
    """So a name that moved is looked up again."""
    for _ in range(int(AGE_S_MAX / 5) - 1):
        bench.timers.advance(5.0)
        bench.feed(OK)
        bench.again()
    assert not bench.wire.aborted
    bench.timers.advance(6.0)
    bench.feed(OK)
    assert bench.wire.aborted
    assert bench.answers[-1].status == 200


def test_failing_twice_answers_once(bench):
    """Close, loss and failure may come in any order."""
    bench.connection.fail(TransportError("closed", "x"))
    bench.connection.connection_lost(None)
    bench.connection.fail(TransportError("closed", "x"))
    assert len(bench.answers) == 1
    assert bench.lost == 1


def test_a_connection_that_is_made_too_late_is_closed():
    """Its attempt has ended already."""
    bench = Bench(timeout_s=1.0)
    bench.timers.advance(1.2)
    assert bench.answers[0].reason == "timeout"
    bench.made()
    assert bench.wire.aborted
    assert bench.wire.written == []


def test_useless_places_in_the_wheel_are_forgotten(bench):
    """Deadlines that jump about leave no more than seconds' worth of places."""
    places = []
    for turn in range(600):
        bench.feed(OK)
        bench.again(timeout_s=0.5 if turn % 2 else 30.0)
        bench.timers.advance(0.1)
        places.append(sum(map(len, bench.wheel._slots.values())))
    assert max(places) <= 10
