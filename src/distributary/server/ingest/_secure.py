"""A client connection over TLS: the client's certificate, and how TLS differs at the end.

Caller: the event loop, after the handshake; ``_server`` makes one for each connection.
"""

import asyncio

from distributary.access.peer import read_peer
from distributary.server.ingest import _limits
from distributary.server.ingest._protocol import IngestConnection


class SecureConnection(IngestConnection):
    """The receiver's end of one connection over TLS."""

    __slots__ = ()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the certificate; then as over TCP."""
        found = transport.get_extra_info("peercert")
        self._certificate = read_peer(found) if found else None
        super().connection_made(transport)

    def eof_received(self) -> bool:
        """Handle the client's end of stream, which ends both directions of a TLS connection.

        Event loops support no half-closed one: responses under way are lost. Clients of HTTP that
        close first do not wait for them.
        """
        super().eof_received()
        return False

    def forget_certificate(self) -> None:
        """Forget the client's certificate, and end the connection after what is under way.

        The authority that signed it may be trusted no more, so it identifies no further request.
        """
        if self._certificate is None:
            return
        self._certificate = None
        self._request_count = _limits.REQUESTS_PER_CONNECTION_MAX  # the next one is the last
        self.drain()
