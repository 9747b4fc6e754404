"""A scripted HTTP sink on loopback, well-behaved or hostile.

Called by tests of transports. Writes raw bytes, so that it can send anything. Parses as strictly as
our own receiver: an invalid request ends the connection.
"""

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import NamedTuple, Self

from distributary.net import http1
from distributary.net.http1 import RequestReader
from kit.listening import stop_listening

BODY_BYTES_MAX = 1 << 30
RECEIVE_BYTES = 256 * 1024
OK = b"HTTP/1.1 204 No Content\r\n\r\n"
"""A plain acknowledgement."""


class Request(NamedTuple):
    """A received request.

    Attributes:
        method: Request method.
        target: Request target as sent.
        headers: Names (lower case) and values, in order.
        body: The body.
        connection: Number of its connection, from 1.
    """

    method: str
    target: str
    headers: list[tuple[bytes, bytes]]
    body: bytes
    connection: int

    def header(self, name: str) -> str | None:
        """The first value of a header; None: absent."""
        wanted = name.encode("ascii")
        return next((v.decode("latin-1") for n, v in self.headers if n == wanted), None)


Behave = Callable[[Request, asyncio.StreamWriter], Awaitable[None]]
"""Answers a request (or does not) by writing to its connection."""


async def accept(request: Request, writer: asyncio.StreamWriter) -> None:
    """Acknowledge."""
    del request
    writer.write(OK)


async def hang(request: Request, writer: asyncio.StreamWriter) -> None:
    """Never answer, until the other end gives up."""
    del request, writer
    await asyncio.Event().wait()  # the sink ends it when the other end gives up


async def reset(request: Request, writer: asyncio.StreamWriter) -> None:
    """Cut the connection with a TCP reset."""
    del request
    cut(writer)


def cut(writer: asyncio.StreamWriter) -> None:
    """End a connection with a TCP reset."""
    opened = writer.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def answer(response: bytes) -> Behave:
    """Write *response* and keep the connection."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        del request
        writer.write(response)

    return behave


def answer_and_close(response: bytes) -> Behave:
    """Write *response* and close the connection."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        del request
        writer.write(response)
        await writer.drain()
        writer.close()

    return behave


def trickle(response: bytes, pause_s: float = 0.02) -> Behave:
    """Write *response* byte by byte."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        del request
        for position in range(len(response)):
            writer.write(response[position : position + 1])
            await writer.drain()
            await asyncio.sleep(pause_s)

    return behave


def endless(head: bytes, piece: bytes = b"x" * 65_536) -> Behave:
    """Write *head*, then *piece* for ever."""

    async def behave(request: Request, writer: asyncio.StreamWriter) -> None:
        del request
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()

    return behave


class FakeSink:
    """The scripted sink; an asynchronous context manager.

    Args:
        behave: Handles each request.
        tls: TLS context; None: no TLS.
        port: Its port; 0: any free one.

    Attributes:
        requests: All complete requests.
        connections: Connections accepted so far.
        quiet: Set while no connection is open.
    """

    def __init__(
        self, behave: Behave = accept, tls: ssl.SSLContext | None = None, port: int = 0
    ) -> None:
        self.behave = behave
        self.requests: list[Request] = []
        self.connections = 0
        self._open = 0
        self.quiet = asyncio.Event()
        self.port = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    def uri(self, path: str = "/", host: str = "127.0.0.1") -> str:
        """The URI of a path here."""
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}{path}"

    async def __aenter__(self) -> Self:
        # The backlog is for tests that open hundreds of connections in one turn of the loop.
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, ssl=self._tls, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        await stop_listening(self._server)
        await asyncio.sleep(0)  # what has got its transport begins to be served
        while self._serving:
            serving = tuple(self._serving)
            for task in serving:
                task.cancel()
            await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self.connections += 1
        self._open += 1
        self.quiet.clear()
        number = self.connections
        requests = RequestReader(lambda _: None, BODY_BYTES_MAX, lambda _, size: size, {})
        try:
            while not writer.is_closing():
                came = await _read(reader, requests)
                method, target = came.method.decode(), came.target.decode()
                request = Request(method, target, came.fields, came.body, number)
                self.requests.append(request)
                await _unless_gone(reader, self.behave(request, writer))
        except (asyncio.IncompleteReadError, OSError):
            pass  # the other end has gone: the sender's tests look at that from its side
        except asyncio.CancelledError:
            pass  # this end is being stopped; a raised cancellation would be logged by streams
        finally:
            self._open -= 1
            if not self._open:
                self.quiet.set()
            self._serving.discard(task)
            writer.transport.abort()


async def _unless_gone(reader: asyncio.StreamReader, behaving: Awaitable[None]) -> None:
    """Behave until done, or until the other end has closed the connection."""
    behaviour = asyncio.ensure_future(behaving)
    gone = asyncio.ensure_future(_gone(reader))
    try:
        await asyncio.wait({behaviour, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not behaviour.done():
            raise ConnectionResetError
        behaviour.result()
    finally:
        for task in (behaviour, gone):
            task.cancel()
        await asyncio.gather(behaviour, gone, return_exceptions=True)


async def _gone(reader: asyncio.StreamReader) -> None:
    # Streams tell of the end only to who reads, and reading could take the next request's bytes.
    while not reader.at_eof() and reader.exception() is None:  # noqa: ASYNC110 - as said
        await asyncio.sleep(0.02)


async def _read(stream: asyncio.StreamReader, requests: RequestReader) -> http1.Request:
    while (request := requests.next_request()) is None:
        piece = await stream.read(RECEIVE_BYTES)
        if not piece:
            raise asyncio.IncompleteReadError(b"", None)
        requests.receive(piece)
    return request
