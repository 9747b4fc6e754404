"""Logging in, TLS, and connections that break, fall silent or were never NATS."""

import asyncio

import pytest

from distributary.core.clock import SystemClock
from distributary.core.deliver import Destination
from distributary.core.deliver.credential import ClientCertificate, Credential
from distributary.core.errors import TransportError
from distributary.core.policy import delivered
from distributary.net import AddressRule, CachingResolver, Connector, SystemResolver
from distributary.protocols.nats.settings import NatsSettings
from distributary.protocols.nats.sink import _connection, _session, make
from distributary.testing.check_transport import an_event
from kit.cutting_proxy import CuttingProxy
from kit.fake_nats import INFO, FakeNats
from kit.servers import Authority
from kit.servers.nats import NatsServer


def test_a_token_logs_in(way, run):
    """ACCESSTOKEN, and what a REFRESHTOKEN was traded for, is NATS's token."""

    async def scenario():
        with NatsServer(token="s3cret", tls="none") as server:
            async with way() as here:
                for kind in ("ACCESSTOKEN", "REFRESHTOKEN"):
                    here.credential = Credential(kind, access_token="s3cret")
                    answer = await here.send(here.to(server.port, "orders.x"))
                    assert answer.code == "flushed"
                here.credential = Credential("ACCESSTOKEN", access_token="wrong")
                answer = await here.send(here.to(server.port, "orders.x"))
                assert answer.code == "authorization-violation"

    run(scenario())


@pytest.mark.parametrize("identifier", ["tester", "nobody"])
def test_a_wrong_password_is_told_and_tried_again(way, run, nats_server, identifier):
    """The event was never judged."""

    async def scenario():
        async with way() as here:
            here.credential = Credential("PLAIN", identifier, "wrong")
            answer = await here.send(here.to(nats_server.port, "orders.x"))
            assert answer.code == "authorization-violation"

    run(scenario())


def test_without_a_credential_nobody_is_let_in(way, run, nats_server):
    """Nothing of another subscription's login is used."""

    async def scenario():
        async with way() as here:
            assert (await here.send(here.to(nats_server.port, "orders.x"))).code == "flushed"
            here.credential = None
            answer = await here.send(here.to(nats_server.port, "orders.x"))
            assert answer.code == "authorization-violation"

    run(scenario())


@pytest.mark.parametrize("scheme", ["tls", "nats"])
@pytest.mark.parametrize("tls", ["offered", "required"])
def test_tls_is_had_where_either_side_asks_for_it(way, run, authority, scheme, tls):
    """``tls`` insists, ``nats`` goes along; both know the server by its certificate."""

    async def scenario():
        with NatsServer(authority, tls=tls) as server, CuttingProxy(server.port) as wire:
            async with way() as here:
                uri = f"{scheme}://localhost:{wire.port}"
                trusting = here.to(0, "orders.x", uri=uri, ca_certs=authority.ca_certs)
                answers = await here.send_all(trusting, 50)
                assert {answer.code for answer in answers} == {"flushed"}

    run(scenario())


@pytest.mark.parametrize("tls", ["offered", "required"])
@pytest.mark.parametrize("scheme", ["ws", "wss"])
def test_a_server_is_reached_by_websocket(way, run, authority, scheme, tls):
    """TLS belongs to the tunnel there, whatever the other listener asks for."""

    async def scenario():
        with NatsServer(authority, tls=tls, ws_tls=scheme == "wss") as server:
            async with way() as here:
                uri = f"{scheme}://localhost:{server.ws_port}/"
                to = here.to(0, "orders.x", uri=uri, ca_certs=authority.ca_certs)
                large = an_event(data=b'"' + b"x" * 300_000 + b'"')
                answers = await here.send_all(to, 50)
                answers.append(await here.send(to, large))
                assert {answer.code for answer in answers} == {"flushed"}
                here.credential = None
                refused = await here.send(here.to(0, "x", uri=uri, ca_certs=authority.ca_certs))
                assert refused.code == "authorization-violation"

    run(scenario())


BAD = [
    (fault, scheme)
    for fault in ("unknown-authority", "wrong-name", "expired")
    for scheme in ("tls", "nats")
]


@pytest.mark.parametrize("bad", BAD, ids="-".join)
def test_a_certificate_that_is_not_good_is_refused(way, run, authority, tmp_path, bad):
    """No password is sent to whoever shows such a one."""
    fault, scheme = bad
    signer = Authority(tmp_path) if fault == "unknown-authority" else authority
    certificate = signer.server(
        fault,
        names=("elsewhere.example",) if fault == "wrong-name" else ("localhost",),
        addresses=() if fault == "wrong-name" else ("127.0.0.1",),
        days=-1 if fault == "expired" else 30,
    )

    async def scenario():
        with NatsServer(authority, certificate=certificate, tls="required") as server:
            async with way() as here:
                uri = f"{scheme}://localhost:{server.port}"
                answer = await here.send(
                    here.to(0, "orders.x", uri=uri, ca_certs=authority.ca_certs)
                )
                assert isinstance(answer, TransportError)
                assert answer.reason == "tls"

    run(scenario())


def test_tls_insists_where_the_server_has_none(way, run, authority):
    """No login and no event leaves in the clear."""

    async def scenario():
        async with FakeNats() as server, way() as here:
            uri = f"tls://localhost:{server.port}"
            answer = await here.send(here.to(0, "orders.x", uri=uri, ca_certs=authority.ca_certs))
            assert answer.reason == "tls"
            assert not server.connects

    run(scenario())


GARBAGE = {
    "nothing": b"",
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "no-json": b"INFO {\r\n",
    "no-object": b"INFO []\r\n",
    "no-line": b"x" * 100_000,
    "zeros": b"\x00" * 10 + b"\r\n",
    "not-utf-8": b'INFO {"version": "\xff"}\r\n',
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_server_that_does_not_speak_nats_is_an_error(way, run, garbage):
    """Of the protocol, or of time; nothing else, and no login is sent to it."""

    async def scenario():
        async with FakeNats(info=garbage) as server, way() as here:
            answer = await here.send(here.to(server.port, "orders.x"), timeout_s=0.5)
            assert isinstance(answer, TransportError)
            assert answer.reason in {"protocol", "reset", "timeout"}
            assert not server.connects

    run(scenario())


ODD_INFO = {
    "types": {"max_payload": "big", "headers": 1, "tls_required": "yes", "connect_urls": 7},
    "empty": {},
    "others": INFO | {"connect_urls": ["10.0.0.1:4222", "[::1]:4222"], "nonce": "abc"},
}


@pytest.mark.parametrize("info", ODD_INFO.values(), ids=ODD_INFO)
def test_what_a_server_says_of_itself_is_not_trusted(way, run, info):
    """Values of other types count as absent; other servers that it names are never dialled."""

    async def scenario():
        async with FakeNats(info=info) as server, way() as here:
            destination = here.to(server.port, "orders.x", format="structured")
            assert (await here.send(destination)).code == "stored"
            assert len(server.connects) == 1

    run(scenario())


@pytest.mark.parametrize(
    "answer",
    [
        b"\x00\xff\r\n",
        b"MSG\r\n",
        b"MSG a b c d e\r\n",
        b"HMSG x 1000001 9999 3\r\nabc\r\n",
        b"MSG x 1000001 -1\r\n",
        b"MSG _INBOX.x.zzz 1000001 3\r\nabc\r\n",
        b"PONG\r\nPONG\r\nPONG\r\n",
        b"INFO {\r\n",
        b"-ERR\r\n",
        b"+OK\r\n" * 100,
    ],
)
def test_garbage_instead_of_an_answer_is_no_answer(way, run, answer):
    """No stream has the event then; every attempt ends, also one that asks for no stream."""

    async def scenario():
        async with FakeNats(lambda _: answer) as server, way() as here:
            for jetstream in (None, False):
                destination = here.to(server.port, "orders.x", jetstream=jetstream)
                said = await here.send(destination, timeout_s=0.3)
                if jetstream is None:
                    assert isinstance(said, TransportError), said
                    assert said.retryable

    run(scenario())


@pytest.mark.parametrize("garbage", [b"INFO {\r\n", b"-ERR \r\n", b"MSG x 1000001 9999999\r\n"])
def test_garbage_ends_the_connection_at_once(way, run, garbage):
    """It is never deaf: what is sent later is not told as flushed, nor taken in without end."""

    async def scenario():
        async with FakeNats(lambda _: garbage, pongs_max=1) as server, way() as here:
            destination = here.to(server.port, "a.b", jetstream=False)
            for count in (1, 2):
                answer = await here.send(destination)
                assert answer.reason == "protocol"
                assert len(server.connects) == count

    run(scenario())


def test_a_line_without_an_end_is_not_taken_in_without_end(way, run):
    """The connection is ended instead."""

    async def scenario():
        line = b"x" * 100_000
        async with FakeNats(lambda _: line, pongs_max=1) as server, way() as here:
            answer = await here.send(here.to(server.port, "a.b", jetstream=False))
            assert answer.reason == "protocol"

    run(scenario())


def test_a_server_that_answers_no_ping_is_left(way, run, monkeypatch):
    """What it would say later, to that PING, is never taken for the answer to another."""
    monkeypatch.setattr(_session, "FLUSH_S_MAX", 0.05)

    async def scenario():
        async with FakeNats(lambda _: b"", pongs_max=1) as server, way() as here:
            destination = here.to(server.port, "a.b", jetstream=False)
            for count in (1, 2):
                answer = await here.send(destination)
                assert getattr(answer, "reason", answer) == "timeout"
                assert len(server.connects) == count

    run(scenario())


def test_a_server_that_is_killed_and_started_again_loses_nothing(way, run, authority, name, until):
    """What was acknowledged is in the stream; the rest was told as broken."""

    async def scenario():
        with NatsServer(authority) as server:
            await server.create_stream(name, name)
            async with way() as here:
                destination = here.to(server.port, name)
                assert (await here.send(destination, an_event(0))).code == "stored"
                attempts = [
                    asyncio.ensure_future(here.send(destination, an_event(number), 60.0))
                    for number in range(1, 8000)
                ]
                await until(attempts[500].done)
                server.kill()
                answers = await asyncio.gather(*attempts)
                await asyncio.to_thread(server.start)
                await here.delivers_again(destination)
                there = {headers["ce-id"] for _, headers, _ in await server.stored(name)}
                acknowledged = {
                    f"check-{number}"
                    for number, answer in enumerate(answers, start=1)
                    if delivered(answer)
                }
                assert len(acknowledged) >= 500
                assert acknowledged <= there
                others = [answer for answer in answers if not delivered(answer)]
                assert {answer.reason for answer in others} <= {"reset", "refused"}
                assert others

    run(scenario())


def test_a_server_that_falls_silent_is_left_and_found_again(way, run, authority, name):
    """Nothing was answered since: another connection is made, once there is somebody."""

    async def scenario():
        with NatsServer(authority) as server:
            await server.create_stream(name, name)
            async with way() as here:
                destination = here.to(server.port, name)
                assert (await here.send(destination)).code == "stored"
                server.pause()
                answers = await here.send_all(destination, 20, timeout_s=1.2)
                assert {answer.reason for answer in answers} <= {"timeout", "reset"}
                server.resume()
                await here.delivers_again(destination)

    run(scenario())


def test_the_address_rule_holds(run, nats_server):
    """The one connector dials: an address that is not allowed is never reached."""

    async def scenario():
        clock = SystemClock()
        connector = Connector(AddressRule(), CachingResolver(SystemResolver(), clock))
        transport = make(connector, clock, asyncio.get_running_loop())
        answer = asyncio.get_running_loop().create_future()
        uri = f"nats://127.0.0.1:{nats_server.port}"
        destination = Destination(uri, protocol="NATS", settings=NatsSettings("x"))
        transport.send(an_event(), destination, 5.0, answer.set_result)
        assert (await answer).reason == "blocked-address"
        await transport.close()

    run(scenario())


def test_a_wire_that_is_half_open_is_found_by_pings(way, run, until, monkeypatch):
    """One PING that is not answered when the next is due ends the connection."""
    monkeypatch.setattr(_connection, "PING_S", 1.0)

    async def scenario():
        async with FakeNats(pongs_max=1) as server, way() as here:
            assert (await here.send(here.to(server.port, "a.b"))).code == "stored"
            assert server.connected == 1
            await until(lambda: server.connected == 0)
            assert (await here.send(here.to(server.port, "a.b"))).code == "stored"

    run(scenario())


def test_a_client_certificate_is_shown_to_a_server_that_asks_for_one(way, run, authority, name):
    """After the upgrade to TLS; without one nothing is delivered."""
    files = authority.server("client")
    shown = ClientCertificate(files.certificate.read_text(), files.key.read_text())

    async def scenario():
        with NatsServer(authority, tls="required", certified=True) as server:
            async with way() as it:
                uri = f"tls://localhost:{server.port}"
                return [
                    await it.send(
                        it.to(
                            0, name, uri=uri, ca_certs=authority.ca_certs, client_certificate=each
                        )
                    )
                    for each in (shown, None)
                ]

    with_it, without = run(scenario())
    assert delivered(with_it)
    assert isinstance(without, TransportError)
