"""TLS handshakes of accepted connections: bounded in time and number, counted by how they fail.

A client that stops in the middle holds a place and some memory. One more than the limit costs the
oldest its place: a client that means it is done within a few round trips, a hostile one never.
"""

import asyncio
import enum
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final

from distributary.net.tls._sliced import shake_hands
from distributary.resource import is_loopback

HANDSHAKE_S: Final = 10.0
"""From the acceptance of a connection to the end of its handshake, as for the head of a request."""

HANDSHAKES_MAX: Final = 256
"""Handshakes under way in one process: 10 MiB of memory, and a quarter of a second of a core."""

HANDSHAKES_PER_ADDRESS_MAX: Final = 64
"""Of these, from one address that is not loopback: a quarter, so that no client has them all."""

CLOSE_S: Final = 2.0
"""Time for the client to answer the end of TLS, so that it can read the last response."""


class HandshakeFailure(enum.StrEnum):
    """How a handshake ended without a connection."""

    TIMEOUT = "timeout"
    """It took longer than ``HANDSHAKE_S``."""
    CROWDED = "crowded"
    """It was the oldest when there were too many."""
    LEFT = "left"
    """The client ended the connection."""
    PLAIN = "plain"
    """The client spoke HTTP without TLS."""
    VERSION = "version"
    """The client offered no version of TLS, or no cipher, that the server accepts."""
    CLIENT_CERTIFICATE = "client-certificate"
    """The client's certificate is missing, expired, or of an unknown authority."""
    UNTRUSTED = "untrusted"
    """The client does not trust our certificate, and said so."""
    OTHER = "other"
    """Anything else."""


_OF_REASONS: Final = {
    "HTTP_REQUEST": HandshakeFailure.PLAIN,
    "HTTPS_PROXY_REQUEST": HandshakeFailure.PLAIN,
    "UNSUPPORTED_PROTOCOL": HandshakeFailure.VERSION,
    "NO_SHARED_CIPHER": HandshakeFailure.VERSION,
    "VERSION_TOO_LOW": HandshakeFailure.VERSION,
    "CERTIFICATE_VERIFY_FAILED": HandshakeFailure.CLIENT_CERTIFICATE,
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": HandshakeFailure.CLIENT_CERTIFICATE,
    "UNEXPECTED_EOF_WHILE_READING": HandshakeFailure.LEFT,
    "TLSV1_ALERT_UNKNOWN_CA": HandshakeFailure.UNTRUSTED,
    "SSLV3_ALERT_BAD_CERTIFICATE": HandshakeFailure.UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": HandshakeFailure.UNTRUSTED,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": HandshakeFailure.UNTRUSTED,
}


class Handshakes:
    """Handshakes of one listener, on one event loop.

    Args:
        context: Returns the context for the next connection.
        per_address_max: Most handshakes under way from one address that is not loopback.

    Attributes:
        failures: Handshakes that failed, by reason.
    """

    def __init__(
        self,
        context: Callable[[], ssl.SSLContext],
        per_address_max: int = HANDSHAKES_PER_ADDRESS_MAX,
    ) -> None:
        self._context = context
        self._per_address_max = per_address_max
        self._under_way: dict[socket.socket, str | None] = {}  # the oldest first
        self._crowded: set[socket.socket] = set()
        self.failures: Counter[HandshakeFailure] = Counter()

    @property
    def count(self) -> int:
        """Handshakes under way."""
        return len(self._under_way)

    async def open(
        self, connection: socket.socket, factory: Callable[[], asyncio.BaseProtocol]
    ) -> asyncio.BaseTransport | None:
        """Shake hands on *connection*, which this then owns.

        Args:
            connection: Accepted, not blocking.
            factory: Makes the protocol, whose ``connection_made`` is called after the handshake.

        Returns:
            The transport; None: the handshake failed, and is counted.
        """
        address = _address_of(connection)
        self._make_room(address)
        self._under_way[connection] = address
        try:
            transport = await shake_hands(
                connection,
                factory,
                self._context(),
                handshake_s=HANDSHAKE_S,
                close_s=CLOSE_S,
            )
        except OSError as error:  # ``ssl.SSLError`` is one
            crowded = connection in self._crowded
            self.failures[HandshakeFailure.CROWDED if crowded else _failure(error)] += 1
            connection.close()
            return None
        finally:
            self._under_way.pop(connection, None)
            self._crowded.discard(connection)
        if transport is None:
            self.failures[HandshakeFailure.LEFT] += 1
        return transport

    def close(self) -> None:
        """End all handshakes under way."""
        for connection in self._under_way:
            _cut(connection)

    def _make_room(self, address: str | None) -> None:
        waiting = [each for each in self._under_way if each not in self._crowded]
        if len(waiting) >= HANDSHAKES_MAX:
            self._push_out(waiting[0])
        elif address is not None:
            of_address = [each for each in waiting if self._under_way[each] == address]
            if len(of_address) >= self._per_address_max:
                self._push_out(of_address[0])

    def _push_out(self, connection: socket.socket) -> None:
        self._crowded.add(connection)
        _cut(connection)


def _cut(connection: socket.socket) -> None:
    """Let the loop see the end of *connection*, which it owns meanwhile."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the client was faster
        return


def _address_of(connection: socket.socket) -> str | None:
    """The client's address; None: loopback, or none."""
    try:
        peer = connection.getpeername()
    except OSError:
        return None
    address = str(peer[0]) if isinstance(peer, tuple) else None
    return None if address is None or is_loopback(address) else address


def _failure(error: OSError) -> HandshakeFailure:
    if isinstance(error, ssl.SSLError):
        found = _OF_REASONS.get(error.reason or "")
        if found is not None:
            return found
        eof = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        return HandshakeFailure.LEFT if eof else HandshakeFailure.OTHER
    if isinstance(error, ConnectionAbortedError):  # as both event loops report the time limit
        return HandshakeFailure.TIMEOUT
    return HandshakeFailure.LEFT
