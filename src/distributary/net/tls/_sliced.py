"""TLS over slices: what a connection holds is bounded by a slice, not by what its client sends.

Event loops keep a buffer of 256 KiB for each TLS connection, and OpenSSL's buffer of what is still
sealed grows to as much and stays so: a client that sends a megabyte, whoever it is, cost 600 KiB
until it left. Here all connections read into one buffer, and their TLS gets ``SLICE_BYTES`` at a
time: then neither of its own grows beyond that.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Final, cast

SLICE_BYTES: Final = 4 * 1024
"""What TLS gets at a time: a quarter of its largest record (RFC 8446, section 5.1)."""

READ_BYTES: Final = 64 * 1024
"""What one read takes at most; as much as the event loop asks for."""

_read: Final = memoryview(bytearray(READ_BYTES))
"""Where all connections read to: a loop fills it and hands it on in one step, so no two use it."""


async def shake_hands(
    connection: socket.socket,
    factory: Callable[[], asyncio.BaseProtocol],
    context: ssl.SSLContext,
    *,
    handshake_s: float,
    close_s: float,
) -> asyncio.BaseTransport | None:
    """Shake hands on *connection* as a server, and give it to a protocol.

    Args:
        connection: Accepted, not blocking.
        factory: Makes the protocol, whose ``connection_made`` is called after the handshake.
        context: Of this end.
        handshake_s: Longest handshake, seconds.
        close_s: Longest wait for the client's end of TLS, seconds.

    Returns:
        The transport; None: the client left as the handshake ended.

    Raises:
        OSError: The handshake failed.
    """
    loop = asyncio.get_running_loop()
    raw, sliced = await loop.connect_accepted_socket(_Sliced, connection)
    early = _Early()
    # Runs once ``start_tls`` has put its own protocol there, and before that reads anything.
    loop.call_soon(sliced.step_between)
    transport = await loop.start_tls(
        raw,
        early,
        context,
        server_side=True,
        ssl_handshake_timeout=handshake_s,
        ssl_shutdown_timeout=close_s,
    )
    if transport is None or early.lost:
        return None
    early.make_way(transport, cast("asyncio.Protocol", factory()))
    return transport


class _Sliced(asyncio.BufferedProtocol):
    """Stands between a connection and its TLS."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._tls: asyncio.BufferedProtocol | None = None
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Bytes may come before TLS is there."""
        self._transport = cast("asyncio.Transport", transport)

    def step_between(self) -> None:
        """Take the place of the TLS protocol that the connection has got."""
        if self._transport is None or self._transport.is_closing():
            return
        self._tls = cast("asyncio.BufferedProtocol", self._transport.get_protocol())
        self._transport.set_protocol(self)
        if self._early:
            asyncio.get_running_loop().call_soon(self._begin)  # TLS begins in between

    def _begin(self) -> None:
        early, self._early = self._early, b""
        self._hand_on(memoryview(early))

    def get_buffer(self, _size_hint: int) -> memoryview:
        """Where to read to."""
        return _read

    def buffer_updated(self, nbytes: int) -> None:
        """Hand on what was read."""
        if self._tls is None or self._early:
            self._early += _read[:nbytes]
        else:
            self._hand_on(_read[:nbytes])

    def _hand_on(self, data: memoryview) -> None:
        tls = self._tls
        assert tls is not None
        for at in range(0, len(data), SLICE_BYTES):
            piece = data[at : at + SLICE_BYTES]
            count = len(piece)
            tls.get_buffer(count)[:count] = piece  # type: ignore[index] # it is writable bytes
            tls.buffer_updated(count)

    def eof_received(self) -> bool | None:
        """The client sends no more."""
        return None if self._tls is None else self._tls.eof_received()

    def pause_writing(self) -> None:
        """The client does not read."""
        if self._tls is not None:
            self._tls.pause_writing()

    def resume_writing(self) -> None:
        """It reads again."""
        if self._tls is not None:
            self._tls.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over."""
        if self._tls is not None:
            self._tls.connection_lost(error)


class _Early(asyncio.Protocol):
    """Stands in for the protocol of a connection until the handshake is over.

    Attributes:
        lost: The connection is over already.
    """

    def __init__(self) -> None:
        self.lost = False
        self._kept: list[bytes] = []
        self._next: asyncio.Protocol | None = None

    def make_way(self, transport: asyncio.Transport, protocol: asyncio.Protocol) -> None:
        """Let *protocol* have the connection, and what came of it."""
        self._next = protocol
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in self._kept:
            protocol.data_received(data)
        self._kept = []

    def data_received(self, data: bytes) -> None:
        """Keep what comes with the end of the handshake: at most one slice."""
        self._kept.append(data)

    def connection_lost(self, error: Exception | None) -> None:
        """Tell whoever has the connection by now."""
        self.lost = True
        if self._next is not None:
            self._next.connection_lost(error)
