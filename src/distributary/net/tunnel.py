"""Byte streams through a WebSocket, for sink URIs with the scheme ``ws`` or ``wss``.

Called by the transports. Hides the handshake, frames and masking (``websockets``' protocol without
I/O) between the connector, which dials, and any ``asyncio.Protocol``, which sees a plain stream.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, cast

from websockets.client import ClientProtocol
from websockets.exceptions import WebSocketException
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from distributary.core.deliver.endpoint import Endpoint
from distributary.core.errors import TransportError
from distributary.core.policy.acknowledgements import TEXT_CHARS_MAX
from distributary.net._connector import Connector

TUNNEL_SCHEMES: Final = frozenset({"ws", "wss"})
"""URI schemes of tunnels."""

MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Longest WebSocket message that is accepted: several of the largest events."""

SENT_BYTES_MAX: Final = 32 * 1024
"""Longest WebSocket message sent: many servers accept 64 KiB by default (Netty, Artemis)."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Most bytes read from a server that does not read itself: each of its pings queues a pong."""

SLICE_BYTES: Final = 4 * 1024
"""Bytes parsed at a time: frames of two bytes cost 7 ms, and then are looked at."""

FRAMES_MAX: Final = 1_000
"""Frames of a server in ``FRAMES_S``, besides one for each ``FRAME_BYTES`` that they hold, and for
each ``SENT_BYTES_EACH`` that were sent; beyond, the connection is ended. A frame takes 2 to 4
microseconds of the loop that delivers to all sinks, and a flood of pings, or of empty frames, all
of it."""

FRAMES_S: Final = 10.0
"""Within this a server sends a few pings."""

FRAME_BYTES: Final = 4
"""The shortest message of MQTT that answers one of ours; those of the others are longer."""

SENT_BYTES_EACH: Final = 8
"""Bytes sent, to which one more frame may answer. A message of MQTT may come in many frames
(5.0, section 6): some brokers send one for each field. An event has more than 64 bytes, and its
answers no more than ten fields, at QoS 2."""

EXPECTED_MAX: Final = 16 * 1024
"""Frames that may still answer what was sent: a thousand messages in flight have ten each."""

NORMAL_CLOSURE: Final = 1000
"""RFC 6455, section 7.4.1."""


async def open_tunnel(
    connector: Connector,
    endpoint: Endpoint,
    subprotocol: str | None,
    factory: Callable[[], asyncio.Protocol],
) -> None:
    """Connect, upgrade, and connect the stream to the protocol that *factory* makes.

    Has no deadline: cancel it, which leaves no connection behind.

    Args:
        connector: Dials.
        endpoint: A ``ws`` or ``wss`` endpoint; its target is the resource.
        subprotocol: The required subprotocol; None: none.
        factory: Called once, after the handshake.

    Raises:
        TransportError: As ``Connector.open``; ``protocol`` where the server refuses the upgrade;
            ``reset`` where it disconnects.
    """
    tunnel = _Tunnel(endpoint, subprotocol, factory)
    try:
        await connector.open(endpoint, lambda: tunnel)
        await tunnel.agreed
    except BaseException:
        tunnel.agreed.cancel()  # nothing awaits it any more
        tunnel.abort()
        raise


class _Tunnel(asyncio.Protocol):
    """The client's end of one WebSocket."""

    def __init__(
        self,
        endpoint: Endpoint,
        subprotocol: str | None,
        factory: Callable[[], asyncio.Protocol],
    ) -> None:
        path, _, query = endpoint.target.decode("ascii").partition("?")
        uri = WebSocketURI(endpoint.scheme == "wss", endpoint.host, endpoint.port, path, query)
        wanted = None if subprotocol is None else [Subprotocol(subprotocol)]
        self._socket = ClientProtocol(uri, subprotocols=wanted, max_size=MESSAGE_BYTES_MAX)
        self._wanted = subprotocol
        self._factory = factory
        self._inner: asyncio.Protocol | None = None
        self._wire: asyncio.Transport | None = None
        self._choked = False
        self._taken_bytes = 0  # while the server does not read
        self._frames = 0
        self._frames_since_s = 0.0
        self._frames_bytes = 0
        self._unanswered_bytes = 0  # sent; as many as there may be answers to
        self._inner_pauses = False
        self._unread = False
        self.agreed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    # -- what the event loop calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the upgrade request."""
        self._wire = cast("asyncio.Transport", transport)
        self._socket.send_request(self._socket.connect())
        self._write_out()

    def data_received(self, data: bytes) -> None:
        """Parse frames, and forward their payload."""
        for at in range(0, len(data), SLICE_BYTES):
            self._socket.receive_data(data[at : at + SLICE_BYTES])
            for event in self._socket.events_received():
                if isinstance(event, Response):
                    self._on_response()
                elif isinstance(event, Frame):
                    self._on_frame(event)
            if self._wire is None or self._wire.is_closing():
                return
        if self._inner is None and self._socket.handshake_exc is not None:
            self._refuse(self._socket.handshake_exc)
        self._write_out()
        if self._choked:
            self._taken_bytes += len(data)
            self._read_or_pause()

    def eof_received(self) -> bool:
        """Handle the server's end of stream: the connection is over."""
        self._socket.receive_eof()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the opener, or the inner protocol."""
        self._wire = None
        if not self.agreed.done():
            text = f"The connection was closed during the WebSocket handshake ({exc or 'end'})"
            self.agreed.set_exception(TransportError("reset", text))
        elif self._inner is not None:
            self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        """Pause the inner protocol: the socket's buffer is full."""
        self._choked = True
        if self._inner is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        """Resume the inner protocol."""
        self._choked = False
        self._taken_bytes = 0
        self._read_or_pause()
        if self._inner is not None:
            self._inner.resume_writing()

    def _read_or_pause(self) -> None:
        """Pause reading for the inner protocol, or for a server that does not read; else read."""
        wire = self._wire
        if wire is None or wire.is_closing():
            return
        pauses = self._inner_pauses or self._taken_bytes > UNREAD_BYTES_MAX
        if pauses != self._unread:
            self._unread = pauses
            if pauses:
                wire.pause_reading()
            else:
                wire.resume_reading()

    # -- the WebSocket ------------------------------------------------------------------------

    def _on_response(self) -> None:
        """Handle the response to the handshake."""
        error = self._socket.handshake_exc
        if error is not None:
            self._refuse(error)
        elif self._socket.subprotocol != self._wanted:
            self._refuse(WebSocketException(f"the server does not speak {self._wanted} in it"))
        elif not self.agreed.done():
            assert self._wire is not None
            self.agreed.set_result(None)
            self._inner = self._factory()
            self._inner.connection_made(_Stream(self, self._wire))

    def _on_frame(self, frame: Frame) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._frames_since_s >= FRAMES_S:
            self._frames_since_s, self._frames, self._frames_bytes = now_s, 0, 0
        self._frames += 1
        self._frames_bytes += len(frame.data)
        if self._frames > FRAMES_MAX + self._frames_bytes // FRAME_BYTES:
            if self._unanswered_bytes < SENT_BYTES_EACH:
                self.abort()
                return
            self._unanswered_bytes -= SENT_BYTES_EACH
            self._frames -= 1
        if frame.opcode is Opcode.TEXT:
            self._socket.fail(1003, "bytes are expected")
        elif frame.opcode in {Opcode.BINARY, Opcode.CONT} and self._inner is not None:
            self._inner.data_received(bytes(frame.data))

    def _refuse(self, error: Exception) -> None:
        if not self.agreed.done():
            said = str(error)[:TEXT_CHARS_MAX]
            text = f"The server does not agree to a WebSocket: {said}"
            self.agreed.set_exception(TransportError("protocol", text))
        self.abort()

    def _write_out(self) -> None:
        wire = self._wire
        if wire is None or wire.is_closing():
            return
        for piece in self._socket.data_to_send():
            if piece:
                wire.write(piece)
            else:
                wire.close()  # the closing handshake is done, or has failed

    # -- what the stream calls ----------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send *data* as binary messages."""
        if self._socket.state is State.OPEN:
            unanswered = self._unanswered_bytes + len(data)
            self._unanswered_bytes = min(unanswered, SENT_BYTES_EACH * EXPECTED_MAX)
            for start in range(0, len(data), SENT_BYTES_MAX):
                self._socket.send_binary(data[start : start + SENT_BYTES_MAX])
            self._write_out()

    def pause_reading(self) -> None:
        """Read nothing from the server until ``resume_reading``."""
        self._inner_pauses = True
        self._read_or_pause()

    def resume_reading(self) -> None:
        """Undo ``pause_reading``."""
        self._inner_pauses = False
        self._read_or_pause()

    def close(self) -> None:
        """Send a close frame; the connection ends once written data is in the socket."""
        if self._socket.state is State.OPEN:
            self._socket.send_close(NORMAL_CLOSURE)
            self._write_out()
        if self._wire is not None:
            self._wire.close()

    @property
    def is_closing(self) -> bool:
        """Whether written data is lost: closed, or the server has sent a close frame."""
        wire = self._wire
        return wire is None or wire.is_closing() or self._socket.state is not State.OPEN

    def abort(self) -> None:
        """End the connection at once."""
        if self._wire is not None:
            self._wire.abort()


class _Stream(asyncio.Transport):
    """The inner transport of a tunnel."""

    def __init__(self, tunnel: _Tunnel, wire: asyncio.Transport) -> None:
        super().__init__()
        self._tunnel = tunnel
        self._wire = wire

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if data:
            self._tunnel.write(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self._tunnel.close()

    def abort(self) -> None:
        self._tunnel.abort()

    def is_closing(self) -> bool:
        return self._tunnel.is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._wire.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._wire.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._wire.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._tunnel.pause_reading()

    def resume_reading(self) -> None:
        self._tunnel.resume_reading()
