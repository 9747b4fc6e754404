"""One connection to a server, and one request after another on it, each answered whole.

Callers: the command line, and the token refresher. They dial, bound the wait and write the
request; hides reading the response, keep-alive, and the ways in which an answer can fail to come.
"""

import asyncio
from typing import NamedTuple, cast

from distributary.core.errors import TransportError
from distributary.net.http1._response import ResponseReader


class Response(NamedTuple):
    """A whole response.

    Attributes:
        status: 200 to 599 where the server keeps to the rules; 101 ends here too.
        fields: Header fields in the order they came, names in lower case.
        body: Whole.
    """

    status: int
    fields: list[tuple[bytes, bytes]]
    body: bytes


class ClientConnection(asyncio.Protocol):
    """The client's end of a connection that somebody else dials.

    Args:
        response_bytes_max: Largest response, header included.

    Attributes:
        lost: It can carry no further request.
    """

    def __init__(self, response_bytes_max: int) -> None:
        self.lost = False
        self._response_bytes_max = response_bytes_max
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._reader = ResponseReader()
        self._body: list[bytes] = []

    def send(self, request: bytes) -> "asyncio.Future[Response]":
        """Write *request*, which is not HEAD, when the one before was answered.

        Returns:
            Its response; or a ``TransportError``: ``protocol`` (not HTTP, too large, cut off) or
            ``reset``. Either way the request may have been carried out.
        """
        assert self._answer is None or self._answer.done()
        self._answer = asyncio.get_running_loop().create_future()
        if self.lost or self._transport is None:
            self._fail("reset", _CUT_OFF)
        else:
            self._transport.write(request)
        return self._answer

    def close(self) -> None:
        """Close at once; nobody waits for an answer any more."""
        self.lost = True
        if self._transport is not None:
            self._transport.abort()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready for a request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        """Take a piece of the response."""
        if self._answer is None or self._answer.done():
            self.close()  # nobody asked: a surplus response would answer the next request
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
        """The end of what the server sends; that may be how the response ends."""
        self.lost = True
        if self._answer is None or self._answer.done():
            return
        if self._reader.end():
            self._finish()
        else:
            self._fail("protocol", _CUT_OFF)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; so is a request whose answer was not whole."""
        del exc  # the end of the connection says as much
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
