"""Incremental parser of HTTP requests, without I/O and without a clock.

Caller: the receiver. Hides buffering and framing. The result depends on the bytes alone, never on
how reads split them (checked by a property test).
"""

from collections.abc import Callable, Mapping

from distributary.core.errors import RequestError
from distributary.net.http1 import _request, limits
from distributary.net.http1._chunks import ChunkedBody
from distributary.net.http1._request import Request


class RequestReader:
    """Buffers bytes and returns requests in order, one for each call.

    Args:
        admit: Called with each request after its head and before its body; raises
            ``RequestError`` to reject it without reading the body.
        body_bytes_max: Largest body of most requests.
        body_bytes_max_of: Returns the largest body of a request, given ``body_bytes_max``; called
            for a body that is longer than that, or has no length.
        usual_lines: Request lines that need no parsing; see ``_request.parse``.

    Attributes:
        refused: The request of the last ``RequestError``; None: its head was unreadable.
        broken: After a ``RequestError``: the connection must end, since the start of the next
            request is unknown, or depends on whether the client sends its body after all
            (``Expect``), or on a body without a length. Else the body is skipped on arrival.
    """

    __slots__ = (
        "_admit",
        "_blank_skipped",
        "_body",
        "_body_bytes_max",
        "_body_bytes_max_of",
        "_buffer",
        "_chunks",
        "_pos",
        "_request",
        "_scanned",
        "_skip_bytes",
        "_skipped_bytes",
        "_usual_lines",
        "broken",
        "refused",
    )

    def __init__(
        self,
        admit: Callable[[Request], None],
        body_bytes_max: int,
        body_bytes_max_of: Callable[[Request, int], int],
        usual_lines: Mapping[bytes, bytes],
    ) -> None:
        self._admit = admit
        self._body_bytes_max = body_bytes_max
        self._body_bytes_max_of = body_bytes_max_of
        self._usual_lines = usual_lines
        self._buffer: bytes | bytearray = b""
        self._pos = 0
        self._scanned = 0  # no end of the head before this
        self._blank_skipped = False
        self._request: Request | None = None  # its body is under way
        self._body = bytearray()
        self._chunks: ChunkedBody | None = None
        self._skip_bytes = 0  # of a refused body that are still to come
        self._skipped_bytes = 0
        self.refused: Request | None = None
        self.broken = False

    @property
    def body_under_way(self) -> Request | None:
        """The request whose head is complete and whose body is not."""
        return self._request

    @property
    def skipping(self) -> bool:
        """Whether the rest of a rejected body is still to come."""
        return self._skip_bytes > 0

    @property
    def body_bytes(self) -> int:
        """Bytes received of the current body, or of one that is skipped."""
        if self._skip_bytes:
            return self._skipped_bytes
        return len(self._body) if self._chunks is None else len(self._chunks.body)

    @property
    def buffered_bytes(self) -> int:
        """Bytes received but not parsed, or of an incomplete head."""
        return len(self._buffer) - self._pos

    @property
    def mid_request(self) -> bool:
        """Whether a request is partly received."""
        return self._request is not None or self._skip_bytes > 0 or self._pos < len(self._buffer)

    @property
    def body_bytes_max(self) -> int:
        """Largest body of most requests."""
        return self._body_bytes_max

    @property
    def between_requests(self) -> bool:
        """Whether the next byte received is the first one after a request, or of all."""
        return (
            self._pos >= len(self._buffer)
            and self._request is None
            and not self._skip_bytes
            and not self._blank_skipped
        )

    def forget(self) -> None:
        """Drop the bytes of a request that is not read to its end; read nothing after it.

        A connection may live on for seconds, and its objects until the cycle collector comes.
        """
        self._buffer = b""
        self._body = bytearray()
        self._chunks = self._request = None
        self._pos = self._scanned = self._skip_bytes = 0

    def receive(self, received: bytes) -> None:
        """Buffer *received* for ``next_request``."""
        if self._pos >= len(self._buffer):
            self._buffer = received
            self._pos = self._scanned = 0
            return
        if isinstance(self._buffer, bytes):
            # A bytearray grows in place: a head in many small reads costs no copy for each.
            self._buffer = bytearray(self._buffer[self._pos :])
        else:
            del self._buffer[: self._pos]
        self._buffer += received
        self._scanned = max(0, self._scanned - self._pos)
        self._pos = 0

    def next_request(self) -> Request | None:
        """Returns the next complete request; None: more bytes are needed.

        Raises:
            RequestError: The request is rejected; ``refused`` holds it, and ``broken`` whether the
                connection must end.
        """
        request = self._request
        if request is not None:
            return self._continue_body(request)
        if self._skip_bytes:
            self._skip()
        if self._pos >= len(self._buffer):
            return None
        request = self._open()
        if request is None:
            return None
        self.refused = request
        self.broken = request.chunked or request.expects_continue
        self._skip_bytes = request.content_length  # in case it is refused
        self._skipped_bytes = 0
        self._admit(request)
        self._skip_bytes = 0
        pos = self._pos
        end = pos + request.content_length
        if end <= len(self._buffer) and not request.chunked:
            request.body = bytes(self._buffer[pos:end])
            self._pos = end
            self._let_go()
            self.broken = False
            return request
        self._refuse_as_broken(request)
        self._request = request
        if request.chunked:
            self._chunks = ChunkedBody(self._body_bytes_max_of(request, self._body_bytes_max))
        return self._continue_body(request)

    def _skip(self) -> None:
        """Discard received bytes of a rejected body."""
        taken = min(self._skip_bytes, len(self._buffer) - self._pos)
        self._pos += taken
        self._scanned = self._pos
        self._skip_bytes -= taken
        self._skipped_bytes += taken
        self._let_go()

    def _let_go(self) -> None:
        """Keep nothing of a read that is used up: a connection may be idle for a long time."""
        if self._pos >= len(self._buffer):
            self._buffer = b""
            self._pos = self._scanned = 0

    def _refuse_as_broken(self, request: Request | None) -> None:
        self.refused = request
        self.broken = True

    def _continue_body(self, request: Request) -> Request | None:
        buffer = self._buffer
        chunks = self._chunks
        if chunks is not None:
            self._pos, complete = chunks.feed(buffer, self._pos)
            self._let_go()
            if not complete:
                return None
            request.body = bytes(chunks.body)
            self._chunks = None
        else:
            body = self._body
            missing = request.content_length - len(body)
            body += buffer[self._pos : self._pos + missing]
            self._pos = min(self._pos + missing, len(buffer))
            self._let_go()
            if len(body) < request.content_length:
                return None
            request.body = bytes(body)
            self._body = bytearray()
        self._scanned = self._pos
        self._request = None
        self.broken = False
        return request

    def _open(self) -> Request | None:
        """Returns the request whose head is complete, and moves the position behind the head."""
        buffer = self._buffer
        if not self._blank_skipped and buffer.startswith(b"\r\n", self._pos):
            # One empty line before a request is ignored (RFC 9112 section 2.2).
            self._blank_skipped = True
            self._pos += 2
        pos = self._pos
        self.refused = None  # until the head is there
        self.broken = True
        line_limit = pos + limits.REQUEST_LINE_BYTES_MAX + 2
        line_end = buffer.find(b"\r\n", pos, line_limit)
        if line_end < 0:
            self._await_line(buffer, line_limit)
            return None
        if line_end == pos:
            raise RequestError("bad-request", "There is an empty line before the request.")
        head_limit = line_end + limits.HEADERS_BYTES_MAX + 4
        head_end = buffer.find(b"\r\n\r\n", max(line_end, self._scanned), head_limit)
        if head_end < 0:
            self._await_head(buffer, head_limit)
            return None
        self._pos = self._scanned = head_end + 4
        self._blank_skipped = False
        self.refused = request = Request()
        try:
            head = bytes(buffer[pos : head_end + 4])
            _request.parse(request, head, line_end - pos, self._usual_lines)
        except RequestError:
            # Report the first fault, as when the head arrives in small reads.
            self._refuse_bare_lf(buffer, pos, pos, head_end + 4)
            raise
        if request.content_length > self._body_bytes_max:
            limit_bytes = self._body_bytes_max_of(request, self._body_bytes_max)
            if request.content_length > limit_bytes:
                self._refuse_as_broken(request)
                text = f"The body is above {limit_bytes:,} bytes."
                raise RequestError("content-too-large", text)
        return request

    def _await_line(self, buffer: bytes | bytearray, limit: int) -> None:
        self._refuse_bare_lf(buffer, self._pos, max(self._pos, self._scanned), limit)
        if len(buffer) >= limit:
            raise RequestError(
                "uri-too-long", f"The request line is above {limits.REQUEST_LINE_BYTES_MAX} bytes."
            )

    def _await_head(self, buffer: bytes | bytearray, limit: int) -> None:
        self._refuse_bare_lf(buffer, self._pos, max(self._pos, self._scanned), limit)
        if len(buffer) >= limit:
            raise RequestError(
                "headers-too-large", f"Header fields above {limits.HEADERS_BYTES_MAX} bytes."
            )
        self._scanned = max(self._pos, len(buffer) - 3)

    @staticmethod
    def _refuse_bare_lf(buffer: bytes | bytearray, head: int, start: int, limit: int) -> None:
        """Reject bare line feeds: such a head may never end, and would wait for the deadline."""
        while (line_feed := buffer.find(b"\n", start, limit)) >= 0:
            if line_feed == head or buffer[line_feed - 1] != 0x0D:
                raise RequestError("bad-request", "A line of the header ends without CR.")
            start = line_feed + 1
