import json
from collections.abc import Callable
from typing import Any

import pytest

from distributary.cli._behaviour import Behaviour, StatusChance

Make = Callable[..., Any]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


@pytest.mark.parametrize("watched", [True, False])
def test_a_good_sink_answers_200_at_once(bench: Make, watched: bool) -> None:
    """Whether or not anybody looks at arrivals, the answer and the count are the same."""
    sink = bench(watched=watched)
    assert sink.post() == OK
    assert sink.post() == OK * 2
    assert sink.server.stats().answered == {"200": 2}
    assert len(sink.arrivals) == (2 if watched else 0)


def test_an_arrival_holds_what_was_sent_and_what_was_answered(bench: Make) -> None:
    """Path without query, names in lower case, the body as it came."""
    sink = bench()
    sink.post("/r/orders?x=1", b"body")
    (request,) = sink.arrivals
    assert (request.path, request.body, request.status) == ("/r/orders", b"body", 200)
    assert (b"ce-id", b"1") in request.headers


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_any_splitting_of_the_bytes_gives_the_same_answers(
    bench: Make, watched: bool, size: int
) -> None:
    """Pipelined requests, cut anywhere: one answer each, in order."""
    sink = bench(watched=watched)
    one = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"
    stats = b"GET /__stats HTTP/1.1\r\nhost: a\r\n\r\n"
    wire = one * 3 + stats + one
    for start in range(0, len(wire), size):
        sink.connection.data_received(wire[start : start + size])
        sink.ticks.advance(0)
    first, _, rest = sink.wire.written.partition(b"HTTP/1.1 200 OK\r\ncontent-type")
    assert first == OK * 3
    assert rest.endswith(OK)
    assert b'"requests":3' in rest


def test_a_request_to_close_is_obeyed(bench: Make) -> None:
    """The connection ends after the answer."""
    sink = bench(watched=False)
    sink.connection.data_received(b"POST / HTTP/1.1\r\nconnection: close\r\n\r\n")
    assert sink.wire.written == OK
    assert sink.wire.ended == "closed"


def test_bytes_that_are_no_http_end_the_connection(bench: Make) -> None:
    """400, then closed; nothing is counted."""
    sink = bench()
    sink.connection.data_received(b"\x16\x03\x01 hello\r\n\r\n")
    assert sink.wire.written.startswith(b"HTTP/1.1 400 ")
    assert sink.wire.ended == "closed"
    assert sink.server.stats().requests == 0


def test_a_webhook_handshake_is_granted(bench: Make) -> None:
    """OPTIONS answers the CloudEvents http-webhook headers, and is no arrival."""
    sink = bench(watched=False)
    answer = sink.post(method="OPTIONS", body=b"")
    assert b"webhook-allowed-origin: *" in answer
    assert sink.server.stats().requests == 0


def test_another_path_than_the_sink_is_404(bench: Make) -> None:
    """With a path of its own, the sink is nowhere else."""
    sink = bench(path="/in")
    assert sink.post("/out").startswith(b"HTTP/1.1 404 Not Found\r\n")
    sink.post("/in")
    assert sink.server.stats().answered == {"200": 1, "404": 1}


def test_the_first_requests_fail_and_the_next_succeed(bench: Make) -> None:
    """fail_first counts from when the behaviour was set."""
    sink = bench(behaviour=Behaviour(fail_first=2, retry_after="3"))
    for _ in range(3):
        sink.post()
    assert [request.status for request in sink.arrivals] == [503, 503, 200]
    assert sink.wire.written.count(b"retry-after: 3\r\n") == 2


@pytest.mark.parametrize("status", [200, 204, 304, 410, 429, 599])
def test_any_status_is_answered_in_a_form_that_ends(bench: Make, status: int) -> None:
    """Statuses without a body carry no length, all others one of zero."""
    sink = bench(behaviour=Behaviour(statuses=(StatusChance(status),)))
    answer = sink.post()
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert (b"content-length" in answer) == (status not in {204, 304})
    assert answer.endswith(b"\r\n\r\n")


def test_a_delayed_answer_waits_and_keeps_the_order(bench: Make) -> None:
    """Nothing before the delay; requests behind it wait for their own turn."""
    sink = bench(behaviour=Behaviour(delay_s=5.0))
    sink.post("/1")
    sink.post("/2")
    sink.ticks.advance(4.9)
    assert sink.wire.written == b""
    sink.ticks.advance(0.2)
    assert sink.wire.written == OK
    sink.ticks.advance(5.0)
    assert sink.wire.written == OK * 2
    assert [request.path for request in sink.arrivals] == ["/1", "/2"]


def test_a_thousand_waiting_requests_are_answered_without_end_of_stack(bench: Make) -> None:
    """Pipelined behind a delay, released by a change of behaviour."""
    sink = bench(behaviour=Behaviour(delay_s=1.0))
    for _ in range(1500):
        sink.post()
    sink.server.behaviour = Behaviour()
    sink.ticks.advance(1.0)
    assert sink.wire.written == OK * 1500


def test_who_leaves_during_the_delay_got_no_answer(bench: Make) -> None:
    """The arrival is told with status 0, once."""
    sink = bench(behaviour=Behaviour(delay_s=5.0))
    sink.post()
    sink.lose()
    sink.ticks.advance(10.0)
    assert [request.status for request in sink.arrivals] == [0]
    assert sink.server.stats().unanswered == 1


def test_a_hanging_sink_answers_nothing(bench: Make) -> None:
    """Until the other side gives up."""
    sink = bench(behaviour=Behaviour(hang=True))
    sink.post()
    sink.ticks.advance(3600.0)
    assert sink.wire.written == b""
    sink.lose()
    assert [request.status for request in sink.arrivals] == [0]


@pytest.mark.parametrize(
    ("where", "written", "told"),
    [
        ("request", b"", 0),
        ("status", b"HTTP/1.1 200 OK\r\n", 0),
        ("body", b"HTTP/1.1 200 OK\r\ncontent-length: 64\r\n\r\nhalf a body", 200),
    ],
)
def test_the_connection_is_reset_where_it_was_asked(
    bench: Make, where: Any, written: bytes, told: int
) -> None:
    """An arrival whose head left counts as answered: the other side may have acted on it."""
    sink = bench(behaviour=Behaviour(reset=where))
    assert sink.post() == written
    assert sink.wire.ended == "aborted"
    sink.connection.connection_lost(None)
    assert [request.status for request in sink.arrivals] == [told]


def test_a_connection_can_be_reset_before_any_request(bench: Make) -> None:
    """Accepted, then gone."""
    assert bench(behaviour=Behaviour(reset="connect")).wire.ended == "aborted"


def test_a_slow_head_drips_a_byte_a_second(bench: Make) -> None:
    """After ten seconds there are eleven bytes; in the end the whole answer, then told."""
    sink = bench(behaviour=Behaviour(slow="head"))
    sink.post()
    sink.ticks.advance(10.0)
    assert sink.wire.written == OK[:11]
    assert sink.arrivals == []
    sink.ticks.advance(60.0)
    assert sink.wire.written == OK
    assert [request.status for request in sink.arrivals] == [200]


def test_a_slow_body_drips_after_its_head(bench: Make) -> None:
    """The head says how much will come; the arrival is told at once."""
    sink = bench(behaviour=Behaviour(slow="body"))
    head, _, body = sink.post().partition(b"\r\n\r\n")
    assert b"content-length: 68" in head
    assert len(body) == 1
    assert [request.status for request in sink.arrivals] == [200]
    sink.ticks.advance(100.0)
    assert len(sink.wire.written.partition(b"\r\n\r\n")[2]) == 68
    assert sink.post().endswith(b"s")


def test_an_endless_body_stops_while_the_other_side_does_not_read(bench: Make) -> None:
    """Memory stays bounded: nothing is written between pause and resume."""
    sink = bench(behaviour=Behaviour(endless_body=True))
    sink.connection.pause_writing()
    sink.post()
    sink.ticks.advance(0)
    before = len(sink.wire.written)
    sink.wire.write = lambda data: (  # type: ignore[method-assign]  # ends the endless after one
        setattr(sink.wire, "written", sink.wire.written + bytes(data)),
        sink.connection.pause_writing(),
    )
    sink.connection.resume_writing()
    sink.ticks.advance(0)
    assert len(sink.wire.written) - before == 0x10000 + len(b"10000\r\n\r\n")


def test_behaviour_changes_at_run_time(bench: Make) -> None:
    """PUT answers what now stands; the next request feels it."""
    sink = bench(watched=False)
    answer = sink.post("/__behaviour", b'{"statuses": [{"status": 418}]}', "PUT")
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["statuses"] == [
        {"status": 418, "chance": 1.0}
    ]
    assert b"418" in sink.post()


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b'{"stauses": []}', b'{"delay_s": -1}', b'{"statuses": [{"status": 42}]}',
     b'{"retry_after": "1\\r\\nx: y"}', b'{"fail_status": 600}', b'{"fail_first": -1}'],
)  # fmt: skip
def test_a_behaviour_that_is_none_changes_nothing(bench: Make, body: bytes) -> None:
    """400 with the reason; the sink goes on as before."""
    sink = bench()
    assert sink.post("/__behaviour", body, "PUT").startswith(b"HTTP/1.1 400 ")
    assert sink.server.behaviour == Behaviour()


def test_an_unknown_path_of_our_own_is_404(bench: Make) -> None:
    """Paths below /__ are never sinks."""
    assert bench().post("/__nothing").startswith(b"HTTP/1.1 404 ")
