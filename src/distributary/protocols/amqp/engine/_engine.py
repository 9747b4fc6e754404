"""One AMQP connection as an ``asyncio.Protocol``: bytes in, calls of a handler out.

Called by the AMQP transport and source (client) and by the AMQP binding of the Subscriptions API
(server). Hides the wire, the login, and time; TLS is asyncio's: this end never sees it.

Everything runs on the thread of one event loop.
"""

import asyncio
from typing import Any, Final, cast

from distributary.protocols.amqp.engine._core import CLOSED_BY_US, Core
from distributary.protocols.amqp.engine._handler import Handler
from distributary.protocols.amqp.engine._limits import MESSAGE_BYTES_MAX
from distributary.protocols.amqp.engine._link import AmqpLink
from distributary.protocols.amqp.engine._login import (
    HEADER,
    AmqpLogin,
    Handshake,
    LoginRefusedError,
)
from distributary.protocols.amqp.engine._outcomes import Ended
from distributary.protocols.amqp.engine._values import AmqpError

IDLE_S: Final = 18.0
"""A peer that says nothing for so long is gone; it is asked for a sign of life in half of it. With
``TICK_S`` it stays below 20 s, twice the 10 s after which the other protocols ask."""

TICK_S: Final = 1.0
"""How often time is told to proton at least: the idle time-out is kept within as much. What is left
of a connection that has ended is cut at the next time."""

OPENING_TICK_S: Final = 0.25
"""The same until the peer has said its own time-out, which may be a second."""

UNREAD_BYTES_MAX: Final = 64 * 1024
"""What is taken from a peer that does not read what it is told; more waits in its socket. Each
byte may make us say and keep some thirty."""


class AmqpEngine(asyncio.Protocol):
    """One connection. Give it to ``create_connection``, ``create_server`` or a tunnel.

    Args:
        handler: What it calls.
        server: Whether it is the side that was connected to. A server lets everybody in (SASL
            ``ANONYMOUS``, or none): what it must protect it must not listen for.
        login: Who a client is.
        host: Name of the server, in a client's ``open``; some choose a virtual host by it.
        container: Name of this end.
        idle_s: See ``IDLE_S``.
        message_bytes_max: Largest message that links here take.

    Attributes:
        handler: What it calls.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        server: bool = False,
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
        self._handshake = None if server else Handshake(login or AmqpLogin(), host)
        self._wire: asyncio.Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._paused = self._flush_due = False
        self._taken_bytes = 0  # while paused

    # -- what whoever handles it calls --------------------------------------------------------

    @property
    def ended(self) -> Ended | None:
        """How the connection ended; None: it has not."""
        return self._core.ended

    @property
    def links_max(self) -> int:
        """Links that this end may have open at once, by what both ends say of sessions."""
        return self._core.links_max

    @property
    def has_room(self) -> bool:
        """Whether a link may be opened: one that was ended takes room until the peer agrees.

        Must be asked where there may be many: proton ends a connection that has no room without
        a word, and neither side hears anything from then on.
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
        """Open a link that we send on, on a session of its own.

        Args:
            address: Node at the peer.
            name: Name of the link.
            settled: All that is sent will be settled.
            properties: Of the link.

        Raises:
            AmqpError: A property cannot be said in AMQP.
        """
        return self._core.open_sender(address, name, settled=settled, properties=properties)

    def open_receiver(self, address: str | None, name: str) -> AmqpLink:
        """Open a link that we receive on; ``grant`` it credit.

        Args:
            address: None: a dynamic one, which is in ``link.address`` once it is opened.
            name: Name of the link.
        """
        return self._core.open_receiver(address, name)

    def flush_soon(self) -> None:
        """Write what was said in this turn of the loop at its end; all methods see to it."""
        if not self._flush_due and self._loop is not None:
            self._flush_due = True
            self._loop.call_soon(self._flush_now)

    def close(self, condition: str = "", text: str = "") -> None:
        """Say goodbye; the connection goes when the peer has answered, or by ``abort``.

        ``Handler.closed`` is called when it is gone, with the cause ``local``.
        """
        core = self._core
        if core.freed or core.closing:
            return
        if self._handshake is not None or self._wire is None:
            self.abort()
        else:
            core.close(condition, text)

    def abort(self) -> None:
        """Cut the connection without a goodbye. ``Handler.closed`` is told, if it was not."""
        self._fail(CLOSED_BY_US)

    # -- what the event loop calls ------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin: a client with its login."""
        self._loop = asyncio.get_running_loop()
        wire = cast("asyncio.Transport", transport)
        self._wire = wire
        if self._core.ended is not None:
            wire.abort()
            return
        # Paused as soon as the socket takes no more, resumed when all is in it: so it is known
        # when a message is written, and nothing is buffered twice.
        wire.set_write_buffer_limits(high=1, low=0)
        if self._handshake is not None:
            wire.write(HEADER)
        self._keep_time()

    def data_received(self, data: bytes) -> None:
        """Take a piece of what the peer says."""
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

    def _log_in(self, handshake: Handshake, data: bytes) -> bytes:
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
        return rest

    def eof_received(self) -> bool:
        """The peer says no more: the connection is over."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._wire = None
        core = self._core
        text = f"The connection was closed ({exc or 'end of stream'})"
        core.end(CLOSED_BY_US if core.closing else Ended("lost", "", text))
        self._free()

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._paused = True

    def resume_writing(self) -> None:
        """All is in the socket."""
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
        """Write what there is to write, as far as the socket takes it."""
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
        if raw is None:  # our last word is said
            # Not before the peer's is heard: a socket that is closed over unread bytes is reset,
            # and takes with it what the peer has not read yet.
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
            self._wire.abort()  # the peer takes its time to hear the last words
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
            wire.abort()  # frees what is left, by ``connection_lost``
        elif self._loop is None:
            self._free()  # it never had a wire

    def _free(self) -> None:
        if self._tick is not None:
            self._tick.cancel()
        self._core.free()
