"""The HTTP transport against sinks on loopback that misbehave (RELIABILITY S1-S6, S9, S10)."""

import asyncio
import contextlib
import socket
import ssl
import subprocess

import pytest
import uvloop

from distributary.clock import SystemClock
from distributary.deliver import AddressRule, CachingResolver, Connector, Destination
from distributary.deliver.transports.http import HttpTransport
from distributary.errors import TransportError
from distributary.event import Event
from distributary.policy import Reply
from distributary.testing import fake_sink
from distributary.testing.fake_sink import FakeSink, answer, answer_and_close

EVENT = Event(
    {"specversion": "1.0", "id": "1", "source": "/e2e", "type": "com.example.e2e"}, b"body"
)


class Names:
    """A resolver with a fixed table; counts what it is asked."""

    def __init__(self, **table):
        self.table = table
        self.asked = []

    async def resolve(self, host):
        self.asked.append(host)
        found = self.table.get(host.replace(".", "_"))
        if found is None:
            raise TransportError("dns", f"no such name: {host}")
        if found == "silent":
            await asyncio.Event().wait()
        return list(found)


@contextlib.asynccontextmanager
async def opened(rule=None, names=None, tls=None):
    """A transport that is closed at the end; by default loopback is allowed."""
    clock = SystemClock()
    rule = rule or AddressRule(loopback_allowed=True)
    resolver = CachingResolver(names or Names(), clock)
    transport = HttpTransport(Connector(rule, resolver, tls), clock, asyncio.get_running_loop())
    try:
        yield transport
    finally:
        await transport.close()


def send(transport, uri, timeout_s=5.0, event=EVENT, **settings):
    """A future of the answer to one attempt."""
    future = asyncio.get_running_loop().create_future()
    transport.send(event, Destination(uri, **settings), timeout_s, future.set_result)
    return future


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


def attempt(behave, count=1, timeout_s=5.0, **settings):
    """The answers of *count* attempts, one after the other, and the sink."""

    async def scenario():
        async with FakeSink(behave) as sink, opened() as transport:
            answers = [
                await send(transport, sink.uri("/in"), timeout_s, **settings) for _ in range(count)
            ]
            return answers, sink

    return run(scenario())


def test_writes_the_request_that_the_binding_asks_for():
    """Binary mode: method, target, Host, attributes, custom headers, exact length."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            await send(
                transport, sink.uri("/a/b?c=d#e"), method=b"PUT", headers=((b"x-key", b"v w"),)
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


def test_uses_one_connection_for_attempts_in_a_row():
    """Connections are kept alive."""
    answers, sink = attempt(fake_sink.accept, count=20)
    assert all(answer.status == 204 for answer in answers)
    assert sink.connections == 1


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
            async with asyncio.timeout(5):
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


def test_names_the_blocked_address_and_dials_nothing():
    """A sink on loopback is refused by the rule; no connection arrives."""

    async def scenario():
        async with FakeSink() as sink, opened(rule=AddressRule()) as transport:
            literal = await send(transport, sink.uri())
            mixed = await send(transport, f"http://127.1:{sink.port}/")
            return literal, mixed, sink.connections

    literal, mixed, connections = run(scenario())
    assert literal.reason == mixed.reason == "blocked-address"
    assert not literal.retryable
    assert connections == 0


def test_refuses_a_name_that_points_inside_and_outside():
    """Every answer is checked before any is dialled."""
    names = Names(mixed_example=["93.184.216.34", "127.0.0.1"])

    async def scenario():
        async with opened(rule=AddressRule(), names=names) as transport:
            return await send(transport, "http://mixed.example/")

    assert run(scenario()).reason == "blocked-address"


def test_tells_of_names_that_do_not_resolve():
    """S9: no such name, and a name without addresses, are ``dns`` and can be tried again."""
    names = Names(empty_example=[])

    async def scenario():
        async with opened(names=names) as transport:
            return [await send(transport, f"http://{name}.example/") for name in ("none", "empty")]

    assert [(a.reason, a.retryable) for a in run(scenario())] == [("dns", True)] * 2


@pytest.mark.slow
def test_a_name_server_that_is_silent_blocks_no_other_sink():
    """S9: look-ups wait each for themselves."""
    names = Names(silent_example="silent", good_example=["127.0.0.1"])

    async def scenario():
        async with FakeSink() as sink, opened(names=names) as transport:
            stuck = [send(transport, "http://silent.example/", 0.3) for _ in range(100)]
            good = await send(transport, sink.uri(host="good.example"))
            assert not any(future.done() for future in stuck)
            return good, [await future for future in stuck]

    good, stuck = run(scenario())
    assert good.status == 204
    assert {answer.reason for answer in stuck} == {"timeout"}


def test_tries_the_next_address_when_one_refuses():
    """S9: a name with dead addresses is reached by one that lives."""
    names = Names(two_example=["127.0.0.2", "127.0.0.1"])

    async def scenario():
        async with FakeSink() as sink, opened(names=names) as transport:
            return await send(transport, sink.uri(host="two.example")), names.asked

    reply, asked = run(scenario())
    assert reply.status == 204
    assert asked == ["two.example"]


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A function that makes a self-signed certificate for a name, of a given time."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "index").write_text("")
    (folder / "conf").write_text(
        f"[ca]\ndefault_ca=d\n[d]\ndatabase={folder}/index\nnew_certs_dir={folder}\n"
        "default_md=sha256\npolicy=p\nrand_serial=yes\nunique_subject=no\n"
        "copy_extensions=copyall\n[p]\nCN=supplied\n"
    )

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    def make(name, start="20240101000000Z", end="20991231000000Z"):
        path = folder / f"{name}.pem"
        openssl(
            *("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-nodes", "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"),
            *("-keyout", "key", "-out", "request"),
        )
        openssl(
            *("ca", "-batch", "-selfsign", "-config", "conf", "-keyfile", "key", "-notext"),
            *("-startdate", start, "-enddate", end, "-in", "request", "-out", "certificate"),
        )
        path.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
        return path

    return make


def tls_attempt(certificate, host, *, trusted=True, version=None, timeout_s=5.0):
    """The answers of two attempts by TLS, and the sink."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    if version is not None:
        server.set_ciphers("ALL:@SECLEVEL=0")
        server.minimum_version = version
        server.maximum_version = version
    client = ssl.create_default_context(cafile=certificate) if trusted else None
    names = Names(**{host.replace(".", "_"): ["127.0.0.1"]})

    async def scenario():
        async with FakeSink(tls=server) as sink, opened(names=names, tls=client) as transport:
            answers = [await send(transport, sink.uri(host=host), timeout_s) for _ in range(2)]
            return answers, sink

    return run(scenario())


def test_delivers_by_tls(certificates):
    """A trusted certificate of the right name: delivered, and the connection is kept."""
    answers, sink = tls_attempt(certificates("good.example"), "good.example")
    assert [answer.status for answer in answers] == [204, 204]
    assert sink.connections == 1
    assert sink.requests[0].header("host") == f"good.example:{sink.port}"


def test_refuses_a_certificate_of_another_name(certificates):
    """S10: class ``tls``, and no request leaves."""
    answers, sink = tls_attempt(certificates("good.example"), "other.example")
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


def test_refuses_a_certificate_that_nobody_signed(certificates):
    """S10: self-signed is not trusted."""
    answers, sink = tls_attempt(certificates("self.example"), "self.example", trusted=False)
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


def test_refuses_an_expired_certificate(certificates):
    """S10: expired is refused, though trusted."""
    certificate = certificates("old.example", "20200101000000Z", "20200102000000Z")
    answers, sink = tls_attempt(certificate, "old.example")
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_refuses_an_old_version_of_tls(certificates):
    """S10: TLS 1.0 is not spoken, and there is no fall-back."""
    certificate = certificates("tls10.example")
    answers, sink = tls_attempt(certificate, "tls10.example", version=ssl.TLSVersion.TLSv1)
    assert {answer.reason for answer in answers} == {"tls"}
    assert not sink.requests


@pytest.mark.slow
def test_a_handshake_that_hangs_costs_the_deadline_alone():
    """S10: the total deadline covers the handshake, and the connection is closed."""

    async def scenario():
        gone = asyncio.Event()

        async def silent(reader, writer):
            while await reader.read(1000):
                pass
            gone.set()
            writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        uri = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        async with server, opened() as transport:
            answer = await send(transport, uri, 0.3)
            await asyncio.wait_for(gone.wait(), 5)
            return answer

    assert run(scenario()).reason == "timeout"


@pytest.mark.slow
def test_hanging_sinks_cost_no_descriptors_after_their_deadline():
    """S1: what hung is closed, connection and all."""

    async def scenario():
        async with FakeSink(fake_sink.hang) as sink, opened() as transport:
            answers = await asyncio.gather(
                *(send(transport, sink.uri(f"/{n}"), 0.3) for n in range(100))
            )
            async with asyncio.timeout(5):
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
