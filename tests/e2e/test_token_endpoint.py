"""Token endpoints on loopback that are honest, slow, endless or hostile."""

import asyncio
import json
from urllib.parse import parse_qs

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.errors import TransportError
from distributary.net import AddressRule, CachingResolver, Connector
from distributary.subscriptions.refresh import HttpTokenEndpoint, TokenReply
from distributary.subscriptions.refresh import _endpoint as _refresh_endpoint
from kit import fake_sink
from kit.fake_sink import FakeSink, answer, answer_and_close
from kit.http_attempts import TableResolver

BODY = json.dumps({"access_token": "new", "expires_in": 60}).encode()
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)


def trade(behave, rule=None, resolver=None, host="127.0.0.1"):
    """What one trade comes to, and the endpoint that was asked."""

    async def scenario():
        connector = Connector(
            rule or AddressRule(loopback_allowed=True),
            CachingResolver(TableResolver(resolver or {}), SystemClock()),
        )
        async with FakeSink(behave) as sink:
            endpoint = HttpTokenEndpoint(connector)
            try:
                outcome = await endpoint.trade(sink.uri("/token?x=y", host), "r&1 é=")
            except TransportError as error:
                outcome = error
            return outcome, sink

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario())


def test_the_request_is_the_one_that_oauth_asks_for():
    """RFC 6749, section 6: a form, with nothing in the URI."""
    outcome, sink = trade(answer(GOOD))
    assert outcome == TokenReply(200, BODY)
    (request,) = sink.requests
    assert (request.method, request.target) == ("POST", "/token?x=y")
    assert request.header("content-type") == "application/x-www-form-urlencoded"
    assert request.header("host") == f"127.0.0.1:{sink.port}"
    assert parse_qs(request.body.decode()) == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["r&1 é="],
    }


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        % (len(BODY), BODY),
        b"HTTP/1.0 200 OK\r\n\r\n" + BODY,
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + GOOD,
    ],
    ids=["chunked", "until the end", "interim"],
)
def test_an_answer_is_read_however_it_is_framed(response):
    """All of HTTP/1.1's ways."""
    outcome, _ = trade(answer_and_close(response))
    assert outcome == TokenReply(200, BODY)


def test_an_error_is_an_answer():
    """What it means the caller knows."""
    outcome, _ = trade(answer(b"HTTP/1.1 400 Bad\r\ncontent-length: 2\r\n\r\n{}"))
    assert outcome == TokenReply(400, b"{}")


def test_a_redirect_is_not_followed():
    """The refresh token goes to the address that was checked, and nowhere else."""
    response = b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    outcome, sink = trade(answer(response))
    assert outcome == TokenReply(307, b"")
    assert len(sink.requests) == 1


@pytest.mark.parametrize(
    ("behave", "reason"),
    [
        (fake_sink.endless(b"HTTP/1.1 200 OK\r\n\r\n"), "protocol"),
        (fake_sink.endless(b"HTTP/1.1 200 OK\r\nx: "), "protocol"),
        (fake_sink.endless(b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n"), "protocol"),
        (answer(b"SSH-2.0-canary\r\n\r\n"), "protocol"),
        (answer_and_close(GOOD[:-5]), "protocol"),
        (answer_and_close(b""), "protocol"),
        (fake_sink.reset, "reset"),
    ],
    ids=["endless", "endless header", "too long", "not HTTP", "cut off", "nothing", "reset"],
)
def test_an_answer_that_is_none_is_an_error(behave, reason):
    """It says what was wrong, without what was sent."""
    outcome, _ = trade(behave)
    assert isinstance(outcome, TransportError)
    assert outcome.reason == reason
    assert "canary" not in str(outcome)
    assert "r&1" not in str(outcome)


@pytest.mark.parametrize(
    "behave", [fake_sink.hang, fake_sink.trickle(GOOD, 0.05)], ids=["silent", "trickle"]
)
@pytest.mark.slow
def test_one_deadline_holds_for_all_of_it(monkeypatch, behave):
    """However little comes, however steadily."""
    monkeypatch.setattr(_refresh_endpoint, "TRADE_S_MAX", 0.3)
    outcome, sink = trade(behave)
    assert isinstance(outcome, TransportError)
    assert outcome.reason == "timeout"
    assert sink.connections == 1


@pytest.mark.parametrize(
    ("host", "table"), [("127.0.0.1", {}), ("token.example", {"token.example": ["127.0.0.1"]})]
)
def test_an_address_that_is_not_allowed_is_not_dialled(host, table):
    """The rule of sinks holds: on the address, whatever the name says."""
    outcome, sink = trade(answer(GOOD), AddressRule(), table, host)
    assert isinstance(outcome, TransportError)
    assert outcome.reason == "blocked-address"
    assert sink.connections == 0
