"""Documents of issuers on loopback that are honest, slow, endless, redirecting or forbidden."""

import asyncio
import json

import pytest
import uvloop

from distributary.access.issuers import Issuer
from distributary.core.clock import SystemClock
from distributary.core.errors import TransportError
from distributary.net import AddressRule, CachingResolver
from distributary.server.issuers import HttpDocuments, IssuerSettings
from distributary.server.issuers import _documents as documents_module
from kit import fake_sink
from kit.fake_sink import FakeSink, answer, answer_and_close
from kit.http_attempts import TableResolver
from kit.minted import AUDIENCE, URL, signing_key

BODY = json.dumps({"keys": [signing_key().jwk()]}).encode()
GOOD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(BODY), BODY)
HERE = ("127.0.0.0/8",)


def get(behave, networks=HERE, host="127.0.0.1", resolver=None, rule=None):
    """What one GET comes to, and the server that was asked."""

    async def scenario():
        issuer = Issuer(name="a", url=URL, audiences=(AUDIENCE,))
        settings = IssuerSettings(issuer, networks=networks)
        names = CachingResolver(TableResolver(resolver or {}), SystemClock())
        async with FakeSink(behave) as server:
            documents = HttpDocuments(settings, rule or AddressRule(), names)
            try:
                outcome = await documents.get(server.uri("/keys?p=1", host))
            except TransportError as error:
                outcome = error
            return outcome, server

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario())


def test_gets_a_document():
    """With a plain request that shows nothing of ours."""
    outcome, server = get(answer(GOOD))
    assert outcome == BODY
    (request,) = server.requests
    assert (request.method, request.target, request.body) == ("GET", "/keys?p=1", b"")
    assert request.header("host") == f"127.0.0.1:{server.port}"
    assert request.header("authorization") is None


@pytest.mark.parametrize("status", [201, 204, 301, 302, 307, 401, 404, 500])
def test_another_status_is_none(status):
    """Redirects are not followed: the next address would be the far side's choice."""
    response = b"HTTP/1.1 %d X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
    outcome, server = get(answer(response % status))
    assert str(outcome) == f"It answers {status}"
    assert len(server.requests) == 1


def test_an_endless_answer_is_cut_off():
    """256 KiB are more than 100 keys."""
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 2000000\r\n\r\n"
    outcome, _ = get(answer_and_close(head + b"x" * 2_000_000))
    assert isinstance(outcome, TransportError)
    assert outcome.reason == "protocol"


def test_a_silent_issuer_is_given_up(monkeypatch):
    """One deadline for the whole exchange."""
    monkeypatch.setattr(documents_module, "GET_S_MAX", 0.05)
    outcome, _ = get(fake_sink.hang)
    assert isinstance(outcome, TransportError)
    assert outcome.reason == "timeout"


@pytest.mark.parametrize(
    ("networks", "host", "resolver"),
    [
        ((), "127.0.0.1", {}),
        (("10.0.0.0/8",), "127.0.0.1", {}),
        ((), "login.example", {"login.example": ["127.0.0.1"]}),
        ((), "login.example", {"login.example": ["203.0.113.9", "127.0.0.1"]}),
        (HERE, "login.example", {"login.example": ["127.0.0.1", "10.0.0.1"]}),
        (HERE, "login.example", {"login.example": ["169.254.169.254"]}),
    ],
    ids=["private", "another network", "by name", "one of two", "the other of two", "metadata"],
)
def test_an_address_that_is_not_allowed_is_not_dialled(networks, host, resolver):
    """The rule for sinks; the operator may allow networks for this issuer alone."""
    outcome, server = get(answer(GOOD), networks, host, resolver)
    assert isinstance(outcome, TransportError)
    assert outcome.reason == "blocked-address"
    assert server.requests == []


def test_sinks_that_are_allowed_do_not_matter_for_another_network():
    """``networks`` adds to what the server's rule allows, and takes nothing away."""
    assert get(answer(GOOD), (), rule=AddressRule(loopback_allowed=True))[0] == BODY
