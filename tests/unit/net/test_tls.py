"""TLS of a listener, with real sockets: who gets in, how the others are counted, what it costs."""

import asyncio
import contextlib
import random
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop

from distributary.access import PeerCertificate
from distributary.access.peer import read_peer
from distributary.net.tls import (
    HTTP_ONLY,
    HandshakeFailure,
    Handshakes,
    Listener,
    ServerCertificates,
    _handshakes,
    make_context,
)
from kit.certificates import Authority, Pair, write_pair

AUTHORITY = Authority()
STRANGER = Authority("Stranger")


def run(scenario):
    """Run on the loop that the product uses; whatever it reports to its handler fails the test."""
    reported = []

    async def watched():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, context: reported.append(context))
        await scenario

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(watched())
    assert reported == []


def certificates(
    pair: Pair | None = None, client_ca: bytes | None = None, *, required: bool = False
) -> ServerCertificates:
    """What the files hold, without files."""
    pair = pair or AUTHORITY.server("localhost", "127.0.0.1")
    return ServerCertificates(
        chain=pair.certificate.decode(),
        key=pair.key.decode(),
        client_ca=None if client_ca is None else client_ca.decode(),
        required=required,
        not_after_s=0.0,
    )


async def until(holds) -> None:
    """Wait until *holds*, on the same event loop."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.002)


class Echo(asyncio.Protocol):
    """Answers with what it gets; keeps whom it talks to."""

    def __init__(self, seen: list[PeerCertificate | None]) -> None:
        self._seen = seen

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        found = transport.get_extra_info("peercert")
        self._seen.append(read_peer(found) if found else None)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]


class Listening(NamedTuple):
    port: int
    handshakes: Handshakes
    seen: list[PeerCertificate | None]
    contexts: list[ssl.SSLContext]
    """The last one counts."""

    async def failed(self, reason: HandshakeFailure, count: int = 1) -> None:
        """Wait until *count* handshakes have failed for *reason*, and none for another."""
        await until(lambda: self.handshakes.failures[reason] >= count)
        assert self.handshakes.failures == {reason: count}
        assert self.seen == []


@contextlib.asynccontextmanager
async def listening(
    found: ServerCertificates | None = None, **limits: int
) -> AsyncIterator[Listening]:
    """A listener that echoes."""
    contexts = [make_context(found or certificates(), alpn=HTTP_ONLY)]
    handshakes = Handshakes(lambda: contexts[-1], **limits)
    seen: list[PeerCertificate | None] = []
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener = Listener(sock, lambda: Echo(seen), handshakes)
    try:
        yield Listening(sock.getsockname()[1], handshakes, seen, contexts)
    finally:
        listener.close()


def trusting(authority: Authority = AUTHORITY, client: Path | None = None) -> ssl.SSLContext:
    """The context of a client, with its certificate if it has one."""
    context = ssl.create_default_context(cadata=authority.pem.decode())
    if client is not None:
        context.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
    return context


async def echoed(port: int, context: ssl.SSLContext) -> bytes:
    """What comes back over a new connection."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    writer.write(b"hello")
    try:
        return await reader.read(5)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def refused(port: int, context: ssl.SSLContext) -> None:
    """Connect in vain. With TLS 1.3 a client learns from its first read that it was refused."""
    with contextlib.suppress(OSError):
        assert await echoed(port, context) == b""


def test_shakes_hands_and_speaks_http_1_1_alone():
    """A client that offers HTTP/2 too is told HTTP/1.1; the version of TLS is 1.3."""

    async def scenario():
        async with listening() as server:
            context = trusting()
            context.set_alpn_protocols(["h2", "http/1.1"])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=context, server_hostname="localhost"
            )
            session = writer.get_extra_info("ssl_object")
            assert session.selected_alpn_protocol() == "http/1.1"
            assert session.version() == "TLSv1.3"
            writer.write(b"hello")
            assert await reader.read(5) == b"hello"
            writer.close()
            assert server.seen == [None]
            assert not server.handshakes.failures

    run(scenario())


@pytest.mark.parametrize("version", ["TLSv1", "TLSv1_1"], ids=["1.0", "1.1"])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_refuses_older_versions(version):
    """TLS 1.0 and 1.1 (RFC 8996) end in an alert, and are counted."""

    async def scenario():
        async with listening() as server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
            await refused(server.port, context)
            await server.failed(HandshakeFailure.VERSION)

    run(scenario())


def test_accepts_tls_1_2():
    """The oldest version that is not broken."""

    async def scenario():
        async with listening() as server:
            context = trusting()
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            assert await echoed(server.port, context) == b"hello"

    run(scenario())


def test_closes_a_plain_connection():
    """HTTP without TLS gets no answer: the connection ends, and the reason is counted."""

    async def scenario():
        async with listening() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                assert b"HTTP/1.1" not in await reader.read()
            writer.close()
            await server.failed(HandshakeFailure.PLAIN)

    run(scenario())


def test_any_bytes_end_in_a_count():
    """Nothing else happens, whatever a client sends: also what begins as TLS does."""
    chance = random.Random(7)
    beginnings = (b"", b"\x16\x03\x01\x00\x50\x01\x00\x00\x4c\x03\x03", b"\x80\x2e\x01\x00\x02")

    async def scenario():
        async with listening() as server:
            for number in range(150):
                reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(beginnings[number % 3] + chance.randbytes(chance.randrange(1, 300)))
                with contextlib.suppress(OSError):
                    writer.write_eof()
                    await reader.read()
                writer.close()
            await until(lambda: server.handshakes.failures.total() == 150)
            assert server.seen == []
            assert await echoed(server.port, trusting()) == b"hello"

    run(scenario())


def test_a_client_that_leaves_is_counted():
    """A port scan, and a check of a balancer that only connects."""

    async def scenario():
        async with listening() as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.close()
            await server.failed(HandshakeFailure.LEFT)

    run(scenario())


def test_a_client_that_does_not_trust_us_is_counted():
    """It ends the handshake with an alert, from which the operator learns of a wrong chain."""

    def connect(port: int) -> None:
        raw = socket.create_connection(("127.0.0.1", port))
        with raw, pytest.raises(ssl.SSLCertVerificationError):
            trusting(STRANGER).wrap_socket(raw, server_hostname="localhost")

    async def scenario():
        async with listening() as server:
            await asyncio.to_thread(connect, server.port)
            await server.failed(HandshakeFailure.UNTRUSTED)

    run(scenario())


CLIENTS = {
    "none": None,
    "of another authority": STRANGER.client(),
    "expired": AUTHORITY.client(days=-1),
    "of a server": AUTHORITY.server("localhost"),
}


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS)
def test_refuses_a_client_without_a_valid_certificate(client, tmp_path):
    """With ``required``: none of them reaches the protocol."""
    path = None if client is None else write_pair(tmp_path, "client", client)[0]

    async def scenario():
        async with listening(certificates(client_ca=AUTHORITY.pem, required=True)) as server:
            await refused(server.port, trusting(client=path))
            await server.failed(HandshakeFailure.CLIENT_CERTIFICATE)

    run(scenario())


@pytest.mark.parametrize("client", list(CLIENTS.values())[1:], ids=list(CLIENTS)[1:])
def test_an_optional_certificate_must_be_valid(client, tmp_path):
    """A client may have none; a wrong one is a mistake or an attack, and no anonymous client."""
    path, _ = write_pair(tmp_path, "client", client)

    async def scenario():
        async with listening(certificates(client_ca=AUTHORITY.pem)) as server:
            await refused(server.port, trusting(client=path))
            await server.failed(HandshakeFailure.CLIENT_CERTIFICATE)
            assert await echoed(server.port, trusting()) == b"hello"
            assert server.seen == [None]

    run(scenario())


def test_reads_the_names_of_the_client(tmp_path):
    """Alternative names identify the client; without any, its subject does."""
    names = AUTHORITY.client(
        uris=["spiffe://shop/till"], dns=["till.shop.svc"], emails=["till@shop.example"]
    )
    write_pair(tmp_path, "names", names)
    write_pair(tmp_path, "bare", AUTHORITY.client("till, east"))

    async def scenario():
        async with listening(certificates(client_ca=AUTHORITY.pem, required=True)) as server:
            assert await echoed(server.port, trusting(client=tmp_path / "names.crt")) == b"hello"
            assert await echoed(server.port, trusting(client=tmp_path / "bare.crt")) == b"hello"
            assert [peer.names for peer in server.seen if peer is not None] == [
                ("uri:spiffe://shop/till", "dns:till.shop.svc", "email:till@shop.example"),
                ("cn:till, east",),
            ]
            assert all(peer and peer.until_ms > time.time() * 1000 for peer in server.seen)

    run(scenario())


def test_a_client_with_a_certificate_presents_it_each_time(tmp_path):
    """No session is resumed past the check of the certificate."""
    write_pair(tmp_path, "client", AUTHORITY.client())

    def twice(port):
        context = trusting(client=tmp_path / "client.crt")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        session = None
        for _ in range(2):
            raw = socket.create_connection(("127.0.0.1", port))
            with context.wrap_socket(raw, server_hostname="localhost", session=session) as wrapped:
                wrapped.sendall(b"hello")
                wrapped.recv(5)
                assert not wrapped.session_reused
                session = wrapped.session

    async def scenario():
        async with listening(certificates(client_ca=AUTHORITY.pem, required=True)) as server:
            await asyncio.to_thread(twice, server.port)
            assert len([peer for peer in server.seen if peer is not None]) == 2

    run(scenario())


HOSTILE = {
    "lines": ("URI", "spiffe://shop/a\r\nx: y"),
    "endless": ("DNS", "x" * 3000),
    "empty": ("DNS", ""),
    "address": ("IP Address", "127.0.0.1"),
    "directory": ("DirName", ((("commonName", "x"),),)),
}


@pytest.mark.parametrize("name", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_identify_nobody(name):
    """What could forge a log line or a header; nor does the common name stand in for them."""
    found = {
        "subject": ((("commonName", "admin"),),),
        "subjectAltName": (name,),
        "notAfter": "Jan  5 09:34:43 2028 GMT",
    }
    assert read_peer(found) == PeerCertificate((), 1_830_677_683_000)


def test_a_hostile_common_name_identifies_nobody():
    """Nor does one of several lines."""
    found = {
        "subject": ((("commonName", "till\nadmin"),), (("organizationName", "Shop"),)),
        "notAfter": "Jan  5 09:34:43 2028 GMT",
    }
    assert read_peer(found).names == ()


def test_a_hung_handshake_ends(monkeypatch):
    """It has its time and no more; then the place is free."""
    monkeypatch.setattr(_handshakes, "HANDSHAKE_S", 0.2)

    async def scenario():
        async with listening() as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"\x16\x03\x01")  # the first bytes of a ClientHello
            await server.failed(HandshakeFailure.TIMEOUT)
            assert server.handshakes.count == 0
            with contextlib.suppress(ConnectionError):
                await reader.read()
            writer.close()

    run(scenario())


def test_hung_handshakes_are_bounded_and_keep_nobody_out(monkeypatch):
    """One more than the limit ends the oldest; a client that means it always gets in."""
    monkeypatch.setattr(_handshakes, "HANDSHAKES_MAX", 4)

    async def scenario():
        async with listening() as server:
            hung = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(10)]
            await until(lambda: server.handshakes.failures[HandshakeFailure.CROWDED] >= 6)
            assert server.handshakes.count == 4
            for _ in range(3):
                assert await echoed(server.port, trusting()) == b"hello"
            first = hung[0][0]
            assert await first.read() == b""  # the oldest was ended
            for _, writer in hung:
                writer.close()

    run(scenario())


def test_one_address_has_a_share_of_handshakes(monkeypatch):
    """Its own oldest makes room; those of others stay."""
    monkeypatch.setattr(_handshakes, "is_loopback", lambda address: address == "127.0.0.1")

    async def scenario():
        async with listening(per_address_max=2) as server:
            _, other = await asyncio.open_connection("127.0.0.1", server.port)
            far = [
                await asyncio.open_connection("127.0.0.1", server.port, local_addr=("127.0.0.2", 0))
                for _ in range(5)
            ]
            await until(lambda: server.handshakes.failures[HandshakeFailure.CROWDED] >= 3)
            assert server.handshakes.count == 3
            for writer in (other, *(writer for _, writer in far)):
                writer.close()

    run(scenario())


def test_a_new_certificate_holds_for_new_connections():
    """Connections under the old one go on."""
    newer = Authority("Newer")

    async def scenario():
        async with listening() as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=trusting(), server_hostname="localhost"
            )
            found = certificates(newer.server("localhost"))
            server.contexts.append(make_context(found))
            assert await echoed(server.port, trusting(newer)) == b"hello"
            writer.write(b"older")
            assert await reader.read(5) == b"older"
            writer.close()

    run(scenario())


def test_openssl_connects(tmp_path):
    """A client that shares no code with ours: the chain verifies, TLS 1.3, HTTP/1.1."""
    authorities = AUTHORITY.write(tmp_path / "ca.pem")

    async def scenario():
        async with listening() as server:
            process = await asyncio.create_subprocess_exec(
                *("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}"),
                *("-servername", "localhost", "-alpn", "h2,http/1.1", "-CAfile", authorities),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            assert b"Verify return code: 0 (ok)" in output
            assert b"ALPN protocol: http/1.1" in output
            assert b"TLSv1.3" in output

    run(scenario())


def test_what_comes_is_whole_however_it_comes():
    """Larger than any slice, in pieces of any size, with the end of the handshake, both ways."""
    chance = random.Random(11)
    content = chance.randbytes(3_000_000)

    async def scenario():
        async with listening() as server:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", server.port, ssl=trusting(), server_hostname="localhost"
            )

            async def send() -> None:
                at = 0
                while at < len(content):
                    size = chance.choice((1, 100, 4_095, 4_096, 4_097, 16_384, 70_000, 300_000))
                    writer.write(content[at : at + size])
                    at += size
                    await writer.drain()

            sending = asyncio.create_task(send())
            assert await reader.readexactly(len(content)) == content
            await sending
            writer.close()

    run(scenario())
