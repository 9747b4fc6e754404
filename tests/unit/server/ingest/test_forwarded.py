"""Where a request comes from: what proxies say counts only from those that are trusted."""

import pytest
from tests.unit.server.ingest.conftest import event

from distributary.server.ingest import IngestSettings, TrustedProxies
from distributary.server.ingest._forwarded import HOPS_MAX, Client

PROXIES = TrustedProxies(("10.0.0.0/8", "2001:db8:1::/48"))


def said(*values: bytes) -> list[tuple[bytes, bytes]]:
    """Header fields with these addresses."""
    return [(b"x-forwarded-for", value) for value in values]


CHAINS = {
    "none": ((), "10.0.0.1"),
    "one": ((b"192.0.2.7",), "192.0.2.7"),
    "through two of ours": ((b"192.0.2.7, 10.2.3.4",), "192.0.2.7"),
    "in two fields": ((b"192.0.2.7", b"10.2.3.4"), "192.0.2.7"),
    "what the client wrote itself": ((b"127.0.0.1, 192.0.2.7",), "192.0.2.7"),
    "ours, pretended by the client": ((b"10.9.9.9, 192.0.2.7, 10.2.3.4",), "192.0.2.7"),
    "with a port": ((b"192.0.2.7:4711",), "192.0.2.7"),
    "version 6": ((b"2001:db8::7",), "2001:db8::7"),
    "version 6 with a port": ((b"[2001:db8::7]:4711",), "2001:db8::7"),
    "version 4 in version 6": ((b"::ffff:192.0.2.7",), "192.0.2.7"),
    "all ours": ((b"10.0.0.3, 10.0.0.2",), "10.0.0.3"),
    "no address": ((b"unknown",), "10.0.0.1"),
    "garbage before one of ours": ((b"\xff\r, 10.0.0.2",), "10.0.0.2"),
    "empty": ((b"",), "10.0.0.1"),
}


@pytest.mark.parametrize(("values", "client"), CHAINS.values(), ids=CHAINS)
def test_the_client_is_the_last_address_that_is_not_ours(values, client):
    """Whatever stands further left was written by somebody who is not trusted."""
    assert PROXIES.client(said(*values), "10.0.0.1").address == client


def test_a_chain_is_read_so_far():
    """A client cannot make it long."""
    chain = b"192.0.2.7" + b", 10.0.0.2" * HOPS_MAX
    assert PROXIES.client(said(chain), "10.0.0.1").address == "10.0.0.2"
    assert PROXIES.client(said(chain[:-10]), "10.0.0.1").address == "192.0.2.7"


def test_nobody_else_is_believed():
    """Nor anybody by default; a Unix socket is a name of its own."""
    fields = said(b"192.0.2.7")
    fields += [(b"x-forwarded-proto", b"https"), (b"x-forwarded-host", b"h")]
    for proxies in (PROXIES, TrustedProxies()):
        assert proxies.client(fields, "198.51.100.1") == Client("198.51.100.1")
        assert proxies.client(fields, None) == Client(None)
    by_socket = TrustedProxies(("unix",))
    assert by_socket.client(fields, None) == Client("192.0.2.7", b"https", b"h")
    assert by_socket.client(fields, "10.0.0.1") == Client("10.0.0.1")


def test_scheme_and_host_are_the_last_that_were_said():
    """As the nearest proxy, which is trusted, wrote them."""
    fields = [
        (b"x-forwarded-proto", b"ftp"),
        (b"x-forwarded-proto", b"http, HTTPS"),
        (b"x-forwarded-host", b"evil.example, events.example"),
        (b"forwarded", b"for=192.0.2.9;proto=http"),
    ]
    assert PROXIES.client(fields, "10.0.0.1") == Client("10.0.0.1", b"https", b"events.example")
    strange = [(b"x-forwarded-proto", b"javascript")]
    assert PROXIES.client(strange, "10.0.0.1").scheme == b""


SPOKEN = (
    b"x-forwarded-for: 192.0.2.7\r\nx-forwarded-proto: https\r\n"
    b"x-forwarded-host: events.example\r\nforwarded: for=192.0.2.9\r\n"
    b"x-real-ip: 192.0.2.8\r\nx-forwarded-port: 1\r\n"
)


@pytest.mark.parametrize(
    ("trusted", "told"),
    [
        ((), {b"x-forwarded-for": b"127.0.0.1"}),
        (
            ("127.0.0.0/8",),
            {
                b"x-forwarded-for": b"192.0.2.7",
                b"x-forwarded-proto": b"https",
                b"x-forwarded-host": b"events.example",
            },
        ),
    ],
    ids=["stranger", "trusted"],
)
def test_the_control_process_is_told_what_is_known(client, relayed, trusted, told):
    """And nothing that came: the audit log names the client, not what it claims to be."""
    client.context.proxies = TrustedProxies(trusted)
    client.send(b"DELETE /subscriptions/a HTTP/1.1\r\nhost: localhost\r\n" + SPOKEN + b"\r\n")
    lines = [line.partition(b": ") for line in relayed().split(b"\r\n")[1:]]
    found = {name: value for name, _, value in lines if b"forward" in name or b"real" in name}
    assert found == told


@pytest.fixture
def relayed(client):
    """What the control process got."""
    upstreams = []

    def dial(relay, _failed, _path):
        upstreams.append(type(client.transport)(relay, ""))
        relay.connection_made(upstreams[-1])

    client.context.dial = dial
    return lambda: bytes(upstreams[-1].written)


PAGE = b"POST /events HTTP/1.1\r\nhost: %s\r\norigin: https://events.example\r\n"


@pytest.mark.parametrize(
    ("host", "trusted", "status"),
    [
        (b"127.0.0.1:8080", (), 403),
        (b"127.0.0.1:8080", ("127.0.0.0/8",), 415),
        (b"rebound.example", ("127.0.0.0/8",), 421),
    ],
    ids=["stranger", "trusted", "rebound"],
)
def test_a_page_of_the_host_that_the_proxy_was_asked_for_is_no_foreign_one(
    client, host, trusted, status
):
    """A proxy may replace ``Host``. A page under a rebound name cannot: that name is checked."""
    client.context.proxies = TrustedProxies(trusted)
    head = PAGE % host + b"x-forwarded-host: events.example\r\ncontent-encoding: gzip\r\n"
    assert client.statuses(head + b"content-length: 0\r\n\r\n") == [status]


def test_a_trusted_proxy_has_no_limit_of_an_address(client):
    """Its connections are those of many clients; others keep theirs."""
    context = client.context
    context.settings = IngestSettings(connections_per_address_max=1)
    context.proxies = PROXIES
    for address, admitted in (("10.0.0.1", 3), ("192.0.2.7", 1)):
        connections = [object() for _ in range(3)]
        assert [context.enter(one, address) for one in connections].count(True) == admitted


def test_an_event_is_accepted_whatever_is_said(client):
    """It costs the hot path nothing: nobody asks where an event comes from."""
    assert client.statuses(event(more=SPOKEN)) == [202]
