"""A connection to a NATS server: dialling, logging in, sending, and who listens to it.

Called by ``_session`` and the NATS consumer. Hides how commands look, TLS that begins
behind INFO, and the keepalive. A message costs no task and no future: frames of one turn of the
loop leave together, and messages are handed over as they come off the wire.
"""

import asyncio
import json
import secrets
import ssl
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from distributary.core.deliver import Destination, Endpoint
from distributary.core.deliver.credential import Credential
from distributary.core.errors import TransportError
from distributary.core.policy import Acknowledgement, Answer, Decision, acknowledgement_rule
from distributary.net import Connector
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
"""Seconds between PINGs; one that is not answered when the next is due ends the connection, so
that a half-open wire is found within two."""

HANDSHAKE_S_MAX: Final = 10
"""Longest handshake, TLS included, seconds; who waits for it gives up sooner."""

UNSENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""What may wait for a server that reads nothing, bytes; then the connection is ended. Several times
what a session has in flight: only a server that asks (PING) and does not read gets there."""

ANSWER_BYTES_MAX: Final = 1024 * 1024
"""Largest message that is taken where only answers are awaited: the longest names a thousand
streams."""

_MAX_PAYLOAD: Final = 1024 * 1024
"""Largest message of a server that does not say (nats-server's default)."""


class NatsListener(Protocol):
    """Takes what comes off the wire. Called on the loop; must not raise."""

    def taken(self, sid: int, subject: bytes, reply: bytes, headers: bytes, payload: bytes) -> None:
        """A message of the subscription *sid*; *headers* is its block, empty where it has none."""

    def denied(self, text: str) -> None:
        """The server refused a publish or a subscription, and the connection goes on.

        Args:
            text: Its words.
        """

    def lost(self, answer: Answer) -> None:
        """The connection has ended by itself. Called once, and nothing is called after it."""


class NatsConnection(asyncio.Protocol):
    """A connection, which ``log_in`` opens.

    Args:
        listener: Takes what arrives once it is open.
        received_bytes_max: Largest message that is taken, headers included; a larger one ends the
            connection.

    Attributes:
        message_bytes_max: Bytes of the largest message that the server takes, headers included.
        headers: Whether it takes headers.
    """

    def __init__(self, listener: NatsListener, received_bytes_max: int) -> None:
        self.message_bytes_max = _MAX_PAYLOAD
        self.headers = False
        self._listener = listener
        self._parser = Parser(received_bytes_max)
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._frames: list[bytes] = []
        self._info: asyncio.Future[dict[str, Any]] = self._loop.create_future()
        self._held = False  # what is behind INFO is read when it is clear whether TLS begins there
        self._open = False
        self._over: Answer | None = None  # why it has ended
        self._pongs: deque[asyncio.Future[bool]] = deque()  # of each PING on its way
        self._kept_alive: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sid = 0

    # -- logging in ---------------------------------------------------------------------------

    async def log_in(
        self,
        endpoint: Endpoint,
        context: Callable[[], ssl.SSLContext],
        credential: Credential | None,
    ) -> Acknowledgement | None:
        """Shake hands once it is dialled.

        Args:
            endpoint: The server.
            context: Makes the context for TLS.
            credential: Of type ``PLAIN``, or with an access token; None: none.

        Returns:
            None, or what the server answered to the login.

        Raises:
            TransportError: ``tls``, ``timeout``, ``protocol``, ``reset``: it is not open.
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
        context: Callable[[], ssl.SSLContext],
        credential: Credential | None,
    ) -> None:
        required = info.get("tls_required") is True
        if endpoint.scheme not in TUNNEL_SCHEMES:  # there TLS is outside, or nowhere
            if endpoint.tls and not (required or info.get("tls_available") is True):
                raise TransportError("tls", "The server offers no TLS")
            if endpoint.tls or required:
                await self._begin_tls(endpoint.host.rstrip("."), context())
        self.headers = info.get("headers") is True
        bytes_max = info.get("max_payload")
        if type(bytes_max) is int:
            self.message_bytes_max = bytes_max
        options = {
            "verbose": False,
            "pedantic": False,
            "lang": "python",
            "version": "1",
            "protocol": 1,
            "name": "distributary",  # what the server's monitoring calls the connection
            "headers": self.headers,
            "no_responders": self.headers,
            **_login_of(credential),
        }
        self.send(b"CONNECT %b\r\n" % json.dumps(options).encode())
        answered = self._ping()
        self._held = False
        self._read()
        await answered

    async def _begin_tls(self, host: str, context: ssl.SSLContext) -> None:
        assert self._transport is not None
        self._parser.clear()  # what comes before TLS is not to be trusted
        try:
            upgraded = await self._loop.start_tls(
                self._transport, self, context, server_hostname=host
            )
        except OSError as error:  # ssl.SSLError and its certificate errors are among them
            raise TransportError("tls", f"No TLS with {host}: {error}") from error
        self._transport = cast("asyncio.Transport", upgraded)

    # -- what arrives -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connector has dialled."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's does not say so

    def data_received(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._over is None:
            self._parser.feed(data)
            self._read()

    def connection_lost(self, error: Exception | None) -> None:
        """Nothing more arrives."""
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
        elif isinstance(said, Info):
            # Other servers that a later one names are not dialled, and need not be remembered.
            if not self._info.done():
                self._held = True
                self._info.set_result(said.values)
        elif not self._info.done():
            raise TransportError("protocol", "The server does not begin with INFO")
        elif said is PING:
            self.send(b"PONG\r\n")
        elif said is PONG:
            if not self._pongs:
                raise TransportError("protocol", "The server answers a PING that never was")
            _settle(self._pongs.popleft(), well=True)

    def _refused(self, text: str) -> None:
        said = _answers.of_error(text)
        if not self._open:
            self._end(said)
        elif "permissions violation" in text.lower():
            self._listener.denied(text)
        elif acknowledgement_rule(said).decision is Decision.DEAD_LETTER:
            # It is about one message; the others must not go down with it.
            self._end(TransportError("reset", f"The server ended the connection: {said.text}"))
        else:
            self._end(said)

    # -- what leaves --------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Write *frame* at the end of this turn of the loop, with all others of the turn."""
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
        """A subject that nobody else uses."""
        return f"_INBOX.{secrets.token_hex(11)}"

    def publish(self, subject: str, payload: bytes, reply: str = "") -> None:
        """Send a message without headers."""
        between = f" {reply} " if reply else " "
        self.send(b"PUB %b%d\r\n%b\r\n" % ((subject + between).encode(), len(payload), payload))

    def subscribe(self, subject: str, queue: str = "", sid: int = 0) -> int:
        """Have the messages of *subject* from now on; their number for ``NatsListener.taken``.

        Args:
            subject: May hold wildcards.
            queue: Name of a group whose members share the messages; empty: none.
            sid: Number of a subscription that was given up, to be used again; 0: a new one.
        """
        if not sid:
            self._sid += 1
            sid = self._sid
        between = f" {queue} " if queue else " "
        self.send(f"SUB {subject}{between}{sid}\r\n".encode())
        return sid

    def unsubscribe(self, sid: int) -> None:
        """Have no more messages of a subscription; what is on its way still comes."""
        self.send(b"UNSUB %d\r\n" % sid)

    async def flush(self, timeout_s: float) -> bool:
        """Whether the server has read everything that was sent so far."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._ping()
        except TimeoutError:
            return False

    def _ping(self) -> asyncio.Future[bool]:
        """Send a PING; what comes of it: True: it was answered, False: the connection ended."""
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
        self._kept_alive = self._ping()
        self._timer = self._loop.call_later(PING_S, self._keep_alive)

    # -- the end ------------------------------------------------------------------------------

    def _end(self, answer: Answer) -> None:
        """End at once, because of *answer*; the first one counts."""
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
        """Write what waits and close; what the other end does not take at once is let go."""
        self._send_frames()
        self._open = False  # the listener is told no more
        transport = self._transport
        if transport is not None and not transport.get_write_buffer_size():
            transport.close()  # else nobody reads there: it would never be closed
        else:
            self._end(TransportError("closed", "The connection was closed"))


def _settle(pong: "asyncio.Future[bool]", *, well: bool) -> None:
    if not pong.done():  # nobody waits any longer
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
    """Connect and log in as *destination* says.

    Args:
        connector: Dials.
        destination: The server, the credential and the certificates.
        listener: Takes what arrives.
        message_bytes_max: Bytes of the largest message that is taken, headers included; a larger
            one ends the connection.

    Returns:
        The connection, or what the server answered to the login.

    Raises:
        TransportError: There is no connection.
    """
    endpoint = connector.endpoint_of(destination)
    connection = NatsConnection(listener, message_bytes_max)
    if endpoint.scheme in TUNNEL_SCHEMES:
        await open_tunnel(connector, endpoint, None, lambda: connection)
    else:
        dialled = await connector.dial(endpoint)
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, sock=dialled)
        except BaseException:
            dialled.close()
            raise
    try:
        refusal = await connection.log_in(
            endpoint, lambda: connector.tls_context(endpoint.ca_certs), destination.credential
        )
    except BaseException:
        connection.abort()
        raise
    return connection if refusal is None else refusal
