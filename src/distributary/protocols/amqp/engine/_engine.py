"""One AMQP connection as an ``asyncio.Protocol``, with a handler for its events.

Called by the AMQP sink and source (client) and by the AMQP binding of the Subscriptions API
(server). Hides the socket, the login, and timers; TLS is asyncio's.

Runs on the thread of one event loop.
"""

import asyncio
from typing import Any, Final, cast

from distributary.protocols.amqp.engine._core import CLOSED_BY_US, Core
from distributary.protocols.amqp.engine._handler import Handler
from distributary.protocols.amqp.engine._limits import MESSAGE_BYTES_MAX
from distributary.protocols.amqp.engine._link import AmqpLink
from distributary.protocols.amqp.engine._login import (
    AmqpLogin,
    Handshake,
    LoginRefusedError,
)
from distributary.protocols.amqp.engine._outcomes import Ended
from distributary.protocols.amqp.engine._sasl_frames import HEADER
from distributary.protocols.amqp.engine._server_login import Logins, ServerHandshake
from distributary.protocols.amqp.engine._values import AmqpError

IDLE_S: Final = 18.0
"""A peer that sends nothing for so long counts as lost; half of it is announced as idle time-out.
With ``TICK_S`` it is below 20 s, twice the other protocols' keepalive of 10 s."""

TICK_S: Final = 1.0
"""Longest interval between calls of proton's ``tick``, the precision of the idle time-out. A
connection that has ended is aborted at the next tick."""

OPENING_TICK_S: Final = 0.25
"""The same until the peer has announced its idle time-out, which may be a second."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Bytes read from a peer that does not read ours; then reading pauses. Each byte may produce some
thirty that are buffered here."""


class AmqpEngine(asyncio.Protocol):
    """One connection, for ``create_connection``, ``create_server`` or a tunnel.

    Args:
        handler: Called with the events of the connection.
        server: Whether this end is the server.
        logins: Decides about clients of a server; None: they need none (SASL ``ANONYMOUS``, or no
            SASL).
        login: Credentials of a client.
        host: ``hostname`` of a client's ``open``; some servers select a virtual host by it.
        container: ``container-id`` of this end.
        idle_s: See ``IDLE_S``.
        message_bytes_max: Largest message that links accept.

    Attributes:
        handler: Called with the events of the connection.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        server: bool = False,
        logins: Logins | None = None,
        login: AmqpLogin | None = None,
        host: str = "",
        container: str = "distributary",
        idle_s: float = IDLE_S,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        self.handler = handler
        self._core = Core(
            self,
            self.flush_soon,
            server=server,
            host=host,
            container=container,
            idle_ms=int(idle_s * 1000),
            message_bytes_max=message_bytes_max,
        )
        self._handshake: Handshake | ServerHandshake | None = None
        if not server:
            self._handshake = Handshake(login or AmqpLogin(), host)
        elif logins is not None:
            self._handshake = ServerHandshake(logins)
        self._wire: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._paused = self._flush_due = False
        self._taken_bytes = 0  # read while writing is paused

    # -- for the handler ----------------------------------------------------------------------

    @property
    def ended(self) -> Ended | None:
        """How the connection ended; None: it has not."""
        return self._core.ended

    @property
    def links_max(self) -> int:
        """Limit of open links of this end, from both ends' limits of sessions."""
        return self._core.links_max

    @property
    def has_room(self) -> bool:
        """Whether a link may be opened; a closed one counts until the peer has confirmed it.

        Check it before opening many: without room proton silently stalls the connection.
        """
        return self._core.has_room

    def open_sender(
        self,
        address: str,
        name: str,
        *,
        settled: bool = False,
        properties: dict[str, Any] | None = None,
    ) -> AmqpLink:
        """Open a sending link, on a new session.

        Args:
            address: Target node at the peer.
            name: Name of the link.
            settled: Whether all messages will be sent settled.
            properties: Of the link.

        Raises:
            AmqpError: A property cannot be encoded in AMQP.
        """
        return self._core.open_sender(address, name, settled=settled, properties=properties)

    def open_receiver(self, address: str | None, name: str) -> AmqpLink:
        """Open a receiving link; ``grant`` it credit.

        Args:
            address: Source node at the peer. None: dynamic; ``link.address`` once it is opened.
            name: Name of the link.
        """
        return self._core.open_receiver(address, name)

    def flush_soon(self) -> None:
        """Schedule a write of all output at the end of this loop iteration; all methods do so."""
        if not self._flush_due and self._loop is not None:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def close(self, condition: str = "", text: str = "") -> None:
        """Send ``close``; the connection ends with the peer's ``close``, or by ``abort``.

        ``Handler.closed`` is called then, with the cause ``local``.
        """
        core = self._core
        if core.freed or core.closing:
            return
        if self._handshake is not None or self._wire is None:
            self.abort()
        else:
            core.close(condition, text)

    def abort(self) -> None:
        """Abort the connection without ``close``. Calls ``Handler.closed``, if not called yet."""
        self._fail(CLOSED_BY_US)

    # -- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timers; as a client, the SASL exchange too."""
        self._loop = asyncio.get_running_loop()
        wire = cast("asyncio.Transport", transport)
        self._wire = wire
        if self._core.ended is not None:
            wire.abort()
            return
        # Pause at the first byte that the socket does not accept, resume at an empty buffer: so
        # ``written`` is exact, and no byte is buffered twice.
        wire.set_write_buffer_limits(high=1, low=0)
        if isinstance(self._handshake, Handshake):
            wire.write(HEADER)
        self._keep_time()

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the peer."""
        if self._handshake is not None:
            data = self._log_in(self._handshake, data)
        try:
            self._core.take(data)
        except AmqpError as error:
            self._fail(Ended("protocol", "", str(error)))
        self._flush()
        if self._paused and self._wire is not None and self._core.ended is None:
            self._taken_bytes += len(data)
            if self._taken_bytes > UNREAD_BYTES_MAX:
                self._wire.pause_reading()

    def _log_in(self, handshake: Handshake | ServerHandshake, data: bytes) -> bytes:
        assert self._wire is not None
        try:
            answer, rest = handshake.take(data)
        except LoginRefusedError as error:
            self._fail(Ended("login", error.code, str(error)))
            return b""
        except AmqpError as error:
            self._fail(Ended("protocol", "", str(error)))
            return b""
        if answer:
            self._wire.write(answer)
        if handshake.done:
            self._handshake = None
        elif isinstance(handshake, ServerHandshake) and handshake.refused:
            self._wire.close()  # writes the refusal first
            self._core.end(Ended("login", "sasl-auth", "The client has not logged in"))
        return rest

    def eof_received(self) -> bool:
        """Close the connection after the peer's EOF."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Report the end, and free proton's memory."""
        self._wire = None
        core = self._core
        text = f"The connection was closed ({exc or 'end of stream'})"
        core.end(CLOSED_BY_US if core.closing else Ended("lost", "", text))
        self._free()

    def pause_writing(self) -> None:
        """The write buffer is not empty."""
        self._paused = True

    def resume_writing(self) -> None:
        """The write buffer is empty."""
        self._paused = False
        taken_bytes, self._taken_bytes = self._taken_bytes, 0
        if taken_bytes > UNREAD_BYTES_MAX and self._wire is not None:
            self._wire.resume_reading()
        self._flush()

    # -- bytes and time -----------------------------------------------------------------------

    def _flush_now(self) -> None:
        self._flush_due = False
        self._flush()

    def _flush(self) -> None:
        """Write output, until the socket accepts no more."""
        core = self._core
        if core.freed or self._handshake is not None or self._wire is None:
            return
        core.run_events()
        raw: bytes | None = b""
        while not self._paused and not core.freed:
            raw = core.output()
            if not raw:
                break
            self._wire.write(raw)
        if core.freed or self._paused:
            return
        if raw is None:  # all output is written
            # Close only after the peer's ``close``: a socket closed with unread bytes is reset, and
            # the peer may lose what it has not read yet.
            if core.ended is not None:
                self._wire.close()
        else:
            core.tell_written()
        core.run_events()

    def _keep_time(self) -> None:
        core = self._core
        if core.freed:
            return
        if core.ended is not None and self._wire is not None:
            self._wire.abort()  # the peer is slow to read our ``close``
            return
        assert self._loop is not None
        now_s = self._loop.time()
        due_ms = core.tick(int(now_s * 1000))
        wait_s = TICK_S if core.opened else OPENING_TICK_S
        if due_ms > 0:
            wait_s = min(wait_s, max(0.001, due_ms / 1000 - now_s))
        self._tick = self._loop.call_later(wait_s, self._keep_time)
        self._flush()

    def _fail(self, ended: Ended) -> None:
        wire = self._wire
        self._core.end(ended)
        if wire is not None:
            wire.abort()  # ``connection_lost`` frees the rest
        elif self._loop is None:
            self._free()  # it was never connected

    def _free(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        self._core.free()
