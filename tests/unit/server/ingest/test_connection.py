"""How a connection lives and ends: order, persistence, deadlines, backpressure, shutdown."""

import pytest

from distributary.core.errors import LogUnavailableError
from distributary.server.ingest import _limits

OPTIONS = b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n"


def test_answers_keep_the_order_of_requests(client, event):
    """A later append that is durable first waits for the earlier one."""
    client.appends.held = True
    client.send(event() + event() + OPTIONS)
    client.appends.settle(1, LogUnavailableError("full"))
    assert client.answers() == []
    client.appends.settle(0)
    assert [answer.status for answer in client.answers()] == [202, 503, 200]


def test_pipelining_is_bounded_and_goes_on(client, event):
    """Reading pauses at the bound, the rest stays in the kernel, and all is answered."""
    client.appends.held = True
    count = _limits.PIPELINED_MAX + 10
    client.send(event() * count)
    assert len(client.appends.received) == _limits.PIPELINED_MAX
    assert not client.transport.reading
    client.appends.settle(0)
    assert len(client.appends.received) == _limits.PIPELINED_MAX + 1
    while client.appends.waiting:
        client.appends.settle(0)
    assert [answer.status for answer in client.answers()] == [202] * count
    assert client.transport.reading


def test_http_1_0_ends_after_its_answer(client, event):
    """Without keep-alive an HTTP/1.0 connection is closed."""
    (answer,) = client.send(event(version=b"1.0"))
    assert answer.fields[b"connection"] == b"close"
    assert client.transport.closed


def test_http_1_0_with_keep_alive_goes_on(client, event):
    """The answer says keep-alive."""
    sent = event(more=b"connection: Keep-Alive\r\n", version=b"1.0")
    (answer,) = client.send(sent)
    assert answer.fields[b"connection"] == b"keep-alive"
    assert client.statuses(sent) == [202]


@pytest.mark.parametrize(
    "lines",
    [
        b"connection: close\r\n",
        b"connection: x, CLOSE\r\n",
        b"connection: close\r\nconnection: keep-alive\r\n",
        b"connection: keep-alive\r\nconnection: close\r\n",
    ],
)
def test_close_is_honoured(client, event, lines):
    """Connection: close in any form ends the connection after the answer."""
    (answer,) = client.send(event(more=lines) + event())
    assert answer.fields[b"connection"] == b"close"
    assert client.ended


def test_close_after_a_body_in_pieces_needs_no_lingering(client, event):
    """All was read: the connection is closed at once."""
    sent = event(b"abc", more=b"connection: close\r\n")
    assert client.statuses(sent[:-1], sent[-1:]) == [202]
    assert client.transport.closed


def test_a_closed_connection_waits_for_its_durable_answer(client, event):
    """Close does not overtake the log."""
    client.appends.held = True
    client.send(event(more=b"connection: close\r\n"))
    assert not client.ended
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202]
    assert client.transport.closed


def test_100_is_sent_when_the_body_is_waited_for(client, event):
    """Expect: 100-continue gets its interim answer once, then the final one."""
    sent = event(b"abc", more=b"expect: 100-continue\r\n")
    client.connection.data_received(sent[:-3])
    assert bytes(client.transport.written) == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.transport.written.clear()
    assert client.statuses(sent[-3:-1], sent[-1:]) == [202]


def test_100_is_not_sent_when_the_body_is_here(client, event):
    """A body that came along needs no invitation."""
    assert client.statuses(event(b"abc", more=b"expect: 100-continue\r\n")) == [202]


def test_100_is_not_sent_when_the_body_has_begun(client, event):
    """A client that has begun its body does not wait."""
    sent = event(b"abc", more=b"expect: 100-continue\r\n")
    assert client.statuses(sent[:-2], sent[-2:]) == [202]


def test_100_waits_for_earlier_answers(client, event):
    """The interim answer of the second request does not overtake the first's."""
    client.appends.held = True
    second = event(b"abc", more=b"expect: 100-continue\r\n")
    client.send(event(), second[:-3])
    assert client.transport.written == b""
    client.appends.settle()
    assert bytes(client.transport.written).endswith(b"HTTP/1.1 100 Continue\r\n\r\n")


def test_a_refused_request_gets_no_100(client, post):
    """The final answer comes instead (413), so the client need not send its body."""
    lines = b"expect: 100-continue\r\ncontent-length: 99999999\r\n"
    assert client.statuses(post(lines)) == [413]


def test_a_refused_body_is_skipped(client, event):
    """503 comes before the body; the body is thrown away as it comes, the connection goes on."""
    client.appends.open = False
    sent = event(b"POST /events HTTP/1.1\r\n\r\n")
    assert client.statuses(sent[:-10]) == [503]
    client.appends.open = True
    assert client.statuses(sent[-10:-5], sent[-5:] + event()) == [202]
    assert len(client.appends.received) == 1
    assert client.context.counters.held_bytes == 0


def test_a_refused_body_that_never_comes_ends_the_connection(client, event):
    """It was answered, so there is no 408; but it has the deadlines of a body."""
    client.appends.open = False
    client.send(event(b"x" * 100_000)[:-10])
    assert client.wait(_limits.BODY_DEADLINE_S - 0.01) == []
    assert not client.ended
    assert client.wait(0.01) == []
    assert client.ended


@pytest.mark.parametrize("here", [True, False], ids=["body is here", "body is not here"])
def test_a_refused_request_that_expects_100_ends_the_connection(client, event, here):
    """Whether such a client sends its body after a final answer is unknown."""
    client.appends.open = False
    sent = event(b"abc", more=b"expect: 100-continue\r\n")
    assert client.statuses(sent if here else sent[:-3]) == [503]
    assert client.ended


@pytest.mark.parametrize(
    ("seconds", "ended"),
    [(_limits.IDLE_S - 0.01, False), (_limits.IDLE_S, True)],
    ids=["before", "at"],
)
def test_an_idle_connection_is_closed(client, event, seconds, ended):
    """After 60 s without a request, silently."""
    client.send(event())
    assert client.wait(seconds) == []
    assert client.ended is ended


@pytest.mark.parametrize(
    ("seconds", "statuses"),
    [(_limits.HEAD_DEADLINE_S - 0.01, []), (_limits.HEAD_DEADLINE_S, [408])],
    ids=["before", "at"],
)
def test_a_slow_header_is_408(client, seconds, statuses):
    """10 s from its first byte, however often bytes drip in (H5)."""
    client.send(b"POST /eve")
    client.clock.now_s += seconds / 2
    client.send(b"nts")
    assert [answer.status for answer in client.wait(seconds / 2)] == statuses


def test_every_request_has_its_own_deadline(client, event):
    """A connection that always has half of the next request is not slow."""
    sent = event() * 30
    for at in range(0, len(sent), 100):
        client.clock.now_s += 1
        answers = client.send(sent[at : at + 100]) + client.wait(0)
        assert all(answer.status == 202 for answer in answers)
    assert not client.ended


@pytest.mark.parametrize(
    ("seconds", "statuses"),
    [(_limits.BODY_DEADLINE_S - 0.01, []), (_limits.BODY_DEADLINE_S, [408])],
    ids=["before", "at"],
)
def test_a_slow_body_is_408(client, event, seconds, statuses):
    """30 s from the end of the header, at whatever rate."""
    sent = event(b"x" * 500_000)
    client.send(sent[:-10])
    client.clock.now_s += seconds
    assert [answer.status for answer in client.wait(0)] == statuses


@pytest.mark.parametrize(("body_bytes", "statuses"), [(6143, [408]), (6144, [])])
def test_a_body_below_the_minimum_rate_is_408(client, event, body_bytes, statuses):
    """1 KiB/s on average, once the first 5 s are over."""
    sent = event(b"x" * 10_000)
    head = sent.index(b"\r\n\r\n") + 4
    client.send(sent[: head + body_bytes])
    assert client.wait(_limits.BODY_RATE_GRACE_S - 0.01) == []
    client.clock.now_s += 1.01
    assert [answer.status for answer in client.wait(0)] == statuses


def test_no_deadline_runs_while_the_log_works(client, event):
    """A slow disk is not the client's fault."""
    client.appends.held = True
    client.send(event(), event()[:30])
    assert client.wait(3600) == []
    assert not client.ended


def test_a_client_that_reads_nothing_is_cut_off(client, event):
    """Its requests are not read, and after 30 s it is cut."""
    client.connection.pause_writing()
    client.send(event())
    assert not client.transport.reading
    assert client.appends.received == []
    client.wait(_limits.WRITE_STALL_S - 0.01)
    assert not client.transport.closed
    client.wait(0.01)
    assert client.transport.aborted
    assert client.context.counters.connections_cut == 1


def test_a_client_that_reads_again_goes_on(client, event):
    """What was sent meanwhile is answered."""
    client.connection.pause_writing()
    client.send(event())
    client.connection.resume_writing()
    assert [answer.status for answer in client.answers()] == [202]
    assert client.transport.reading


def test_after_a_refusal_we_read_on_a_little(client):
    """The answer would be lost if we closed with bytes unread: 2 s or 4 MiB, then cut."""
    client.send(b"GET / HTTP/9\r\n\r\n")
    assert client.transport.eof_written
    assert not client.transport.closed
    client.connection.data_received(b"x" * _limits.LINGER_BYTES_MAX)
    assert not client.transport.closed
    client.connection.data_received(b"x")
    assert client.transport.aborted


def test_lingering_ends_by_itself(client):
    """A client that never closes is cut after 2 s."""
    client.send(b"GET / HTTP/9\r\n\r\n")
    client.wait(_limits.LINGER_S - 0.01)
    assert not client.transport.closed
    client.wait(0.01)
    assert client.transport.aborted


def test_a_half_closed_client_gets_its_answer(client, event):
    """Clients that shut their sending side down still wait for 202."""
    client.appends.held = True
    client.send(event())
    assert client.connection.eof_received() is True
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202]
    assert client.transport.closed


def test_the_end_of_half_a_request_is_the_end(client, event):
    """Nothing is appended of a request that breaks off."""
    client.send(event()[:-1])
    assert client.connection.eof_received() is False
    assert client.appends.received == []


def test_a_client_that_leaves_does_not_disturb_its_appends(client, event):
    """The append ends without anyone to tell, and is counted."""
    client.appends.held = True
    client.send(event(), event(b"x" * 100)[:-1])
    client.transport.close()
    assert client.context.counters.connections_open == 0
    client.appends.settle()
    assert client.context.counters.accepted_events == 1
    assert client.context.counters.held_bytes == 0


def test_new_requests_are_503_while_draining(client, event):
    """What is in flight is answered 202, what comes later 503 and close."""
    client.appends.held = True
    client.send(event())
    client.context.draining = True
    client.connection.drain()
    assert not client.ended
    client.send(event())
    client.appends.settle()
    accepted, refused = client.answers()
    assert (accepted.status, refused.status) == (202, 503)
    assert refused.fields[b"connection"] == b"close"
    assert client.ended


def test_draining_closes_what_is_idle_alone(client, event):
    """Half a request may be finished; an idle connection is closed."""
    client.send(event()[:20])
    client.context.draining = True
    client.connection.drain()
    assert not client.transport.closed
    assert client.statuses(event()[20:]) == [503]


def test_an_idle_connection_is_closed_when_draining(client, event):
    """Nothing is under way: no reason to stay."""
    client.send(event())
    client.connection.drain()
    assert client.transport.closed


def test_no_new_connection_while_draining(client, connect):
    """503, in case one slips through the listener."""
    client.context.draining = True
    late = connect(context=client.context)
    assert [answer.status for answer in late.answers()] == [503]
    assert late.transport.closed


def test_answers_are_dated_once_a_second(client, event):
    """The sweep renews the date of prebuilt answers."""
    client.clock.wall_ms = lambda: 0
    client.wait(0)
    (answer,) = client.send(event())
    assert answer.fields[b"date"] == b"Thu, 01 Jan 1970 00:00:00 GMT"
