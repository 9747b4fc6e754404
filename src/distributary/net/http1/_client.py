"""A client connection: sends one request after another, and reads each whole response.

Callers: the command line, the token refresher, and ``server.issuers``. They dial, bound the wait
and encode the request. Hides reading the response, keep-alive, and failures of the connection.
"""

import asyncio
from typing import NamedTuple, cast

from distributary.core.errors import TransportError
from distributary.net.http1._response import ResponseReader


class Response(NamedTuple):
    """A whole response.

    Attributes:
        status: 200 to 599 from a conforming server, or 101.
        fields: Header fields in order, names in lower case.
        body: The whole body.
    """

    status: int
    fields: list[tuple[bytes, bytes]]
    body: bytes


class ClientConnection(asyncio.Protocol):
    """The client's end of a connection, as an ``asyncio`` protocol; the caller dials.

    Args:
        response_bytes_max: Largest response, header included.

    Attributes:
        lost: Whether the connection is unusable for further requests.
    """

    def __init__(self, response_bytes_max: int) -> None:
        self.lost = False
        self._response_bytes_max = response_bytes_max
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._reader = ResponseReader()
        self._body: list[bytes] = []

    def send(self, request: bytes) -> "asyncio.Future[Response]":
        """Write *request*, which must not be HEAD, after the previous response.

        Returns:
            A future of the response, or of a ``TransportError``: ``protocol`` (not HTTP, too large,
            truncated) or ``reset``. The server may have executed a failed request.
        """
        assert self._answer is None or self._answer.done()
        self._answer = asyncio.get_running_loop().create_future()
        if self.lost or self._transport is None:
            self._fail("reset", _CUT_OFF)
        else:
            self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close at once, abandoning a response under way."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the response."""
        if self._answer is None or self._answer.done():
            self.close()  # unsolicited: it would be taken for the response to the next request
            return
        try:
            self._body += self._reader.feed(data)
        except TransportError as error:
            self._fail(error.reason, str(error))
            return
        if self._reader.complete:
            self._finish()
        elif self._reader.received_bytes > self._response_bytes_max:
            self._fail("protocol", f"The answer is longer than {self._response_bytes_max:,} bytes")

    def eof_received(self) -> None:
        """Handle the server's end of stream, which may delimit the response."""
        self.lost = True
        if self._answer is None or self._answer.done():
            return
        if self._reader.end():
            self._finish()
        else:
            self._fail("protocol", _CUT_OFF)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail a request without a complete response."""
        del exc  # adds nothing
        self._fail("reset", _CUT_OFF)

    def _finish(self) -> None:
        assert self._answer is not None
        reader = self._reader
        self._answer.set_result(Response(reader.status, reader.fields, b"".join(self._body)))
        self._body = []
        if reader.reusable:
            reader.expect()
        else:
            self.lost = True

    def _fail(self, reason: str, text: str) -> None:
        self.close()
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(TransportError(reason, text))


_CUT_OFF = "The connection was closed before the answer was whole"
