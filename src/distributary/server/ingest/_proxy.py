"""Proxies one request to the control process and streams the response back.

Caller: ``_protocol``, once all earlier responses are written. Hides the upstream connection: plain
HTTP/1.1 over a Unix socket, a new one for each request (the control plane is not the hot path, and
a fresh connection holds nothing of another client).
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol, cast

from distributary.access import IDENTITY_FIELD, Identity, encode_identity
from distributary.core.errors import TransportError
from distributary.net.http1 import Request, ResponseReader
from distributary.server.ingest._context import IngestContext
from distributary.server.ingest._forwarded import FORWARDED_FIELDS, Client
from distributary.server.ingest._limits import (
    HEALTH_DEADLINE_S,
    HEALTH_PATHS,
    RELAY_HEAD_DEADLINE_S,
)
from distributary.server.ingest._readmission import still_admits
from distributary.server.ingest._relayed import decoded, is_kubernetes, is_watch
from distributary.server.ingest._responses import (
    BROWSER_FIELDS,
    NOT_STORED_FIELD,
    REVALIDATED_FIELD,
    Persistence,
    connection_field,
)

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
_REPLACED = _HOP_BY_HOP | {
    b"authorization",  # read here; the control process gets an identity, and no secret
    b"content-length",
    b"expect",
    *FORWARDED_FIELDS,
}
_OURS = b"x-distributary-"
"""Beginning of the header fields that only a receiver may set."""
_KEPT_ALWAYS = frozenset((b"host", b"content-type"))
_WITH_BODY = frozenset((b"POST", b"PUT", b"PATCH"))


AT_ONCE_BYTES = 64 * 1024
"""A larger body is written separately from its head, not copied: it takes several writes anyway."""


class RelayClient(Protocol):
    """What a relay needs of the client's connection."""

    def relay_ended(self, *, persistent: bool) -> None:
        """Handle a complete response; *persistent*: the connection stays open."""

    def relay_failed(self, request: Request, persistence: Persistence) -> None:
        """Handle a missing response; nothing was written to the client."""

    def cut(self) -> None:
        """Abort the connection: the client must see that the response is incomplete."""


def upstream_head(request: Request, client: Client) -> bytes:
    """Builds the head of *request* for the control process, with a content length.

    What proxies say of the client is replaced by what is known of it.

    Source:
        RFC 9110 section 7.6.1: hop-by-hop fields, and those that ``Connection`` names, are not
        forwarded. A client cannot strip host or content type that way.
    """
    left_out = _REPLACED | (_named(request.fields) - _KEPT_ALWAYS)
    lines = [b"%s %s HTTP/1.1" % (request.method, request.target)]
    lines += [
        b"%s: %s" % field
        for field in request.fields
        if field[0] not in left_out and not field[0].startswith(_OURS)
    ]
    assert isinstance(request.sender, Identity)
    lines.append(b"%s: %s" % (IDENTITY_FIELD, encode_identity(request.sender)))
    if request.body or request.method in _WITH_BODY:
        lines.append(b"content-length: %d" % len(request.body))
    if client.address is not None:
        lines.append(b"x-forwarded-for: " + client.address.encode("ascii", "replace"))
    if client.scheme:
        lines.append(b"x-forwarded-proto: " + client.scheme)
    if client.host:
        lines.append(b"x-forwarded-host: " + client.host)
    lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def _named(fields: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """The fields that ``Connection`` names: hop-by-hop."""
    return {
        option.strip()
        for name, value in fields
        if name == b"connection"
        for option in value.lower().split(b",")
    }


class Relay(asyncio.Protocol):
    """One proxied request; the ``asyncio`` protocol of its upstream connection.

    Args:
        client: The client's connection.
        context: State that all connections share.
        downstream: Transport of the client.
        request: The request.
        persistence: Whether the client's connection stays open after the response.
        address: Address of the client; None: unknown.
    """

    def __init__(
        self,
        client: RelayClient,
        context: IngestContext,
        downstream: asyncio.Transport,
        request: Request,
        *,
        persistence: Persistence,
        address: str | None,
    ) -> None:
        self._client = client
        self._context = context
        self._downstream = downstream
        self._request = request
        self._persistence = persistence
        self._address = address
        self._upstream: asyncio.Transport | None = None
        self._reader = ResponseReader(bodiless=request.method == b"HEAD")
        self._started_s = context.now_s()
        self._is_watch = is_watch(request)
        health = decoded(request.path) in HEALTH_PATHS
        self._head_deadline_s = HEALTH_DEADLINE_S if health else RELAY_HEAD_DEADLINE_S
        self._head_written = False
        self._endless = False
        self._chunked = False
        self._over = False

    @property
    def endless(self) -> bool:
        """The response has begun and has no length: it may be a watch, which never ends."""
        return self._endless

    def start(self) -> None:
        """Connect to the control process; ends with a call of one of the client's methods."""
        self._context.relays.count(self._request, 1)
        self._context.counters.relayed_requests += 1
        dial = self._context.dial
        assert dial is not None
        dial(self, self._dial_failed, decoded(self._request.path))

    def abort(self) -> None:
        """End the relay: the client has disconnected."""
        if not self._over:
            self._end()

    def drain(self) -> None:
        """End a watch, which would not end otherwise; other responses end soon."""
        if self._is_watch and self.endless:
            self._persistence = Persistence.CLOSE
            self._succeed()

    def pause(self) -> None:
        """Pause reading upstream: the client does not read."""
        if self._upstream is not None:
            self._upstream.pause_reading()

    def resume(self) -> None:
        """Resume reading upstream."""
        if self._upstream is not None:
            self._upstream.resume_reading()

    def sweep(self, now_s: float) -> None:
        """Time out a response whose header is late; a body may last for ever (watch).

        A response without a length may take as long as its client likes. It ends once the sender
        would not be admitted any more: a watch in order, so that the client asks again; a list is
        cut off, so that the client sees that it is not whole.
        """
        lasts = self._is_watch or self._endless
        if lasts and not still_admits(self._context.gate, self._request):
            if self._is_watch:
                self.drain()
            else:
                self._end()
                self._client.cut()
        elif not self._head_written and now_s - self._started_s >= self._head_deadline_s:
            self._fail()

    # -- the connection to the control process

    def _dial_failed(self) -> None:
        if not self._over:
            self._fail()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._upstream = cast("asyncio.Transport", transport)
        if self._over:
            self._upstream.abort()
            return
        client = self._context.proxies.client(self._request.fields, self._address)
        head, body = upstream_head(self._request, client), self._request.body
        self._request.body = b""  # the control process has it now
        if len(body) <= AT_ONCE_BYTES:
            # A response sent before the body is read may end the connection between two writes.
            self._upstream.write(head + body)
        else:
            self._upstream.write(head)
            self._upstream.write(body)

    def data_received(self, data: bytes) -> None:
        """Forward bytes of the response."""
        if self._over:
            return
        reader = self._reader
        try:
            pieces = reader.feed(data)
        except TransportError:
            self._fail()
            return
        if reader.status and not self._head_written:
            if reader.status < 200:  # switching protocols: we did not ask for it
                self._fail()
                return
            self._head_written = True
            self._downstream.write(self._head())
        for piece in pieces:
            chunk = b"%x\r\n%s\r\n" % (len(piece), piece) if self._chunked else piece
            self._downstream.write(chunk)
        if reader.complete:
            self._succeed()

    def connection_lost(self, error: Exception | None) -> None:
        """Handle the upstream's end: complete for a response without length, else a failure."""
        if self._over:
            return
        if error is None and self._reader.end():
            self._succeed()
        else:
            self._fail()

    def _head(self) -> bytes:
        """Builds the head of the response for the client."""
        reader = self._reader
        self._context.counters.answers_by_status[reader.status] += 1
        names = {name for name, _ in reader.fields}
        has_length = b"content-length" in names and b"transfer-encoding" not in names
        without_body = self._request.method == b"HEAD" or reader.status in {204, 304}
        self._endless = not has_length and not without_body
        framing = b""
        if self._endless and self._request.http10:
            self._persistence = Persistence.CLOSE
        elif self._endless:
            self._chunked = True
            framing = b"transfer-encoding: chunked\r\n"
        left_out = _HOP_BY_HOP | _named(reader.fields)
        lines = [b"%s: %s\r\n" % field for field in reader.fields if field[0] not in left_out]
        line = b"HTTP/1.1 %d %s\r\n" % (reader.status, reader.phrase)
        connection = connection_field(self._persistence)
        security = BROWSER_FIELDS + self._context.answers.security
        if b"cache-control" not in names:
            kubernetes = is_kubernetes(self._request.path)
            security += REVALIDATED_FIELD if kubernetes else NOT_STORED_FIELD
        return b"".join((line, *lines, security, framing, connection, b"\r\n"))

    # -- ends

    def _succeed(self) -> None:
        if self._chunked:
            self._downstream.write(b"0\r\n\r\n")
        self._end()
        self._client.relay_ended(persistent=self._persistence is not Persistence.CLOSE)

    def _fail(self) -> None:
        self._end()
        self._context.counters.relay_failures += 1
        if self._head_written:
            self._client.cut()
        else:
            self._client.relay_failed(self._request, self._persistence)

    def _end(self) -> None:
        self._over = True
        self._context.relays.count(self._request, -1)
        if self._upstream is not None:
            self._upstream.abort()
