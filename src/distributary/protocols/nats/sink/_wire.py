"""The bytes of one connection to a NATS server, between asyncio and nats-py.

Called by ``_client``. Hides from nats-py who has dialled (the connector), when TLS begins, and what
INFO says beyond what is used.
"""

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from nats import errors
from nats.aio.transport import Transport

from distributary.deliver import Endpoint
from distributary.deliver.tunnel import TUNNEL_SCHEMES
from distributary.errors import TransportError

LINE_BYTES_MAX: Final = 64 * 1024
"""Of a line of the protocol: INFO has some 500 bytes, and more in a cluster of many servers."""

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for a server that reads nothing, bytes; then the connection is ended. Several times
what a session has in flight: only a server that asks (PING) and does not read gets there."""

_INFO_TYPES: Final[dict[str, type]] = {
    "auth_required": bool,
    "headers": bool,
    "max_payload": int,
    "tls_available": bool,
    "tls_required": bool,
    "version": str,
}
"""What is read of INFO; the rest, other servers to dial among it, is not passed on."""


class Wire(asyncio.Protocol, Transport):
    """The bytes of one connection: what asyncio calls a protocol and nats-py a transport.

    Args:
        endpoint: Where it goes.
        context: Makes the context for TLS.

    Attributes:
        info: What the server said of itself; None: nothing yet.
    """

    def __init__(self, endpoint: Endpoint, context: Callable[[], ssl.SSLContext]) -> None:
        self._endpoint = endpoint
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._below: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._frames: list[bytes] = []
        self.info: dict[str, Any] | None = None

    # -- what asyncio calls -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connector has dialled."""
        self._below = cast("asyncio.Transport", transport)  # uvloop's does not say so

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        self._arrived += data
        self._wake()

    def connection_lost(self, _error: Exception | None) -> None:
        """Nothing more arrives."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # -- what leaves --------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Write *frame* at the end of this turn of the loop, with all others of the turn."""
        if not self._frames:
            self._loop.call_soon(self._send_frames)
        self._frames.append(frame)

    def _send_frames(self) -> None:
        frames, self._frames = self._frames, []
        if frames:
            self._write(b"".join(frames))

    def _write(self, text: bytes) -> None:
        if self._below is not None and not self._below.is_closing():
            self._below.write(text)
            if self._below.get_write_buffer_size() > UNSENT_BYTES_MAX:
                self._below.abort()

    def write(self, payload: bytes) -> None:
        """Write at once, behind all frames that wait."""
        self._send_frames()
        self._write(payload)

    def writelines(self, payload: list[bytes]) -> None:
        """Write at once, behind all frames that wait."""
        self.write(b"".join(payload))

    async def drain(self) -> None:
        """Nothing is waited for: what may be on its way is bounded by whoever sends."""

    # -- what arrives -------------------------------------------------------------------------

    async def read(self, buffer_size: int) -> bytes:  # noqa: ARG002 - nats-py's interface
        """What has arrived; empty at the end."""
        while not self._arrived and not self._ended:
            await self._more()
        arrived = bytes(self._arrived)
        self._arrived.clear()
        return arrived

    async def _more(self) -> None:
        self._waiter = self._loop.create_future()
        await self._waiter

    async def readline(self) -> bytes:
        """One line of the handshake. Behind INFO comes TLS, where either side asks for it.

        Raises:
            TransportError: ``tls``, or ``protocol`` for what is no such line.
        """
        while (end := self._arrived.find(b"\n") + 1) == 0:
            if len(self._arrived) > LINE_BYTES_MAX:
                raise TransportError("protocol", "The server's first line has no end")
            if self._ended:
                return b""
            await self._more()
        line = bytes(self._arrived[:end])
        del self._arrived[:end]
        if self.info is not None:
            return line
        self.info = _info(line)
        required = self.info.pop("tls_required", False)
        offered = required or self.info.get("tls_available", False)
        if self._endpoint.scheme not in TUNNEL_SCHEMES:  # there TLS is outside, or nowhere
            if self._endpoint.tls and not offered:
                raise TransportError("tls", "The server offers no TLS")
            if self._endpoint.tls or required:
                await self._begin_tls()
        return b"INFO " + json.dumps(self.info).encode() + b"\r\n"

    async def _begin_tls(self) -> None:
        assert self._below is not None
        self._arrived.clear()  # what comes before TLS is not to be trusted
        host = self._endpoint.host.rstrip(".")
        try:
            upgraded = await self._loop.start_tls(
                self._below, self, self._context(), server_hostname=host
            )
        except OSError as error:  # ssl.SSLError and its certificate errors are among them
            raise TransportError("tls", f"No TLS with {host}: {error}") from error
        self._below = cast("asyncio.Transport", upgraded)

    # -- the end ------------------------------------------------------------------------------

    def close(self) -> None:
        """Write what waits and close; what the other end does not take at once is let go."""
        self._send_frames()
        if self._below is not None:
            self._below.close()
            if self._below.get_write_buffer_size():
                self._below.abort()  # nobody reads there: it would never be closed

    def abort(self) -> None:
        """Close at once."""
        if self._below is not None:
            self._below.abort()

    async def wait_closed(self) -> None:
        """Nothing is waited for."""

    def at_eof(self) -> bool:
        """Whether everything has been read."""
        return self._ended and not self._arrived

    # -- what nats-py would do itself ---------------------------------------------------------

    async def connect(self, uri: object, buffer_size: int, connect_timeout: int) -> None:
        """Nothing is left to do: the connector has dialled."""

    async def connect_tls(
        self, uri: object, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: int
    ) -> None:
        """Never called: TLS has begun when nats-py reads INFO, which no longer asks for it."""
        raise AssertionError(f"{uri} {ssl_context} {buffer_size} {connect_timeout}")

    def __bool__(self) -> bool:
        return True


def _info(line: bytes) -> dict[str, Any]:
    """What INFO says of the server, as far as it is used.

    Raises:
        TransportError: ``protocol``: *line* is no such line.
        errors.Error: It is a refusal.
    """
    operation, _, text = line.partition(b" ")
    if operation == b"-ERR":
        raise errors.Error(f"nats: {text.decode('latin-1')}")  # as nats-py does further on
    try:
        info = json.loads(text) if operation.upper() == b"INFO" else None
    except ValueError:
        info = None
    if not isinstance(info, dict):
        raise TransportError("protocol", "The server does not begin with INFO")
    return {name: info[name] for name, kind in _INFO_TYPES.items() if type(info.get(name)) is kind}
