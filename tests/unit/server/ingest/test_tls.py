"""The receiver over TLS, on real sockets: events, clients' certificates, and its own socket."""

import asyncio
import contextlib
import socket
import ssl
from pathlib import Path
from typing import NamedTuple

import pytest
import uvloop
from tests.unit.server.ingest.conftest import FakeAppends, event

from distributary.access import AccessSnapshot, CertificateRecord, Grant, Verb
from distributary.access.internal import InternalKey
from distributary.core.clock import SystemClock
from distributary.net.tls import HTTP_ONLY, Handshakes, ServerCertificates, make_context
from distributary.server.ingest import IngestServer, IngestSettings, serve
from kit.certificates import Authority, write_pair

AUTHORITY = Authority()
STATUS = Path("/proc/self/status")
TILL = AccessSnapshot(
    required=True,
    certificates=(
        CertificateRecord(
            pattern="uri:spiffe://shop/*",
            grants=(Grant(may=(Verb.PUBLISH,), namespaces=("default",)),),
        ),
    ),
)


def run(scenario):
    """Run on the loop that the product uses."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(scenario)


async def until(holds) -> None:
    """Wait until *holds*, on the same event loop."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.002)


class Receiver(NamedTuple):
    server: IngestServer
    handshakes: Handshakes
    appends: FakeAppends
    port: int
    own_path: str
    contexts: list[ssl.SSLContext]
    opened: list[asyncio.StreamWriter]

    def use(self, *, required: bool = False) -> None:
        """Take a new certificate."""
        self.contexts.append(context_of(required=required))

    async def connect(self, client=None):
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        if client is not None:
            context.load_cert_chain(*client)
        return self.keep(
            await asyncio.open_connection(
                "127.0.0.1", self.port, ssl=context, server_hostname="localhost"
            )
        )

    def keep(self, connection):
        """Close *connection* at the end."""
        self.opened.append(connection[1])
        return connection


def context_of(*, required: bool = False) -> ssl.SSLContext:
    """The context of a server with a new certificate."""
    pair = AUTHORITY.server("localhost")
    found = ServerCertificates(
        chain=pair.certificate.decode(),
        key=pair.key.decode(),
        client_ca=AUTHORITY.pem.decode(),
        required=required,
        not_after_s=0.0,
    )
    return make_context(found, alpn=HTTP_ONLY)


@contextlib.asynccontextmanager
async def receiving(tmp_path, *, access=None, settings=None, required=False):
    """A receiver over TLS, with a socket of its own."""
    contexts, opened = [context_of(required=required)], []
    handshakes = Handshakes(lambda: contexts[-1])
    appends = FakeAppends()
    sock = socket.create_server(("127.0.0.1", 0), backlog=1024)
    own_path = str(tmp_path / "own.sock")
    own = socket.socket(socket.AF_UNIX)
    own.bind(own_path)
    own.listen(64)
    server = await serve(
        sock,
        appends,
        settings=settings or IngestSettings(),
        control_socket=None,
        clock=SystemClock(),
        addresses={"events": "", "brokers/shop/till": "u1"},
        access=access,
        tls=handshakes,
        own=own,
    )
    try:
        yield Receiver(
            server, handshakes, appends, sock.getsockname()[1], own_path, contexts, opened
        )
    finally:
        await server.close(1.0)
        for writer in opened:
            writer.close()


async def status(reader) -> int:
    """The status of the next answer, whose head and body are read."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length")
    )
    await reader.readexactly(length)
    assert b"\r\nstrict-transport-security: max-age=31536000\r\n" in head
    return int(head.split(b" ", 2)[1])


async def published(reader, writer, request=None) -> int:
    """The status of the answer to *request*."""
    writer.write(request or event())
    return await status(reader)


def test_accepts_events(tmp_path):
    """Several on one connection, pipelined too; every answer keeps browsers to TLS."""

    async def scenario():
        async with receiving(tmp_path) as receiver:
            reader, writer = await receiver.connect()
            assert await published(reader, writer) == 202
            writer.write(event() * 3 + b"PUT /events HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert [await status(reader) for _ in range(4)] == [202, 202, 202, 405]
            assert len(receiver.appends.received) == 4

    run(scenario())


def test_a_refusal_reaches_a_client_that_still_sends(tmp_path):
    """413 before the body, and no reset that would discard it."""

    async def scenario():
        async with receiving(tmp_path, settings=IngestSettings(body_bytes_max=1000)) as receiver:
            reader, writer = await receiver.connect()
            writer.write(event(b"x" * 200_000))
            assert await status(reader) == 413
            assert await reader.read() == b""

    run(scenario())


def test_limits_of_connections_hold(tmp_path):
    """The longest idle one gives way, as over TCP."""

    async def scenario():
        async with receiving(tmp_path, settings=IngestSettings(connections_max=2)) as receiver:
            first, *_ = [await receiver.connect() for _ in range(3)]
            assert await first[0].read() == b""
            assert receiver.server.counters.connections_open == 2

    run(scenario())


def test_a_certificate_is_an_identity(tmp_path):
    """Its name decides what the client may do; without one the client is nobody."""
    till = write_pair(tmp_path, "till", AUTHORITY.client(uris=["spiffe://shop/till"]))
    other = write_pair(tmp_path, "other", AUTHORITY.client(uris=["spiffe://home/till"]))
    elsewhere = event().replace(b"/events", b"/brokers/shop/till")

    async def scenario():
        async with receiving(tmp_path, access=TILL) as receiver:
            reader, writer = await receiver.connect(till)
            for _ in range(4):  # parsed first, then in plain form
                assert await published(reader, writer) == 202
            assert await published(reader, writer, elsewhere) == 403
            assert await published(*await receiver.connect(other)) == 401
            assert await published(*await receiver.connect()) == 401
            assert len(receiver.appends.received) == 4

    run(scenario())


def test_certificates_of_a_removed_authority_count_no_more(tmp_path):
    """An idle connection ends; one with a request under way answers it, and no other."""
    till = write_pair(tmp_path, "till", AUTHORITY.client(uris=["spiffe://shop/till"]))

    async def scenario():
        async with receiving(tmp_path, access=TILL) as receiver:
            idle = await receiver.connect(till)
            busy = await receiver.connect(till)
            stranger = await receiver.connect()
            assert await published(*idle) == 202
            receiver.appends.held = True
            busy[1].write(event())
            await until(lambda: receiver.appends.waiting)
            receiver.server.forget_certificates()
            assert await idle[0].read() == b""
            busy[1].write(event())
            receiver.appends.settle()
            assert await status(busy[0]) == 202
            assert await status(busy[0]) == 401
            assert await busy[0].read() == b""
            assert await published(*stranger) == 401

    run(scenario())


def failed(tasks) -> bool:
    """Whether any has ended early."""
    return any(task.done() for task in tasks)


@pytest.mark.slow
def test_no_request_is_refused_while_certificates_change(tmp_path):
    """A stream of requests, some on new connections, through 20 changes."""

    async def publish(receiver, stop, counts):
        connection = await receiver.connect()
        while not stop.is_set():
            counts.append(await published(*connection))
            if len(counts) % 5 == 0:
                connection[1].close()
                connection = await receiver.connect()

    async def scenario():
        async with receiving(tmp_path) as receiver:
            stop, counts = asyncio.Event(), []
            tasks = [asyncio.create_task(publish(receiver, stop, counts)) for _ in range(8)]
            for number in range(20):
                receiver.use()
                wanted = 20 * number
                await until(lambda wanted=wanted: len(counts) >= wanted or failed(tasks))
            stop.set()
            await asyncio.gather(*tasks)
            assert set(counts) == {202}
            assert not receiver.handshakes.failures
            assert len(receiver.appends.received) == len(counts)

    run(scenario())


def test_the_server_itself_publishes_by_its_own_socket(tmp_path):
    """Without TLS, and with a token of its own as everybody."""
    key = InternalKey(bytes(32))
    token = f"authorization: Bearer {key.token('shop')}\r\n".encode()
    access = AccessSnapshot(required=True, internal=key.public)

    async def scenario():
        async with receiving(tmp_path, access=access, required=True) as receiver:
            connection = await asyncio.open_unix_connection(receiver.own_path)
            reader, writer = receiver.keep(connection)
            shop = event(more=token).replace(b"/events", b"/brokers/shop/till")
            assert await published(reader, writer, shop) == 202
            assert await published(reader, writer, event(more=token)) == 403
            assert await published(reader, writer) == 401

    run(scenario())


def test_a_stop_ends_handshakes_and_idle_connections(tmp_path):
    """None of them makes it wait."""

    async def scenario():
        async with receiving(tmp_path) as receiver:
            hung, _ = receiver.keep(await asyncio.open_connection("127.0.0.1", receiver.port))
            idle, _ = await receiver.connect()
            await until(lambda: receiver.handshakes.count)
        for reader in (hung, idle):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""

    run(scenario())


def test_bodies_of_strangers_cost_next_to_nothing(tmp_path):
    """Each is refused with its head; what follows is thrown away in slices, and none is kept."""
    count, body = 30, b"x" * 1_000_000
    opened = []

    def kib() -> int:
        (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1])

    def ask(port: int) -> None:
        context = ssl.create_default_context(cadata=AUTHORITY.pem.decode())
        for _ in range(count):
            raw = socket.create_connection(("127.0.0.1", port))
            opened.append(context.wrap_socket(raw, server_hostname="localhost"))
            opened[-1].sendall(event(body))
            assert opened[-1].recv(100).startswith(b"HTTP/1.1 401 ")

    async def scenario():
        async with receiving(tmp_path, access=TILL) as receiver:
            ask_once = asyncio.to_thread(ask, receiver.port)
            before = kib()
            await ask_once
            assert receiver.server.counters.connections_open == count
            # Of both ends: 190 KiB. It was 630 where buffers of the event loop held the bodies.
            assert kib() - before < count * 400
            for connection in opened:
                connection.close()

    run(scenario())
