"""One NATS connection as an ``asyncio.Protocol``: dial, handshake, publish, subscribe, keepalive.

Called by ``_session`` and the source. Hides the syntax of commands, TLS that begins after INFO, and
the keepalive. A message costs no task and no future: frames of one loop iteration are written
together, and received messages are passed to the listener as they are parsed.
"""

import asyncio
import json
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

from distributary.core.deliver import Destination, Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement, Answer, Decision, acknowledgement_rule
from distributary.net import Connector, hand_over
from distributary.net.tunnel import TUNNEL_SCHEMES, open_tunnel
from distributary.protocols.nats.sink import _answers
from distributary.protocols.nats.sink._parser import (
    PING,
    PONG,
    Info,
    NatsMessage,
    Parser,
    Refusal,
    Said,
)

PING_S: Final = 10
"""Seconds between PINGs. One without a PONG when the next is due ends the connection, so a
half-open connection is found within two intervals."""

HANDSHAKE_S_MAX: Final = 10
"""Longest handshake, TLS included, seconds; callers have shorter timeouts."""

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""Limit of the write buffer, bytes; beyond, the connection is ended. Several times what a session
has in flight: only a server that sends PINGs and does not read reaches it."""

UNASKED_MAX: Final = 1_000
"""Operations of a server between two of our PINGs that answer nothing, besides those that are
expected; beyond, the connection is ended. Usual is one, a PING. Each takes a microsecond of the
loop that delivers to all sinks, and a flood of them all of it."""

EXPECTED_MAX: Final = 16 * 1024
"""Answers that may come late or twice, one for each message sent: more than the lookups that a
server of JetStream queues (10,000), and the messages in flight."""

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Largest message accepted where only replies arrive: the longest lists a thousand streams."""

_MAX_PAYLOAD: Final = 1024 * 1024
"""``max_payload`` of a server whose INFO has none (nats-server's default)."""


class NatsListener(Protocol):
    """Callbacks of a connection, on the loop; they must not raise."""

    def taken(self, sid: int, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """Called with a message of the subscription *sid*; *headers* is its block, or empty."""

    def denied(self, text: str) -> None:
        """Called when the server refuses a publish or a subscription; the connection stays open.

        Args:
            text: The server's text.
        """

    def lost(self, answer: Answer) -> None:
        """Called once, last, when the connection was lost."""


class NatsConnection(asyncio.Protocol):
    """The client side of one NATS connection; ``log_in`` opens it.

    Args:
        listener: Called with what arrives once it is open.
        received_bytes_max: Largest message accepted, headers included; a larger one ends the
            connection.

    Attributes:
        message_bytes_max: Bytes of the largest message that the server accepts, headers included.
        headers: Whether the server supports headers.
        jetstream: Whether it says that it has JetStream itself.
    """

    def __init__(self, listener: NatsListener, received_bytes_max: int) -> None:
        self.message_bytes_max = _MAX_PAYLOAD
        self.headers = False
        self.jetstream = False
        self._listener = listener
        self._parser = Parser(received_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._info: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._held = False  # parsing pauses after INFO until it is decided whether TLS begins there
        self._open = False
        self._over: Answer | None = None  # why it has ended
        self._pongs: deque[asyncio.Future[bool]] = deque()  # one for each PING in flight
        self._kept_alive: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sid = 0
        self._unasked = 0
        self._expected = 0

    # -- logging in ---------------------------------------------------------------------------

    async def log_in(
        self,
        endpoint: Endpoint,
        context: Callable[[], Awaitable[ssl.SSLContext]],
        credential: Credential | None,
    ) -> Acknowledgement | None:
        """Do the handshake, after the dial.

        Args:
            endpoint: The server.
            context: Makes the context for TLS.
            credential: Of type ``PLAIN``, or with an access token; None: none.

        Returns:
            None, or the server's refusal of the login.

        Raises:
            TransportError: ``tls``, ``timeout``, ``protocol``, ``reset``.
        """
        try:
            async with asyncio.timeout(HANDSHAKE_S_MAX):
                await asyncio.wait([self._info])
                if self._over is None:
                    await self._greet(self._info.result(), endpoint, context, credential)
        except TimeoutError as error:
            raise TransportError("timeout", "The server did not finish the handshake") from error
        if isinstance(self._over, TransportError):
            raise self._over
        if isinstance(self._over, Acknowledgement):
            return self._over
        self._open = True
        self._timer = self._loop.call_later(PING_S, self._keep_alive)
        return None

    async def _greet(
        self,
        info: dict[str, Any],
        endpoint: Endpoint,
        context: Callable[[], Awaitable[ssl.SSLContext]],
        credential: Credential | None,
    ) -> None:
        required = info.get("tls_required") is True
        if endpoint.scheme not in TUNNEL_SCHEMES:  # in a tunnel TLS is outside, or not used
            if endpoint.tls and not (required or info.get("tls_available") is True):
                raise TransportError("tls", "The server offers no TLS")
            if endpoint.tls or required:
                await self._begin_tls(endpoint.host.rstrip("."), context)
        self.headers = info.get("headers") is True
        self.jetstream = info.get("jetstream") is True
        bytes_max = info.get("max_payload")
        if type(bytes_max) is int:
            self.message_bytes_max = bytes_max
        options = {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "name": "distributary",  # the connection's name in the server's monitoring
            "headers": self.headers,
            "no_responders": self.headers,
            **_login_of(credential),
        }
        self.send(b"CONNECT %b\r\n" % json.dumps(options).encode())
        answered = self._ping()
        self._held = False
        self._read()
        await answered

    async def _begin_tls(self, host: str, context: Callable[[], Awaitable[ssl.SSLContext]]) -> None:
        assert self._transport is not None
        self._transport.pause_reading()  # as ``start_tls`` does
        made = await context()
        self._parser.clear()  # bytes before TLS are not trusted
        try:
            upgraded = await self._loop.start_tls(self._transport, self, made, server_hostname=host)
        except OSError as error:  # ssl.SSLError and its certificate errors are among them
            raise TransportError("tls", f"No TLS with {host}: {error}") from error
        self._transport = cast("asyncio.Transport", upgraded)

    # -- what arrives -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; see ``asyncio.Protocol``."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def data_received(self, data: bytes) -> None:
        """Parse bytes from the server; see ``asyncio.Protocol``."""
        if self._over is None:
            self._parser.feed(data)
            self._read()

    def connection_lost(self, error: Exception | None) -> None:
        """The connection was lost; see ``asyncio.Protocol``."""
        text = f"The connection ended: {error or 'closed by the server'}"
        self._end(TransportError("reset", text))

    def _read(self) -> None:
        try:
            while not self._held and self._over is None:
                said = self._parser.next_said()
                if said is None:
                    return
                self._take(said)
        except TransportError as error:
            self._end(error)

    def _take(self, said: Said) -> None:
        if isinstance(said, NatsMessage) and self._open:
            self._listener.taken(*said)
        elif isinstance(said, Refusal):
            self._refused(said.text)
        elif isinstance(said, Info) and not self._info.done():
            self._held = True
            self._info.set_result(said.values)
        elif not self._info.done():
            raise TransportError("protocol", "The server does not begin with INFO")
        elif said is PONG:
            if not self._pongs:
                raise TransportError("protocol", "The server answers a PING that never was")
            _settle(self._pongs.popleft(), well=True)
        else:
            if said is PING:
                self.send(b"PONG\r\n")
            self.unasked()  # a later INFO only lists other servers, which are never dialled

    def expect(self) -> None:
        """Take one more ``unasked``: something was sent that the server answers."""
        self._expected = min(self._expected + 1, EXPECTED_MAX)

    def unasked(self) -> None:
        """Count an operation that answers nothing under way."""
        if self._expected:
            self._expected -= 1
            return
        self._unasked += 1
        if self._unasked > UNASKED_MAX:
            text = f"The server sends more than {UNASKED_MAX:,} messages that answer nothing"
            self._end(TransportError("protocol", text))

    def _refused(self, text: str) -> None:
        said = _answers.of_error(text)
        if not self._open:
            self._end(said)
        elif "permissions violation" in text.lower():
            self._listener.denied(text)
        elif acknowledgement_rule(said).decision is Decision.DEAD_LETTER:
            # The error is about one message; the others must be retried.
            self._end(TransportError("reset", f"The server ended the connection: {said.text}"))
        else:
            self._end(said)

    # -- what leaves --------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Write *frame* at the end of this loop iteration, together with its other frames."""
        if not self._frames:
            self._loop.call_soon(self._send_frames)
        self._frames.append(frame)

    def _send_frames(self) -> None:
        frames, self._frames = self._frames, []
        if frames and self._transport is not None and not self._transport.is_closing():
            self._transport.write(b"".join(frames))
            if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
                self._transport.abort()

    def new_inbox(self) -> str:
        """Returns a unique subject for replies."""
        return f"_INBOX.{secrets.token_hex(11)}"

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message without headers."""
        between = f" {reply} " if reply else " "
        self.send(b"PUB %b%d\r\n%b\r\n" % ((subject + between).encode(), len(payload), payload))

    def subscribe(self, subject: str, queue: str = "", sid: int = 0) -> int:
        """Subscribe to *subject*. Returns the ``sid`` for ``NatsListener.taken``.

        Args:
            subject: May hold wildcards.
            queue: Queue group, whose members share the messages; empty: none.
            sid: The ``sid`` of an ended subscription, to reuse; 0: a new one.
        """
        if not sid:
            self._sid += 1
            sid = self._sid
        between = f" {queue} " if queue else " "
        self.send(f"SUB {subject}{between}{sid}\r\n".encode())
        return sid

    def unsubscribe(self, sid: int) -> None:
        """End a subscription; messages in flight still arrive."""
        self.send(b"UNSUB %d\r\n" % sid)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until the server has read all that was sent. Returns False after the timeout."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ping()
        except TimeoutError:
            return False

    def _ping(self) -> asyncio.Future[bool]:
        """Send a PING. Resolves to True on PONG, to False if the connection ends."""
        pong: asyncio.Future[bool] = self._loop.create_future()
        if self._over is None:
            self._pongs.append(pong)
            self.send(b"PING\r\n")
        else:
            pong.set_result(False)
        return pong

    def _keep_alive(self) -> None:
        if self._kept_alive is not None and not self._kept_alive.done():
            self._end(TransportError("reset", "The connection ended: a PING was not answered"))
            return
        self._unasked = 0
        self._kept_alive = self._ping()
        self._timer = self._loop.call_later(PING_S, self._keep_alive)

    # -- the end ------------------------------------------------------------------------------

    def _end(self, answer: Answer) -> None:
        """End the connection at once, with *answer*; the first one counts."""
        if self._over is not None:
            return
        self._over = answer
        self.abort()
        if self._open:
            self._listener.lost(answer)
        elif not self._info.done():
            self._info.cancel()
        for pong in self._pongs:
            _settle(pong, well=False)

    def abort(self) -> None:
        """Close at once."""
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Write buffered frames and close; drops what the socket does not accept at once."""
        self._send_frames()
        self._open = False  # no more callbacks
        transport = self._transport
        if transport is not None and not transport.get_write_buffer_size():
            transport.close()  # with bytes buffered it would wait for a server that does not read
        else:
            self._end(TransportError("closed", "The connection was closed"))


def _settle(pong: "asyncio.Future[bool]", *, well: bool) -> None:
    if not pong.done():  # cancelled by the waiter
        pong.set_result(well)


def _login_of(credential: Credential | None) -> dict[str, Any]:
    if credential is None:
        return {}
    if credential.type == "PLAIN":
        return {"user": credential.identifier or "", "pass": credential.secret or ""}
    return {"auth_token": credential.access_token}


async def connect(
    connector: Connector,
    destination: Destination,
    listener: NatsListener,
    message_bytes_max: int = ANSWER_BYTES_MAX,
) -> NatsConnection | Acknowledgement:
    """Connect and log in to *destination*.

    Args:
        connector: Dials.
        destination: The server, the credential and the certificates.
        listener: Called with what arrives.
        message_bytes_max: Bytes of the largest message accepted, headers included; a larger one
            ends the connection.

    Returns:
        The connection, or the server's refusal of the login.

    Raises:
        TransportError: There is no connection.
    """
    endpoint = connector.endpoint_of(destination)
    connection = NatsConnection(listener, message_bytes_max)
    if endpoint.scheme in TUNNEL_SCHEMES:
        await open_tunnel(connector, endpoint, None, lambda: connection)
    else:
        await hand_over(await connector.dial(endpoint), lambda: connection)
    try:
        refusal = await connection.log_in(
            endpoint,
            lambda: connector.tls_context(endpoint),
            destination.credential,
        )
    except BaseException:
        connection.abort()
        raise
    return connection if refusal is None else refusal
