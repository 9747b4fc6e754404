"""Requests for the control process: what it gets, what the client gets back."""

import pytest

from distributary.access import ANYBODY, encode_identity
from distributary.server.ingest import _limits
from distributary.server.ingest._proxy import AT_ONCE_BYTES

FOR_BROWSERS = {
    b"x-content-type-options": b"nosniff",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
GET = b"GET /subscriptions?limit=2 HTTP/1.1\r\nhost: localhost\r\n"


def test_the_control_process_gets_the_request_without_hop_fields(client, control):
    """Target, host and fields pass; hop-by-hop ones and secrets do not. The sender is added."""
    client.send(
        b"POST /subscriptions?x=1 HTTP/1.1\r\nhost: localhost:1\r\nauthorization: Bearer t\r\n"
        b"connection: x-private, keep-alive, host\r\nx-private: 1\r\nte: trailers\r\n"
        b"X-Distributary-Identity: {}\r\nx-distributary-other: 1\r\n"
        b"upgrade: h2c\r\nkeep-alive: 5\r\nx-forwarded-for: 192.0.2.7\r\n"
        b"transfer-encoding: chunked\r\n\r\n2;ext\r\n{}\r\n0\r\na: b\r\n\r\n"
    )
    assert control.request == (
        b"POST /subscriptions?x=1 HTTP/1.1\r\nhost: localhost:1\r\n"
        b"x-distributary-identity: " + encode_identity(ANYBODY) + b"\r\n"
        b"content-length: 2\r\nx-forwarded-for: 127.0.0.1\r\n"
        b"connection: close\r\n\r\n{}"
    )


@pytest.mark.parametrize("more", [-1, 0, 1, 100_000])
def test_the_control_process_gets_a_body_of_any_size_whole(client, control, more):
    """A large one is not copied behind its head."""
    body = b"x" * (AT_ONCE_BYTES + more)
    head = b"PUT /subscriptions/a HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
    client.send(head % len(body) + body)
    assert control.request.endswith(b"connection: close\r\n\r\n" + body)
    assert control.request.startswith(b"PUT /subscriptions/a HTTP/1.1\r\n")


def test_an_absolute_target_sets_the_host(client, control):
    """RFC 9112 3.2.2: the target's authority replaces Host."""
    client.send(b"GET http://192.0.2.1:81?q HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert control.request.startswith(b"GET /?q HTTP/1.1\r\nhost: 192.0.2.1:81\r\n")
    assert b"host: localhost" not in control.request


def test_an_answer_with_a_length_is_passed_on(client, control):
    """Status, fields and body as they came; the client's connection goes on."""
    client.send(GET + b"\r\n")
    control.answer(
        b"HTTP/1.1 201 Created\r\nserver: x\r\nconnection: close\r\ncontent-length: 3\r\n\r\na",
        b"bc",
    )
    (answer,) = client.answers()
    assert (answer.status, answer.body) == (201, b"abc")
    assert answer.fields == {b"server": b"x", b"content-length": b"3", **FOR_BROWSERS}
    assert control.upstreams[0].closed
    assert client.statuses(b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n") == [200]
    assert client.context.counters.relays_in_flight == 0
    assert client.context.counters.answers_by_status == {200: 1, 201: 1}


@pytest.mark.parametrize("chunked", [True, False], ids=["chunks", "until close"])
def test_an_answer_without_a_length_is_streamed_in_chunks(client, control, chunked):
    """Every piece reaches the client as it comes: watches live from it."""
    client.send(GET + b"\r\n")
    framing = b"transfer-encoding: chunked\r\n" if chunked else b""
    control.answer(b"HTTP/1.1 200 OK\r\n" + framing + b"\r\n")
    control.answer(b"3\r\nabc\r\n" if chunked else b"abc")
    assert bytes(client.transport.written).endswith(
        b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"
    )
    if chunked:
        control.answer(b"0\r\n\r\n")
    else:
        control.end()
    assert bytes(client.transport.written).endswith(b"\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    assert not client.ended


def test_an_http_1_0_client_gets_it_until_close(client, control):
    """HTTP/1.0 knows no chunks: the end of the connection is the end of the body."""
    client.send(b"GET /x HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    written = bytes(client.transport.written)
    assert written.endswith(b"\r\nconnection: close\r\n\r\nabc")
    assert b"transfer-encoding" not in written
    assert client.transport.closed


@pytest.mark.parametrize(
    ("method", "line"), [(b"HEAD", b"200 OK"), (b"GET", b"304 Not Modified"), (b"GET", b"204 No")]
)
def test_answers_without_a_body_end_with_their_header(client, control, method, line):
    """HEAD, 204 and 304 have no body whatever their fields say."""
    client.send(method + b" /x HTTP/1.1\r\nhost: localhost\r\n\r\n")
    control.answer(b"HTTP/1.1 " + line + b"\r\ncontent-length: 30\r\n\r\n")
    (answer,) = client.answers(head=True)
    assert answer.fields == {b"content-length": b"30", **FOR_BROWSERS}
    client.transport.written.clear()
    assert client.statuses(b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n") == [200]


def test_interim_answers_are_left_out(client, control):
    """A 103 of the control process is not for the client."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\n")
    control.answer(b"content-length: 0\r\n\r\n")
    (answer,) = client.answers()
    assert (answer.status, answer.fields) == (200, {b"content-length": b"0", **FOR_BROWSERS})


def test_a_control_process_that_is_down_is_503(client, control, event):
    """503 with Retry-After; events are taken all the same."""
    control.up = False
    client.send(GET + b"\r\n")
    control.failed[-1]()
    (answer,) = client.answers()
    assert (answer.status, answer.fields[b"retry-after"]) == (503, b"1")
    assert client.statuses(event()) == [202]
    assert client.context.counters.relay_failures == 1


@pytest.mark.parametrize("bytes_before", [b"", b"HTTP/1.1 200", b"rubbish\r\n\r\n"])
def test_no_whole_header_is_503(client, control, bytes_before):
    """The control process dies, or talks nonsense, before its answer began."""
    client.send(GET + b"\r\n")
    control.answer(bytes_before)
    control.end()
    assert [answer.status for answer in client.answers()] == [503]
    assert not client.ended


def test_a_broken_answer_cuts_the_client(client, control):
    """Half an answer must not look like a whole one."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\na")
    control.end()
    assert client.transport.aborted


def test_an_answer_until_close_whose_connection_is_reset_cuts_the_client(client, control):
    """Only an orderly end is the end of the body."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\n\r\na")
    control.relays[-1].connection_lost(ConnectionResetError())
    assert client.transport.aborted
    assert client.context.counters.relay_failures == 1


@pytest.mark.parametrize(
    ("seconds", "statuses"),
    [(_limits.RELAY_HEAD_DEADLINE_S - 0.01, []), (_limits.RELAY_HEAD_DEADLINE_S, [503])],
    ids=["before", "at"],
)
@pytest.mark.usefixtures("control")
def test_a_header_that_does_not_come_is_503(client, seconds, statuses):
    """30 s for the header."""
    client.send(GET + b"\r\n")
    assert [answer.status for answer in client.wait(seconds)] == statuses


def test_a_watch_has_no_deadline(client, control):
    """After the header an answer may take for ever."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    client.connection.sweep(client.clock.now_s + 1e6)
    assert not client.transport.closed
    assert not control.upstreams[0].closed


def test_a_client_that_leaves_ends_the_relay(client, control):
    """Nothing is kept up for nobody."""
    client.send(GET + b"\r\n")
    client.transport.close()
    assert control.upstreams[0].aborted
    assert client.context.counters.relays_in_flight == 0


def test_the_end_of_the_client_ends_a_watch(client, control):
    """A client that has left a watch shows by the end of its stream alone."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    assert client.connection.eof_received() is False


def test_a_half_closed_client_gets_its_relayed_answer(client, control):
    """An answer that ends by itself is still delivered; then the connection ends."""
    client.send(GET + b"\r\n")
    assert client.connection.eof_received() is True
    control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab")
    assert [answer.body for answer in client.answers()] == [b"ab"]
    assert client.transport.closed


def test_a_client_that_leaves_before_the_dial_ends_the_relay(client, control):
    """The late connection to the control process is dropped."""
    control.up = False
    client.send(GET + b"\r\n")
    client.transport.close()
    upstream = control.transport_of(control.relays[-1], "")
    control.relays[-1].connection_made(upstream)
    assert upstream.aborted
    assert upstream.written == b""


def test_backpressure_reaches_the_control_process(client, control):
    """A client that does not read stops reading upstream."""
    client.send(GET + b"\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    client.connection.pause_writing()
    assert not control.upstreams[0].reading
    client.connection.resume_writing()
    assert control.upstreams[0].reading


def test_relayed_answers_keep_their_place(client, control, event):
    """A relay waits for earlier answers, and later requests wait for it."""
    client.appends.held = True
    client.send(event() + GET + b"\r\n" + event())
    assert control.relays == []
    client.appends.settle()
    assert len(client.appends.received) == 1
    control.answer(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")
    assert len(client.appends.received) == 2
    client.appends.settle()
    assert [answer.status for answer in client.answers()] == [202, 404, 202]


def test_reading_pauses_when_much_comes_during_a_relay(client, control):
    """What follows is kept up to 64 KiB; all is answered afterwards."""
    client.send(GET + b"\r\n")
    options = b"OPTIONS /events HTTP/1.1\r\nhost: localhost\r\n\r\n"
    count = _limits.RELAY_BUFFER_BYTES_MAX // len(options) + 1
    client.send(options * (count - 1))
    assert client.transport.reading
    client.send(options)
    assert not client.transport.reading
    control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    assert len(client.answers()) == count + 1
    assert client.transport.reading


@pytest.mark.usefixtures("control")
def test_too_many_relays_are_503(client, event):
    """They are bounded over all connections; publishing goes on."""
    client.context.counters.relays_in_flight = _limits.RELAYS_MAX
    assert client.statuses(GET + b"\r\n") == [503]
    assert client.statuses(event()) == [202]


def test_bodies_for_the_control_process_have_the_same_limit(client, control):
    """413 before anything is passed on."""
    head = b"POST /subscriptions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048577\r\n\r\n"
    assert client.statuses(head) == [413]
    assert control.relays == []


def test_close_is_passed_on(client, control):
    """A client that asked for close gets it after the relayed answer."""
    client.send(GET + b"connection: close\r\n\r\n")
    control.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
    (answer,) = client.answers()
    assert answer.fields[b"connection"] == b"close"
    assert client.transport.closed


def test_an_answer_until_close_reads_on_a_little(client, control):
    """Bytes that came behind the request are thrown away, so that the answer is not reset."""
    client.send(b"GET /x HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")
    client.send(b"x" * _limits.RELAY_BUFFER_BYTES_MAX)
    assert not client.transport.reading
    control.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n")
    assert client.transport.eof_written
    assert client.transport.reading


POST = b"POST /subscriptions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n"


def test_a_body_that_is_passed_on_counts_until_its_answer(client, control):
    """It is in memory, here or in the control process, whichever read of the client brought it."""
    held = client.context.counters
    client.send(POST + b"x" * 1000)
    assert held.held_bytes == 1000
    assert control.request.endswith(b"\r\n\r\n" + b"x" * 1000)
    control.answer(b"HTTP/1.1 204 No\r\n\r\n")
    assert held.held_bytes == 0
    client.send(POST + b"x" * 600, b"x" * 400)
    control.end()
    assert [answer.status for answer in client.answers()] == [503]
    assert held.held_bytes == 0
    client.send(POST + b"x" * 1000)
    client.transport.close()
    assert held.held_bytes == 0


def test_bodies_that_are_passed_on_are_bounded_together(client, control, connect):
    """One more is answered 503, whoever sends it; what has no body passes."""
    context = client.context
    context.counters.held_bytes = context.settings.held_bytes_max - 999
    assert client.statuses(POST + b"x" * 1000) == [503]
    assert context.counters.held_bytes == context.settings.held_bytes_max - 999
    other = connect(context=context, clock=client.clock, appends=client.appends)
    assert other.statuses(GET + b"\r\n") == []
    assert control.request.startswith(b"GET ")
    assert client.statuses(POST + b"x" * 1000) == [503]


@pytest.mark.usefixtures("control")
def test_requests_that_became_whole_at_one_time_are_not_too_many(client, connect):
    """Their heads came while there was room: it is looked at once more."""
    many = _limits.RELAYS_MAX + 3
    clients = [connect(context=client.context, clock=client.clock) for _ in range(many)]
    for each in clients:
        assert each.statuses(POST + b"x" * 999) == []
    answers = [each.statuses(b"x") for each in clients]
    assert answers.count([503]) == 3
    assert client.context.counters.relays_in_flight == _limits.RELAYS_MAX
    assert client.context.counters.held_bytes == _limits.RELAYS_MAX * 1000
