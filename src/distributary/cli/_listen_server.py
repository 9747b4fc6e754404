"""A sink: an HTTP server that accepts any request, reports it, and misbehaves on request.

Control paths: ``GET /__stats`` and ``PUT /__behaviour`` (JSON of ``_behaviour.Behaviour``).
Every other path is a sink.

Callers: ``listen``, the demo, end-to-end tests, benchmarks (their receiving side: without an
observer of arrivals, and with good behaviour, a request costs one parse and one write).
Hides: parsing, pipelining, responses in order, resets, dripping and endless responses.
Parses with llhttp, not with ``http1``: a sink accepts any path, and where it only counts, it
skips the header, so that a benchmark does not measure its sink.
"""

import asyncio
import collections
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple, Protocol, cast

import httptools
import msgspec

from distributary.cli import _behaviour
from distributary.cli._behaviour import Behaviour
from distributary.core.clock import Random, SystemRandom
from distributary.core.errors import ResourceError

BACKLOG = 1024
"""Connections waiting to be accepted: a router may open hundreds at once after a restart."""

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Largest request body kept: the largest event that ``serve`` can be set to accept."""

DRIP_S = 1.0
"""Seconds between two bytes of a slow response: longer than any sane idle timeout."""

DRIP_BODY = b"slow answer, one byte a second, sixty-four bytes, more than a minute"
CHUNK = b"10000\r\n" + bytes(0x10000) + b"\r\n"
"""One chunk (64 KiB) of an endless body."""

_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
_PREFLIGHT = (
    b"HTTP/1.1 200 OK\r\nallow: POST, OPTIONS\r\nwebhook-allowed-origin: *\r\n"
    b"webhook-allowed-rate: *\r\ncontent-length: 0\r\n\r\n"
)
_NO_LINGER = struct.pack("ii", 1, 0)
"""SO_LINGER with zero wait: closing sends a reset instead of an orderly end."""


class Timers(Protocol):
    """The part of an event loop that the server needs."""

    def call_later(self, delay: float, callback: Callable[[], object]) -> object:
        """Call *callback* once after *delay* seconds."""


class Request(NamedTuple):
    """One request, after the response or the lack of one.

    Attributes:
        path: Target without its query.
        headers: Names in lower case, in order.
        body: As received.
        status: Of the response; 0: none was sent.
    """

    path: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int


class Stats(msgspec.Struct, kw_only=True):
    """Counts since the start.

    Attributes:
        requests: Requests read whole, without those to ``/__stats`` and ``/__behaviour``.
        answered: Responses by status, as text.
        unanswered: Requests without a response.
        connections: Connections open now.
    """

    requests: int = 0
    answered: dict[str, int] = {}
    unanswered: int = 0
    connections: int = 0


class ListenServer:
    """A sink on one port.

    Args:
        behaviour: How to respond, until ``behaviour`` is set.
        on_arrival: Called with each request once it has its response or was dropped; None saves
            the cost of keeping headers and bodies.
        path: The one path that is a sink, others respond 404; None: every path is.
        random: Source of chance for ``Behaviour.statuses``.
        timers: Runs delays; None: the running event loop.
    """

    def __init__(
        self,
        behaviour: Behaviour | None = None,
        *,
        on_arrival: Callable[[Request], None] | None = None,
        path: str | None = None,
        random: Random | None = None,
        timers: Timers | None = None,
    ) -> None:
        self.on_arrival = on_arrival
        self.path = path
        self.random = random or SystemRandom()
        self.timers = timers
        self.counts: collections.Counter[int] = collections.Counter()
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.behaviour = behaviour or Behaviour()

    @property
    def behaviour(self) -> Behaviour:
        """Behaviour for the next requests; setting it restarts ``fail_first``."""
        return self._behaviour

    @behaviour.setter
    def behaviour(self, behaviour: Behaviour) -> None:
        self._behaviour = behaviour
        self._seen = 0
        self.hurried = behaviour == Behaviour() and self.on_arrival is None and self.path is None
        """True while requests are only counted and answered 200."""

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Listen; returns the port, chosen by the system for 0. Raises OSError if it is in use."""
        loop = asyncio.get_running_loop()
        self.timers = self.timers or loop
        self._server = await loop.create_server(self.connect, host, port, backlog=BACKLOG)
        chosen: int = self._server.sockets[0].getsockname()[1]
        return chosen

    def connect(self) -> "Connection":
        """Make the protocol of a new connection; ``start`` passes this to the event loop."""
        return (Connection if self.on_arrival is None else KeepingConnection)(self)

    async def close(self) -> None:
        """Stop listening and cut every connection. Safe to call twice."""
        if self._server is not None:
            self._server.close()
            for connection in tuple(self.connections):
                connection.transport.abort()
            await self._server.wait_closed()
            self._server = None

    def stats(self) -> Stats:
        """Counts up to now."""
        return Stats(
            requests=self.counts.total(),
            answered={str(status): n for status, n in sorted(self.counts.items()) if status},
            unanswered=self.counts[0],
            connections=len(self.connections),
        )

    def next_status(self) -> int:
        """Choose the status for the next request."""
        self._seen += 1
        return _behaviour.choose_status(self._behaviour, self._seen, self.random.unit())


class Connection(asyncio.Protocol):
    """One connection. Requests that cannot be answered at once wait in order."""

    def __init__(self, server: ListenServer) -> None:
        self.server = server
        self.transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self._due = 0
        """Plain 200s to write after the current chunk is parsed."""
        self._waiting: collections.deque[_Pending] = collections.deque()
        self._busy = False
        self._writable = True
        self._resume: Callable[[], None] | None = None
        self._begin()

    def _begin(self) -> None:
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self.server.connections.add(self)
        if self.server.behaviour.reset == "connect":
            self._reset()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.server.connections.discard(self)
        for pending in self._waiting:
            self._tell(pending, 0)
        self._waiting.clear()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserUpgrade, httptools.HttpParserError):
            self._close_with(400)
        if self._due:
            self.transport.write(_OK * self._due)
            self._due = 0

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_body(self, body: bytes) -> None:
        if len(self._body) + len(body) > BODY_BYTES_MAX:
            self._close_with(413)
        elif self._body:
            self._body += body
        else:
            self._body = body

    def on_message_complete(self) -> None:
        server = self.server
        parser = self._parser
        if (
            server.hurried
            and not self._waiting
            and parser.get_method() != b"OPTIONS"
            and not self._url.startswith(b"/__")
            and parser.should_keep_alive()
        ):
            server.counts[200] += 1
            self._due += 1
            self._url = self._body = b""
            return
        path = self._url.partition(b"?")[0].decode("latin-1")
        method = parser.get_method().decode("latin-1")
        keeps = parser.should_keep_alive()
        self._waiting.append(_Pending(method, path, self._headers, self._body, keeps))
        self._begin()
        if not self._busy:
            self._next()

    # -- answering, one request after another ------------------------------------------------

    def _next(self) -> None:
        """Start on the oldest waiting request, if any."""
        if self._due:
            self.transport.write(_OK * self._due)
            self._due = 0
        self._busy = bool(self._waiting)
        if not self._waiting:
            return
        pending = self._waiting[0]
        behaviour = self.server.behaviour
        if pending.path.startswith("/__"):
            self._end(_control(self.server, pending))
        elif pending.method == "OPTIONS":
            self._end(_PREFLIGHT)
        elif behaviour.hang:
            return  # reported as unanswered when the connection closes
        elif behaviour.delay_s > 0:
            self._later(behaviour.delay_s, self._answer)
        else:
            self._answer()

    def _answer(self) -> None:
        if not self._waiting:
            return  # the connection was lost during the delay
        server = self.server
        pending = self._waiting[0]
        if server.path is not None and pending.path != server.path:
            self._end(_head(404, "") + b"content-length: 0\r\n\r\n", 404)
            return
        behaviour = server.behaviour
        status = server.next_status()
        head = _head(status, behaviour.retry_after)
        if behaviour.reset:
            self._cut(behaviour.reset, head, status)
        elif behaviour.slow == "head":
            self._drip(head + b"content-length: 0\r\n\r\n", lambda: self._end(b"", status))
        elif behaviour.slow == "body":
            self.transport.write(head + b"content-length: %d\r\n\r\n" % len(DRIP_BODY))
            self._tell(self._waiting[0], status)
            self._drip(DRIP_BODY, lambda: self._end(b""))
        elif behaviour.endless_body:
            self.transport.write(head + b"transfer-encoding: chunked\r\n\r\n")
            self._tell(self._waiting[0], status)
            self._pour()
        else:
            self._end(
                head + (b"\r\n" if _bodiless(status) else b"content-length: 0\r\n\r\n"), status
            )

    def _end(self, answer: bytes, status: int | None = None) -> None:
        """Write the end of a response; with *status* report the arrival. Then the next request."""
        pending = self._waiting.popleft()
        if answer:
            self.transport.write(answer)
        if status is not None:
            self._tell(pending, status)
        if not pending.keeps:
            self.transport.close()
        elif self._waiting:
            self._later(0, self._next)  # not at once: a thousand may wait, and the stack is short
        else:
            self._busy = False

    def _tell(self, pending: "_Pending", status: int) -> None:
        """Count the arrival and report it to the observer; once a request."""
        if pending.told or pending.path.startswith("/__"):
            return
        pending.told = True
        self.server.counts[status] += 1
        if self.server.on_arrival is not None:
            self.server.on_arrival(Request(pending.path, pending.headers, pending.body, status))

    def _cut(self, where: str, head: bytes, status: int) -> None:
        if where == "status":
            self.transport.write(head.partition(b"\r\n")[0] + b"\r\n")
        elif where == "body":
            self.transport.write(head + b"content-length: 64\r\n\r\nhalf a body")
            self._tell(self._waiting[0], status)
        self._reset()

    def _reset(self) -> None:
        raw = self.transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _close_with(self, status: int) -> None:
        self.transport.write(_head(status, "") + b"connection: close\r\ncontent-length: 0\r\n\r\n")
        self.transport.close()

    def _later(self, delay_s: float, action: Callable[[], None]) -> None:
        assert self.server.timers is not None
        self.server.timers.call_later(delay_s, action)

    def _drip(self, rest: bytes, done: Callable[[], None]) -> None:
        """Write *rest* a byte at a time, then call *done*."""
        if self.transport.is_closing() or not self._waiting:
            return
        self.transport.write(rest[:1])
        if len(rest) > 1:
            self._later(DRIP_S, lambda: self._drip(rest[1:], done))
        else:
            done()

    def _pour(self) -> None:
        """Write without end, as fast as the peer reads; memory stays bounded."""
        if self.transport.is_closing():
            return
        if not self._writable:
            self._resume = self._pour
            return
        self.transport.write(CHUNK)
        self._later(0, self._pour)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()


class KeepingConnection(Connection):
    """Keeps headers for an observer of arrivals; the parser passes them only then."""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))


class _Pending:
    """A request without a response yet."""

    __slots__ = ("body", "headers", "keeps", "method", "path", "told")

    def __init__(
        self, method: str, path: str, headers: list[tuple[bytes, bytes]], body: bytes, keeps: bool
    ) -> None:
        self.method = method
        self.path = path
        self.headers = headers
        self.body = body
        self.keeps = keeps
        self.told = False


def _bodiless(status: int) -> bool:
    """Whether HTTP forbids a body in responses with this status (RFC 9110 6.4.1)."""
    return status < 200 or status in {204, 304}


def _head(status: int, retry_after: str) -> bytes:
    """Status line and header lines, without the end of the head."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unnamed"  # 299, 599 and others are legal without a registered phrase
    head = f"HTTP/1.1 {status} {phrase}\r\n"
    if retry_after and not 200 <= status < 300:
        head += f"retry-after: {retry_after}\r\n"
    return head.encode("latin-1", "replace")


def _control(server: ListenServer, pending: _Pending) -> bytes:
    """Respond to a request for a control path."""
    if (pending.method, pending.path) == ("GET", "/__stats"):
        return _json(200, msgspec.json.encode(server.stats()))
    if (pending.method, pending.path) == ("PUT", "/__behaviour"):
        try:
            server.behaviour = _behaviour.decode(pending.body)
        except ResourceError as error:
            return _json(400, msgspec.json.encode({"title": str(error)}))
        return _json(200, msgspec.json.encode(server.behaviour))
    return _json(404, b'{"title": "GET /__stats and PUT /__behaviour are all there is"}')


def _json(status: int, body: bytes) -> bytes:
    fields = b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    return _head(status, "") + fields + body
