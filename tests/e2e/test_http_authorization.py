"""Credentials on the wire: what a sink gets, and what does not leave."""

import asyncio
import base64
import ipaddress

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.net import AddressRule, CachingResolver, Connector
from distributary.protocols.http.sink import HttpTransport
from distributary.protocols.http.sink._transport import STALE_LOOK_S
from kit.fake_sink import FakeSink, answer
from kit.http_attempts import TableResolver, opened, send

PLAIN = Credential("PLAIN", identifier="me", secret="hunter22")


class MovedClock(SystemClock):
    """The machine's clocks, moved."""

    wall_moved_ms = 0
    monotonic_moved_s = 0.0

    def wall_ms(self):
        """Milliseconds."""
        return super().wall_ms() + self.wall_moved_ms

    def monotonic_s(self):
        """Seconds."""
        return super().monotonic_s() + self.monotonic_moved_s


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


def token(text, lifetime_s=60):
    """An access token that lives so long."""
    return Credential(
        "ACCESSTOKEN",
        access_token=text,
        access_token_type="Bearer",
        access_token_expires_ms=SystemClock().wall_ms() + lifetime_s * 1000,
    )


def transport_of(clock):
    """A transport on the running loop."""
    connector = Connector(
        AddressRule(loopback_allowed=True), CachingResolver(TableResolver({}), clock)
    )
    return HttpTransport(connector, clock, asyncio.get_running_loop())


def test_credentials_are_sent_with_every_request():
    """Each destination its own; one without has none."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            for credential in (PLAIN, token("abc"), None, PLAIN):
                await send(transport, sink.uri(), credential=credential)
            return [request.header("authorization") for request in sink.requests]

    basic = "Basic " + base64.b64encode(b"me:hunter22").decode()
    assert run(scenario()) == [basic, "Bearer abc", None, basic]


def test_with_an_expired_token_no_request_leaves():
    """A failure that may be tried again: the token may be renewed by then."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            return await send(transport, sink.uri(), credential=token("abc", 0)), sink.connections

    failure, connections = run(scenario())
    assert isinstance(failure, TransportError)
    assert (failure.reason, failure.retryable) == ("credential-expired", True)
    assert "abc" not in str(failure)
    assert connections == 0


def test_a_token_is_judged_when_it_is_sent_and_by_the_wall_clock():
    """Not when it was first used; and it is good again when the clock was wrong."""

    async def scenario():
        clock = MovedClock()
        transport = transport_of(clock)
        async with FakeSink() as sink:
            answers = []
            for moved_ms in (0, 61_000, 0):
                clock.wall_moved_ms = moved_ms
                answers.append(await send(transport, sink.uri(), credential=credential))
            await transport.close()
            return answers

    credential = token("abc")
    first, second, third = run(scenario())
    assert (first.status, second.reason, third.status) == (204, "credential-expired", 204)


def test_tokens_that_have_expired_do_not_pile_up():
    """A renewed token makes a new destination; the old one's request is forgotten."""

    async def scenario():
        clock = MovedClock()
        transport = transport_of(clock)
        async with FakeSink() as sink:
            await send(transport, sink.uri())
            for number in range(20):
                clock.monotonic_moved_s += STALE_LOOK_S
                clock.wall_moved_ms += 60_000
                credential = token(f"abc-{number}", 30 + 60 * (number + 1))
                assert (await send(transport, sink.uri(), credential=credential)).status == 204
            kept = len(transport._targets)
            await transport.close()
            return kept

    assert run(scenario()) == 2


def test_an_error_that_repeats_the_request_is_kept_without_the_secret():
    """Dead letters and their sinks get the beginning of an answer's body."""
    body = b"no access with " + base64.b64encode(b"me:hunter22") + b" or hunter22"
    response = b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)

    async def scenario():
        async with FakeSink(answer(response)) as sink, opened() as transport:
            return [await send(transport, sink.uri(), credential=PLAIN) for _ in range(2)]

    for reply in run(scenario()):
        assert (reply.status, reply.body) == (401, b"no access with *** or ***")


@pytest.mark.parametrize(
    ("extension", "data"),
    [(b"ok", b'{"seen": "Basic bWU6aHVudGVyMjI="}'), (b"ok", b"hunter22"), (b"hunter22", b"{}")],
)
def test_a_reply_that_repeats_the_credential_is_no_event(extension, data):
    """Whoever subscribes to the Broker would get it."""
    fields = (
        b"ce-specversion: 1.0\r\nce-id: r\r\nce-source: /s\r\nce-type: t\r\nce-echo: " + extension
    )
    head = b"HTTP/1.1 200 OK\r\n%b\r\ncontent-length: %d\r\n\r\n" % (fields, len(data))

    async def scenario(credential):
        async with FakeSink(answer(head + data)) as sink, opened() as transport:
            return await send(transport, sink.uri(), credential=credential, wants_reply=True)

    refused = run(scenario(PLAIN))
    assert (refused.status, refused.event) == (200, None)
    assert refused.event_fault == "the reply repeats a credential of the request"
    other = Credential("PLAIN", identifier="me", secret="another-secret")
    assert run(scenario(other)).event.data == data


def test_a_credential_in_the_clear_has_a_connection_of_its_own():
    """One that was opened without the rule may end at another machine."""

    async def scenario():
        async with FakeSink() as sink, opened() as transport:
            for stays_here in (False, True, False, True):
                await send(transport, sink.uri(), credential=PLAIN, stays_here=stays_here)
            return [request.connection for request in sink.requests]

    first, second, *again = run(scenario())
    assert first != second
    assert again == [first, second]


def test_a_credential_in_the_clear_goes_nowhere_but_here():
    """Whatever the operator allows beside, and whatever its name is."""

    async def scenario():
        rule = AddressRule(allow=(ipaddress.ip_network("192.0.2.0/24"),), loopback_allowed=True)
        resolver = TableResolver({"here.example": ["127.0.0.1"], "moved.example": ["192.0.2.1"]})
        async with FakeSink() as sink, opened(rule, resolver) as transport:
            port = sink.uri().rpartition(":")[2].rstrip("/")
            return [
                await send(transport, f"http://{name}:{port}/", credential=PLAIN, stays_here=True)
                for name in ("here.example", "moved.example")
            ]

    here, moved = run(scenario())
    assert here.status == 204
    assert (moved.reason, moved.retryable) == ("blocked-address", True)
    assert "cleartext_credentials" in str(moved)
