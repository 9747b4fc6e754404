"""Whatever bytes a sink sends, in whatever pieces: one answer, and the right one."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.core.errors import TransportError
from distributary.core.policy import Reply
from distributary.net._wheel import Wheel
from distributary.protocols.http.sink._connection import HttpConnection
from distributary.testing.virtual import VirtualClock, VirtualTimers


class Around:
    """Home, loop and wire of a connection in one."""

    def __init__(self):
        clock = VirtualClock()
        self.call_later = VirtualTimers(clock).call_later
        self.known = {}
        self.reply_share = None
        self.answers = []
        self.aborted = False
        self.connection = HttpConnection(
            self, Wheel(self, clock.monotonic_s), (b"x",), 10.0, self.answers.append, bodiless=False
        )
        self.connection.connection_made(self)

    def quotes(self, _peer):
        return True

    def get_extra_info(self, _name):
        return None

    def free(self, connection):
        pass

    gone = free
    write = free

    def is_closing(self):
        return self.aborted

    def get_write_buffer_size(self):
        return 0

    def abort(self):
        self.aborted = True

    def feed(self, pieces):
        for piece in pieces:
            if piece and not self.aborted:
                self.connection.data_received(piece)

    def end(self):
        self.connection.connection_lost(None)


def cut(data, places):
    """*data* in pieces."""
    marks = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[a:b] for a, b in itertools.pairwise(marks)]


bodies = st.binary(max_size=2000)
values = st.text("abcXYZ0189 ;=/-", min_size=1, max_size=20).map(str.strip).filter(bool)


@st.composite
def responses(draw):
    """A well-formed response, and the reply that it is."""
    status = draw(st.integers(200, 599).filter(lambda status: status not in (204, 304)))
    body = draw(bodies)
    content_type = draw(st.none() | values)
    retry_after = draw(st.none() | values)
    lines = [f"HTTP/1.1 {status} Reason"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    if retry_after is not None:
        lines.append(f"RETRY-AFTER:{retry_after}")
    if draw(st.booleans()):
        lines.append(f"Content-Length: {len(body)}")
        framed = body
    else:
        lines.append("Transfer-Encoding: chunked")
        step = draw(st.integers(1, 500))
        pieces = [body[at : at + step] for at in range(0, len(body), step)]
        framed = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"
    head = "\r\n".join(lines).encode() + b"\r\n\r\n"
    kept = b"" if status < 300 else body[:1024]
    return head + framed, Reply(status, retry_after, content_type, kept)


places = st.lists(st.integers(0, 5000), max_size=12)


@given(st.lists(st.tuples(responses(), places), min_size=1, max_size=4))
def test_the_same_reply_however_the_response_is_cut(exchanges):
    """On one connection, one response after the other, known or not."""
    around = Around()
    for number, ((response, reply), where) in enumerate(exchanges):
        if number:
            around.connection.start((b"y",), 10.0, around.answers.append, bodiless=False)
        around.feed(cut(response, where))
        assert around.answers[number:] == [reply]
        assert not around.aborted


@given(responses(), st.integers(0, 3000))
def test_a_response_that_is_cut_off_is_a_reset(exchange, length):
    """Never a reply made of half a response."""
    response, _ = exchange
    around = Around()
    around.feed([response[: min(length, len(response) - 1)]])
    around.end()
    (answer,) = around.answers
    assert isinstance(answer, TransportError)
    assert answer.reason == "reset"


mutants = st.one_of(
    st.binary(max_size=300),
    st.tuples(responses(), st.integers(0, 3000), st.binary(max_size=6)).map(
        lambda parts: parts[0][0][: parts[1]] + parts[2] + parts[0][0][parts[1] + len(parts[2]) :]
    ),
)


@settings(max_examples=300)
@given(st.lists(mutants, max_size=3), places)
def test_any_bytes_give_one_answer(messages, where):
    """Garbage, mutated and surplus responses: one answer a request, no exception."""
    around = Around()
    around.feed(cut(b"".join(messages), where))
    around.end()
    assert len(around.answers) == 1
    assert isinstance(around.answers[0], Reply | TransportError)
    if isinstance(around.answers[0], Reply):
        assert 100 <= around.answers[0].status <= 999
