"""Asking a token endpoint over the network (RFC 6749, section 6).

Called by ``Refresher``. The endpoint is an address that a user named: it is dialled by the same
connector, and so by the same rule, as sinks are. It may be slow, endless or hostile: there is one
deadline for all of it, one limit for all that it sends, and no redirect is followed.
"""

import asyncio
from typing import Final, cast
from urllib.parse import urlencode

import h11

from distributary.control._refresh_answer import TokenReply
from distributary.deliver import Connector
from distributary.errors import TransportError

ANSWER_BYTES_MAX: Final = 64 * 1024
"""Largest answer, headers included: two tokens of the largest size are a quarter of it."""

TRADE_S_MAX: Final = 10.0
"""Longest trade, from the name look-up to the last byte. A healthy endpoint takes a fraction of a
second, and a slow one keeps one of few places."""

_HEADERS: Final = (
    ("content-type", "application/x-www-form-urlencoded"),
    ("accept", "application/json"),
    ("user-agent", "distributary"),
    ("connection", "close"),
)


class HttpTokenEndpoint:
    """``TokenEndpoint`` over HTTP/1.1; a connection for each trade.

    Args:
        connector: Dials; decides which addresses are allowed.
    """

    def __init__(self, connector: Connector) -> None:
        self._connector = connector

    async def trade(self, uri: str, refresh_token: str) -> TokenReply:
        """Post *refresh_token* to *uri*.

        Raises:
            TransportError: No whole answer came within ``TRADE_S_MAX``, or the address is not
                allowed.
        """
        endpoint = self._connector.endpoint(uri)
        form = urlencode({"grant_type": "refresh_token", "refresh_token": refresh_token}).encode()
        head = h11.Request(
            method="POST",
            target=endpoint.target,
            headers=[
                ("host", endpoint.authority.decode()),
                *_HEADERS,
                ("content-length", str(len(form))),
            ],
        )
        trade = _Trade(head, form, asyncio.get_running_loop().create_future())
        try:
            async with asyncio.timeout(TRADE_S_MAX):
                await self._connector.open(endpoint, lambda: trade)
                return await trade.reply
        except TimeoutError as error:
            raise TransportError("timeout", f"No answer within {TRADE_S_MAX:g} s") from error
        finally:
            trade.close()


class _Trade(asyncio.Protocol):
    """One request and its answer.

    Args:
        head: The request's head.
        form: Its body.
        reply: Takes the answer, or a ``TransportError``.
    """

    def __init__(self, head: h11.Request, form: bytes, reply: asyncio.Future[TokenReply]) -> None:
        self.reply = reply
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=ANSWER_BYTES_MAX)
        self._request = b"".join(
            self._http.send(event) or b""
            for event in (head, h11.Data(data=form), h11.EndOfMessage())
        )
        self._transport: asyncio.Transport | None = None
        self._received = 0
        self._status = 0
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)
        self._request = b""

    def data_received(self, data: bytes) -> None:
        """Take a piece of the answer."""
        self._received += len(data)
        if self._received > ANSWER_BYTES_MAX:
            self._fail("protocol", f"The answer is longer than {ANSWER_BYTES_MAX} bytes")
        else:
            self._read(data)

    def eof_received(self) -> None:
        """The end of what it sends; that may be how the answer ends."""
        self._read(b"")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone; so is the trade, unless its answer was whole."""
        del exc  # an error of the connection says no more than that
        self._fail("reset", "The connection was closed before the answer was whole")

    def _read(self, data: bytes) -> None:
        if self.reply.done():
            return
        try:
            self._http.receive_data(data)
            while not self.reply.done() and self._take(self._http.next_event()):
                pass
        except h11.ProtocolError:
            # Its message may quote the answer.
            self._fail("protocol", "The answer is not HTTP, or was cut off")

    def _take(self, event: object) -> bool:
        """Take one event of the answer; False: there is no further one yet."""
        if isinstance(event, h11.Response):
            self._status = event.status_code
        elif isinstance(event, h11.Data):
            self._body += event.data
        elif isinstance(event, h11.EndOfMessage):
            self.reply.set_result(TokenReply(self._status, bytes(self._body)))
        return isinstance(event, h11.InformationalResponse | h11.Response | h11.Data)

    def _fail(self, reason: str, message: str) -> None:
        if not self.reply.done():
            self.reply.set_exception(TransportError(reason, message))

    def close(self) -> None:
        """Close at once; nobody waits for an answer any more."""
        if self._transport is not None:
            self._transport.abort()
        if not self.reply.done():
            self.reply.cancel()
        elif not self.reply.cancelled():
            self.reply.exception()  # it was told, or came too late: not an error of the loop's
