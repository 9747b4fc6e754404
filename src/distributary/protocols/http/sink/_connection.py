"""One keep-alive connection to a sink: writes a request, reads its response, and is reused.

Called by ``_transport`` and by the event loop. ``http1`` parses responses. Hides the answer that
results from any behaviour of a sink:

==========================================  ================================================
what arrives before the deadline            answer
==========================================  ================================================
a whole response                            its status
status and headers, then more than          its status, ``cut``; the connection is closed
``RESPONSE_BYTES_MAX``, too slow a body, or
one in too many pieces, or endless trailers
closed or reset before the response ended   ``TransportError("reset")``
headers without end or too many, not HTTP   ``TransportError("protocol")``
nothing, or headers too slowly              ``TransportError("timeout")``
a reply longer than ``REPLY_BYTES_MAX``     its status, ``event_fault``, ``cut``
the beginning of a reply                    ``TransportError("timeout")``
a reply, and no room for it here            ``TransportError("replies-crowded")``
a response before the request has left      as above; the connection is closed
==========================================  ================================================

So once status line and headers have arrived, the status decides, and an endless body changes
nothing. If the connection breaks during a response, its content is unknown: the attempt is retried.
A *reply*, an event in a 2xx response (but 202) to a request that asked for one, is part of the
delivery: it is read whole, or the attempt is retried.
"""

import asyncio
import ssl
from typing import Final, Protocol, TypeAlias, cast

from distributary.core.deliver import SATURATED, Done
from distributary.core.errors import TransportError
from distributary.core.policy import Reply
from distributary.net import TICK_S, Wheel
from distributary.net.http1 import ResponseReader
from distributary.protocols.http.sink._incoming import (
    REPLY_BYTES_MAX,
    IncomingReply,
    Share,
    says_event,
)

RESPONSE_BYTES_MAX: Final = 256 * 1024
"""Longest response: larger than any legitimate page. Its body is not needed, but read so that the
connection can be reused."""

ERROR_BODY_BYTES_KEPT: Final = 1_024
"""Bytes kept of an error's body: as many as a dead letter carries (decision 16, dead letters)."""

IDLE_S_MAX: Final = 50.0
"""Idle time after which a connection is closed: less than the 60 s of most servers, so that few
requests meet a connection that is being closed."""

AGE_S_MAX: Final = 300.0
"""Age after which a connection is not reused: so a change in DNS takes effect within 5 min."""

_ACCEPTED: Final = 202
"""Accepted, perhaps not processed: an event in this response is no reply (decision 14, replies)."""

KNOWN_BYTES_MAX: Final = 512
"""Longest response that is cached; a plain 2xx has 50 to 300 bytes."""

KNOWN_MAX: Final = 32
"""Most responses cached for one sink address: a few status codes, and dates that change every
second. When exceeded, the cache is cleared."""

REPLY_RESPONSE_BYTES_MAX: Final = 2 * REPLY_BYTES_MAX
"""Longest response with a reply: room for headers, and for small chunks."""


Request: TypeAlias = tuple[bytes | memoryview, ...]
"""A request in pieces, each written as it is."""


class Home(Protocol):
    """The pool of a connection.

    Attributes:
        known: Cache of whole responses received in one piece; see ``HttpConnection``.
        reply_share: Memory budget of incoming replies; None: the destinations want none.
    """

    known: dict[bytes, Reply]
    reply_share: Share | None

    def quotes(self, peer: str) -> bool:
        """Whether error bodies from the address *peer* may be stored."""

    def free(self, connection: "HttpConnection") -> None:
        """Take the connection back: it is idle."""

    def gone(self, connection: "HttpConnection") -> None:
        """Forget the connection: it is closed."""


class HttpConnection(asyncio.Protocol):
    """An HTTP/1.1 client connection, from before dialling until it is closed.

    One request at a time: with pipelining a slow response would delay the next, and after a reset
    it would be unknown which requests were accepted.

    Responses of a sink are mostly identical, so the result of a whole response is cached by its
    bytes (``Home.known``), which saves parsing. This is exact: after a whole response the parser is
    in its initial state. Responses with an event are not cached, since they all differ.

    Args:
        home: Takes it back between requests.
        wheel: Watches its deadline.
        request: The first request: written once connected.
        due_s: Deadline of that request.
        done: Receives its answer.
        bodiless: Whether the response has no body, regardless of its headers (``HEAD``).
    """

    __slots__ = (
        "_body",
        "_home",
        "_incoming",
        "_reader",
        "_request",
        "_retire_s",
        "_transport",
        "_wheel",
        "closed",
        "dialling",
        "done",
        "due_s",
        "slot",
    )

    def __init__(
        self,
        home: Home,
        wheel: Wheel,
        request: Request,
        due_s: float,
        done: Done,
        *,
        bodiless: bool,
    ) -> None:
        self._home = home
        self._wheel = wheel
        self._request = request
        self._transport: asyncio.Transport | None = None
        # A reply is read whole, however it is cut: the sink has the event.
        self._reader = ResponseReader(bodiless=bodiless, endless=home.reply_share is not None)
        self._body = b""
        self.dialling: asyncio.Task[None] | None = None
        self.done: Done | None = done
        self.due_s = due_s
        self.closed = False
        self.slot = 0
        self._incoming: IncomingReply | None = None
        wheel.watch(self)
        self._retire_s = wheel.now_s + AGE_S_MAX

    @property
    def usable(self) -> bool:
        """Whether ``start`` may be called, as far as this end knows."""
        transport = self._transport
        return self.done is None and transport is not None and not transport.is_closing()

    def start(self, request: Request, due_s: float, done: Done, *, bodiless: bool) -> bool:
        """Send the next request; False, without effect, unless ``usable``."""
        transport = self._transport
        if self.done is not None or transport is None or transport.is_closing():
            return False
        self.done = done
        self.due_s = due_s
        self._reader.bodiless = bodiless
        _write(transport, request)
        if self.slot * TICK_S > due_s + TICK_S:
            self._wheel.watch(self)
        return True

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self.dialling = None
        self._transport = cast("asyncio.Transport", transport)
        if self.closed:
            self._transport.abort()
            return
        request, self._request = self._request, ()
        _write(self._transport, request)

    def data_received(self, data: bytes) -> None:
        """Take a piece of the response."""
        done = self.done
        if done is None:
            self.close()  # unsolicited: it would be taken for the response to the next request
            return
        reader = self._reader
        home = self._home
        reply = home.known.get(data)
        if reply is not None and not reader.received_bytes and not reader.bodiless:
            self.done = None
            # ``_release`` inlined: nearly every answer comes here.
            now_s = self._wheel.now_s
            if now_s < self._retire_s and self._all_sent():
                self.due_s = now_s + IDLE_S_MAX
                home.free(self)
            else:
                self.close()
            done(reply)
            return
        head_known = reader.status != 0
        try:
            pieces = reader.feed(data)
        except TransportError as error:
            self._stopped(error)
            return
        if not head_known and self._brings_reply():
            assert self._home.reply_share is not None
            self._incoming = IncomingReply(self._home.reply_share, reader.fields)
        for piece in pieces:
            self._take(piece)
        if reader.complete:
            self._finish(data)
        elif reader.status and self._over():
            self._finish(cut=True)  # the rest of the response is not awaited

    def connection_lost(self, exc: Exception | None) -> None:
        """End the attempt: with the response if the close completes it, else with an error."""
        self._transport = None
        self.dialling = None
        done = self.done
        if done is not None and exc is None and self._reader.end():
            self._finish()
            return
        self.done = None
        self.close()
        if done is None:
            return
        reason = "tls" if isinstance(exc, ssl.SSLError) else "reset"
        text = f"The connection was closed before the response was whole ({exc or 'end of stream'})"
        done(TransportError(reason, text))

    def expire(self, now_s: float) -> bool:
        """End the attempt or the idle connection at its deadline; called by the wheel."""
        del now_s
        if self.done is None:
            self.close()
        elif self._reader.status and self._incoming is None:
            self._finish(cut=True)
        else:
            what = "connection" if self._transport is None else "whole response head"
            what = what if self._incoming is None else "whole reply"
            self.fail(TransportError("timeout", f"No {what} within the time allowed"))
        return False

    # The rest.

    def _stopped(self, error: TransportError) -> None:
        """End the attempt after a response that is not parsed further."""
        reader = self._reader
        reply = self._incoming is not None or self._brings_reply()
        if reader.excess and reader.status and not reply:
            self._finish(cut=True)
        else:
            self.fail(error)

    def _brings_reply(self) -> bool:
        """Whether the response's head announces a reply, to be read whole (decision 14)."""
        reader = self._reader
        if self._home.reply_share is None or reader.bodiless:
            return False
        success = 200 <= reader.status < 300 and reader.status != _ACCEPTED
        return success and says_event(reader.fields)

    def _take(self, piece: bytes) -> None:
        """Collect a reply, or the beginning of an error's body."""
        if self._incoming is not None:
            self._incoming.take(piece)
        elif (
            self._reader.status >= 300
            and len(self._body) < ERROR_BODY_BYTES_KEPT
            and self._quoted()
        ):
            self._body = (self._body + piece)[:ERROR_BODY_BYTES_KEPT]

    def _quoted(self) -> bool:
        """Whether error bodies of this sink may be stored."""
        assert self._transport is not None
        peer = self._transport.get_extra_info("peername")
        return self._home.quotes(str(peer[0]) if peer else "")

    def _over(self) -> bool:
        """Whether to stop reading the response, because a limit is exceeded."""
        incoming = self._incoming
        if incoming is None:
            return self._reader.received_bytes > RESPONSE_BYTES_MAX
        if self._reader.received_bytes > REPLY_RESPONSE_BYTES_MAX:
            incoming.too_long = True
        return incoming.too_long or incoming.crowded

    def _reply(self, *, cut: bool) -> Reply:
        content_type = retry_after = None
        for name, value in self._reader.fields:
            if name == b"content-type":
                content_type = value.decode("latin-1")
            elif name == b"retry-after":
                retry_after = value.decode("latin-1")
        incoming = self._incoming
        event, fault = (None, None) if incoming is None else incoming.decode()
        along = b"" if incoming is None else incoming.along
        status = self._reader.status
        return Reply(status, retry_after, content_type, self._body, cut, event, fault, along)

    def _drop_incoming(self) -> None:
        if self._incoming is not None:
            self._incoming.let_go()
            self._incoming = None

    def _finish(self, last: bytes = b"", *, cut: bool = False) -> None:
        """Pass the answer on, and keep the connection if that is safe."""
        if self._incoming is not None and self._incoming.crowded:
            self.fail(TransportError(SATURATED, "Too many replies at once: no room for this one"))
            return
        reply = self._reply(cut=cut)
        done = self.done
        assert done is not None
        self.done = None
        reader = self._reader
        if reader.reusable:
            if (
                len(last) == reader.received_bytes <= KNOWN_BYTES_MAX
                and reader.status < 300
                and self._incoming is None
            ):
                self._remember(last, reply)
            reader.expect()
            self._body = b""
            self._drop_incoming()
            self._release()
        else:
            self.close()
        done(reply)

    def _remember(self, response: bytes, reply: Reply) -> None:
        known = self._home.known
        if len(known) >= KNOWN_MAX:
            known.clear()
        known[response] = reply

    def _release(self) -> None:
        now_s = self._wheel.now_s
        if now_s >= self._retire_s or not self._all_sent():
            self.close()
            return
        self.due_s = now_s + IDLE_S_MAX
        self._home.free(self)

    def _all_sent(self) -> bool:
        """Whether the whole request has left.

        A connection kept before that would collect the requests of a sink that answers without
        reading, in our memory, each behind those of other subscriptions.
        """
        transport = self._transport
        return transport is not None and not transport.get_write_buffer_size()

    def fail(self, error: TransportError) -> None:
        """Close, and end the attempt in flight (if there is one) with *error*."""
        done = self.done
        self.done = None
        self.close()
        if done is not None:
            done(error)

    def close(self) -> None:
        """Close at once, without ending the attempt in flight; ``fail`` does that."""
        if self.closed:
            return
        self.closed = True
        self._drop_incoming()
        if self._transport is not None:
            self._transport.abort()
        elif self.dialling is not None:
            self.dialling.cancel()
        self._home.gone(self)


def _write(transport: asyncio.Transport, request: Request) -> None:
    if len(request) == 1:
        transport.write(request[0])
    else:
        transport.writelines(request)
