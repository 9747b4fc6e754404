"""The HTTP transport against sinks on loopback that misbehave (RELIABILITY S1-S6, S9)."""

import asyncio
import socket

import pytest
import uvloop

from distributary.core.errors import TransportError
from distributary.core.event import Event, json_format
from distributary.core.policy import Reply
from distributary.net import AddressRule
from distributary.protocols.http.settings import HttpSettings
from kit import fake_sink
from kit.fake_sink import FakeSink, accept, answer, answer_and_close
from kit.http_attempts import EVENT, TableResolver, opened, send


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


def attempt(behave, count=1, timeout_s=30.0, **settings):
    """The answers of *count* attempts, one after the other, and the sink."""

    async def scenario():
        async with FakeSink(behave) as sink, opened() as transport:
            answers = [
                await send(transport, sink.uri("/in"), timeout_s, **settings) for _ in range(count)
            ]
            return answers, sink

    return run(scenario())


@pytest.mark.clause("subscriptions-api.settings.http.headers")
@pytest.mark.clause("subscriptions-api.settings.http.method")
def test_writes_the_request_that_the_binding_asks_for():
    """Binary mode: method, target, Host, attributes, custom headers, exact length."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            await send(
                transport,
                sink.uri("/a/b?c=d#e"),
                settings=HttpSettings(method="PUT", headers=(("x-key", "v w"),)),
            )
            return sink

    sink = run(scenario())
    request = sink.requests[0]
    assert (request.method, request.target, request.body) == ("PUT", "/a/b?c=d", b"body")
    assert request.header("host") == f"127.0.0.1:{sink.port}"
    assert request.header("ce-id") == "1"
    assert request.header("x-key") == "v w"
    assert request.header("content-length") == "4"
    assert request.header("user-agent") == "distributary"
    assert request.header("prefer") is None
    assert request.header("accept-encoding") is None


@pytest.mark.parametrize(
    ("attributes", "binary"),
    [
        ({"myext": "\u20ac" * 20_000}, False),
        ({"myext": "x" * 8_193}, False),
        ({f"x{number}": "x" * 3_000 for number in range(6)}, False),
        ({f"x{number}": "x" * 2_000 for number in range(6)}, True),
        ({"myext": "\u20ac" * 900}, True),
    ],
    ids=["encoded", "one", "many", "all fit", "one fits"],
)
def test_an_event_that_no_usual_header_holds_goes_out_structured(attributes, binary):
    """Most sinks would answer 431, and the event would be a dead letter."""
    event = Event({**EVENT.attributes, **attributes}, EVENT.data)

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            answer = await send(transport, sink.uri("/in"), event=event)
            return answer, sink

    answer, sink = run(scenario())
    (request,) = sink.requests
    assert isinstance(answer, Reply)
    assert answer.status == 204
    assert (request.header("ce-id") is not None) is binary
    if binary:
        assert request.body == EVENT.data
    else:
        assert request.header("content-type").startswith("application/cloudevents+json")
        assert json_format.decode(request.body).attributes.items() >= event.attributes.items()


def test_uses_one_connection_for_attempts_in_a_row():
    """Connections are kept alive."""
    answers, sink = attempt(fake_sink.accept, count=20)
    assert all(answer.status == 204 for answer in answers)
    assert sink.connections == 1


def test_a_burst_of_attempts_uses_the_connections_of_the_one_before():
    """Answers of many queues come at once: their connections wait for the next attempts."""
    attempts, dials_at_once = 600, 60

    async def scenario():
        arrived, release = asyncio.Queue(), asyncio.Event()

        async def behave(request, writer):
            arrived.put_nowait(request)
            await release.wait()
            await accept(request, writer)

        async with FakeSink(behave) as sink, opened() as transport:
            first = []
            while len(first) < attempts:  # in steps: the sink's backlog is short
                first += [
                    send(transport, sink.uri("/in"), timeout_s=60.0) for _ in range(dials_at_once)
                ]
                for _ in range(dials_at_once):
                    await arrived.get()
            release.set()
            await asyncio.gather(*first)
            second = [send(transport, sink.uri("/in"), timeout_s=60.0) for _ in range(attempts)]
            await asyncio.gather(*second)
            return sink

    sink = run(scenario())
    assert (len(sink.requests), sink.connections) == (2 * attempts, attempts)


def test_does_not_use_a_connection_again_that_the_sink_closes():
    """``Connection: close`` is honoured."""
    response = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
    answers, sink = attempt(answer(response), count=3)
    assert [a.status for a in answers] == [200, 200, 200]
    assert sink.connections == 3


def test_replaces_an_idle_connection_that_was_closed():
    """A connection found closed before the request is written costs no attempt."""

    async def scenario():
        async with FakeSink(answer_and_close(fake_sink.OK)) as sink, opened() as transport:
            first = await send(transport, sink.uri())
            await asyncio.sleep(0.05)
            second = await send(transport, sink.uri())
            return first, second, sink

    first, second, sink = run(scenario())
    assert (first.status, second.status, sink.connections) == (204, 204, 2)


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(fake_sink.reset, id="full-request"),
        pytest.param(answer_and_close(b""), id="closed-without-a-byte"),
        pytest.param(answer_and_close(b"HTTP/1.1 200 OK\r\n"), id="status-line"),
        pytest.param(
            answer_and_close(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"), id="half-body"
        ),
        pytest.param(
            answer_and_close(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf"),
            id="half-chunked-body",
        ),
    ],
)
def test_tells_of_a_connection_that_broke(behave):
    """S4: each is ``reset``, to be tried again; the transport itself sends once."""
    answers, sink = attempt(behave)
    assert isinstance(answers[0], TransportError)
    assert (answers[0].reason, answers[0].retryable) == ("reset", True)
    assert len(sink.requests) == 1


def test_tells_of_a_connection_that_broke_in_the_middle_of_the_request():
    """S4: a big request that is cut off is ``reset`` as well."""

    async def scenario():
        async def cut(reader, writer):
            await reader.read(1000)
            fake_sink.cut(writer)

        server = await asyncio.start_server(cut, "127.0.0.1", 0)
        uri = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        big = Event(dict(EVENT.attributes), b"x" * (8 * 1024 * 1024))
        async with server, opened() as transport:
            return await send(transport, uri, event=big)

    assert run(scenario()).reason == "reset"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_follows_no_redirect(status):
    """S6: the 3xx is the answer, and nothing else is asked for."""

    async def scenario():
        async with FakeSink() as other, opened() as transport:
            response = (
                f"HTTP/1.1 {status} X\r\nlocation: {other.uri()}\r\ncontent-length: 0\r\n\r\n"
            )
            async with FakeSink(answer(response.encode())) as sink:
                reply = await send(transport, sink.uri())
                return reply, sink, other

    reply, sink, other = run(scenario())
    assert (reply.status, len(sink.requests), other.connections) == (status, 1, 0)


def test_uses_no_proxy_of_the_environment(monkeypatch):
    """The address rule would mean nothing if a proxy dialled."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    answers, _ = attempt(fake_sink.accept)
    assert answers[0].status == 204


def test_keeps_the_beginning_of_an_errors_body():
    """A dead letter carries 1,024 bytes of it; nothing beyond is kept."""
    response = b"HTTP/1.1 500 No\r\ncontent-type: text/plain\r\ncontent-length: 5000\r\n\r\n"
    answers, _ = attempt(answer(response + b"e" * 5000), count=2)
    assert answers[1] == Reply(500, None, "text/plain", b"e" * 1024)


@pytest.mark.parametrize(
    "value", ["0", "1", "120", "1000000000", "-1", "abc", "Fri, 31 Dec 1999 23:59:59 GMT"]
)
def test_hands_on_retry_after_as_it_came(value):
    """S5: reading it is the policy's business."""
    response = f"HTTP/1.1 503 Busy\r\nRetry-After: {value}\r\ncontent-length: 0\r\n\r\n"
    answers, _ = attempt(answer(response.encode()))
    assert answers[0] == Reply(503, value, None, b"")


def test_takes_the_final_response_after_interim_ones():
    """1xx responses are passed over."""
    interim = b"HTTP/1.1 103 Early Hints\r\nretry-after: 9\r\nlink: x\r\n\r\n"
    answers, sink = attempt(answer(b"HTTP/1.1 100 Continue\r\n\r\n" + interim + fake_sink.OK), 2)
    assert [a.status for a in answers] == [204, 204]
    assert answers[0].retry_after is None
    assert sink.connections == 1


def test_never_takes_a_surplus_response_for_the_next_answer():
    """Two responses to one request: the first counts, the connection is not used again."""
    surplus = b"HTTP/1.1 500 Surplus\r\ncontent-length: 0\r\n\r\n"
    answers, sink = attempt(answer(fake_sink.OK + surplus), count=3)
    assert [a.status for a in answers] == [204, 204, 204]
    assert sink.connections == 3


@pytest.mark.parametrize(
    "response",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 70_000,
    ],
    ids=["other-protocol", "no-status", "bad-length", "two-lengths", "head-too-long"],
)
def test_tells_of_an_answer_that_is_not_http(response):
    """What cannot be understood is ``protocol``, never an invented status."""
    answers, _ = attempt(answer(response))
    assert isinstance(answers[0], TransportError)
    assert answers[0].reason == "protocol"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n",
        b"HTTP/1.1 500 No\r\n\r\n",
    ],
    ids=["until-close", "ten-gibibytes", "error"],
)
def test_stops_reading_an_endless_body_and_lets_the_status_count(head):
    """S3: the connection is closed at the cap, long before the deadline."""

    async def scenario():
        async with FakeSink(fake_sink.endless(head)) as sink, opened() as transport:
            reply = await send(transport, sink.uri(), timeout_s=60.0)
            async with asyncio.timeout(60):
                await sink.quiet.wait()
            return reply

    assert run(scenario()).status == int(head[9:12])


@pytest.mark.slow
def test_lets_the_status_count_when_the_body_trickles():
    """S2, S3: the headers said 2xx, the total deadline ends the waiting."""
    behave = fake_sink.trickle(b"x" * 1000)

    async def head_then_trickle(request, writer):
        writer.write(b"HTTP/1.1 202 Accepted\r\n\r\n")
        await behave(request, writer)

    answers, _ = attempt(head_then_trickle, timeout_s=0.3)
    assert answers[0].status == 202


@pytest.mark.slow
def test_a_response_without_length_ends_with_the_connection():
    """HTTP/1.0 style framing is understood."""
    answers, _ = attempt(answer_and_close(b"HTTP/1.0 200 OK\r\n\r\nhello"), count=2)
    assert [a.status for a in answers] == [200, 200]


def test_tells_of_names_that_do_not_resolve():
    """S9: no such name, and a name without addresses, are ``dns`` and can be tried again."""
    names = TableResolver({"empty.example": []})

    async def scenario():
        async with opened(resolver=names) as transport:
            return [await send(transport, f"http://{name}.example/") for name in ("none", "empty")]

    assert [(a.reason, a.retryable) for a in run(scenario())] == [("dns", True)] * 2


@pytest.mark.slow
def test_a_name_server_that_is_silent_blocks_no_other_sink():
    """S9: look-ups wait each for themselves."""
    names = TableResolver({"silent.example": None, "good.example": ["127.0.0.1"]})

    async def scenario():
        async with FakeSink() as sink, opened(resolver=names) as transport:
            stuck = [send(transport, "http://silent.example/", 2.0) for _ in range(100)]
            good = await send(transport, sink.uri(host="good.example"))
            assert not any(future.done() for future in stuck)
            return good, [await future for future in stuck]

    good, stuck = run(scenario())
    assert good.status == 204
    assert {answer.reason for answer in stuck} == {"timeout"}


def test_tries_the_next_address_when_one_refuses():
    """S9: a name with dead addresses is reached by one that lives."""
    names = TableResolver({"two.example": ["127.0.0.2", "127.0.0.1"]})

    async def scenario():
        async with FakeSink() as sink, opened(resolver=names) as transport:
            return await send(transport, sink.uri(host="two.example")), names.asked

    reply, asked = run(scenario())
    assert reply.status == 204
    assert asked == ["two.example"]


@pytest.mark.slow
def test_hanging_sinks_cost_no_descriptors_after_their_deadline():
    """S1: what hung is closed, connection and all."""

    async def scenario():
        async with FakeSink(fake_sink.hang) as sink, opened() as transport:
            answers = await asyncio.gather(
                *(send(transport, sink.uri(f"/{n}"), 0.3) for n in range(100))
            )
            async with asyncio.timeout(60):
                await sink.quiet.wait()
            return answers, len(transport.connections)

    answers, left = run(scenario())
    assert {answer.reason for answer in answers} == {"timeout"}
    assert left == 0


@pytest.mark.slow
def test_keeps_no_descriptor_when_a_dial_is_cut_short():
    """Closing while dialling leaves neither sockets nor tasks."""

    async def scenario():
        # A backlog that is full: further connections stay in SYN_SENT.
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            uri = f"http://127.0.0.1:{full.getsockname()[1]}/"
            async with opened() as transport:
                waiting = [send(transport, uri, 30.0) for _ in range(10)]
                await asyncio.sleep(0.1)
            answers = [await future for future in waiting]
            left = asyncio.all_tasks() - {asyncio.current_task()}
            return answers, left

    answers, left = run(scenario())
    assert {answer.reason for answer in answers} == {"closed"}
    assert not left


# -- replies, and where to dial ------------------------------------------------------------------


@pytest.mark.parametrize("wants_reply", [True, False])
def test_asks_for_a_reply_where_one_is_wanted_and_nowhere_else(wants_reply):
    """``Prefer: reply`` (Knative data plane, Derived Reply Events)."""
    _, sink = attempt(fake_sink.accept, wants_reply=wants_reply)
    assert sink.requests[0].header("prefer") == ("reply" if wants_reply else None)


@pytest.mark.parametrize("body_bytes", [0, 1, 1024 * 1024])
def test_brings_the_event_of_an_answer_whole(body_bytes):
    """Up to the limit, byte for byte, time after time."""
    fields = b"ce-specversion: 1.0\r\nce-id: r\r\nce-source: /s\r\nce-type: t\r\n"
    body = bytes(range(256)) * (body_bytes // 256) or b"x" * body_bytes
    head = b"HTTP/1.1 200 OK\r\n%bcontent-length: %d\r\n\r\n" % (fields, len(body))
    answers, sink = attempt(answer(head + body), count=3, wants_reply=True)
    assert [reply.event.data for reply in answers] == [body or None] * 3
    assert sink.connections == 1


def test_dials_elsewhere_and_says_where_it_wants_to_go():
    """Decision 25: a Service by its cluster name, which nobody here could resolve."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            await send(transport, "http://orders.shop.svc/in", dial=f"127.0.0.1:{sink.port}")
            return sink.requests[0]

    request = run(scenario())
    assert (request.header("host"), request.target) == ("orders.shop.svc", "/in")


def test_our_own_receiver_is_asked_by_its_address():
    """It answers to no foreign name, and a Service's is one."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            dial = f"127.0.0.1:{sink.port}"
            await send(transport, "http://broker.shop.svc/events", dial=dial, own=True)
            return dial, sink.requests[0]

    dial, request = run(scenario())
    assert (request.header("host"), request.target) == (dial, "/events")


def test_a_connection_of_ours_is_not_used_for_others():
    """The rule for addresses was not asked about it."""

    async def scenario():
        async with FakeSink() as sink, opened(AddressRule()) as transport:
            uri = "http://public.example/"
            dial = f"127.0.0.1:{sink.port}"
            own = await send(transport, uri, dial=dial, own=True)
            other = await send(transport, uri, dial=dial)
            return own, other

    own, other = run(scenario())
    assert own.status == 204
    assert other.reason == "blocked-address"
