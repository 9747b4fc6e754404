"""The receiver on real sockets: a real HTTP client, a real control process, a real end."""

import asyncio
import http.client
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from distributary.core.clock import SystemClock
from distributary.core.errors import LogError
from distributary.core.flow import Received, RecordKind, decode_addressed
from distributary.server.ingest import IngestServer, IngestSettings, serve

pytestmark = pytest.mark.slow

EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}


class Appends:
    """Durable at once, or held."""

    open = True
    splits = False

    def __init__(self) -> None:
        self.held = False
        self.came = asyncio.Event()
        self.received: list[Received] = []
        self.waiting: list[Callable[[LogError | None], None]] = []

    def submit(self, received: Received, done: Callable[[LogError | None], None]) -> None:
        self.received.append(received)
        if self.held:
            self.waiting.append(done)
            self.came.set()
        else:
            done(None)


def listener() -> socket.socket:
    """A listening socket on a free port."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen()
    return sock


async def start(
    appends: Appends, control: Path | None = None, addresses: dict[str, str] | None = None
) -> tuple[IngestServer, int]:
    """A receiver and its port."""
    sock = listener()
    port = sock.getsockname()[1]
    server = await serve(
        sock,
        appends,
        settings=IngestSettings(),
        control_socket=control,
        clock=SystemClock(),
        addresses=addresses,
    )
    return server, port


def exchange(port: int, *requests: tuple) -> list[tuple[int, dict, bytes]]:
    """Sends requests on one connection with the standard library's client."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    answers = []
    for method, path, body, fields in requests:
        connection.request(method, path, body, fields)
        response = connection.getresponse()
        answers.append((response.status, dict(response.headers), response.read()))
    connection.close()
    return answers


def run(main, *, loop: str) -> None:
    """Runs *main* on the named event loop."""
    if loop == "uvloop":
        uvloop.run(main())
    else:
        asyncio.run(main())


LOOPS = pytest.mark.parametrize("loop", ["uvloop", "asyncio"])


@LOOPS
def test_events_over_a_socket(loop):
    """Length and chunks, big and small, on one kept connection."""

    async def main() -> None:
        appends = Appends()
        server, port = await start(appends)
        big = b"x" * 1_000_000
        answers = await asyncio.to_thread(
            exchange,
            port,
            ("POST", "/events", b"{}", EVENT),
            ("POST", "/events", big, EVENT),
            ("POST", "/events", iter([b"abc", b"def"]), EVENT),
            ("POST", "/events", b"x" * 1_048_577, EVENT),
        )
        assert [answer[0] for answer in answers] == [202, 202, 202, 413]
        assert big in appends.received[1].body
        assert b"abcdef" in appends.received[2].body
        await server.close(1)

    run(main, loop=loop)


@LOOPS
def test_brokers_and_channels_over_a_socket(loop):
    """Events for each on one connection; what changes counts for connections that are open."""

    async def main() -> None:
        appends = Appends()
        known = {"brokers/default/default": "", "brokers/shop/orders": "b", "channels/shop/x": "c"}
        server, port = await start(appends, addresses=known)
        paths = ("/brokers/shop/orders", "/channels/shop/x", "/brokers/default/default", "/events")
        asked = [("POST", path, b"{}", EVENT) for path in paths]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        assert await asyncio.to_thread(statuses, connection, asked) == [202] * 4
        kinds = [(one.kind, one.body) for one in appends.received]
        assert [kind for kind, _ in kinds] == [RecordKind.ADDRESSED] * 2 + [RecordKind.EVENTS] * 2
        assert [decode_addressed(body).address for _, body in kinds[:2]] == ["b", "c"]
        server.learn({"brokers/shop/orders": "b2"})
        assert await asyncio.to_thread(statuses, connection, asked) == [202, 404, 404, 202]
        assert decode_addressed(appends.received[4].body).address == "b2"
        looping = ("POST", "/events", b"{}", {**EVENT, "ce-knativebrokerttl": "1"})
        assert await asyncio.to_thread(statuses, connection, [looping]) == [400]
        assert server.counters.refusals_by_code == {"notfound": 2, "hop-limit": 1}
        connection.close()
        await server.close(1)

    run(main, loop=loop)


def statuses(connection: http.client.HTTPConnection, requests: list[tuple]) -> list[int]:
    """What each of *requests* is answered, on one connection."""
    found = []
    for method, path, body, fields in requests:
        connection.request(method, path, body, fields)
        response = connection.getresponse()
        response.read()
        found.append(response.status)
    return found


@LOOPS
def test_other_paths_reach_the_control_process(loop):
    """Over a Unix socket and back; 503 while it is not there."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(head), head))
        await writer.drain()
        writer.close()

    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "control"
            server, port = await start(Appends(), path)
            get = ("GET", "/subscriptions?limit=1", None, {"x-a": "b"})
            ((status, fields, _),) = await asyncio.to_thread(exchange, port, get)
            assert (status, fields["retry-after"]) == (503, "1")
            control = await asyncio.start_unix_server(answer, path)
            first, second = await asyncio.to_thread(exchange, port, get, get)
            assert first[0] == second[0] == 200
            assert first[2].startswith(b"GET /subscriptions?limit=1 HTTP/1.1\r\n")
            assert b"x-forwarded-for: 127.0.0.1\r\n" in first[2]
            control.close()
            await server.close(1)

    run(main, loop=loop)


@LOOPS
def test_a_refusal_is_read_although_the_client_still_sends(loop):
    """413 arrives whole while the client pushes its body: no reset takes it along."""

    async def main() -> None:
        server, port = await start(Appends())
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /events HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2000000\r\n\r\n")
        writer.write(b"x" * 2_000_000)
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert answer.endswith(b"}")
        writer.close()
        await server.close(1)
        assert server.counters.connections_open == 0

    run(main, loop=loop)


@LOOPS
def test_shutdown_answers_what_is_in_flight(loop):
    """Close waits for the log's word; new connections are refused."""

    async def main() -> None:
        appends = Appends()
        appends.held = True
        server, port = await start(appends)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
        writer.write(f"POST /events HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
        await appends.came.wait()
        closing = asyncio.create_task(server.close(10))
        await asyncio.sleep(0)
        with pytest.raises(OSError, match=r"."):
            await asyncio.open_connection("127.0.0.1", port)
        appends.waiting.pop()(None)
        assert (await reader.read()).startswith(b"HTTP/1.1 202 ")
        await closing
        writer.close()

    run(main, loop=loop)


@LOOPS
def test_shutdown_ends_at_its_deadline(loop):
    """An append that never ends does not keep the process."""

    async def main() -> None:
        appends = Appends()
        appends.held = True
        server, port = await start(appends)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        lines = "".join(f"{name}: {value}\r\n" for name, value in EVENT.items())
        writer.write(f"POST /events HTTP/1.1\r\nhost: localhost\r\n{lines}\r\n".encode())
        await appends.came.wait()
        await server.close(0.05)
        try:
            rest = await reader.read()
        except ConnectionResetError:
            rest = b""
        assert rest == b""
        writer.close()

    run(main, loop=loop)
