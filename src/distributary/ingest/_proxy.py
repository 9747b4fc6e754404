"""Passes one request to the control process and streams its answer back.

Caller: ``_protocol``, once all earlier answers of the client are out. Hides the second
connection: plain HTTP/1.1 over a Unix socket, one connection for each request (the control
plane is not the hot path, and a fresh connection can hold nothing of another client).
"""

import asyncio
from typing import Protocol, cast

import httptools

from distributary.http1 import Request
from distributary.ingest._answers import BROWSER_FIELDS, Persistence, connection_field
from distributary.ingest._desk import Desk
from distributary.ingest._limits import (
    HEALTH_DEADLINE_S,
    HEALTH_PATHS,
    RELAY_HEAD_DEADLINE_S,
)
from distributary.ingest._relayed import is_watch

_HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_REPLACED = _HOP_BY_HOP | {b"content-length", b"expect", b"x-forwarded-for"}
_KEPT_ALWAYS = frozenset((b"host", b"content-type", b"authorization"))
_WITH_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


AT_ONCE_BYTES = 64 * 1024
"""A larger body is not copied behind its head: it takes several writes anyway."""


class RelayClient(Protocol):
    """What a relay asks of the connection that it serves."""

    def relay_ended(self, *, persistent: bool) -> None:
        """The answer is complete; *persistent*: the connection can go on."""
        ...

    def relay_failed(self, request: Request, persistence: Persistence) -> None:
        """No answer came, and nothing was written to the client."""
        ...

    def cut(self) -> None:
        """The answer broke off half-way: the client must see that it is not whole."""
        ...


def upstream_head(request: Request, address: str | None) -> bytes:
    """The head of *request* as the control process gets it: with a length, for this hop alone.

    Source:
        RFC 9110 section 7.6.1: fields of this hop, and those named by ``Connection``, stay
        here. A client cannot strip host, authorization or content type that way.
    """
    named: set[bytes] = set()
    forwarded = []
    for name, value in request.fields:
        if name == b"connection":
            named.update(option.strip() for option in value.lower().split(b","))
        elif name == b"x-forwarded-for":
            forwarded.append(value)
    left_out = _REPLACED | (named - _KEPT_ALWAYS)
    lines = [b"%s %s HTTP/1.1" % (request.method, request.target)]
    lines += [b"%s: %s" % field for field in request.fields if field[0] not in left_out]
    if request.body or request.method in _WITH_BODY:
        lines.append(b"content-length: %d" % len(request.body))
    if address is not None:
        forwarded.append(address.encode("ascii", "replace"))
    if forwarded:
        lines.append(b"x-forwarded-for: " + b", ".join(forwarded))
    lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


class Relay(asyncio.Protocol):
    """One request on its way; the protocol of the connection to the control process.

    Args:
        client: The connection that asked.
        desk: What all connections share.
        downstream: Transport of the client.
        request: The request.
        persistence: What its answer says about the client's connection.
        address: Address of the client; None: unknown.
    """

    def __init__(
        self,
        client: RelayClient,
        desk: Desk,
        downstream: asyncio.Transport,
        request: Request,
        *,
        persistence: Persistence,
        address: str | None,
    ) -> None:
        self._client = client
        self._desk = desk
        self._downstream = downstream
        self._request = request
        self._persistence = persistence
        self._address = address
        self._upstream: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._started_s = desk.now_s()
        self._is_watch = is_watch(request)
        health = request.target.partition(b"?")[0] in HEALTH_PATHS
        self._head_deadline_s = HEALTH_DEADLINE_S if health else RELAY_HEAD_DEADLINE_S
        self._phrase = b""
        self._fields: list[tuple[bytes, bytes]] = []
        self._head_written = False
        self._chunked = False
        self._until_close = False
        self._complete = False
        self._over = False

    @property
    def endless(self) -> bool:
        """The answer has begun and says no length: it may be a watch, which never ends."""
        return self._head_written and (self._chunked or self._until_close)

    def start(self) -> None:
        """Dials the control process; one of the client's three methods is called at the end."""
        self._count(1)
        self._desk.counters.relayed_requests += 1
        dial = self._desk.dial
        assert dial is not None
        dial(self, self._dial_failed)

    def abort(self) -> None:
        """The client is gone."""
        if not self._over:
            self._end()

    def drain(self) -> None:
        """Ends an answer that would not end by itself; others are over soon."""
        if self._is_watch and self.endless:
            self._persistence = Persistence.CLOSE
            self._succeed()

    def pause(self) -> None:
        """The client does not read: neither do we."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        """The client reads again."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def sweep(self, now_s: float) -> None:
        """Gives up on an answer whose header does not come; a body may take for ever (watch)."""
        if not self._head_written and now_s - self._started_s >= self._head_deadline_s:
            self._fail()

    # -- the connection to the control process

    def _dial_failed(self) -> None:
        if not self._over:
            self._fail()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Sends the request."""
        self._upstream = cast("asyncio.Transport", transport)
        if self._over:
            self._upstream.abort()
            return
        head, body = upstream_head(self._request, self._address), self._request.body
        self._request.body = b""  # the control process has it now
        if len(body) <= AT_ONCE_BYTES:
            # An answer that did not wait for the body may end the connection between two writes.
            self._upstream.write(head + body)
        else:
            self._upstream.write(head)
            self._upstream.write(body)

    def data_received(self, data: bytes) -> None:
        """Takes bytes of the answer."""
        if self._over:
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail()
            return
        if self._complete:
            self._succeed()

    def connection_lost(self, _error: Exception | None) -> None:
        """An answer without a length ends so; every other is incomplete."""
        if self._over:
            return
        if self._until_close and _error is None:
            self._succeed()
        else:
            self._fail()

    # -- the parts of the answer, as the parser finds them

    def on_status(self, phrase: bytes) -> None:
        """Takes the reason phrase."""
        self._phrase += phrase

    def on_header(self, name: bytes, value: bytes) -> None:
        """Takes one field."""
        self._fields.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """Writes the head of the answer to the client, unless it is an interim one."""
        status = self._parser.get_status_code()
        if status < 200 or self._head_written:
            return
        self._head_written = True
        self._desk.counters.answers_by_status[status] += 1
        named: set[bytes] = set()
        for name, value in self._fields:
            if name == b"connection":
                named.update(option.strip() for option in value.lower().split(b","))
        has_length = any(name == b"content-length" for name, _ in self._fields)
        chunked_above = any(name == b"transfer-encoding" for name, _ in self._fields)
        without_body = self._request.method == b"HEAD" or status in {204, 304}
        framing = b""
        if not without_body and (chunked_above or not has_length):
            self._until_close = not chunked_above
            if self._request.http10:
                self._persistence = Persistence.CLOSE
            else:
                self._chunked = True
                framing = b"transfer-encoding: chunked\r\n"
        left_out = _HOP_BY_HOP | named
        lines = [b"%s: %s\r\n" % field for field in self._fields if field[0] not in left_out]
        line = b"HTTP/1.1 %d %s\r\n" % (status, self._phrase)
        connection = connection_field(self._persistence)
        self._downstream.write(
            b"".join((line, *lines, BROWSER_FIELDS, framing, connection, b"\r\n"))
        )
        self._complete = without_body

    def on_body(self, piece: bytes) -> None:
        """Writes a piece of the body to the client."""
        if self._complete or not self._head_written:
            return
        if self._chunked:
            piece = b"%x\r\n%s\r\n" % (len(piece), piece)
        self._downstream.write(piece)

    def on_message_complete(self) -> None:
        """The answer is whole; an interim one makes room for the next."""
        if self._head_written:
            self._complete = True
        else:
            self._fields.clear()
            self._phrase = b""

    # -- ends

    def _succeed(self) -> None:
        if self._chunked:
            self._downstream.write(b"0\r\n\r\n")
        self._end()
        self._client.relay_ended(persistent=self._persistence is not Persistence.CLOSE)

    def _fail(self) -> None:
        self._end()
        self._desk.counters.relay_failures += 1
        if self._head_written:
            self._client.cut()
        else:
            self._client.relay_failed(self._request, self._persistence)

    def _count(self, step: int) -> None:
        if self._is_watch:
            self._desk.counters.watches_in_flight += step
        else:
            self._desk.counters.relays_in_flight += step

    def _end(self) -> None:
        self._over = True
        self._count(-1)
        if self._upstream is not None:
            self._upstream.abort()
