"""The HTTP transport and the rule for addresses, over real sockets on loopback."""

import asyncio
import socket

import pytest
import uvloop

from distributary.net import AddressRule, _connector, parse_networks
from distributary.resource import OwnAddresses
from kit.fake_sink import FakeSink, answer_and_close
from kit.http_attempts import TableResolver, opened, send


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


def test_names_the_blocked_address_and_dials_nothing():
    """A sink on loopback is refused by the rule; no connection arrives."""

    async def scenario():
        async with FakeSink() as sink, opened(rule=AddressRule()) as transport:
            literal = await send(transport, sink.uri())
            mixed = await send(transport, f"http://127.1:{sink.port}/")
            return literal, mixed, sink.connections

    literal, mixed, connections = run(scenario())
    assert literal.reason == mixed.reason == "blocked-address"
    assert literal.retryable  # as often as it takes: a setting may allow it one day
    assert connections == 0


def test_our_own_listener_is_not_dialled_under_any_name():
    """Names and addresses of this machine that lead to it, whatever the rule allows around it."""
    names = TableResolver({"me.example": ["127.0.0.1"], "also.example": ["127.0.0.7"]})

    async def scenario():
        async with FakeSink() as sink:
            rule = AddressRule(
                parse_networks(["0.0.0.0/0"]), True, OwnAddresses((), (("0.0.0.0", sink.port),))
            )
            async with opened(rule=rule, resolver=names) as transport:
                uris = [f"http://{host}:{sink.port}/x" for host in ("me.example", "also.example")]
                answers = [await send(transport, uri) for uri in (sink.uri(), *uris)]
                known = await send(transport, sink.uri("/events"), own=True)
            return answers, known, sink.connections

    answers, known, connections = run(scenario())
    assert [(answer.reason, answer.retryable) for answer in answers] == [
        ("blocked-address", True)
    ] * 3
    assert known.status == 204
    assert connections == 1


@pytest.mark.parametrize(
    ("error_data", "body"), [("none", b""), ("private-off", b""), ("all", b"secret of the inside")]
)
def test_errors_of_private_addresses_are_quoted_where_that_is_wanted(error_data, body):
    """A subscriber must not read by its dead letters what it cannot reach itself."""

    async def scenario():
        page = b"HTTP/1.1 403 No\r\ncontent-length: 20\r\n\r\nsecret of the inside"
        async with (
            FakeSink(answer_and_close(page)) as sink,
            opened(error_data=error_data) as transport,
        ):
            return await send(transport, sink.uri())

    answer = run(scenario())
    assert (answer.status, answer.body) == (403, body)


def test_checks_the_peer_that_was_reached(monkeypatch):
    """The last guard: whatever was dialled, the other end must be allowed too."""

    class Diverted(socket.socket):
        def getpeername(self):
            return ("10.0.0.1", 80)

    async def scenario():
        rule = AddressRule(allow=parse_networks(["127.0.0.1"]))
        async with FakeSink() as sink, opened(rule=rule) as transport:
            allowed = await send(transport, sink.uri("/a"))
            monkeypatch.setattr(_connector.socket, "socket", Diverted)
            async with opened(rule=rule) as other:
                diverted = await send(other, sink.uri("/b"))
            return allowed, diverted, sink.requests

    allowed, diverted, requests = run(scenario())
    assert allowed.status == 204
    assert diverted.reason == "blocked-address"
    assert [request.target for request in requests] == ["/a"]


def test_refuses_a_name_that_points_inside_and_outside():
    """Every answer is checked before any is dialled."""
    names = TableResolver({"mixed.example": ["93.184.216.34", "127.0.0.1"]})

    async def scenario():
        async with opened(rule=AddressRule(), resolver=names) as transport:
            return await send(transport, "http://mixed.example/")

    assert run(scenario()).reason == "blocked-address"
